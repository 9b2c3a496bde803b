#!/bin/bash
# data: a bad copy of data is noticed, replaced from the good one and
# repaired; without a good one there is an error for that range alone.

btrnbd=$abs_top_builddir/server/cli/btrnbd
poke=$abs_top_builddir/tests/unit/data-poke
n=0 failed=0

type python3 >/dev/null 2>&1 || { echo "1..0 # SKIP no python3"; exit 0; }
[ -x "$btrnbd" ] || { echo "1..0 # SKIP no CLI"; exit 0; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/data-repair.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
img=$dir/img

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

# Where the copies of the file's contents are in the image.
copies ()
{
  python3 - "$img" "$dir/file" <<'PY'
import mmap, sys
want = open(sys.argv[2], 'rb').read()
f = open(sys.argv[1], 'rb')
m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
at = m.find(want)
while at >= 0:
    print(at)
    at = m.find(want, at + 1)
PY
}

damage ()                       # OFFSET
{
  printf 'damaged' |
    dd of="$img" bs=1 seek="$1" conv=notrunc status=none
}

for data in dup single; do
  rm -f "$img"
  "$btrnbd" -d "$img" mkfs --size 512M --data $data >/dev/null &&
    head -c 65536 /dev/urandom >"$dir/file" &&
    "$btrnbd" -d "$img" put "$dir/file" f >/dev/null
  ok $? "$data: made"
  at=($(copies))
  want=1
  [ $data = dup ] && want=2
  [ ${#at[@]} = $want ]
  ok $? "$data: ${#at[@]} copies found"

  repaired=0
  for copy in "${at[@]}"; do
    damage $((copy + 8192 + 100))
    "$btrnbd" -d "$img" get f "$dir/got" >/dev/null 2>"$dir/err"
    r=$?
    if [ $data = dup ]; then
      [ $r = 0 ] && cmp "$dir/file" "$dir/got"
      ok $? "$data: read in spite of a bad copy"
      # That was read-only.
      "$poke" "$img" read f 0 65536 2>"$dir/err"
      dd if="$img" bs=4096 skip=$((copy / 4096)) count=16 status=none |
        cmp -s - "$dir/file" && repaired=$((repaired + 1))
      dd if="$dir/file" of="$img" bs=4096 seek=$((copy / 4096)) \
         conv=notrunc status=none
    else
      [ $r != 0 ] && grep -q "on disk, .* expected" "$dir/err"
      ok $? "$data: an error that says why"
      sed 's/^/# /' "$dir/err"
    fi
    rm -f "$dir/got"
  done
  if [ $data = dup ]; then
    # A reader may have taken the good copy at once, but not both times.
    [ $repaired -ge 1 ]
    ok $? "$data: repaired on disk"
  else
    "$poke" "$img" write f 8192 4096 A >/dev/null 2>"$dir/err" &&
      "$btrnbd" -d "$img" get f "$dir/got" >/dev/null 2>"$dir/err"
    ok $? "$data: readable again once the sector is written over"
  fi
done

echo "1..$n"
exit $failed
