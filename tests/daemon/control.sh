#!/bin/bash
# The control socket, under both hosts.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
requires_file "$BTRNBD" "$PLUGIN"
requires nbdkit
requires_python_nbd
if grep -q '^#define BTRNBD_SANITIZE' "$abs_top_builddir/config.h"; then
  export BTRNBD_SANITIZED=1
fi
img=$tmp/pool.img
ctl=$tmp/control.sock
"$BTRNBD" -d "$img" mkfs --size 1G

# from_python ARG...: "ok NAME" and "not ok NAME" lines become tests.
from_python ()
{
  local line
  while IFS= read -r line; do
    case $line in
      ok\ *) pass "$host: ${line#ok }" ;;
      not\ ok\ *) fail "$host: ${line#not ok }" ;;
      *) echo "# $line" ;;
    esac
  done < <(/usr/bin/python3 "$@" 2>&1 || echo "not ok python ended with status $?")
}

serve_pool ()
{
  start_daemon --control "$ctl" --plugin "$PLUGIN" "$img"
}

host=btrnbdd
ok "btrnbdd" serve_pool
is "$(stat -c %a "$ctl")" 600 "only its owner may use it"
from_python "$abs_top_srcdir/tests/daemon/control_socket.py" "$ctl" btrnbdd \
  "$(export_uri %s)" protocol volumes attached hostile
chmod 755 "$tmp"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  chmod 666 "$ctl"
  is "$(setpriv --reuid 65534 --clear-groups /usr/bin/python3 -c '
import socket, sys
s = socket.socket (socket.AF_UNIX)
s.connect (sys.argv[1])
s.settimeout (60)
print (s.recv (1))' "$ctl" 2>&1)" "b''" "another user is turned away"
else
  lacks "another user is turned away" "needs root"
fi

# Two servers, leftovers, other people's files.
"$BTRNBD" -d "$tmp/other.img" mkfs --size 256M
fails_with 1 "control.sock: in use" "a second server on the same socket" \
  timeout 20 "$DAEMON" -l "unix:$tmp/2.sock" --control "$ctl" \
  --plugin "$PLUGIN" "$tmp/other.img"
ok "the first still has it" test -S "$ctl"
kill -KILL "$daemon_pid"
wait "$daemon_pid" 2>/dev/null
ok "left over after SIGKILL" test -S "$ctl"
ok "it is taken over" serve_pool
ok "stop" stop_daemon
not_ok "the file is gone" test -e "$ctl"
echo precious >"$ctl"
fails_with 1 "another file" "a file is not replaced" timeout 20 "$DAEMON" \
  -l "unix:$tmp/2.sock" --control "$ctl" --plugin "$PLUGIN" "$img"
is "$(cat "$ctl")" precious "and left as it is"
rm "$ctl"
fails_with 1 "path must have" "a path that is too long" timeout 20 \
  "$DAEMON" -l "unix:$tmp/2.sock" --plugin "$PLUGIN" \
  --control "$tmp/$(printf 'x%.0s' {1..120})" "$img"

# A change that was answered survives a crash.
ok "serve" serve_pool
/usr/bin/python3 - "$ctl" <<'PY'
import sys, os
sys.path.insert(0, os.path.join(os.environ["abs_top_srcdir"], "tests/lib"))
from control import Control
Control(sys.argv[1]).call("volume.create", name="durable", size=4096)
PY
kill -KILL "$daemon_pid"
wait "$daemon_pid" 2>/dev/null
is "$("$BTRNBD" -d "$img" ls durable)" durable "what was answered is durable"

# A plugin without methods: the host's own work.
ok "another plugin" start_daemon --control "$ctl" --plugin "$TEST_PLUGIN" \
  size=1M
is "$(/usr/bin/python3 - "$ctl" <<'PY'
import sys, os
sys.path.insert(0, os.path.join(os.environ["abs_top_srcdir"], "tests/lib"))
from control import Control, code_of
c = Control(sys.argv[1])
print(code_of(c, "pool.df"), code_of(c, "host.clients"),
      "pool.df" in c.call("rpc.info")["methods"])
PY
)" "-32601 0 False" "the host's methods without the pool's"
ok "stop" stop_daemon

host=nbdkit
ok "nbdkit" start_nbdkit n "$PLUGIN" "$img" control="$ctl"
from_python "$abs_top_srcdir/tests/daemon/control_socket.py" "$ctl" nbdkit \
  "$(uri %s)" protocol volumes attached hostile
ok "nbdkit ends" stop_nbdkit
not_ok "the file is gone" test -e "$ctl"
ok "the pool is clean" check_clean "$img"
done_testing
