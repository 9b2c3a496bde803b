# SIGTERM ends the server within 5 seconds with status 0, whatever its clients
# do, and what they were told is written is there.  SIGHUP does not end it.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/nbd/nbd.sh"

img=$tmp/pool.img
ok "make a pool" make_pool "$img" 1G disk0 128M

# ends_in_time NAME
ends_in_time ()
{
  local start end status
  start=$(date +%s%N)
  kill -"${2:-TERM}" "$nbdkit_pid"
  wait "$nbdkit_pid"
  status=$?
  end=$(date +%s%N)
  is "$status" 0 "$1: exit status" || diag "$(tail -n 20 "$nbdkit_log")"
  # Clients that hold it up stay for a minute.
  (( end - start < 30000000000 )) && pass "$1: in time" ||
    fail "$1: in time: $(( (end - start) / 1000000 )) ms"
}

serve "$img" || { fail "serve"; done_testing; }
ends_in_time "no client"
serve "$img" || { fail "serve"; done_testing; }
ends_in_time "SIGINT" INT

serve "$img" || { fail "serve"; done_testing; }
kill -HUP "$nbdkit_pid"
sleep 0.3
ok "SIGHUP does not end it" nbdinfo "$(uri disk0)"

# idle clients, one of them in the handshake
cat >"$tmp/idle.py" <<'PY'
import nbd, os, socket, sys, time
sock = sys.argv[1]
hs = []
for i in range(4):
    h = nbd.NBD()
    h.set_export_name('disk0')
    h.connect_unix(sock)
    hs.append(h)
hs[0].pwrite(b'idle' * 1024, 0)
s = socket.socket(socket.AF_UNIX)
s.connect(sock)
open(sys.argv[2], 'w').close()
time.sleep(60)
PY
/usr/bin/python3 "$tmp/idle.py" "$nbdkit_sock" "$tmp/idle.ready" &
idle=$!
cleanup_fn stop_pid "$idle"
ok "idle clients" wait_until 60 test -e "$tmp/idle.ready"
ends_in_time "idle clients"
kill "$idle" 2>/dev/null; wait "$idle" 2>/dev/null

serve "$img" || { fail "serve"; done_testing; }
py "an unflushed write is there" <<'PY'
assert connect().pread(4096, 0) == b'idle' * 1024
PY

# busy clients: every acknowledged write is there afterwards
cat >"$tmp/busy.py" <<'PY'
import nbd, os, sys, threading
sock, out, ready = sys.argv[1:]
acked = {}
lock = threading.Lock()
def work(k):
    h = nbd.NBD()
    h.set_export_name('disk0')
    h.connect_unix(sock)
    base = (k + 1) << 24
    n = 0
    try:
        while True:
            off = base + (n * 4096) % (1 << 23)
            v = (n * 7 + k) % 255 + 1
            h.pwrite(bytes([v]) * 4096, off)
            with lock:
                acked[off] = v
            n += 1
            if n == 200 and k == 0:
                open(ready, 'w').close()
    except nbd.Error:
        pass
ts = [threading.Thread(target=work, args=(k,)) for k in range(4)]
for t in ts: t.start()
for t in ts: t.join()
with open(out, 'w') as f:
    for off, v in acked.items():
        f.write('%d %d\n' % (off, v))
PY
timeout 60 /usr/bin/python3 "$tmp/busy.py" "$nbdkit_sock" "$tmp/acked" \
        "$tmp/busy.ready" &
busy=$!
cleanup_fn stop_pid "$busy"
ok "busy clients" wait_until 60 test -e "$tmp/busy.ready"
ends_in_time "busy clients"
ok "they notice" wait_until 60 test -s "$tmp/acked"
wait "$busy"
serve "$img" || { fail "serve"; done_testing; }
# A write that was under way when the server ended may be there or not; it is
# the one behind the last that was acknowledged.
py "every acknowledged write is there" ACKED="$tmp/acked" <<'PY'
h = connect()
acked = [tuple(map(int, l.split())) for l in open(os.environ['ACKED'])]
assert len(acked) >= 200
wrong = []
for off, v in acked:
    b = h.pread(4096, off)
    assert b == bytes([b[0]]) * 4096
    if b[0] != v:
        wrong.append((off, v, b[0]))
assert len(wrong) <= 4, wrong[:10]
for off, v, got in wrong:   # overwritten by the next round, not lost
    assert (got - 1 - (v - 1)) % 255 == (2048 * 7) % 255, (off, v, got)
PY

# a client that queues requests and takes no reply
cat >"$tmp/deaf.py" <<'PY'
import nbd, socket, struct, sys, time
sock, ready = sys.argv[1:]
s = socket.socket(socket.AF_UNIX)
s.connect(sock)
def need(n):
    b = b''
    while len(b) < n:
        b += s.recv(n - len(b))
    return b
need(18)
s.sendall(struct.pack('>I', 3))
body = struct.pack('>I', 5) + b'disk0' + struct.pack('>H', 0)
s.sendall(b'IHAVEOPT' + struct.pack('>II', 7, len(body)) + body)
while True:
    magic, opt, typ, n = struct.unpack('>QIII', need(20))
    need(n)
    if typ == 1:
        break
for i in range(64):
    s.sendall(struct.pack('>IHHQQI', 0x25609513, 0, 0, i, 0, 1 << 20))
open(ready, 'w').close()
time.sleep(60)
PY
/usr/bin/python3 "$tmp/deaf.py" "$nbdkit_sock" "$tmp/deaf.ready" &
deaf=$!
cleanup_fn stop_pid "$deaf"
ok "a client that takes no reply" wait_until 60 test -e "$tmp/deaf.ready"
ends_in_time "a client that takes no reply"
kill "$deaf" 2>/dev/null; wait "$deaf" 2>/dev/null

# What follows is about nbdkit's own ways to be started.
[ -z "${BTRNBD_HOST:-}" ] || done_testing

# over TCP, in the background
free_port
ok "TCP, in the background" nbdkit -i 127.0.0.1 -p "$port" -P "$tmp/bg.pid" \
   "$PLUGIN" "$img"
# It is written in the background, too.
wait_until 60 test -s "$tmp/bg.pid"
pid=$(cat "$tmp/bg.pid")
cleanup_fn stop_pid "$pid"
wait_until 60 nbdinfo "nbd://127.0.0.1:$port/disk0"
/usr/bin/python3 -c '
import nbd, sys, time
h = nbd.NBD()
h.set_export_name("disk0")
h.connect_tcp("127.0.0.1", sys.argv[1])
h.pwrite(b"tcp." * 1024, 1 << 20)
open(sys.argv[2], "w").close()
time.sleep(60)' "$port" "$tmp/tcp.ready" &
tcp=$!
cleanup_fn stop_pid "$tcp"
ok "a client" wait_until 60 test -e "$tmp/tcp.ready"
kill "$pid"
ok "it ends" wait_until 60 eval "! kill -0 $pid"
kill "$tcp" 2>/dev/null; wait "$tcp" 2>/dev/null
serve "$img" || { fail "serve"; done_testing; }
py "the write is there" <<'PY'
assert connect().pread(4096, 1 << 20) == b'tcp.' * 1024
PY
ok "stop" stop_nbdkit

# the two ways to be started with a socket
py "nbdkit -s, and socket activation" PLUGIN="$PLUGIN" IMG="$img" <<'PY'
import signal
def ends(h):
    pid = int(os.popen('pgrep -P %d nbdkit' % os.getpid()).read().split()[0])
    start = time.time()
    os.kill(pid, signal.SIGTERM)
    assert os.waitpid(pid, 0)[1] == 0
    assert time.time() - start < 5
def start(how, *args):
    h = nbd.NBD()
    h.set_export_name('disk0')
    getattr(h, how)(['nbdkit', *args, os.environ['PLUGIN'],
                     os.environ['IMG']])
    return h
h = start('connect_command', '-s', '--exit-with-parent')
h.pwrite(b's' * 4096, 0)
ends(h)
h = start('connect_systemd_socket_activation')
assert h.pread(4096, 0) == b's' * 4096
h.pwrite(b'a' * 4096, 0)
ends(h)
h = start('connect_systemd_socket_activation')
assert h.pread(4096, 0) == b'a' * 4096
ends(h)
PY
ok "btrfs check" check_clean "$img"
done_testing
