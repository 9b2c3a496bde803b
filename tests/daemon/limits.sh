#!/bin/bash
# Limits of an export: rates, connections, read-only; how they change under
# clients.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"

conf=$tmp/btrnbd.conf
cat >"$conf" <<END
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
