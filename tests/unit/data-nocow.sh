#!/bin/bash
# data: what goes in place and what does not, with Linux making the extents
# and judging the result.  Names of cases carry the numbers of known bugs of
# others in the same place.

poke=$abs_top_builddir/tests/unit/data-poke
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
for tool in mkfs.btrfs btrfs xfs_io fallocate chattr; do
  PATH=$PATH:/sbin:/usr/sbin type "$tool" >/dev/null 2>&1 || skip "no $tool"
done
PATH=$PATH:/sbin:/usr/sbin

dir=$(mktemp -d "${TMPDIR:-/tmp}/data-nocow.XXXXXX") || exit 1
img=$dir/img mnt=$dir/mnt
mkdir "$mnt"
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

fresh ()
{
  rm -f "$img"
  truncate -s 512M "$img"
  mkfs.btrfs -q -f "$@" "$img" >/dev/null 2>&1 && mount -o loop "$img" "$mnt"
}

down ()
{
  sync -f "$mnt" && umount "$mnt"
}

# The pool is sound, and FILE holds what the rest of the arguments, pairs of
# letter and count, say (- is a zero byte).
judge ()                        # FILE [LETTER COUNT]...
{
  local file=$1 r=0
  shift
  btrfs check --force "$img" >"$dir/log" 2>&1 &&
    btrfs check --force --check-data-csum "$img" >"$dir/log" 2>&1 ||
    { sed 's/^/# /' "$dir/log"; return 1; }
  while [ $# -gt 0 ]; do
    if [ "$1" = - ]; then
      head -c "$2" /dev/zero
    else
      head -c "$2" /dev/zero | tr '\0' "$1"
    fi
    shift 2
  done >"$dir/want"
  mount -o loop "$img" "$mnt" || return 1
  cmp "$dir/want" "$mnt/$file" || r=1
  umount "$mnt"
  return $r
}

fill ()                         # FILE OFFSET COUNT LETTER, by the kernel
{
  head -c "$3" /dev/zero | tr '\0' "$4" |
    dd of="$mnt/$1" bs=64k seek="$2" oflag=seek_bytes conv=notrunc,fsync \
       status=none iflag=fullblock
}

nocow_file ()                   # FILE
{
  touch "$mnt/$1" && chattr +C "$mnt/$1"
}

# Older than the snapshot, as old, and younger: 64K each.
fresh && nocow_file a && fill a 0 131072 x && down &&
  mount -o loop "$img" "$mnt"
fill a 65536 65536 x
btrfs subvolume snapshot "$mnt" "$mnt/snap" >/dev/null
fill a 131072 65536 y
down
out=$("$poke" "$img" write a 0 4096 A write a 65536 4096 B \
              write a 131072 4096 C write a 0 4096 D)
[ "$(echo $out)" = "0 0 4096 4096" ]
ok $? "63: only extents younger than the last snapshot in place ($(echo $out))"
judge a D 4096 x 61440 B 4096 x 61440 C 4096 y 61440
ok $? "63: contents, sound"
judge snap/a x 131072
ok $? "63: the snapshot is untouched"

fresh && nocow_file a && fill a 0 65536 x
xfs_io -c "reflink $mnt/a 0 65536 65536" "$mnt/a" >/dev/null
fill a 131072 65536 z
down
out=$("$poke" "$img" write a 0 4096 A write a 131072 4096 B)
[ "$(echo $out)" = "0 4096" ]
ok $? "67: an extent cloned inside its own file is not written in place"
judge a A 4096 x 61440 x 65536 B 4096 z 61440
ok $? "67: contents, sound"

fresh && nocow_file a && fill a 0 65536 x
for i in $(seq 40); do
  xfs_io -f -c "reflink $mnt/a 0 $((i * 65536)) 65536" "$mnt/a" >/dev/null
done
truncate -s 65536 "$mnt/a"
down
out=$("$poke" "$img" write a 0 4096 A)
[ "$out" = 0 ] || [ "$out" = 4096 ]
ok $? "69: shared many times and not any more: either way is right"
judge a A 4096 x 61440
ok $? "69: contents, sound"

# A file with checksums: written extents are never written in place, prealloc
# extents are, and only what was written has checksums then.
fresh && touch "$mnt/a" && fallocate -l 131072 "$mnt/a" && fill a 0 8192 x
down
out=$("$poke" "$img" write a 0 4096 A write a 8192 4096 B \
              write a 65536 8192 C write a 8192 4096 D)
[ "$(echo $out)" = "0 4096 8192 0" ]
ok $? "71: in place only where there are no checksums ($(echo $out))"
judge a A 4096 x 4096 D 4096 - 53248 C 8192 - 57344
ok $? "159: checksums of just the written half of a prealloc extent"

fresh && nocow_file a
printf 'xxxxxxxxxx' >"$mnt/a" && sync -f "$mnt"
fallocate -n -o 4096 -l 65536 "$mnt/a"
down
out=$("$poke" "$img" size a 69632 write a 0 10 A write a 4096 4096 B)
[ "$(echo $out | sed 's/.* //')" = 4096 ]
ok $? "85: an inline extent followed by prealloc"
judge a A 10 - 4086 B 4096 - 61440
ok $? "79: no inline extent is made on the way out of one"

# Said of a file that is written already it has no effect on what is there.
fresh && fill a 0 65536 x
chattr +C "$mnt/a" 2>/dev/null
down
out=$("$poke" "$img" write a 0 4096 A write a 61440 4096 B)
[ "$(echo $out)" = "0 0" ]
ok $? "81: a written file does not become one without checksums"
judge a A 4096 x 57344 B 4096
ok $? "81: contents, sound"

fresh && fallocate -l 65536 "$mnt/a" && fill a 16384 4096 x && down
"$poke" "$img" zero a 0 65536 write a 20480 4096 B >/dev/null
judge a - 20480 B 4096 - 40960
ok $? "83: zeroing inside prealloc keeps what is there"

fresh
printf 'xxxxxxxxxx' >"$mnt/a"
cp "$mnt/a" "$mnt/b"
cp "$mnt/a" "$mnt/c"
down
"$poke" "$img" size a 11 size b 100000 size c 4
judge a x 10 - 1
ok $? "176: an inline file grows by one byte"
judge b x 10 - 99990
ok $? "176: an inline file grows by a lot"
judge c x 4
ok $? "176: an inline file shrinks"

fresh && fill a 0 6000 x && down
"$poke" "$img" size a 5000 size a 9000 write a 8000 10 A >/dev/null
judge a x 5000 - 3000 A 10 - 990
ok $? "182: what was behind the end reads as zeroes"

fresh -O ^no-holes && fill a 0 4096 x && down
"$poke" "$img" size a 100000 write a 50000 10 A punch a 0 4096 \
        punch a 8192 40960 >/dev/null
judge a - 50000 A 10 - 49990
ok $? "184: without no-holes every gap has its item"

"$poke" "$img" create-nocow n size n 1048576 write n 0 1048576 a >/dev/null
out=$("$poke" "$img" write n 4096 65536 b write n 100 300 c)
[ "$(echo $out)" = "65536 4096" ]
ok $? "ours: overwrites of a nocow file go in place"
judge n a 100 c 300 a 3696 b 65536 a 978944
ok $? "ours: contents, sound"

echo "1..$n"
exit $failed
