# ./quickstart makes a pool once, serves it on both sockets, ends cleanly on
# Ctrl-C, and finds the same data again.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
requires nbdcopy nbdinfo
[ "$abs_top_builddir" = "$abs_top_srcdir/build" ] ||
  skip_all "quickstart builds in ./build"
unset MAKEFLAGS MFLAGS MAKELEVEL

free_port
export POOL=$tmp/pool.img PORT=$port POOL_SIZE=1G VOLUME_SIZE=200M
tcp=nbd://127.0.0.1:$port/disk0
unix="nbd+unix:///disk0?socket=$tmp/pool.sock"

start ()
{
  # In a process group of its own, as in a terminal.
  setsid "$abs_top_srcdir/quickstart" >"$tmp/quick.log" 2>&1 </dev/null &
  quick=$!
  cleanup_fn stop_pid $quick
  wait_until 120 nbdinfo "$tcp" || { diag "$(cat "$tmp/quick.log")"; return 1; }
}

# Ctrl-C: SIGINT to everything in the foreground.
stop ()
{
  kill -INT -- "-$quick"
  wait $quick
}

head -c 5000000 /dev/urandom >"$tmp/in"
truncate -s 200M "$tmp/in"
start && pass "it serves" || { fail "it serves"; done_testing; }
for line in "nbdinfo nbd" "nbdcopy some.img" "nbd-client" "qemu-system" \
  "btrnbdd: serving; to attach: nbdinfo --list 'nbd://127.0.0.1:$port'"; do
  grep -q "$line" "$tmp/quick.log"
  is $? 0 "it tells what to type: $line"
done
is "$(nbdinfo --size "$tcp")" $((200 << 20)) "the size of disk0"
ok "write through TCP" nbdcopy "$tmp/in" "$tcp"
ok "read through the unix socket" nbdcopy "$unix" "$tmp/out"
cmp -s "$tmp/in" "$tmp/out"; is $? 0 "the same bytes"
ok "a disk more" "$BTRNBD" -s "$tmp/pool.control.sock" create disk1 --size 10M
is "$(nbdinfo --size "${tcp%0}1")" $((10 << 20)) "is served at once"
stop; is $? 0 "Ctrl-C ends it with status 0"
[ ! -e "$tmp/pool.sock" ]; is $? 0 "the socket is gone"
start && pass "it serves again" || { fail "it serves again"; done_testing; }
ok "read through TCP" nbdcopy "$tcp" "$tmp/out"
cmp -s "$tmp/in" "$tmp/out"; is $? 0 "the same data is there"
kill "$quick"; wait "$quick"; is $? 0 "SIGTERM ends it with status 0"
if command -v btrfs >/dev/null; then
  ok "btrfs check" check_clean "$POOL"
fi
done_testing
