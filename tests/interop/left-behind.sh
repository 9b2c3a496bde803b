# What other systems and older kernels leave in a pool: items of old sizes,
# quotas and balances half way, a device being replaced.  By the names of the
# hard cases where they have one.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/nbd/nbd.sh"
requires_kernel_btrfs
requires mkfs.btrfs btrfs nbdcopy qemu-io jq
requires_file "$BTRNBD" "$PLUGIN"

img=$tmp/img
mnt=$tmp/mnt
mkdir "$mnt"

b ()
{
  "$BTRNBD" -d "$img" "$@"
}

edit ()
{
  "$abs_top_builddir/tests/lib/edit" "$img" "$@"
}

theirs ()
{
  rm -f "$img"
  truncate -s 600M "$img"
  mkfs.btrfs -q "$@" "$img" >/dev/null 2>&1 || fail "mkfs.btrfs $*"
}

# in_kernel COMMAND: run by a shell in the mounted pool.
in_kernel ()
{
  mount_loop "$img" "$mnt" "${mount_with:-}" || { fail "mount"; return 1; }
  (cd "$mnt" && eval "$1")
  local status=$?
  unmount "$mnt"
  return $status
}

# write_to EXPORT: 3 MiB of sevens, served and flushed
write_to ()
{
  start_nbdkit server "$PLUGIN" "$img" || return
  timeout 60 qemu-io -f raw "$(uri "$1")" -c "write -P 7 64k 3M" -c flush \
    >"$tmp/qemu.log" 2>&1
  local status=$?
  stop_nbdkit || return
  ! grep -i "failed\|error" "$tmp/qemu.log" && return $status
}

with_subvolume ()
{
  theirs
  in_kernel '
    btrfs -q subvolume create s && head -c 8M /dev/urandom >s/f &&
    head -c 20M /dev/urandom >g && cp s/f "$tmp/f" && cp g "$tmp/g"'
  is $? 0 "$name: made by the kernel"
}

for how in short odd; do
  name="254: a root item of an old kernel, $how"
  with_subvolume
  id=$(in_kernel 'btrfs subvolume list .' | awk '{ print $2; exit }')
  ok "$name: edit" edit $how-root "$id"
  like "$(edit show-root "$id")" "$how" "$name: it is there"
  ok "$name: read" b get s/f "$tmp/got"
  ok "$name: the same" cmp "$tmp/f" "$tmp/got"
  ok "$name: write" write_to s/f
  is "$(edit show-root "$id")" "439 equal" "$name: brought up to date"
  in_kernel '[ "$(dd if=s/f bs=64k skip=1 count=48 status=none | tr -d "\007" |
                 wc -c)" = 0 ] && cmp -n 65536 s/f "$tmp/f"'
  is $? 0 "$name: the kernel reads the same"
  judge "$name" "$img"
done

name="263: a quota rescan half way"
theirs
in_kernel 'btrfs quota enable . && btrfs quota rescan -w . >/dev/null &&
  head -c 8M /dev/urandom >f && sync -f .'
is $? 0 "$name: made by the kernel"
ok "$name: edit" edit rescan
# Whoever opens it for writing marks it, the editor, too.
is "$(edit show-quota)" "flags 7 rescan 4096" "$name: it is there"
ok "$name: write" write_to f
is "$(edit show-quota)" "flags 7 rescan 4096" \
   "$name: kept, and marked inconsistent"
in_kernel 'btrfs quota rescan -w . >/dev/null; btrfs quota rescan -w . &&
  sync -f .' >/dev/null
is $? 0 "$name: the kernel counts again"
judge "$name" "$img"

name="a balance that was paused"
theirs -m single
in_kernel '
  for i in $(seq 8); do head -c 30M /dev/urandom >f$i && sync -f .; done
  btrfs balance start --full-balance . >/dev/null 2>&1 &
  for i in $(seq 200); do
    sleep 0.02
    btrfs balance pause . 2>/dev/null && break
    kill -0 $! 2>/dev/null || break
  done
  wait
  cp f1 f3 "$tmp"
  btrfs balance status . | grep -q "paused"'
if [ $? -eq 0 ]; then
  pass "$name: by the kernel"
  ok "$name: write" write_to f2
  ok "$name: read" b get f3 "$tmp/got"
  ok "$name: the same" cmp "$tmp/f3" "$tmp/got"
  ok "$name: check" check_clean "$img"
  mount_with=skip_balance
  in_kernel 'btrfs balance status . | grep -q paused &&
    btrfs balance resume . >/dev/null && cmp f1 "$tmp/f1" &&
    cmp f3 "$tmp/f3"'
  is $? 0 "$name: the kernel finds it and ends it"
  mount_with=
  judge "$name" "$img"
else
  skip "$name" "it was over before it could be paused"
fi

# read_only_because REASON
read_only_because ()
{
  like "$(b --json info | jq -r .read_only_reason)" "$1" "$name: info says so"
  fails_with 1 "$1" "$name: nothing can be made" b mkdir d
  ok "$name: read" b get g "$tmp/got"
  ok "$name: the same" cmp "$tmp/g" "$tmp/got"
}

name="a balance that was interrupted"
with_subvolume
ok "$name: edit" edit reloc 5
before=$(sha256sum <"$img")
read_only_because "balance was interrupted"
is "$(sha256sum <"$img")" "$before" "$name: nothing was written"

for state in 1 4 9; do
  name="a device being replaced, state $state"
  with_subvolume
  ok "$name: edit" edit replace $state
  before=$(sha256sum <"$img")
  read_only_because "device is being replaced"
  is "$(sha256sum <"$img")" "$before" "$name: nothing was written"
done
for state in 2 3; do
  name="a device replacement that is over, state $state"
  with_subvolume
  ok "$name: edit" edit replace $state
  ok "$name: write" write_to s/f
  judge "$name" "$img"
done

for kind in dup single; do
  name="a second chunk for the chunk tree, $kind"
  theirs -m $kind
  in_kernel 'head -c 9M /dev/urandom >f'
  ok "$name: edit" edit system-chunk
  is "$(btrfs inspect-internal dump-super -f "$img" |
        grep -c 'FIRST_CHUNK_TREE CHUNK_ITEM')" 2 \
     "$name: both are in the superblock"
  ok "$name: write" write_to f
  # Chunks for data: the chunk tree changes.
  head -c 120M /dev/urandom >"$tmp/big"
  ok "$name: a large file" b put "$tmp/big" big
  in_kernel 'cmp "$tmp/big" big'
  is $? 0 "$name: the kernel reads the same"
  judge "$name" "$img"
done

# The runs of a group are counted again when it goes from extents to bitmaps.
name="125: the free space tree miscounts"
theirs
in_kernel 'for i in $(seq 500); do head -c 8k /dev/urandom >h$i; done'
is $? 0 "$name: made by the kernel"
ok "$name: edit" edit fst-count
removed=0
while (( removed < 250 )) &&
      b rm $(seq -f 'h%.0f' $(( 2 * removed + 1 )) 2 $(( 2 * removed + 39 )) ) \
        >"$tmp/log" 2>&1; do
  (( removed += 20 ))
done
like "$(cat "$tmp/log")" "free runs, the info item says" \
     "$name: told before the tree is changed ($removed removed)"
ok "$name: make it anew" btrfs check --clear-space-cache v2 "$img"
ok "$name: what was committed is there" b get h500 "$tmp/got"
judge "$name" "$img"

done_testing
