# Pools made by us, judged by btrfs check and the kernel: every checksum,
# nodesize, profile, with and without block-group-tree and no-holes.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
requires_kernel_btrfs
requires mkfs.ext4

mkfs=$abs_top_builddir/tests/lib/mkfs-pool
img=$tmp/img
dir=$tmp/mnt

super_field ()
{
  btrfs inspect-internal dump-super "$img" | awk -v f="$1" '$1 == f { print $2 }'
}

# The kernel writes, deletes, snapshots and finds everything again.
kernel_writes ()
{
  mount_loop "$img" "$dir" "$@" || return 1
  head -c 300000 /dev/urandom >"$dir/a" &&
  head -c 100 /dev/urandom >"$dir/inline" &&
  mkdir "$dir/d" &&
  for i in 1 2 3 4 5 6 7 8 9; do echo "$i" >"$dir/d/file$i"; done &&
  btrfs -q subvolume snapshot "$dir" "$dir/snap" >/dev/null &&
  rm -r "$dir/d" && sync -f "$dir" || return 1
  sum=$(sha256sum <"$dir/a")
  unmount "$dir" && kernel_is_content && mount_loop "$img" "$dir" "$@" &&
  [ "$(sha256sum <"$dir/a")" = "$sum" ] &&
  scrub_clean "$dir" &&
  kernel_is_content
}

# one NAME KEY=VALUE...
one ()
{
  local name=$1
  shift
  rm -f "$img"
  ok "$name: make" "$mkfs" size=${size:-$((256 << 20))} "$@" "$img" || return
  ok "$name: check" check_clean "$img" || return
  ok "$name: mount, write, read back, scrub" kernel_writes
  unmount "$dir"
  ok "$name: check what the kernel made of it" check_clean "$img" lowmem
}

csums="crc32c xxhash sha256 blake2b"
[ "${BTRNBD_QUICK:-0}" = 1 ] && csums=crc32c
for csum in $csums; do
  for features in "" "^block-group-tree" "^block-group-tree,^no-holes"; do
    one "$csum 4K mixed${features:+ $features}" csum=$csum mixed=1 \
        features="$features"
    for nodesize in 4096 16384 65536; do
      for metadata in single dup; do
        one "$csum $nodesize $metadata${features:+ $features}" csum=$csum \
            nodesize=$nodesize metadata=$metadata features="$features"
      done
    done
  done
done

one "data dup" data=dup
one "mixed dup" mixed=1 metadata=dup
one "old metadata refs" features=^skinny-metadata
one "old metadata refs, 4K" features=^skinny-metadata nodesize=4096
one "all features off, 4K" nodesize=4096 \
    features=^block-group-tree,^free-space-tree,^no-holes,^skinny-metadata,^extref
one "no free space tree" features=^free-space-tree,^block-group-tree

for mib in 32 33 40 48 63 64 65 66 100 128 470 471 630; do
  size=$((mib << 20)) one "$mib MiB"
done
size=$((32 << 20)) one "32 MiB, nodes of 4K" nodesize=4096
size=$((64 << 20)) one "64 MiB, nodes of 32K" nodesize=32768
size=$((128 << 20)) one "128 MiB, nodes of 64K" nodesize=65536
size=$((32 << 20)) one "32 MiB, data dup" data=dup
size=$((16 << 20)) one "16 MiB, mixed" mixed=1
size=$(((257 << 20) + 123)) one "odd size"
size=$((1 << 40)) one "1 TiB"
size=$((300 << 30)) one "300 GiB, three superblocks" metadata=single

# This kernel mounts sectors of 4 KiB only.
for sectorsize in 8192 16384 32768 65536; do
  for nodesize in 16384 65536; do
    (( nodesize >= sectorsize )) || continue
    rm -f "$img"
    ok "sectorsize $sectorsize, nodesize $nodesize: make" \
       "$mkfs" size=$((256 << 20)) sectorsize=$sectorsize \
       nodesize=$nodesize "$img"
    ok "sectorsize $sectorsize, nodesize $nodesize: check" check_clean "$img"
  done
done
rm -f "$img"
ok "sectorsize 16384, mixed: make" \
   "$mkfs" size=$((256 << 20)) sectorsize=16384 mixed=1 "$img"
ok "sectorsize 16384, mixed: check" check_clean "$img"

# What was asked for is there.
uuid=12345678-9abc-def0-1234-56789abcdef0
rm -f "$img"
ok "label and uuid: make" "$mkfs" size=$((256 << 20)) \
   label="a label" uuid=$uuid "$img"
is "$(blkid -p -o value -s LABEL "$img")" "a label" "label"
is "$(blkid -p -o value -s UUID "$img")" "$uuid" "uuid"
is "$(super_field incompat_flags)" 0x361 "default incompat features"
is "$(super_field compat_ro_flags)" 0xb "default compat_ro features"
is "$(super_field total_bytes)" $((256 << 20)) "total bytes"
cp "$img" "$tmp/saved"
dd if=/dev/zero of="$img" bs=4096 seek=16 count=1 conv=notrunc status=none
ok "the mirror at 64 MiB is a superblock" \
   btrfs inspect-internal dump-super -s 1 "$img"
btrfs rescue super-recover -y "$img" >"$tmp/recover.log" 2>&1
ok "a pool is recovered from the mirror" \
   grep "Recovered bad superblocks" "$tmp/recover.log"
ok "and is clean" check_clean "$img"
cp "$tmp/saved" "$img"

# What is there is not overwritten unasked.
fails_with 1 "holds btrfs.*--force" "a pool is not overwritten" "$mkfs" "$img"
cmp -s "$img" "$tmp/saved"; is $? 0 "and is untouched"
ok "unless forced" "$mkfs" force=1 csum=sha256 "$img"
ok "forced: clean" check_clean "$img"
is "$(super_field csum_type)" 2 "forced: the new checksum"
rm -f "$img"; truncate -s 256M "$img"
mkfs.ext4 -q "$img"
fails_with 1 "holds ext4.*--force" "ext4 is not overwritten" "$mkfs" "$img"
ok "ext4: unless forced" "$mkfs" force=1 "$img"
is "$(blkid -p -o value -s TYPE "$img")" btrfs "ext4: nothing is left of it"
rm -f "$img"; truncate -s 256M "$img"
# One Linux partition from sector 2048 on, 64 MiB long.
printf '\0\0\0\0\x83\0\0\0\0\x08\0\0\0\0\x02\0' |
  dd of="$img" bs=1 seek=446 conv=notrunc status=none
printf '\x55\xaa' | dd of="$img" bs=1 seek=510 conv=notrunc status=none
fails_with 1 "holds dos.*--force" "a partition table is not overwritten" \
           "$mkfs" "$img"

# Wrong options say what is wrong, and touch nothing.
refused ()
{
  local pattern=$1 name=$2
  shift 2
  rm -f "$img"
  fails_with 1 "$pattern" "$name" "$mkfs" "$@" "$img"
  [ ! -e "$img" ]; is $? 0 "$name: no file is left behind"
}
size=size=$((256 << 20))
refused "give a size" "no size for a new file"
refused "too small.*33554432 are needed" "too small" size=$(((32 << 20) - 1))
refused "too small.*16777216 are needed" "too small, mixed" mixed=1 \
        size=$(((16 << 20) - 1))
refused "nodesize 2048" "nodesize too small" $size nodesize=2048
refused "nodesize 131072" "nodesize too large" $size nodesize=131072
refused "nodesize 12288" "nodesize not a power of two" $size nodesize=12288
refused "smaller than sectorsize" "nodesize below sectorsize" \
        $size nodesize=4096 sectorsize=8192
refused "sectorsize 2048" "sectorsize too small" $size sectorsize=2048
refused "nodesize == sectorsize" "mixed with large nodes" \
        $size mixed=1 nodesize=16384
refused "one profile" "mixed with two profiles" \
        $size mixed=1 data=single metadata=dup
refused "unknown checksum \"md5\"" "unknown checksum" $size csum=md5
refused "profile \"raid1\"" "unknown profile" $size data=raid1
refused "unknown feature \"zoned\"" "unknown feature" $size features=zoned
refused "needs no-holes" "bgt without no-holes" $size features=^no-holes
refused "needs free-space-tree" "bgt without fst" \
        $size features=^free-space-tree
refused "not a UUID" "bad uuid" $size uuid=123
refused "longer than 255" "long label" $size \
        label="$(head -c 256 /dev/zero | tr '\0' x)"

done_testing
