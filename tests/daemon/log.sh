#!/bin/bash
# What btrnbdd logs: who came, who left, what went wrong; priorities.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
requires_file "$BTRNBD" "$PLUGIN"
requires_python_nbd
img=$tmp/pool.img
said=$tmp/daemon.log
"$BTRNBD" -d "$img" mkfs --size 1G
"$BTRNBD" -d "$img" create vm1 --size 1M

use ()
{
  /usr/bin/python3 - "$(export_uri vm1)" <<'PY'
import nbd, sys
h = nbd.NBD()
h.set_strict_mode(0)
h.connect_uri(sys.argv[1])
h.pwrite(bytes(4096), 8192, nbd.CMD_FLAG_FUA)
h.pread(512, 0)
try:
    h.pread(512, 1 << 20)
    sys.exit(1)
except nbd.Error:
    pass
h.shutdown()
PY
}

# lines PATTERN: how many there are, once there are any.
lines ()
{
  wait_until 60 grep -Eq -e "$1" "$said"
  grep -Ec -e "$1" "$said"
}

me="client [0-9]+ \\(uid $(id -u) pid [0-9]+\\)"
ok "start" start_daemon --plugin "$PLUGIN" "$img"
ok "a client" use
fails_with 1 "nope|rror" "a client that is refused" \
  nbdinfo "$(export_uri nope)"
is "$(lines "^btrnbdd: $me: export \"vm1\" attached$")" 1 "who came"
is "$(lines "^btrnbdd: $me: export \"vm1\": client disconnected; \
4 requests, [0-9]+ bytes in, [0-9]+ bytes out, 1 errors$")" 1 "who left"
is "$(lines "^btrnbdd: warning: $me: export \"vm1\": read of 512 bytes at \
1048576: error 22")" 1 "what went wrong"
like "$(lines "^btrnbdd: warning: $me: export \"nope\" refused: ")" "^[12]$" \
     "who was refused"
is "$(grep -c 'done in' "$said")" 0 "no line for requests"
ok "stop" stop_daemon
is "$(grep -Evc '^btrnbdd: ' "$said")" 0 "every line says whose it is"

# Lines of a client's making stay lines.
ok "start, telling more" start_daemon -v --plugin "$PLUGIN" "$img"
ok "a client" use
is "$(lines "^btrnbdd: debug: client [0-9]+: export \"vm1\": \
write \\(FUA\\) of 4096 bytes at 8192: done in [0-9]+ us$")" 1 \
   "a line for a write"
is "$(lines "debug: .*: read of 512 bytes at 0: done in")" 1 "and for a read"
/usr/bin/python3 - "$sock" <<'PY'
import nbd, sys
h = nbd.NBD()
h.set_export_name("a\nb\x1b[31m")
try:
    h.connect_unix(sys.argv[1])
except nbd.Error:
    pass
PY
is "$(lines 'export "a b .31m" refused')" 1 "a name cannot break a line"
is "$(grep -Evc '^btrnbdd: ' "$said")" 0 "every line is one of ours"
ok "stop" stop_daemon

# Nobody has opened a place for messages: no disk and no client gets them.
start_mute ()
{
  rm -f "$tmp/mute.pid"
  "$DAEMON" -v -l "unix:$sock" --control off --pidfile "$tmp/mute.pid" \
    --plugin "$PLUGIN" "$img" 2>&- &
  daemon_pid=$!
  local i
  for (( i = 0; i < 200; i++ )); do
    [ -s "$tmp/mute.pid" ] && return 0
    sleep 0.05
  done
  return 1
}
ok "start without standard error" start_mute </dev/null
ok "a client" use
ok "stop" stop_daemon
cmp -s -n 65536 "$img" /dev/zero; is $? 0 "the disk has none of it"

# The journal takes priorities from the front of lines.
start_logged ()
{
  JOURNAL_STREAM=$(stat -c %d:%i "$said") start_daemon "$@"
}
: >"$said"
ok "start under the journal" start_logged -v --plugin "$PLUGIN" "$img"
ok "a client" use
is "$(lines "^<6>btrnbdd: $me: export \"vm1\" attached")" 1 "6: information"
is "$(lines "^<4>btrnbdd: warning: ")" 1 "4: a warning"
ok "7: debugging" test "$(lines '^<7>btrnbdd: debug: ')" -gt 2
is "$(grep -Evc '^<[3467]>btrnbdd: ' "$said")" 0 "all have one"
ok "stop" stop_daemon
done_testing
