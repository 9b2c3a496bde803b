#!/bin/bash
# SIGHUP under load: exports, listeners and certificates change, clients do
# not notice.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
. "$abs_top_srcdir/tests/daemon/pki.sh"
requires fio

conf=$tmp/btrnbd.conf
raw () { python3 "$abs_top_srcdir/tests/daemon/raw.py" "$@"; }
reads () { [ "$(grep -c "$2" "$tmp/daemon.log")" -ge "$1" ]; }
# reload [TEXT]: until the log has one more line with it.
reload ()
{
  local text=${1:-configuration read again} before
  before=$(grep -c "$text" "$tmp/daemon.log")
  kill -HUP "$daemon_pid"
  wait_until 60 reads $((before + 1)) "$text"
}

# --- under load ---

# Every number is another configuration.
write_config ()
{
  {
    echo "[server]"
    echo "listen = unix:$tmp/always.sock"
    (( $1 % 2 )) && echo "listen = unix:$tmp/odd.sock"
    echo "max-requests = $((64 + $1))"
    echo "idle-timeout = $((1000 * ($1 % 2)))"
    echo "[plugin $TEST_PLUGIN]"
    echo "exports = 8"
    echo "[export e5]"
    (( $1 % 2 )) && echo "allow = any" || echo "allow = none"
    echo "[export e$(( $1 % 4 ))]"
    echo "iops = $((100000 + $1))"
    echo "max-connections = $((10 + $1))"
  } >"$conf.new"
  mv "$conf.new" "$conf"
}
odd_export () { [ "$(raw "$sock" go e5 | cut -d' ' -f1)" = "$1" ]; }

write_config 0
ok "start" start_daemon -c "$conf"
load=()
for i in 0 1 2 3; do
  fio --name=v$i --ioengine=nbd --rw=randwrite --bs=4k --size=4M \
    --uri="nbd+unix:///e$i?socket=$tmp/always.sock" --thread --iodepth=8 \
    --time_based --runtime=6 --verify=crc32c --output="$tmp/fio$i.out" &
  load+=($!)
done
bad=0
for (( n = 1; n <= 40; n++ )); do
  write_config $n
  reload || { bad=$n; break; }
  if (( n % 2 )); then
    [ -S "$tmp/odd.sock" ] && odd_export open || { bad=$n; break; }
    nbdinfo "nbd+unix:///?socket=$tmp/odd.sock" >/dev/null || bad=$n
  else
    [ ! -e "$tmp/odd.sock" ] && odd_export refused || { bad=$n; break; }
  fi
done
is $bad 0 "40 reloads take effect"
for i in 0 1 2 3; do
  wait "${load[i]}"
  is $? 0 "client $i did not notice"
done
is "$(ls "/proc/$daemon_pid/fd" | wc -l)" \
  "$(reload && ls "/proc/$daemon_pid/fd" | wc -l)" "no descriptor leaked"

# --- what is wrong changes nothing ---

echo "listen = unix:$tmp/late.sock" >>"$conf"
reload "nothing is changed: $conf:[0-9]*: listen: an export has no such"
is $? 0 "a setting in the wrong place"
write_config 1
sed -i "s,^max-requests.*,listen = unix:$tmp/no/such/dir/sock," "$conf"
reload "nothing is changed: unix:$tmp/no/such/dir/sock: No such file"
is $? 0 "a socket that cannot be"
[ ! -e "$tmp/odd.sock" ]; is $? 0 "and none of the others was made"
sed -i "s,^listen = unix:$tmp/no.*,loops = 7," "$conf"
reload "read again; loops: changed, which takes effect at the next start"
is $? 0 "what needs a start says so"
sed -i "s,^exports = 8,exports = 9," "$conf"
reload "read again; the pool or plugin and its parameters: changed"
is $? 0 "so do parameters"
rm "$conf"
reload "nothing is changed: $conf: No such file"
is $? 0 "the file is gone"
ok "still serving" nbdinfo "nbd+unix:///?socket=$tmp/always.sock"
ok "stop" stop_daemon

# --- certificates ---

have_gnutls || { lacks "certificates" "no gnutls-bin"; done_testing; }
ok "make a CA" make_ca "$tmp/pki"
ok "a certificate" make_server_cert "$tmp/pki"
cert_now ()
{
  python3 - "$abs_top_srcdir/tests/daemon" "$sock" <<'PY'
import hashlib, ssl, sys
sys.path.insert(0, sys.argv[1])
from raw import ACK, Raw
c = Raw(sys.argv[2])
c.opt(5)
kind, text = c.reply()
if kind != ACK:
    print("no TLS")
    sys.exit()
x = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
x.check_hostname = False
x.verify_mode = ssl.CERT_NONE
s = x.wrap_socket(c.s)
print(hashlib.sha256(s.getpeercert(True)).hexdigest())
PY
}
cert_of ()
{
  certtool --certificate-info --infile "$tmp/pki/server-cert.pem" --outder |
    sha256sum | cut -d' ' -f1
}
cat >"$conf" <<END
[server]
tls = require
tls-certificates = $tmp/pki
[plugin $TEST_PLUGIN]
size = 8M
END
ok "start" start_daemon -c "$conf"
first=$(cert_of)
is "$(cert_now)" "$first" "the certificate"
mkfifo "$tmp/go"
/usr/bin/python3 - "$sock" "$tmp/pki" "$tmp/go" <<'PY' &
import nbd, sys
h = nbd.NBD()
h.set_tls(nbd.TLS_REQUIRE)
h.set_tls_certificates(sys.argv[2])
h.set_tls_verify_peer(False)
h.connect_unix(sys.argv[1])
h.pwrite(b"x" * 300000, 5)
open(sys.argv[3], "w").write("1")
open(sys.argv[3], "r").read()
assert h.pread(300000, 5) == b"x" * 300000
h.shutdown()
PY
client=$!
read -r _ <"$tmp/go"
ok "a new certificate" make_server_cert "$tmp/pki"
isnt=$(cert_of)
reload; is $? 0 "renewal"
is "$(cert_now)" "$isnt" "new clients see the new one"
[ "$first" != "$isnt" ]; is $? 0 "which is another"
cp "$tmp/pki/ca-key.pem" "$tmp/pki/server-key.pem"
reload "nothing is changed: TLS: cannot load .*server-cert.pem"
is $? 0 "a key that does not fit is refused"
is "$(cert_now)" "$isnt" "and the good one stays"
echo 1 >"$tmp/go"
wait $client; is $? 0 "a client from before did not notice"
sed -i '/^tls/d' "$conf"
reload; is $? 0 "TLS off"
is "$(cert_now)" "no TLS" "it is not offered any more"
ok "clear text" nbdinfo "$uri"
ok "stop" stop_daemon
done_testing
