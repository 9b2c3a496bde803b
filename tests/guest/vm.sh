#!/bin/bash
# A system is installed on an export and a virtual machine boots from it: its
# firmware loads the kernel from there, what it writes is there the next time,
# and with QEMU's reconnect-delay it does not notice that the server restarts.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
. "$abs_top_srcdir/tests/guest/lib.sh"
requires_guest qemu-system-x86_64 extlinux mkfs.ext4
vm=$abs_top_builddir/vm
kernel=$vm/vmlinuz
[ -e "$kernel" ] || lacks_all "no kernel; run ci/fetch-vm $vm"

pool=$tmp/pool.img
console=$tmp/console
append="panic=-1 root=/dev/nvme0n1 rootwait rw init=/init console=ttyS0 quiet"

# start_vm WRITE-CACHE ARG...: of the export "vm"; what it says goes to
# $console.
start_vm ()
{
  rm -f "$console.in"
  : >"$console"
  mkfifo "$console.in"
  exec 8<>"$console.in"
  setpriv --pdeathsig KILL qemu-system-x86_64 -accel tcg -m 256M -nodefaults \
    -display none -no-reboot -serial stdio \
    -blockdev "driver=nbd,node-name=d0,discard=unmap,server.type=unix,$(
      )server.path=$sock,export=vm,reconnect-delay=60" \
    -device "nvme,drive=d0,serial=1,write-cache=$1" "${@:2}" \
    <"$console.in" >>"$console" 2>"$tmp/qemu.log" &
  vm_pid=$!
  cleanup_fn stop_pid "$vm_pid"
}

# vm_says TEXT: within a minute or two.
vm_says ()
{
  wait_until 120 eval "grep -q '$1' '$console' || ! kill -0 $vm_pid" &&
    grep -q "$1" "$console" && return 0
  cat "$console" "$tmp/qemu.log"
  return 1
}

# The last number of a file that the machine stored.
stored ()
{
  sed -n 's/.*VM: stored \([0-9]*\).*/\1/p' "$console" | tail -n 1
}

# It goes on: N more files are stored.
goes_on ()
{
  vm_says "VM: stored $(($(stored) + $1))"
}

# vm_ends WHAT NUMBER: it ended by itself, with no complaint.
vm_ends ()
{
  ok "$1: the machine is done" vm_says "VM: done"
  ok "$1: it ends" wait "$vm_pid"
  is "$(tr -d '\r' <"$console" | grep -E 'VM:|rror|abort|reset' |
          grep -v 'VM: stored')" "VM: boot $2
VM: done" "$1: and had nothing to complain about"
}

ok "make a pool" "$BTRNBD" -d "$pool" mkfs --size 1G
ok "make a volume" "$BTRNBD" -d "$pool" create vm --size 256M

# Install.
ok "start the guest" start_guest || done_testing
cp "$kernel" "$vm/busybox" "$abs_top_srcdir/tests/guest/vm-init.sh" "$guest_dir"
ok "serve" start_daemon -d "$pool"
ok "attach" attach nbd0 vm -b 512
ok "install a system" guest "set -e
  mkfs.ext4 -q -O ^64bit -L root /dev/nbd0
  mount /dev/nbd0 mnt
  cd mnt
  mkdir bin dev proc sys extlinux
  cp ../host/busybox bin
  cp ../host/vmlinuz .
  cp ../host/vm-init.sh init
  chmod +x init
  printf '%s\n' 'default vm' 'label vm' 'kernel /vmlinuz' 'append $append' \
    >extlinux/extlinux.conf
  extlinux --install extlinux
  cd ..
  umount mnt"
ok "detach" detach nbd0
stop_guest

# Everything from the export, its boot sector first.
start_vm on
vm_ends "first boot" 1
ok "restart the server" stop_daemon
ok "serve" start_daemon -d "$pool"
start_vm on
vm_ends "second boot" 2

# The kernel from a file: that is faster, and can be told more.
start_vm on -kernel "$kernel" -append "$append load"
ok "load" vm_says "VM: stored 5"
ok "SIGTERM ends the server under load" stop_daemon
ok "serve" start_daemon -d "$pool"
ok "the load goes on" goes_on 5
echo >&8
vm_ends "SIGTERM" 3

# A server that is killed forgets what was not flushed: nothing, with this.
start_vm off -kernel "$kernel" -append "$append load"
ok "load" vm_says "VM: stored 5"
for (( i = 1; i <= ${BTRNBD_FULL:+1}2; i++ )); do
  stop_daemon KILL 2>/dev/null
  ok "serve after kill $i" start_daemon -d "$pool"
  ok "the load goes on" goes_on $((2 + i % 3))
done
echo >&8
vm_ends "SIGKILL" 4
ok "SIGTERM ends the server" stop_daemon
ok "the pool is clean" check_clean "$pool"
done_testing
