#!/bin/bash
# data: files made by Linux (compressed by each method, inline, prealloc,
# holes, reflinks and slices of them, shared by a snapshot, nocow) are read
# byte for byte; then they are written over and Linux compares everything,
# also what shares extents with them.

model=$abs_top_builddir/tests/unit/data-model
n=0 failed=0

skip ()
{
  if [ "$BTRNBD_REQUIRE_KERNEL" = 1 ]; then
    echo "1..1"; echo "not ok 1 - needed: $1"; exit 1
  fi
  echo "1..0 # SKIP $1"
  exit 0
}

[ "$(id -u)" = 0 ] || skip "not root"
grep -qw btrfs /proc/filesystems || modprobe btrfs 2>/dev/null
grep -qw btrfs /proc/filesystems || skip "the kernel has no btrfs"
PATH=$PATH:/sbin:/usr/sbin
for tool in mkfs.btrfs btrfs xfs_io fallocate chattr python3; do
  type "$tool" >/dev/null 2>&1 || skip "no $tool"
done

dir=$(mktemp -d "${TMPDIR:-/tmp}/data-kernel.XXXXXX") || exit 1
img=$dir/img mnt=$dir/mnt
mkdir "$mnt" "$dir/want" "$dir/model"
trap 'umount "$mnt" 2>/dev/null; rm -rf "$dir"' EXIT

ok ()                           # RESULT NAME
{
  n=$((n + 1))
  if [ "$1" = 0 ]; then
    echo "ok $n - $2"
  else
    echo "not ok $n - $2"
    failed=1
  fi
}

bytes ()                        # SEED COUNT TEXT-OR-NOISE
{
  python3 - "$@" <<'PY'
import random, sys
random.seed(int(sys.argv[1]))
n = int(sys.argv[2])
if sys.argv[3] == 'noise':
    out = random.randbytes(n)
else:
    words = [bytes(random.choices(b'abcdefghij ', k=8)) for i in range(50)]
    out = b''.join(random.choices(words, k=n // 8 + 1))[:n]
sys.stdout.buffer.write(out)
PY
}

poke ()                         # FILE SEED TIMES: random rewrites, by Linux
{
  python3 - "$mnt/$1" "$2" "$3" <<'PY'
import os, random, sys
random.seed(int(sys.argv[2]))
f = open(sys.argv[1], 'r+b')
size = os.path.getsize(sys.argv[1])
for i in range(int(sys.argv[3])):
    f.seek(random.randrange(size // 4096) * 4096)
    f.write(random.randbytes(random.choice((4096, 4096, 9000))))
    f.flush()
    if i % 50 == 0:
        os.fsync(f.fileno())
f.truncate(size)
f.close()
PY
}

make_pool ()                    # MKFS-OPTION...
{
  rm -f "$img"
  truncate -s 1G "$img"
  mkfs.btrfs -q -f "$@" "$img" >/dev/null 2>&1 &&
    mount -o loop "$img" "$mnt" || return 1
  for c in zlib lzo zstd; do
    mkdir "$mnt/$c"
    btrfs property set "$mnt/$c" compression $c
    bytes 1 3000123 text >"$mnt/$c/big"
    bytes 2 1500 text >"$mnt/$c/inline"
    bytes 3 70001 text >"$mnt/$c/odd"
    { bytes 4 300000 text; bytes 5 300000 noise; head -c 500000 /dev/zero
      bytes 6 100 text; } >"$mnt/$c/mixed"
    sync -f "$mnt"
    poke $c/big 7 60
    cp --reflink=always "$mnt/$c/big" "$mnt/$c/clone"
    xfs_io -f -c "reflink $mnt/$c/big 131072 0 65536" \
           -c "reflink $mnt/$c/big 135168 65536 65536" \
           -c "reflink $mnt/$c/big 196608 200704 65536" \
           "$mnt/$c/slices" >/dev/null
  done
  bytes 8 5000077 noise >"$mnt/plain"
  bytes 9 2000 noise >"$mnt/inline"
  printf hello >"$mnt/small"
  : >"$mnt/empty"
  fallocate -l 4M "$mnt/prealloc"
  poke prealloc 10 100
  sync -f "$mnt"
  fallocate -p -o 1048576 -l 2000000 "$mnt/plain"
  fallocate -z -o 3500000 -l 800000 "$mnt/plain"
  touch "$mnt/nocow"
  chattr +C "$mnt/nocow"
  bytes 11 2000000 noise >"$mnt/nocow"
  truncate -s 6M "$mnt/fragments"
  poke fragments 12 1200
  btrfs subvolume snapshot "$mnt" "$mnt/snap" >/dev/null
  poke fragments 13 200
  poke nocow 14 20
  sync -f "$mnt"
  (cd "$mnt" && find . -type f | sort | xargs sha256sum) >"$dir/sums"
  (cd "$mnt" && find . -type f | sort | sed 's/^..//') >"$dir/files"
  umount "$mnt"
}

# All files through the engine, as far as the model's four at a time go.
read_all ()
{
  local r=0 four
  while read -r a && read -r b; do
    read -r c || c=$a
    read -r d || d=$b
    "$model" "$img" 1 0 "$dir/model" "$a" "$b" "$c" "$d" >"$dir/log" 2>&1 ||
      { sed 's/^/# /' "$dir/log"; r=1; }
    for four in 0 1 2 3; do
      set -- "$a" "$b" "$c" "$d"
      shift $four
      want=$(awk -v f="./$1" '$2 == f { print $1 }' "$dir/sums")
      got=$(sha256sum <"$dir/model/$four" | cut -d' ' -f1)
      [ "$want" = "$got" ] || { echo "# $1 differs"; r=1; }
    done
  done <"$dir/files"
  return $r
}

# Write over four files, let Linux compare all.
write_over ()                   # SEED FILE FILE FILE FILE
{
  local seed=$1 r=0 i=0 f
  shift
  "$model" "$img" "$seed" 600 "$dir/model" "$@" >"$dir/log" 2>&1 ||
    { sed 's/^/# /' "$dir/log"; return 1; }
  btrfs check --force --check-data-csum "$img" >"$dir/log" 2>&1 ||
    { sed 's/^/# /' "$dir/log"; r=1; }
  mount -o loop "$img" "$mnt" || return 1
  for f in "$@"; do
    cmp "$dir/model/$i" "$mnt/$f" || r=1
    i=$((i + 1))
    grep -v " \./$f\$" "$dir/sums" >"$dir/rest"
    mv "$dir/rest" "$dir/sums"
  done
  (cd "$mnt" && sha256sum -c --quiet "$dir/sums" 2>&1 | sed 's/^/# /'
   exit "${PIPESTATUS[0]}") || r=1
  (cd "$mnt" && sha256sum "${@/#/.\/}") >>"$dir/sums"
  btrfs scrub start -B "$mnt" >"$dir/log" 2>&1 ||
    { sed 's/^/# /' "$dir/log"; r=1; }
  umount "$mnt"
  return $r
}

round ()                        # NAME MKFS-OPTION...
{
  local name=$1
  shift
  make_pool "$@"
  ok $? "$name: made by Linux"
  read_all
  ok $? "$name: read byte for byte"
  write_over 1 fragments zlib/big prealloc nocow
  ok $? "$name: written over, among it what a snapshot shares"
  write_over 2 lzo/clone zstd/slices plain inline
  ok $? "$name: written over, clones and slices"
  write_over 3 zlib/inline zstd/mixed small snap/fragments
  ok $? "$name: written over, inline and the snapshot itself"
}

round "default"
round "no hole items off, 4K nodes, xxhash" -O ^no-holes -n 4096 --csum xxhash

echo "1..$n"
exit $failed
