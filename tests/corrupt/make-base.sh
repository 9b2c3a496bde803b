#!/bin/bash
# Make the healthy image that tests/corrupt and tests/fuzz start from, with
# Linux (root, mkfs.btrfs, attr, a file system with reflinks is not needed),
# and pack it:  make-base.sh PACKER OUTPUT
# The result is kept, so that the tests need neither root nor mkfs.btrfs;
# offsets of items differ from run to run, names and kinds do not.

set -e
packer=$(realpath "$1")
output=$(realpath "$2")
tmp=$(mktemp -d)
mnt=$tmp/mnt
trap 'umount "$mnt" 2>/dev/null; rm -rf "$tmp"' EXIT

mkdir "$mnt"
truncate -s 128M "$tmp/img"
mkfs.btrfs -q -n 4k -m dup -d single -R free-space-tree -O no-holes \
  -L corrupt -U 0c0ffee0-0000-4000-8000-00000000c0de "$tmp/img"
mount -o loop,discard=async "$tmp/img" "$mnt"
cd "$mnt"
echo hello >inline
seq 60000 | head -c 300000 >plain
for i in $(seq 40); do echo "$i" >"file-$i"; done
mkdir dir
for i in $(seq 120); do ln inline "dir/a-longer-name-for-a-link-$i"; done
ln -s inline symlink
setfattr -n user.note -v value plain
fallocate -l 1M prealloc
seq 9999 | head -c 16384 >part
dd if=part of=prealloc bs=16k seek=2 conv=notrunc status=none
truncate -s 1M hole
dd if=part of=hole bs=16k seek=9 conv=notrunc status=none
touch nocow
chattr +C nocow
seq 20000 | head -c 65536 >nocow
for c in zlib lzo zstd; do
  mkdir "$c"
  btrfs property set "$c" compression "$c"
  seq 50000 | head -c 200000 >"$c/large"
  yes "$c" | head -c 1500 >"$c/small"
done
btrfs -q subvolume create sub
for i in $(seq 60); do echo "$i" >"sub/s-$i"; done
for i in $(seq 12); do cp --reflink=always part "sub/clone-$i"; done
cp --reflink=always plain sub/plain
btrfs -q subvolume snapshot -r sub snap
rm sub/s-1
btrfs -q subvolume create vm1
seq 100000 | head -c 262144 >vm1/disk
sync -f .
for i in $(seq 100); do
  yes "$i" | head -c 4096 >"frag-$i"
done
sync -f .
for i in $(seq 1 2 100); do rm "frag-$i"; done
sync -f .
rm -rf file-4?
cd /
umount "$mnt"
"$packer" "$tmp/img" "$output"
