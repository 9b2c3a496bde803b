# Pools of unusual kinds, filled by the kernel (reflinks, snapshots, nocow,
# preallocated, compressed), then written through nbdkit and judged.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
requires_kernel_btrfs
requires mkfs.btrfs btrfstune nbdcopy qemu-io jq
requires_file "$BTRNBD" "$PLUGIN"

img=$tmp/img
mnt=$tmp/mnt
exports="big clone pre nocow z sub/f snap/f"
mkdir "$tmp/want"

b ()
{
  "$BTRNBD" -d "$img" "$@"
}

theirs ()
{
  rm -f "$img"
  truncate -s 300M "$img"
  mkfs.btrfs -q "$@" "$img" >/dev/null
}

kernel_fills ()
{
  (
    set -e
    cd "$mnt"
    for i in $(seq 30); do head -c $((i * 7000)) /dev/urandom >"k$i"; done
    head -c 6M /dev/urandom >big
    cp --reflink=always big clone
    fallocate -l 4M pre
    touch nocow z
    chattr +C nocow
    head -c 4M /dev/urandom >nocow
    chattr +c z
    yes hello | head -c 2M >z
    btrfs -q subvolume create sub
    head -c 1M /dev/urandom >sub/f
    btrfs -q subvolume snapshot sub snap
    rm k3 k9 k11
    sync -f .
  )
}

# Writes of any alignment, zeroes, trims and flushes to one export.
scramble ()
{
  local k at len size args=()
  size=$(nbdinfo --size "$(uri "$1")") || return
  for k in $(seq 12); do
    at=$((RANDOM * RANDOM % (size - 100000)))
    len=$((RANDOM % 100000 + 1))
    args+=(-c "write -P $k $at $len")
    case $((k % 4)) in
      0) args+=(-c "write -z $((at / 2)) 5000") ;;
      1) args+=(-c "discard $((at / 2)) 70000") ;;
      2) args+=(-c flush) ;;
    esac
  done
  timeout 60 qemu-io -f raw "$(uri "$1")" "${args[@]}" >"$tmp/qemu.log" 2>&1 &&
    ! grep -i "failed\|error" "$tmp/qemu.log"
}

# Where the top of the pool is not what is mounted by default.
under=

we_write ()
{
  local e
  RANDOM=$1
  start_nbdkit server "$PLUGIN" "$img" || return
  for e in $exports; do
    scramble "$under$e" || { cat "$tmp/qemu.log"; return 1; }
    nbdcopy "$(uri "$under$e")" "$tmp/want/${e/\//_}" || return
  done
  stop_nbdkit
}

same_in_kernel ()
{
  local e
  for e in $exports; do
    cmp "$tmp/want/${e/\//_}" "$mnt/$e" || return
  done
}

# one NAME [MOUNT-OPTION [IN-KERNEL-FIRST [IN-KERNEL-AFTER]]]: $img is a pool.
one ()
{
  local name=$1
  ok "$name: mount" mount_loop "$img" "$mnt" "${2:-}" || return
  ok "$name: the kernel fills it" kernel_fills
  [ -z "${3:-}" ] || ok "$name: ${3//_/ }" "$3"
  unmount "$mnt"
  ok "$name: we write" we_write 1
  ok "$name: check" check_clean "$img"
  ok "$name: check, lowmem" check_clean "$img" lowmem
  ok "$name: mount again" mount_loop "$img" "$mnt" || return
  ok "$name: the kernel reads the same" same_in_kernel
  [ -z "${4:-}" ] || ok "$name: ${4//_/ }" "$4"
  ok "$name: scrub" scrub_clean "$mnt"
  rm -f "$mnt"/k1*
  unmount "$mnt"
  ok "$name: the kernel has no complaint" kernel_is_content
  ok "$name: we write again" we_write 2
  ok "$name: check in the end" check_clean "$img"
}

quota_on ()
{
  btrfs quota enable "$mnt" && btrfs quota rescan -w "$mnt" &&
    btrfs qgroup limit 100M "$mnt/sub" && sync -f "$mnt"
}

quota_is_marked_and_rescanned ()
{
  btrfs qgroup show "$mnt" 2>&1 | grep -qi "inconsistent\|rescan" || return
  btrfs quota rescan -w "$mnt" &&
    ! btrfs qgroup show "$mnt" 2>&1 | grep -i inconsistent
}

theirs -O ^skinny-metadata,^extref,^no-holes -R ^free-space-tree
one "old, v1 space cache" space_cache=v1
theirs -R ^free-space-tree
one "no space cache" nospace_cache
theirs --mixed -R ^free-space-tree
one "mixed, v1 space cache" space_cache=v1
theirs -n 65536
one "nodes of 64K"
theirs && btrfstune -m "$img"
one "metadata_uuid"
theirs
one "quotas" "" quota_on quota_is_marked_and_rescanned
b mkfs --force --nodesize 4K \
  -O ^block-group-tree,^free-space-tree,^skinny-metadata,^no-holes
one "ours, old, no free space tree"
theirs && mount_loop "$img" "$mnt" && btrfs -q subvolume create "$mnt/top" &&
  btrfs subvolume set-default "$mnt/top" && unmount "$mnt"
under=top/
one "default subvolume"
under=

# Raid0 on one device: Linux makes more such chunks, and so do we.
theirs -d raid0 -m raid0
one "raid0 on one device"
ok "raid0: a volume" b create v --size 160M
head -c 160M /dev/urandom >"$tmp/big"
ok "raid0: larger than the first chunk" b put "$tmp/big" v
ok "raid0: check" check_clean "$img"
is "$(b --json df | jq -r .data.profile)" RAID0 "raid0: the profile"
mount_loop "$img" "$mnt" && cmp "$tmp/big" "$mnt/v/disk"
is $? 0 "raid0: the kernel reads the same"
unmount "$mnt"

# Several devices are only read, and the message says so.
rm -f "$img"
truncate -s 200M "$tmp/d1" "$tmp/d2"
mkfs.btrfs -q -d raid1 -m raid1 "$tmp/d1" "$tmp/d2" >/dev/null 2>&1
b2 ()
{
  "$BTRNBD" -d "$tmp/d1" -d "$tmp/d2" "$@"
}
ok "two devices: ls" b2 ls
fails_with 1 "several devices" "two devices: nothing is written" b2 mkdir x
like "$(b2 --json info | jq -r .read_only_reason)" "several devices" \
     "two devices: info says why"
like "$(b2 info)" "features +mixed-backref" "info names the features"
done_testing
