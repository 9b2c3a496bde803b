#!/bin/bash
# Limits of an export: rates, connections, read-only; how they change under
# clients.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"

conf=$tmp/btrnbd.conf

# --- connections of a peer ---

free_port
ok "start" start_daemon --max-peer-connections 3 -l "0.0.0.0:$port" \
  --plugin "$TEST_PLUGIN"
ok "three of each address and user, not four" python3 -c '
import sys, time
sys.path.insert(0, sys.argv[1])
from raw import Raw
where = [(sys.argv[2], None), ("127.0.0.1:" + sys.argv[3], "127.0.0.1"),
         ("127.0.0.1:" + sys.argv[3], "127.0.0.2")]
have = []
for path, source in where:
    for i in range(3):
        have.append(Raw(path, source))
        have[-1].list()
    for i in range(3):
        try:
            Raw(path, source)
        except (EOFError, ConnectionError):
            continue
        sys.exit("a fourth")
have.pop().s.close()
for i in range(6000):
    try:
        have.append(Raw(*where[2]))
        break
    except (EOFError, ConnectionError):
        time.sleep(0.01)
have[-1].list()
' "$abs_top_srcdir/tests/daemon" "$sock" "$port"
is "$(grep -c "its peer has 3 connections" "$tmp/daemon.log")" 3 \
  "told once for each"
ok "stop" stop_daemon

# --- the handshake ---

ok "start" start_daemon --handshake-timeout 8 --plugin "$TEST_PLUGIN" \
  exports=1000 size=64K
tap_from python3 "$abs_top_srcdir/tests/daemon/handshake.py" "$sock"
ok "stop" stop_daemon

# --- clients that take no answers ---

ok "start" start_daemon --max-memory 128M --plugin "$TEST_PLUGIN"
bound=210 # MiB: what was given, and a request and its reply of each
grep -q '^#define BTRNBD_SANITIZE' "$abs_top_builddir/config.h" &&
  bound=4000 # sanitizers keep what was freed
ok "together they hold as much memory as was given" python3 -c '
import re, sys
sys.path.insert(0, sys.argv[1])
from raw import Raw
def memory():
    with open("/proc/" + sys.argv[3] + "/status") as f:
        return int(re.search("VmRSS:\\s*(\\d+)", f.read()).group(1)) >> 10
before = memory()
have = [Raw(sys.argv[2]) for i in range(40)]
for c in have:
    c.go("e0")
    for i in range(32):
        c.send(0, 0, 1 << 20, i)
other = Raw(sys.argv[2])
other.go("e0")
for i in range(100):
    other.send(0, 0, 65536, i)
    other.get(16 + 65536)
used = memory() - before
if used > int(sys.argv[4]):
    sys.exit("%u MiB" % used)
for c in have:
    for i in range(32):
        c.get(16 + (1 << 20))
' "$abs_top_srcdir/tests/daemon" "$sock" "$daemon_pid" $bound
ok "stop" stop_daemon

# --- exports ---

cat >"$conf" <<END
[server]
max-memory = 128M
[plugin $TEST_PLUGIN]
exports = 6
size = 64M
[export e1]
iops = 100
[export e2]
bandwidth = 4M
[export e3]
iops = 1
[export e4]
max-connections = 2
END
ok "start" start_daemon -c "$conf"
tap_from python3 "$abs_top_srcdir/tests/daemon/limits.py" "$sock" "$conf" \
  "$daemon_pid"
kill "$daemon_pid" 2>/dev/null # unless it was told already
wait "$daemon_pid"
is $? 0 "status 0 after a drain with requests that waited"
daemon_pid=
ok "the bad file was reported" grep -q \
  "nothing is changed: $conf:[0-9]*: neither" "$tmp/daemon.log"
done_testing
