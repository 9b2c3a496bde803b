#!/bin/bash
# btrnbdd and its clients: thread models, limits, drain.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"

# The plugin aborts when it is called against its thread model.
for model in 0 1 2 3; do
  ok "start, thread model $model" start_daemon --plugin "$TEST_PLUGIN" \
    model=$model try=false exports=2
  ok "requests of 3 connections" fio --name=m --ioengine=nbd \
    --uri="$(export_uri e1)" --rw=randrw --bs=4k --size=4M --io_size=4M \
    --numjobs=$([ $model = 0 ] && echo 1 || echo 3) --thread --iodepth=16 \
    --output="$tmp/fio.out"
  ok "stop" stop_daemon
done

# A plugin whose "true" is 4, and that lacks what it says it can.
ok "start an odd plugin" start_daemon --plugin "${TEST_PLUGIN%/*}/btrnbdodd.so"
is "$(timeout 60 python3 - "$abs_top_srcdir/tests/daemon" "$sock" <<'PY'
import struct, sys
sys.path.insert(0, sys.argv[1])
from raw import Raw
c = Raw(sys.argv[2])
print(hex(c.go("")[1][1]), end="")
for what in [(1, 0, 512, 1, 0, bytes(512)), (4, 0, 512), (6, 0, 512),
             (6, 0, 512, 1, 16), (3,), (0, 0, 512)]:
    c.send(*what)
    print("", struct.unpack(">IIQ", c.get(16))[1], end="")
print("", c.get(512) == b"\7" * 512)
PY
)" "0x97d 1 22 1 95 22 0 True" \
  "all that it can is offered; what it lacks is an error (as with nbdkit)"
ok "stop" stop_daemon

# Loops may stay awake between quick requests, not when nothing comes.
ok "start" start_daemon --stay-awake 1000 --plugin "$TEST_PLUGIN"
is "$(timeout 60 python3 - "$sock" "$daemon_pid" <<'PY'
import os, socket, struct, sys, time
def cpu():
    with open(f"/proc/{sys.argv[2]}/stat") as f:
        user, system = f.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(struct.pack(">IQII", 3, 0x49484156454F5054, 1, 2) + b"e0")
def get(n):
    while n > 0:
        n -= len(s.recv(n))
get(28)
end = time.time() + 0.5
while time.time() < end:
    s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, 1, 0, 512))
    get(528)
begin = cpu()
time.sleep(1)
print("idle" if cpu() - begin < 0.05 else f"{cpu() - begin:.2f} s")
PY
)" idle "no CPU time for a client that asks for nothing, after a quick one"
ok "stop" stop_daemon

# A reader that never reads, a handshake that never ends.
ok "start with small limits" start_daemon --handshake-timeout 3 \
  --plugin "$TEST_PLUGIN" size=64M
is "$(python3 - "$sock" <<'PY'
import socket, struct, sys, time
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(sys.argv[1])
    return s
loris = connect()
deaf = connect()
deaf.sendall(struct.pack(">IQII", 3, 0x49484156454F5054, 7, 8)
             + struct.pack(">I", 2) + b"e0" + struct.pack(">H", 0))
deaf.setblocking(False)
n = 0
try:
    while n < 4096:
        deaf.send(struct.pack(">IHHQQI", 0x25609513, 0, 0, n, 0, 1 << 20))
        n += 1
except BlockingIOError:
    pass
loris.recv(18)
t = time.time()
print("cut" if loris.recv(1) == b"" and time.time() - t < 12 else "kept")
PY
)" cut "a handshake that never ends is cut"
rss=$(awk '/VmRSS/ { print $2 }' "/proc/$daemon_pid/status")
ok "a deaf reader holds bounded memory ($rss KiB)" test "$rss" -lt 262144

# Sockets of others.
mv "$sock" "$sock.old"
ok "another server's socket in place of ours" python3 -c '
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(0)
clients = []
try:
    while True:
        clients.append(socket.socket(socket.AF_UNIX))
        clients[-1].setblocking(False)
        clients[-1].connect(sys.argv[1])
except BlockingIOError:
    pass
import subprocess
r = subprocess.run(["timeout", "20", sys.argv[2], "-l", "unix:" + sys.argv[1],
                    "--control", "off", "--plugin", sys.argv[3]],
                   stderr=subprocess.PIPE, text=True)
sys.exit(0 if r.returncode == 1 and "in use" in r.stderr
         else "%d %s" % (r.returncode, r.stderr))
' "$sock" "$DAEMON" "$TEST_PLUGIN"

# Drain.
ok "stop" stop_daemon
ok "a socket that is not ours stays" test -S "$sock"
ok "start" start_daemon --drain-timeout 2 --plugin "$TEST_PLUGIN" \
  delay-ms=300
is "$(python3 - "$sock" "$daemon_pid" <<'PY'
import os, signal, socket, struct, sys, time
s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
s.connect(sys.argv[1])
s.sendall(struct.pack(">IQII", 3, 0x49484156454F5054, 1, 2) + b"e0")
def get(n):
    d = b""
    while len(d) < n:
        m = s.recv(n - len(d))
        if not m:
            return d
        d += m
    return d
get(28)
idle = socket.socket(socket.AF_UNIX)
idle.connect(sys.argv[1])
for i in range(8):
    s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 1, i, 0, 512)
              + bytes(512))
time.sleep(0.1)
os.kill(int(sys.argv[2]), signal.SIGTERM)
print(len(get(8 * 16 + 1)) // 16)
PY
)" 8 "SIGTERM: what was asked is answered"
wait "$daemon_pid"
is $? 0 "and the status is 0"
daemon_pid=
done_testing
