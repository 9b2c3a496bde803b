#!/bin/bash
# The server is killed under a kernel's load.  Attached anew, the filesystem
# recovers, and every file is there whose fsync had returned.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
. "$abs_top_srcdir/tests/guest/lib.sh"
requires_guest fio mkfs.ext4 mkfs.xfs mkfs.btrfs

pool=$tmp/pool.img
files=${BTRNBD_FULL:+600}
files=${files:-60}

acked ()
{
  [ "$(wc -l 2>/dev/null <"$guest_dir/acked")" -ge "$1" ]
}

# crash FILESYSTEM
crash ()
{
  local fs=$1 writer="/usr/bin/python3 /run/host/files.py"
  rm -f "$guest_dir/acked"
  ok "$fs: serve" start_daemon -d "$pool" || return
  ok "$fs: attach" attach nbd0 "$fs" -b 4096 -C 4
  ok "$fs: mkfs and mount" make_fs nbd0 "$fs" &&
    ok "$fs: mount" guest "mount -t $fs /dev/nbd0 /run/mnt" || return
  ok "$fs: a load" guest "
    fio --name=load --directory=/run/mnt --size=32M --rw=randwrite --bs=16k \
      --ioengine=libaio --iodepth=8 --direct=1 --time_based --runtime=600 \
      >/dev/null 2>&1 &
    $writer write /run/mnt /run/host/acked &"
  ok "$fs: $files files are acknowledged" wait_until "$GUEST_TIMEOUT" \
    acked "$files"
  stop_daemon KILL 2>/dev/null
  is $? 137 "$fs: kill the server"
  # Else what was in flight waits for the driver's timeout of 30 seconds.
  ok "$fs: detach" guest "nbd-client -d /dev/nbd0"
  ok "$fs: the load ends" guest "
    for i in {1..100}; do
      pgrep -x fio >/dev/null || pgrep -f files.py >/dev/null || exit 0
      sleep 0.1
    done; exit 1"
  ok "$fs: unmount" guest "umount /run/mnt"

  ok "$fs: serve again" start_daemon -d "$pool" || return
  ok "$fs: attach anew" attach nbd1 "$fs" -b 4096 -C 4
  ok "$fs: mount, which recovers" guest "
    mount -t $fs /dev/nbd1 /run/mnt"
  ok "$fs: what was acknowledged is there" guest "
    $writer verify /run/mnt /run/host/acked"
  ok "$fs: unmount" guest "umount /run/mnt"
  ok "$fs: the filesystem is clean" check_fs nbd1 "$fs"
  ok "$fs: detach" detach nbd1
  ok "$fs: stop" stop_daemon
  ok "$fs: the pool is clean" check_clean "$pool"
}

"$BTRNBD" -d "$pool" mkfs --size 4G >/dev/null &&
  for fs in ext4 xfs btrfs; do
    "$BTRNBD" -d "$pool" create $fs --size 640M >/dev/null || exit 1
  done
for fs in ext4 xfs btrfs; do
  # A new one for each: what a filesystem leaves behind that lost its disk
  # is not the matter here.
  ok "$fs: start the guest" start_guest || done_testing
  cp "$abs_top_srcdir/tests/guest/files.py" "$guest_dir"
  crash $fs
  stop_guest
done
done_testing
