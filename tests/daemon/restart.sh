#!/bin/bash
# A pool whose server is stopped and started, or killed: nothing that was
# acknowledged is lost at a stop, and clients that reconnect go on.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
requires fio nbdkit nbdinfo
requires_file "$PLUGIN" "$BTRNBD"

pool=$tmp/pool.img
serve () { start_daemon --plugin-dir "${PLUGIN%/*}" -d "$pool" "$@"; }
ok "mkfs" "$BTRNBD" -d "$pool" mkfs --size 1G
for i in 0 1 2 3; do
  ok "create" "$BTRNBD" -d "$pool" create vm$i --size 16M
done

# --- drain under load ---

# Clients that have been there under the server that runs now.
attached () { [ "$(grep -c ' attached' "$tmp/daemon.log")" -ge "$1" ]; }
drain () { python3 "$abs_top_srcdir/tests/daemon/drain.py" "$@"; }
for (( n = 0; n < 3; n++ )); do
  ok "start" serve
  drain "$sock" vm0 "$tmp/acked" >"$tmp/drain.out" &
  writer=$!
  wait_until 60 attached 4
  sleep 0.5$n
  ok "SIGTERM under load: status 0" stop_daemon
  wait $writer
  is $? 0 "all four writers were ended by the server"
  ok "start again" serve
  ok "what was acknowledged is there" drain --verify "$sock" vm0 "$tmp/acked"
  diag "$(cat "$tmp/ok.log")"
  ok "stop" stop_daemon
done

# --- restart under load, clients behind nbdkit's retry filter ---

ok "start" serve
load=()
for i in 0 1 2 3; do
  nbdkit -f --exit-with-parent -U "$tmp/retry$i.sock" -P "$tmp/retry$i.pid" \
    --filter=retry nbd "uri=$(export_uri vm$i)" retries=120 retry-delay=1 \
    retry-exponential=no 2>"$tmp/retry$i.log" </dev/null &
  cleanup_fn stop_pid $!
  wait_until 60 [ -s "$tmp/retry$i.pid" ]
  fio --name=v$i --ioengine=nbd --rw=randwrite --bs=4k --size=8M \
    --uri="nbd+unix:///?socket=$tmp/retry$i.sock" --thread --iodepth=8 \
    --time_based --runtime=12 --verify=crc32c --verify_state_save=0 \
    --output="$tmp/fio$i.out" </dev/null &
  load+=($!)
done
# Each connects once to ask for the size, and once for its load; the filter
# tries again what it has open, not to open.
ok "all clients are there" wait_until 60 attached 8
for n in 1 2 3; do
  sleep 1
  ok "stop, with clients" stop_daemon
  ok "start" serve
done
for i in 0 1 2 3; do
  wait "${load[i]}"
  is $? 0 "client $i went on, and read what it wrote"
done
is "$(grep -o '"vm[0-3]" attached' "$tmp/daemon.log" | sort -u | wc -l)" 4 \
  "each on a connection to the last server"
ok "stop" stop_daemon

# --- killed under load: what was answered is there with write-through ---

printf '%s\n' "[export vm*]" "write-through = yes" "[export vm1]" \
  "[export vm7]" "[export /vm2]" >"$tmp/through.conf"
ok "start, write-through" serve --config "$tmp/through.conf"
warned () { grep -q "warning: \[export $1\]: $2" "$tmp/daemon.log"; }
ok "a section without an export is told" \
  wait_until 60 warned vm7 "no export has that name"
is "$(grep -c 'warning: \[export' "$tmp/daemon.log")" 1 \
  "no other, in whatever way it is said"
load=()
for i in 0 1 2 3; do
  fio --name=k$i --ioengine=nbd --rw=randwrite --bs=4k --size=8M \
    --uri="nbd+unix:///?socket=$tmp/retry$i.sock" --thread --iodepth=8 \
    --time_based --runtime=8 --verify=crc32c --verify_state_save=0 \
    --output="$tmp/fiok$i.out" </dev/null &
  load+=($!)
done
ok "all clients are there" wait_until 60 attached 8
for n in 1 2 3; do
  sleep 1.$((RANDOM % 10))
  kill -KILL "$daemon_pid"
  wait "$daemon_pid" 2>/dev/null
  ok "start after SIGKILL under load" serve --config "$tmp/through.conf"
done
for i in 0 1 2 3; do
  wait "${load[i]}"
  is $? 0 "client $i read all that was answered"
done
ok "stop" stop_daemon
# The same as a parameter of the plugin; and that it is not so without.
# write_and_kill BYTE [PARAMETER]: what is at the start of vm0 afterwards
write_and_kill ()
{
  serve "${@:2}" || return
  raw "write $1"
  kill -KILL "$daemon_pid"
  wait "$daemon_pid" 2>/dev/null
  serve && raw read
  stop_daemon
}
raw ()
{
  PYTHONPATH=$abs_top_srcdir/tests/daemon python3 - "$sock" $1 <<'PY'
import sys
from raw import ACK, Raw
c = Raw(sys.argv[1])
assert c.go("vm0")[0] == ACK
if sys.argv[2] == "read":
    c.send(0, 0, 4096)
    print(chr(c.answer(4096)[2][0]))
else:
    c.send(1, 0, 4096, data=sys.argv[3].encode() * 4096)
    assert c.answer()[0] == 0
PY
}
disk_reads ()
{
  "$BTRNBD" -s "$tmp/control.sock" --json stat |
    sed -n 's/.*"data_read_bytes": *\([0-9]*\).*/\1/p'
}
is "$(write_and_kill x write-through=true)" x "write-through=true: it lasts"
is "$(write_and_kill y)" x "without: as before the write"
ok "start" serve
ok "a read" raw read
before=$(disk_reads)
ok "comes from the disk" test "${before:-0}" -gt 0
ok "the next one" raw read
is "$(disk_reads)" "$before" "does not"
ok "stop" stop_daemon

# --- QEMU with reconnect-delay ---

if command -v qemu-io >/dev/null; then
  ok "start" serve
  mkfifo "$tmp/qemu.in"
  stdbuf -o0 qemu-io --image-opts "driver=nbd,server.type=unix,server.path=$sock,\
export=vm1,reconnect-delay=100" <"$tmp/qemu.in" >"$tmp/qemu.out" 2>&1 &
  qemu=$!
  cleanup_fn stop_pid $qemu
  exec 7>"$tmp/qemu.in"
  # It takes one line each time its input becomes readable, and prompts when
  # a command is done.
  prompts () { [ "$(grep -o "qemu-io>" "$tmp/qemu.out" | wc -l)" -ge "$1" ]; }
  commands=0
  tell () { echo "$1" >&7; commands=$((commands + 1)); }
  done_all () { wait_until 100 prompts $((commands + 1)); }
  tell "write -P 7 0 1M"
  ok "QEMU writes" done_all
  tell "flush"
  ok "and flushes" done_all
  kill -KILL "$daemon_pid"
  wait "$daemon_pid" 2>/dev/null
  tell "read -P 7 4096 8k"
  ok "start after SIGKILL" serve
  ok "what it asked while the server was gone is answered" done_all
  ok "stop" stop_daemon
  ok "start" serve
  tell "write -P 9 1M 64k"
  ok "it writes after a stop" done_all
  tell "read -P 9 1M 16k"
  ok "and reads" done_all
  is "$(grep -Ec "read 8192/8192|wrote 65536/65536|read 16384/16384" \
    "$tmp/qemu.out")" 3 "all of it"
  echo "quit" >&7
  exec 7>&-
  wait $qemu
  is "$(grep -ci "error\|fail\|mismatch" "$tmp/qemu.out")" 0 \
    "QEMU saw no error"
  ok "stop" stop_daemon
else
  lacks "QEMU reconnects" "qemu-io is not installed"
fi
if command -v btrfs >/dev/null; then
  ok "btrfs check" check_clean "$pool"
fi
done_testing
