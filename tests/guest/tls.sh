#!/bin/bash
# nbd-client with TLS and certificates; pre-shared keys, which it does not
# know, are in reconnect.sh.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
. "$abs_top_srcdir/tests/daemon/pki.sh"
. "$abs_top_srcdir/tests/guest/lib.sh"
requires_guest certtool fio mkfs.ext4

pool=$tmp/pool.img
ok "make a pool" "$BTRNBD" -d "$pool" mkfs --size 1G
ok "make a volume" "$BTRNBD" -d "$pool" create vm --size 256M
ok "start the guest" start_guest || done_testing
for d in pki other; do
  ok "make a CA ($d)" make_ca "$guest_dir/$d"
  ok "make a server certificate" make_server_cert "$guest_dir/$d"
  ok "make a client certificate" make_client_cert "$guest_dir/$d" client vm1
done

# attach_tls PKI
attach_tls ()
{
  local pki=/run/host/$1
  attach nbd0 vm -b 4096 -enable-tls -cacertfile "$pki/ca-cert.pem" \
    -certfile "$pki/client-cert.pem" -keyfile "$pki/client-key.pem" \
    -tlshostname localhost
}

ok "serve" start_daemon -d "$pool" --tls require --tls-verify-peer \
  --tls-certificates "$guest_dir/pki"
fails_with 1 'TLS is required' "clear text is refused" attach nbd0 vm
not_ok "a certificate of another CA is refused" attach_tls other
like "$(cat "$tmp/daemon.log")" 'TLS refused: ' "and the log tells why"
ok "attach with a certificate" attach_tls pki
ok "a filesystem" guest "
  mkfs.ext4 -q /dev/nbd0 && mount /dev/nbd0 mnt &&
  fio --name=v --directory=mnt --size=24M --rw=randrw --bsrange=4k-128k \
    --ioengine=libaio --iodepth=8 --direct=1 --verify=crc32c --fsync=50 &&
  umount mnt"
ok "it is clean" check_fs nbd0 ext4
ok "detach" detach nbd0
ok "stop" stop_daemon
ok "the pool is clean" check_clean "$pool"
done_testing
