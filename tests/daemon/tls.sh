#!/bin/bash
# btrnbdd with TLS: certificates and pre-shared keys, right and wrong.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
. "$abs_top_srcdir/tests/daemon/pki.sh"

have_gnutls || lacks_all "gnutls-bin is not installed"

for d in pki other; do
  ok "make a CA ($d)" make_ca "$tmp/$d"
  ok "make a server certificate" make_server_cert "$tmp/$d"
  ok "make a client certificate" make_client_cert "$tmp/$d" client "a client"
done
ok "make a key" psktool -u alice -p "$tmp/keys.psk"
ok "make another key" psktool -u alice -p "$tmp/wrong.psk"

psk ()
{
  echo "nbds+unix://alice@/?socket=$sock&tls-psk-file=$tmp/$1"
}

ok "start, TLS required, certificates" start_daemon --tls require \
  --tls-certificates "$tmp/pki" --plugin "$TEST_PLUGIN"
not_ok "clear text is refused" nbdinfo "$uri"
nbd_tls ()
{
  # Debian's Python has the bindings.
  /usr/bin/python3 -m nbd -c 'h.set_tls(nbd.TLS_REQUIRE)' \
    -c "h.set_tls_certificates('$tmp/$1')" \
    -c 'h.set_tls_verify_peer(False)' -c "h.connect_unix('$sock')" \
    -c 'h.pwrite(b"x" * 300000, 7)' \
    -c 'assert h.pread(300000, 7) == b"x" * 300000' -c 'h.flush()' \
    -c 'h.shutdown()'
}
ok "data through TLS" nbd_tls pki
ok "stop" stop_daemon

ok "start, clients are verified" start_daemon --tls require \
  --tls-certificates "$tmp/pki" --tls-verify-peer --plugin "$TEST_PLUGIN"
ok "a client of the CA" nbd_tls pki
not_ok "a client of another CA" nbd_tls other
like "$(cat "$tmp/daemon.log")" 'TLS refused: .*certificate' \
  "the log tells why"
ok "stop" stop_daemon

ok "start with a pre-shared key" start_daemon --tls require \
  --tls-psk "$tmp/keys.psk" --plugin "$TEST_PLUGIN" size=64M
ok "the key" nbdinfo "$(psk keys.psk)"
not_ok "another key" nbdinfo "$(psk wrong.psk)"
ok "copy through TLS" nbdcopy "$(psk keys.psk)" null:
ok "still serving" nbdinfo "$(psk keys.psk)"
ok "stop" stop_daemon

ok "start, TLS offered" start_daemon --tls on --tls-psk "$tmp/keys.psk" \
  --plugin "$TEST_PLUGIN"
ok "clear text" nbdinfo "$uri"
ok "TLS" nbdinfo "$(psk keys.psk)"
ok "stop" stop_daemon

# Who is cut off while the plugin is slow to open an export stays dead.
leave () # HOW tls|clear
{
  timeout 60 python3 "$abs_top_srcdir/tests/daemon/leave.py" "$sock" \
    "$tmp/control.sock" "$1" "$daemon_pid" "$tmp/plugin.log" "$2"
}
closed ()
{
  local i
  for (( i = 0; i < 100; i++ )); do
    [ "$(plugin_log_count open)" = "$(plugin_log_count close)" ] && return 0
    sleep 0.05
  done
  return 1
}
ok "start, a plugin that is slow to open" start_daemon --tls on \
  --tls-certificates "$tmp/pki" --plugin "$TEST_PLUGIN" open-delay-ms=300 \
  log="$tmp/plugin.log"
for how in tls clear; do
  rm -f "$tmp/plugin.log"
  ok "kicked while its export is opened ($how)" leave kick $how
  ok "what was opened is closed ($how)" closed
  is "$(plugin_log_count opening)" 1 "what it had asked next is not done ($how)"
done
ok "still serving" nbdinfo "$uri"
ok "the server ends meanwhile" leave term tls
ok "as it should" wait "$daemon_pid"
daemon_pid=

fails_with 1 'cannot load' "no such certificates" "$DAEMON" --tls on \
  --tls-certificates "$tmp/nowhere" --plugin memory 1M
fails_with 2 'needs' "TLS without credentials" "$DAEMON" --tls on \
  --plugin memory 1M
done_testing
