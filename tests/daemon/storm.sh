#!/bin/bash
# Many clients: killed at random points, slow, too many, a thousand.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
. "$abs_top_srcdir/tests/daemon/pki.sh"

kills=500
[ -z "${BTRNBD_QUICK:-}" ] || kills=100
seed=${BTRNBD_SEED:-$RANDOM}
diag "seed $seed"

open_files () { ls "/proc/$daemon_pid/fd" | wc -l; }
resident () { awk '/VmRSS/ { print $2 }' "/proc/$daemon_pid/status"; }
all_closed ()
{
  [ "$(plugin_log_count open)" = "$(plugin_log_count close)" ]
}

# --- killed clients ---

tls=()
if have_gnutls; then
  ok "make a CA" make_ca "$tmp/pki"
  ok "a certificate" make_server_cert "$tmp/pki"
  tls=(--tls on --tls-certificates "$tmp/pki")
fi
ok "start" start_daemon "${tls[@]}" --plugin "$TEST_PLUGIN" exports=8 size=4M \
  log="$tmp/plugin.log"
ok "first client" nbdinfo "$(export_uri e0)"
files=$(open_files)
storm ()
{
  tap_from python3 "$abs_top_srcdir/tests/daemon/storm.py" "$sock" \
    "$1" "$2" ${tls[3]:+"$tmp/pki/ca-cert.pem"}
}
storm $((kills / 4)) "$seed"
ok "every handle is closed" wait_until 60 all_closed
before=$(resident)
storm $((kills - kills / 4)) $((seed + 1))
ok "every handle is closed" wait_until 60 all_closed
ok "no descriptor leaked" \
  wait_until 60 eval '[ "$(open_files)" -le "$files" ]'
after=$(resident)
if grep -q '^#define BTRNBD_SANITIZE' "$abs_top_builddir/config.h"; then
  skip "nor memory" "a sanitizer keeps what was freed, and looks for leaks"
else
  ok "nor memory ($before KiB, then $after KiB)" \
    test "$after" -lt $((before + 32768))
fi
ok "still serving" nbdinfo "$(export_uri e0)"
ok "stop" stop_daemon

# --- slow ones, and a thousand ---

ok "start" start_daemon --handshake-timeout 5 --max-connections 1100 \
  --plugin "$TEST_PLUGIN" exports=200 size=64K log="$tmp/plugin.log"
tap_from python3 "$abs_top_srcdir/tests/daemon/crowd.py" "$sock"
ok "every handle is closed" wait_until 60 all_closed
ok "no descriptor leaked" \
  wait_until 60 eval '[ "$(open_files)" -le '"$files"' ]'
ok "stop" stop_daemon
done_testing
