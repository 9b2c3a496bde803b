"""A thousand clients on 200 exports; hundreds that never finish their
handshake.  Prints TAP lines without numbers."""
import os
import resource
import socket
import sys

sys.path.insert(0, os.path.dirname(__file__))
from raw import ACK, Raw  # noqa: E402

path = sys.argv[1]
READ, WRITE, DISC = 0, 1, 2


def check(name, good):
    print(("ok" if good else "not ok") + " " + name, flush=True)


soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
if soft < 1200:
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))


def loris():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(path)
    return s


# Slow handshakes, each with one more byte now and then.
slow = [loris() for _ in range(300)]
for s in slow:
    try:
        s.recv(18)
        s.sendall(b"\0")
    except ConnectionError:
        pass                    # cut already, where all of this is slow
c = Raw(path)
kind, _ = c.go("e7")
good = kind == ACK
for i in range(100):
    c.send(WRITE, i * 512, 512, i, data=bytes([i]) * 512)
    good = good and c.answer()[0] == 0
check("300 slow handshakes do not stop a client", good)
for s in slow:
    try:
        s.sendall(b"\0")
    except OSError:
        pass
cut = 0
for s in slow:
    try:
        cut += s.recv(1) == b""
    except ConnectionError:
        cut += 1
    s.close()
check("and are cut (%d)" % cut, cut == len(slow))
c.send(DISC)

clients = []
for i in range(1000):
    c = Raw(path)
    kind, what = c.go("e%d" % (i % 200))
    assert kind == ACK, what
    c.number = i
    clients.append(c)
check("a thousand connections on 200 exports", len(clients) == 1000)
# A block of its own for each of the five of an export.
for c in clients:
    block = bytes([c.number % 251, c.number // 251]) * 2048
    c.send(WRITE, c.number // 200 * 4096, 4096, data=block)
errors = sum(c.answer()[0] for c in clients)
for c in clients:
    c.send(READ, c.number // 200 * 4096, 4096)
wrong = 0
for c in clients:
    error, _, data = c.answer(4096)
    block = bytes([c.number % 251, c.number // 251]) * 2048
    wrong += error != 0 or data != block
check("all write and read at once", errors == 0 and wrong == 0)
for c in clients[::2]:
    c.send(DISC)
for c in clients:
    c.s.close()
