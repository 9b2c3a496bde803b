#!/bin/bash
# The first process of the guest (see lib.sh).  Its root is the host's, read
# only; the directory $1 of the host is where commands come from and results
# go.  What cmd.N says is run, its output is out.N, and then status.N is there.
share=$1
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/run
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs run /run
mkdir /run/host /run/mnt
mount -t hostfs -o "$share" host /run/host
mount -t tmpfs tmp /tmp
ip link set lo up
ip addr add 192.0.2.2/24 dev vec0
ip link set vec0 up
insmod "/usr/lib/uml/modules/$(uname -r)/kernel/drivers/block/nbd.ko" \
  max_part=8
cd /run || exit
mkfifo tick
exec 9<>tick

n=0
while :; do
  if [ -e host/cmd.$n ]; then
    bash host/cmd.$n >host/out.$n 2>&1 </dev/null
    echo $? >host/status.new
    mv host/status.new host/status.$n
    n=$((n + 1))
  else
    read -r -t 0.05 -u 9
  fi
done
