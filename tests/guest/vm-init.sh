#!/bin/busybox sh
# The first process of a virtual machine whose disk is an export (see vm.sh).
# /count tells how often it was up.  Every time it compares what it wrote in
# the boots before, writes more, syncs and powers off.  With "load" on the
# kernel's command line it first writes files, each with an fsync, until a line
# is typed on the console.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev 2>/dev/null

verify ()
{
  for sum in /data/*.md5; do
    [ -e "$sum" ] || continue
    md5sum -c -s "$sum" || echo "VM: $sum: wrong"
  done
}

# store NAME BLOCKS: of 64 KiB.
store ()
{
  dd if=/dev/urandom of="/data/$1" bs=64k count="$2" conv=fsync 2>/dev/null &&
    md5sum "/data/$1" |
      dd of="/data/$1.md5" conv=fsync 2>/dev/null && return 0
  echo "VM: $1 could not be written"
}

count=$(($(cat /count 2>/dev/null || echo 0) + 1))
echo $count >/count
echo "VM: boot $count"
mkdir -p /data
verify
if grep -qw load /proc/cmdline; then
  i=0
  (read -r line </dev/console; : >/dev/stop) &
  while [ ! -e /dev/stop ]; do
    i=$((i + 1))
    store "load$i" 4
    echo "VM: stored $i"
  done
  echo 3 >/proc/sys/vm/drop_caches
  verify
fi
store "boot$count" 64
sync
dmesg | grep -iE 'i/o error|ext4-fs (error|warning)|abort|reset controller'
mount -o remount,ro / || echo "VM: cannot unmount"
echo "VM: done"
poweroff -f
