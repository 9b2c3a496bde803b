#!/bin/bash
# The checker accepts every block that mkfs.btrfs and Linux write.

walk=$abs_top_builddir/tests/unit/format-walk
tmp=$(mktemp -d)
n=0
mounted=

cleanup ()
{
  [ -z "$mounted" ] || umount "$tmp/mnt"
  rm -rf "$tmp"
}
trap cleanup EXIT

ok ()
{
  n=$((n + 1))
  if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi
}

walk_ok ()
{
  out=$("$walk" -k "$tmp/img" 2>&1)
  r=$?
  echo "$out" >>"$tmp/kinds"
  [ $r -eq 0 ] || echo "# $out"
  ok $r "$1"
}

image ()
{
  rm -f "$tmp/img"
  truncate -s "${size:-256M}" "$tmp/img"
  mkfs.btrfs -q "$@" "$tmp/img" >"$tmp/log" 2>&1 && return
  sed 's/^/# /' "$tmp/log"
  return 1
}

# Files of every kind, subvolumes, snapshots, reflinks; all at $1.
populate ()
(
  set -e
  cd "$1"
  for i in $(seq 300); do echo "$i" >"file-with-a-long-name-number-$i"; done
  mkdir d
  for i in $(seq 200); do
    # Without extref there is an end to it.
    ln file-with-a-long-name-number-1 "d/one-more-long-link-$i" || break
  done
  ln -s target symlink
  mkfifo fifo
  mknod dev b 7 0
  dd if=/dev/urandom of=big bs=1M count=12 status=none
  dd if=/dev/urandom of=big bs=4k count=1 seek=9000 conv=notrunc status=none
  fallocate -l 8M prealloc
  dd if=/dev/urandom of=prealloc bs=64k count=1 seek=3 conv=notrunc \
     status=none
  fallocate -p -o 1M -l 2M big
  touch nocow; chattr +C nocow
  dd if=/dev/zero of=nocow bs=1M count=2 status=none
  truncate -s 100M hole
  for c in zlib lzo zstd; do
    mkdir "$c"; btrfs property set "$c" compression "$c"
    yes "some text $c" | head -c 3000000 >"$c/large"
    yes small | head -c 1500 >"$c/inline"
  done
  setfattr -n user.one -v 1 big 2>/dev/null || :
  setfattr -n user.two -v "$(head -c 2000 /dev/zero | tr '\0' x)" d \
    2>/dev/null || :
  dd if=/dev/urandom of=nocow2 bs=4k count=2 status=none
  btrfs -q subvolume create sub
  cp --reflink=always big sub/clone 2>/dev/null || cp big sub/clone
  btrfs -q subvolume snapshot -r sub snap1
  echo more >sub/more
  btrfs -q subvolume snapshot sub snap2
  for i in $(seq 100); do echo "$i" >"snap2/f$i"; done
  rm -f snap2/clone
  btrfs -q subvolume set-default "$(btrfs subvolume list . |
    awk '/snap2/ { print $2 }')" .
  sync -f .
  btrfs -q subvolume delete snap1
  dd if=/dev/urandom of=fragments bs=4k count=64 status=none
  for i in $(seq 1 2 63); do
    dd if=/dev/urandom of=fragments bs=4k count=1 seek="$i" conv=notrunc \
       oflag=dsync status=none
  done
  for i in $(seq 200); do cp --reflink=always nocow2 "d/ref$i"; done
)

have_kernel ()
{
  [ "$(id -u)" = 0 ] && grep -qw btrfs /proc/filesystems &&
    mkdir -p "$tmp/mnt"
}

# Populate the image through the kernel; "log" walks it with a log tree.
kernel ()
{
  mount -o loop "$tmp/img" "$tmp/mnt" || return 1
  mounted=1
  populate "$tmp/mnt" >"$tmp/log" 2>&1
  r=$?
  [ $r -eq 0 ] || sed 's/^/# /' "$tmp/log"
  if [ $r -eq 0 ] && [ -n "$1" ]; then "$@" || r=1; fi
  umount "$tmp/mnt" && mounted=
  return $r
}

with_quota ()
{
  btrfs quota enable "$tmp/mnt" && btrfs -q quota rescan -w "$tmp/mnt" &&
    btrfs qgroup create 1/0 "$tmp/mnt" &&
    btrfs -q qgroup assign --no-rescan 0/5 1/0 "$tmp/mnt" &&
    sync -f "$tmp/mnt"
}

# Relocated and shared blocks.
with_balance ()
{
  for i in $(seq 30); do
    btrfs -q subvolume snapshot "$tmp/mnt/snap2" "$tmp/mnt/s$i" || return
    echo "$i" >"$tmp/mnt/s$i/f1"
  done
  sync -f "$tmp/mnt"
  btrfs -q balance start --full-balance "$tmp/mnt" || return
  sync -f "$tmp/mnt"
}

# The log tree lives from fsync to the next commit: copy the image between.
with_log ()
{
  sync -f "$tmp/mnt"
  mkdir "$tmp/mnt/logdir"
  for i in 1 2 3; do
    echo "$i" >"$tmp/mnt/logged-$i"
    sync "$tmp/mnt/logged-$i" "$tmp/mnt/logdir"
  done
  cp --sparse=always "$tmp/img" "$tmp/copy"
}

if ! command -v mkfs.btrfs >/dev/null; then
  echo "1..0 # SKIP no mkfs.btrfs"
  exit 0
fi

while read -r name args; do
  # shellcheck disable=SC2086
  image $args && walk_ok "mkfs $name"
  [ -s "$tmp/img" ] || ok 1 "mkfs $name makes an image"
done <<'END'
default
crc32c --csum crc32c
xxhash --csum xxhash
sha256 --csum sha256
blake2 --csum blake2
node4k -n 4k
node8k -n 8k
node64k -n 64k
sector16k -s 16k -n 16k
sector64k -s 64k -n 64k
mixed --mixed
mixed4k --mixed -n 4k
single -m single -d single
dup -m dup -d dup
old -O ^no-holes,^skinny-metadata,^extref -R ^free-space-tree
quota -R quota
uuid -U 01234567-89ab-cdef-0123-456789abcdef -L label
END

if have_kernel; then
  while read -r name args; do
    # shellcheck disable=SC2086
    image $args && kernel
    ok $? "populate $name"
    walk_ok "Linux wrote $name"
  done <<'END'
default
node4k-sha256 -n 4k --csum sha256
node64k -n 64k --csum xxhash
mixed --mixed
single -m single
old -n 4k -O ^no-holes,^skinny-metadata,^extref -R ^free-space-tree
END
  image && kernel with_quota
  ok $? "populate with quota groups"
  walk_ok "Linux wrote quota groups"
  # Linux goes read-only when a balance runs out of room.
  size=1G image -n 4k && kernel with_balance
  ok $? "populate and balance"
  walk_ok "Linux balanced"
  image && kernel with_log
  ok $? "populate and copy in the middle"
  mv "$tmp/copy" "$tmp/img"
  walk_ok "Linux wrote a log tree"
  for kind in INODE_REF INODE_EXTREF XATTR_ITEM DIR_ITEM DIR_INDEX \
              DIR_LOG_INDEX EXTENT_DATA EXTENT_CSUM ROOT_REF ROOT_BACKREF \
              EXTENT_ITEM METADATA_ITEM TREE_BLOCK_REF EXTENT_DATA_REF \
              SHARED_DATA_REF FREE_SPACE_BITMAP \
              FREE_SPACE_EXTENT QGROUP_STATUS QGROUP_RELATION ORPHAN_ITEM \
              PERSISTENT_ITEM UUID_KEY_SUBVOL; do
    grep -q "^$kind " "$tmp/kinds"
    ok $? "$kind was among them"
  done
  # mkfs.btrfs of Debian 12 knows no block group tree.
  for nodesize in 4K 16K; do
    rm -f "$tmp/img"
    "$abs_top_builddir/server/cli/btrnbd" -d "$tmp/img" mkfs --size 512M \
      --nodesize "$nodesize" -O block-group-tree >"$tmp/log" 2>&1 &&
      kernel
    ok $? "populate with a block group tree, $nodesize"
    walk_ok "Linux wrote a block group tree, $nodesize"
  done
elif [ "$BTRNBD_REQUIRE_KERNEL" = 1 ]; then
  ok 1 "root and a kernel with btrfs are required"
else
  n=$((n + 1))
  echo "ok $n # SKIP no root or no btrfs in the kernel"
fi
echo "1..$n"
