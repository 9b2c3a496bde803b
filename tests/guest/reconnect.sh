#!/bin/bash
# A kernel that does not notice that the server restarts: nbd-client attaches
# to an nbdkit in the guest, whose retry filter connects again.  Before a
# server that is killed each write is on disk when it is answered: that is what
# write-through is for.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
. "$abs_top_srcdir/tests/guest/lib.sh"
requires_guest nbdkit psktool mkfs.ext4

pool=$tmp/pool.img
ok "make a pool" "$BTRNBD" -d "$pool" mkfs --size 1G
ok "make a volume" "$BTRNBD" -d "$pool" create vm --size 256M
ok "start the guest" start_guest || done_testing
cp "$abs_top_srcdir/tests/guest/files.py" "$guest_dir"
ok "make a key" psktool -u alice -p "$guest_dir/keys.psk"

tls=on through=no
serve ()
{
  printf '%s\n' "[export vm]" "write-through = $through" >"$tmp/vm.conf"
  start_daemon --config "$tmp/vm.conf" -d "$pool" --tls $tls --tls-psk "$guest_dir/keys.psk"
}

# attach_through URI [PARAMETERS]: as nbd0.
attach_through ()
{
  guest "
    nbdkit -U /run/nbd.sock -P /run/nbdkit.pid --filter=retry nbd \
      uri='$1' retries=60 retry-delay=1 retry-exponential=no ${2-} \
    && nbd-client -unix /run/nbd.sock /dev/nbd0 -b 4096"
}

detach_all ()
{
  detach nbd0 && guest "kill \$(cat nbdkit.pid)
    while [ -e /proc/\$(cat nbdkit.pid) ]; do sleep 0.05; done
    rm nbd.sock nbdkit.pid"
}

acked ()
{
  wc -l <"$guest_dir/acked" 2>/dev/null || echo 0
}

acked_more ()
{
  local want=$(($(acked) + $1))
  wait_until "$GUEST_TIMEOUT" eval "[ \"\$(acked)\" -ge $want ]"
}

# restart SIGNAL URI [PARAMETERS]
restart ()
{
  local signal=$1 i
  rm -f "$guest_dir/acked"
  ok "$signal: serve" serve || return
  ok "$signal: attach" attach_through "${@:2}" || return
  ok "$signal: mount" guest "
    mkfs.ext4 -q /dev/nbd0 && mount /dev/nbd0 mnt"
  ok "$signal: a load" guest "
    /usr/bin/python3 host/files.py write mnt host/acked 2>host/errors &
    echo \$! >load.pid"
  ok "$signal: files are written" acked_more 20
  for (( i = 1; i <= ${BTRNBD_FULL:+1}2; i++ )); do
    stop_daemon "$signal" 2>/dev/null
    sleep "0.$((RANDOM % 10))"
    ok "$signal: serve again, $i" serve || return
    ok "$signal: the load goes on" acked_more 20
  done
  ok "$signal: end the load" guest "
    kill \$(cat load.pid); while [ -e /proc/\$(cat load.pid) ]; do
      sleep 0.05; done"
  is "$(cat "$guest_dir/errors")" "" "$signal: it saw no error"
  ok "$signal: drop what is cached" guest "
    umount mnt && mount /dev/nbd0 mnt"
  ok "$signal: what was acknowledged is there" guest "
    /usr/bin/python3 host/files.py verify mnt host/acked"
  ok "$signal: unmount" guest "umount mnt"
  ok "$signal: the filesystem is clean" check_fs nbd0 ext4
  is "$(guest "dmesg | grep -E 'I/O error|EXT4-fs error|abort'")" "" \
    "$signal: the kernel noticed nothing"
  ok "$signal: detach" detach_all
  ok "$signal: stop" stop_daemon
  ok "$signal: the pool is clean" check_clean "$pool"
}

restart TERM "nbd://$HOST/vm"
tls=require through=yes
restart KILL "nbds://alice@$HOST/vm" "tls=require tls-psk=/run/host/keys.psk"
done_testing
