#!/bin/bash
# Who may open which export: by user, address, certificate and key; what a
# peer may not open does not exist for it.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
. "$abs_top_srcdir/tests/daemon/pki.sh"

conf=$tmp/btrnbd.conf
me=$(id -u)
raw () { python3 "$abs_top_srcdir/tests/daemon/raw.py" "$@"; }
# What a refusal says, without the name that was asked for.
refusal () { raw "$@" | sed "s/\"[^\"]*\"/NAME/"; }
unknown="refused 0x80000006 there is no such export for you"

# --- users ---

cat >"$conf" <<END
[plugin $TEST_PLUGIN]
exports = 6
size = 1M
[export e1]
allow = uid:$me
[export e2]
allow = uid:$((me + 1)) uid:$((me + 2))
[export e3]
allow = tcp
[export e4]
readonly = yes
[export e5]
allow = none
END
ok "start" start_daemon -c "$conf"
is "$(raw "$sock" list | tr '\n' ' ')" "e0 e1 e4 " "what is listed for me"
is "$(raw "$sock" go e0)" "open 1048576 rw" "an export without a rule"
is "$(raw "$sock" go e1)" "open 1048576 rw" "mine"
is "$(raw "$sock" go e4)" "open 1048576 ro" "one that is read-only"
for name in e2 e3 e5 no-such-export; do
  is "$(raw "$sock" go $name)" "$unknown" "$name does not exist"
done
fails_with 1 "Operation not permitted" "e4 is not written to" \
  /usr/bin/python3 -c "
import nbd
h = nbd.NBD ()
h.set_strict_mode (0)
h.connect_uri ('$(export_uri e4)')
h.pwrite (bytes (512), 0)"
if [ "$me" = 0 ] && command -v setpriv >/dev/null; then
  chmod 777 "$sock"
  chmod 755 "$tmp"
  other () { setpriv --reuid "$1" --regid 65534 --clear-groups \
               /usr/bin/python3 "$abs_top_srcdir/tests/daemon/raw.py" \
               "$sock" list |
               tr '\n' ' '; }
  # The source may lie where others do not come.
  if setpriv --reuid 1 --regid 65534 --clear-groups \
       test -r "$abs_top_srcdir/tests/daemon/raw.py"; then
    is "$(other 1)" "e0 e2 e4 " "what is listed for uid 1"
    is "$(other 3)" "e0 e4 " "what is listed for uid 3"
  else
    skip "another user" "the source is not readable for others"
  fi
else
  lacks "another user" "needs root"
fi
ok "stop" stop_daemon

# --- the image of a pool shows what others hold ---

image=$tmp/image.img
ok "make a pool" "$BTRNBD" -d "$image" mkfs --size 256M
ok "with a volume" "$BTRNBD" -d "$image" create vm1 --size 1M
image_for ()
{
  printf '%s\n' "[pool main]" "device = $image" "${@:2}" >"$conf"
  ok "$1: start" start_daemon -c "$conf" --plugin-dir "${PLUGIN%/*}"
}
image_for "no rules"
is "$(raw "$sock" list | tr '\n' ' ')" "vm1 @pool " "no rules: listed"
is "$(raw "$sock" go @pool)" "open 268435456 ro" "no rules: opened"
ok "stop" stop_daemon
image_for "all are let in" "[export *]" "allow = any" "[export vm1]" \
  "allow = uid:$me"
is "$(raw "$sock" go @pool)" "open 268435456 ro" "all are let in: opened"
ok "stop" stop_daemon
image_for "one is hidden" "[export *]" "allow = any" "[export vm2]" \
  "allow = uid:$((me + 1))"
is "$(raw "$sock" list | tr '\n' ' ')" "vm1 " "one is hidden: not listed"
is "$(raw "$sock" go @pool)" "$unknown" "one is hidden: refused"
ok "stop" stop_daemon
image_for "a rule of its own" "[export vm1]" "allow = none" "[export @pool]" \
  "allow = uid:$me"
is "$(raw "$sock" list | tr '\n' ' ')" "@pool " "a rule of its own: listed"
is "$(raw "$sock" go @pool/1)" "open 268435456 ro" \
  "a rule of its own: under its other name"
ok "stop" stop_daemon
image_for "not for me" "[export @pool]" "allow = none"
is "$(raw "$sock" go @pool/1)" "$unknown" "not for me: refused"
is "$(raw "$sock" go vm1)" "open 1048576 rw" "not for me: but all else"
ok "stop" stop_daemon

# --- patterns: each setting from the most special section that has it ---

cat >"$conf" <<END
[plugin $TEST_PLUGIN]
exports = 12
size = 1M
[export *]
allow = none
[export e1*]
allow = any
readonly = yes
[export e11]
readonly = no
[export e10]
allow = none
END
ok "start" start_daemon -c "$conf"
is "$(raw "$sock" list | tr '\n' ' ')" "e1 e11 " "patterns"
is "$(raw "$sock" go e1)" "open 1048576 ro" "what a pattern says"
is "$(raw "$sock" go e11)" "open 1048576 rw" "and what a name says"
is "$(raw "$sock" go "")" "$unknown" "the default export is e0, and hidden"
ok "stop" stop_daemon

# --- addresses ---

free_port
cat >"$conf" <<END
[server]
listen = 0.0.0.0:$port
[plugin $TEST_PLUGIN]
exports = 5
[export e1]
allow = addr:127.0.0.2
[export e2]
allow = addr:127.0.0.0/30 unix
[export e3]
allow = addr:127.0.0.5/32&tcp addr:::/0
[export e4]
allow = unix
END
ok "start" start_daemon -c "$conf"
is "$(raw "127.0.0.1:$port" list | tr '\n' ' ')" "e0 e2 " "127.0.0.1"
is "$(raw --from 127.0.0.2 "127.0.0.1:$port" list | tr '\n' ' ')" \
  "e0 e1 e2 " "127.0.0.2"
is "$(raw --from 127.0.0.5 "127.0.0.1:$port" list | tr '\n' ' ')" \
  "e0 e3 " "127.0.0.5"
is "$(raw "$sock" list | tr '\n' ' ')" "e0 e2 e4 " "the unix socket"
is "$(refusal "127.0.0.1:$port" go e1)" "$unknown" "by its name neither"
ok "stop" stop_daemon
if (exec 3<>/dev/tcp/::1/1) 2>&1 | grep -q refused; then
  cat >"$conf" <<END
[server]
listen = [::1]:$port
[plugin $TEST_PLUGIN]
exports = 4
[export e1]
allow = addr:::1
[export e2]
allow = addr:::/64
[export e3]
allow = addr:0.0.0.0/0 addr:fe80::/10
END
  ok "start on IPv6" start_daemon -c "$conf"
  is "$(raw "[::1]:$port" list | tr '\n' ' ')" "e0 e1 e2 " "::1"
  ok "stop" stop_daemon
else
  skip "IPv6" "this machine has none"
fi

# --- volumes of a pool: another way to say a name is no way around a rule ---

if [ -e "$PLUGIN" ]; then
  ok "mkfs" "$BTRNBD" -d "$tmp/pool.img" mkfs --size 512M
  ok "a volume" "$BTRNBD" -d "$tmp/pool.img" create vm1 --size 1M
  ok "another" "$BTRNBD" -d "$tmp/pool.img" create vm2 --size 2M
  ok "a directory" "$BTRNBD" -d "$tmp/pool.img" mkdir dir
  head -c 4096 /dev/zero >"$tmp/file"
  ok "a file" "$BTRNBD" -d "$tmp/pool.img" put "$tmp/file" dir/disk
  cat >"$conf" <<END
[server]
plugin-dir = ${PLUGIN%/*}
[pool p]
device = $tmp/pool.img
[export vm1]
allow = none
END
  ok "start a pool" start_daemon -c "$conf"
  is "$(raw "$sock" list | tr '\n' ' ')" "vm2 dir/disk " "its list"
  for name in vm1 /vm1 vm1/ //vm1// vm1/disk /vm1//disk/; do
    is "$(raw "$sock" go $name)" "$unknown" "$name is hidden"
  done
  is "$(raw "$sock" go /vm2)" "open 2097152 rw" "/vm2 is not"
  is "$(raw "$sock" go vm2/disk)" "open 2097152 rw" "nor vm2/disk"
  is "$(raw "$sock" go dir//disk)" "open 4096 rw" "a file of that name"
  ok "stop" stop_daemon
fi

# --- certificates and keys ---

have_gnutls || { lacks "certificates and keys" "no gnutls-bin"; done_testing; }
ok "make a CA" make_ca "$tmp/pki"
ok "a server's certificate" make_server_cert "$tmp/pki"
for name in alice bob; do
  ok "$name's certificate" make_client_cert "$tmp/pki" $name "$name"
  mkdir "$tmp/$name"
  cp "$tmp/pki/ca-cert.pem" "$tmp/$name/"
  cp "$tmp/pki/$name-cert.pem" "$tmp/$name/client-cert.pem"
  cp "$tmp/pki/$name-key.pem" "$tmp/$name/client-key.pem"
done
cat >"$conf" <<END
[server]
tls = on
tls-certificates = $tmp/pki
tls-verify-peer = yes
[plugin $TEST_PLUGIN]
exports = 6
[export e1]
allow = cn:alice
[export e2]
allow = "cn:bob"
[export e3]
allow = dn:CN=alice cn:bob&unix
[export e4]
allow = tls
[export e5]
allow = cn:bob&tcp
END
# The names that a client in TLS sees.
tls_list ()
{
  /usr/bin/python3 - "$@" <<'PY'
import nbd, sys
h = nbd.NBD()
h.set_tls(nbd.TLS_REQUIRE)
h.set_tls_verify_peer(False)
if sys.argv[2] == "psk":
    h.set_tls_username(sys.argv[4])
    h.set_tls_psk_file(sys.argv[3])
else:
    h.set_tls_certificates(sys.argv[3])
h.set_opt_mode(True)
h.connect_unix(sys.argv[1])
names = []
h.opt_list(lambda name, description: names.append(name))
print(" ".join(names))
PY
}
ok "start" start_daemon -c "$conf"
is "$(tls_list "$sock" x509 "$tmp/alice")" "e0 e1 e3 e4" "alice"
is "$(tls_list "$sock" x509 "$tmp/bob")" "e0 e2 e3 e4" "bob"
is "$(raw "$sock" list | tr '\n' ' ')" "e0 " "somebody in clear text"
nbd_alice ()
{
  /usr/bin/python3 -c '
import nbd, sys
h = nbd.NBD()
h.set_tls(nbd.TLS_REQUIRE)
h.set_tls_verify_peer(False)
h.set_tls_certificates(sys.argv[2])
h.set_export_name("e1")
h.connect_unix(sys.argv[1])
h.shutdown()' "$sock" "$tmp/alice"
}
ok "alice opens hers" nbd_alice
ok "the log tells who" grep -q '"e1" attached with TLS (certificate CN=alice)' \
  "$tmp/daemon.log"
ok "stop" stop_daemon

ok "alice's key" psktool -u alice -p "$tmp/keys.psk"
ok "bob's key" psktool -u bob -p "$tmp/keys.psk"
cat >"$conf" <<END
[server]
tls = on
tls-psk = $tmp/keys.psk
[plugin $TEST_PLUGIN]
exports = 4
[export e1]
allow = psk:alice
[export e2]
allow = psk:bob
[export e3]
allow = psk:bob uid:$me&tls
END
ok "start" start_daemon -c "$conf"
is "$(tls_list "$sock" psk "$tmp/keys.psk" alice)" "e0 e1 e3" "alice's key"
is "$(tls_list "$sock" psk "$tmp/keys.psk" bob)" "e0 e2 e3" "bob's key"
is "$(raw "$sock" list | tr '\n' ' ')" "e0 " "somebody in clear text"
ok "stop" stop_daemon
done_testing
