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
fails_with 1 'cannot load' "no such certificates" "$DAEMON" --tls on \
  --tls-certificates "$tmp/nowhere" --plugin memory 1M
fails_with 2 'needs' "TLS without credentials" "$DAEMON" --tls on \
  --plugin memory 1M
done_testing
