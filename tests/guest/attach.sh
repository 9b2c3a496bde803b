#!/bin/bash
# A kernel's filesystems on exports: attach, mkfs, write, verify, give space
# back, detach, restart the server, and find everything again.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
. "$abs_top_srcdir/tests/guest/lib.sh"
requires_guest fio jq nbdkit mkfs.ext4 mkfs.xfs mkfs.btrfs fstrim sfdisk

pool=$tmp/pool.img
size=${BTRNBD_FULL:+128}
size=${size:-32}
mib=$((1 << 20))

# The server: btrnbdd, or stock nbdkit.
server=btrnbdd
serve ()
{
  [ $server = btrnbdd ] && { start_daemon -d "$pool"; return; }
  rm -f "$tmp/nbdkit.pid"
  # With more threads, nbdkit 1.32 dies of a client that vanishes.
  ( exec_with_plugin nsenter --net="/proc/$net_pid/ns/net" -- nbdkit -f \
      --exit-with-parent -t 1 -i $HOST -p 10809 -P "$tmp/nbdkit.pid" \
      "$PLUGIN" "$pool" ) >"$tmp/nbdkit.log" 2>&1 </dev/null &
  nbdkit_pid=$!
  cleanup_fn stop_pid "$nbdkit_pid"
  wait_until 60 test -s "$tmp/nbdkit.pid"
}

end_serving ()
{
  [ $server = btrnbdd ] && { stop_daemon; return; }
  stop_nbdkit
}

# use VOLUME BLOCK-SIZE [FILESYSTEM]
use ()
{
  local name=$1 block=$2 fs=${3:-$1} mount sum full after
  mount="mount -t $fs /dev/nbd0 /run/mnt"
  ok "$name: serve" serve || return
  ok "$name: attach, $block byte blocks" attach nbd0 "$name" -b "$block" -C 4
  is "$(guest "cat /sys/block/nbd0/queue/logical_block_size")" "$block" \
    "$name: the block size"
  ok "$name: mkfs" make_fs nbd0 "$fs"
  ok "$name: mount" guest "$mount"
  ok "$name: write and verify" guest "
    fio --name=v --directory=/run/mnt --size=${size}M --rw=randrw \
      --bsrange=$block-256k --bs_unaligned=0 --blockalign=$block \
      --ioengine=libaio --iodepth=16 --direct=1 --verify=crc32c \
      --verify_fatal=1 --fsync=100 &&
    head -c ${size}M /dev/urandom >/run/mnt/kept &&
    yes text | head -c 5000001 >/run/mnt/text && sync"
  sum=$(guest "cd /run/mnt && md5sum *")
  like "$sum" "kept.*text.*v\.0\.0" "$name: the files"
  ok "$name: unmount" guest "umount /run/mnt"
  ok "$name: detach" detach nbd0
  ok "$name: stop" end_serving
  ok "$name: the pool is clean" check_clean "$pool"
  full=$(used "$pool")

  ok "$name: serve again" serve || return
  ok "$name: attach again" attach nbd0 "$name" -b "$block" -C 4
  ok "$name: the filesystem is clean" check_fs nbd0 "$fs"
  ok "$name: mount again" guest "$mount"
  is "$(guest "cd /run/mnt && md5sum *")" "$sum" "$name: the same files"
  ok "$name: remove and fstrim" guest "
    rm /run/mnt/kept && sync && fstrim -v /run/mnt"
  ok "$name: unmount" guest "umount /run/mnt"
  ok "$name: and is still clean" check_fs nbd0 "$fs"
  ok "$name: detach" detach nbd0
  ok "$name: stop" end_serving
  after=$(used "$pool")
  # Not all of it: an extent that other data was written into stays.
  ok "$name: the pool has the space back ($full to $after bytes)" \
    test $((full - after)) -ge $((size * mib / 2))
  ok "$name: the pool is clean" check_clean "$pool"
}

# Other ways to attach and to use a disk.
other_ways ()
{
  ok "other ways: serve" serve || return
  is "$(guest "nbd-client -l $HOST" | sed '1d; s/:.*//' | sort | tr '\n' ' ')" \
    "@pool btrfs ext4 stock xfs " "the names are listed"
  fails_with 1 'no such file' "a name that is not there" attach nbd1 nobody
  ok "read-only" attach nbd1 ext4 -R
  not_ok "cannot be written" guest "
    dd if=/dev/zero of=/dev/nbd1 bs=4k count=1 oflag=direct"
  ok "detach" detach nbd1
  ok "the old interface, a name with a slash" attach nbd1 /ext4 -L -b 4096
  ok "a partition" guest "
    wipefs -qa /dev/nbd1 && echo ,,L | sfdisk -q /dev/nbd1 &&
    mkfs.ext4 -q /dev/nbd1p1 && mount -o discard /dev/nbd1p1 mnt &&
    cp -r /usr/include/linux mnt && umount mnt && e2fsck -fn /dev/nbd1p1"
  ok "discard all of it" guest "blkdiscard -f /dev/nbd1"
  ok "and read zeroes" guest "cmp -n 671088640 /dev/nbd1 /dev/zero"
  ok "detach" detach nbd1
  ok "stop" end_serving
}

"$BTRNBD" -d "$pool" mkfs --size 4G >/dev/null &&
  for name in ext4 xfs btrfs stock; do
    "$BTRNBD" -d "$pool" create $name --size 640M >/dev/null || exit 1
  done
ok "start the guest" start_guest || done_testing
use ext4 4096
use xfs 512
use btrfs 1024
other_ways
server=nbdkit
use stock 2048 ext4
done_testing
