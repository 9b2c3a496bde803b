# Clients that die with requests in flight, again and again.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/nbd/nbd.sh"

img=$tmp/pool.img
ok "make a pool" make_pool "$img" 1G disk0 128M
serve "$img" || { fail "serve"; done_testing; }

py "40 clients vanish with 64 reads queued" <<'PY'
for i in range(40):
    pid = os.fork()
    if pid == 0:
        h = connect()
        bufs = [nbd.Buffer(262144) for j in range(64)]
        for j, b in enumerate(bufs):
            h.aio_pread(b, j * 262144)
        end = time.time() + random.random() * 0.02
        while time.time() < end:
            h.poll(1)
        os._exit(0)
    os.waitpid(pid, 0)
connect().pread(4096, 0)
PY

py "40 clients vanish in the middle of writes" <<'PY'
for i in range(40):
    pid = os.fork()
    if pid == 0:
        h = connect()
        for j in range(64):
            b = nbd.Buffer.from_bytearray(bytearray([i + 1]) * 65536)
            h.aio_pwrite(b, j * 65536)
        end = time.time() + random.random() * 0.02
        while time.time() < end:
            h.poll(1)
        os._exit(0)
    os.waitpid(pid, 0)
h = connect()
for j in range(64 * 16):
    b = h.pread(4096, j * 4096)
    assert b == bytes([b[0]]) * 4096
h.flush()
PY

ok "kill -9 of nbdcopy, 6 times" bash -c "
  for i in 1 2 3 4 5 6; do
    nbdcopy '$(uri disk0)' null: & p=\$!
    sleep 0.0\$i; kill -KILL \$p; wait \$p
  done; true"
ok "the server is still there" kill -0 "$nbdkit_pid"
ok "and answers" nbdinfo "$(uri disk0)"

py "half of a handshake" <<'PY'
import socket
for i in range(30):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sock)
    s.send(b'\0\0\0\3IHAVEOPT'[:i])
    s.close()
connect().flush()
PY
ok "stop" stop_nbdkit
ok "btrfs check" check_clean "$img"
done_testing
