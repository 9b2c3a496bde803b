"""The limits in limits.sh, seen by clients.  Prints TAP lines without
numbers.  What is counted holds on a slow machine too."""
import errno
import os
import select
import signal
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(__file__))
from raw import ACK, REQUEST, Raw  # noqa: E402

sock, conf, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
READ, WRITE, DISC, FLUSH = 0, 1, 2, 3


def check(name, good):
    print(("ok" if good else "not ok") + " " + name, flush=True)


def opened(name):
    c = Raw(sock)
    kind, what = c.go(name)
    assert kind == ACK, what
    c.done = 0
    return c


def take(c, length=512):
    error, _, _ = c.answer(length)
    assert error == 0, error
    c.done += 1


def readable(c):
    return bool(select.select([c.s], [], [], 0)[0])


def rewrite(change):
    with open(conf) as f:
        text = f.read()
    with open(conf, "w") as f:
        f.write(change(text))
    os.kill(pid, signal.SIGHUP)


# Rates: never more than the time that went by allows.
c = opened("e1")
begin = time.monotonic()
for i in range(120):
    c.send(READ, 0, 512, i)
worst = 0
for i in range(120):
    take(c)
    worst = max(worst, c.done - (time.monotonic() - begin) * 100)
check("100 operations a second, not more", worst <= 12)
c.send(DISC)

c = opened("e2")
begin = time.monotonic()
for i in range(40):
    c.send(READ, 0, 131072, i)
worst = 0
for i in range(40):
    take(c, 131072)
    worst = max(worst, c.done * 131072 - (time.monotonic() - begin)
                * (4 << 20))
check("4 MiB a second, not more", worst <= 0.1 * (4 << 20) + 2 * 131072)
# What is refused costs no bytes: this would be ten minutes.
for i in range(40):
    c.send(READ, 0, 1 << 30, i)
for i in range(40):
    assert c.answer()[0] == errno.EINVAL
c.send(READ, 0, 512)
take(c)
check("a request that is refused is not paid for", True)
c.send(DISC)

# All memory is taken by writes that do not arrive: whoever holds nothing gets
# on all the same, one request at a time.
x, y, c = opened("e0"), opened("e0"), opened("e5")
for w in (x, y):
    w.s.sendall(struct.pack(">IHHQQI", REQUEST, 0, READ, 0, 0, 512)
                + struct.pack(">IHHQQI", REQUEST, 0, WRITE, 1, 0, 64 << 20))
    take(w)
c.s.sendall(b"".join(struct.pack(">IHHQQI", REQUEST, 0, READ, i, 0, 512)
                     for i in range(20)))
for i in range(20):
    take(c)
check("requests that memory held back go on", True)
for w in (x, y, c):
    w.s.close()

# One that waits stops nobody else, and is not overtaken for ever.
a, b, other = opened("e3"), opened("e3"), opened("e5")
for i in range(4):
    b.send(READ, 0, 512, i)
while not readable(b):
    pass # the server has them; one is not held up
for i in range(100):
    a.send(READ, 0, 512, i)
for i in range(2000):
    other.send(READ, 0, 512, i)
    take(other)
check("another export is served meanwhile", not readable(a) or a.done < 100)
while b.done < 3:
    ready, _, _ = select.select([a.s, b.s], [], [], 60)
    assert ready
    for c in (a, b):
        if c.s in ready:
            take(c)
check("one with many requests does not get ahead (%d, %d)"
      % (a.done, b.done), a.done <= b.done + 3)

# A limit that is lifted lets go those that wait for it.
rewrite(lambda text: text.replace("iops = 1\n", "iops = 1000000\n"))
while a.done < 100:
    take(a)
while b.done < 4:
    take(b)
check("a reload lifts the limit for those that wait", True)

# Read-only from now on, and not any more.
w = opened("e0")
w.send(WRITE, 0, 512, 1, data=bytes(512))
assert w.answer()[0] == 0
rewrite(lambda text: text + "[export e0]\nreadonly = yes\n")
for i in range(6000):
    w.send(WRITE, 0, 512, 1, data=bytes(512))
    error = w.answer()[0]
    if error:
        break
    time.sleep(0.01)
check("an export becomes read-only under its client", error == errno.EPERM)
w.send(READ, 0, 512)
take(w)
kind, what = Raw(sock).go("e0")
check("and says so to the next", kind == ACK and what[1] & 2)
rewrite(lambda text: text.replace("readonly = yes", "readonly = no"))
for i in range(6000):
    w.send(WRITE, 0, 512, 1, data=bytes(512))
    error = w.answer()[0]
    if not error:
        break
    time.sleep(0.01)
check("and writable again", error == 0)

# Connections.
x, y = opened("e4"), opened("e4")
kind, what = Raw(sock).go("e4")
check("a third client of two is refused, and told why",
      kind != ACK and "2 clients" in what)
c = Raw(sock)
c.opt(6, b"\0\0\0\2e4\0\0")
while True:
    kind, what = c.reply()
    if kind != 3:
        break
check("asking about the export is not a connection", kind == ACK)
y.send(DISC)
for i in range(6000):
    kind, what = Raw(sock).go("e4")
    if kind == ACK:
        break
    time.sleep(0.01)
check("when one leaves another may come", kind == ACK)

# Access that is withdrawn ends the connection, and only that one.
rewrite(lambda text: text + "[export e5]\nallow = none\n")
other.s.settimeout(60)
check("a client that may no longer is let go", other.s.recv(1) == b"")
x.send(READ, 0, 512)
take(x)
check("others stay", True)

# A bad file changes nothing.
rewrite(lambda text: text.replace("[export e5]\nallow = none\n", "nonsense"))
log = os.path.join(os.path.dirname(conf), "daemon.log")
for i in range(6000):
    with open(log) as f:
        if "nothing is changed" in f.read():
            break
    time.sleep(0.01)
check("a bad file changes nothing", Raw(sock).go("e5")[0] != ACK)
rewrite(lambda text: text.replace("nonsense", ""))

# The end does not wait for rates.
rewrite(lambda text: text.replace("iops = 1000000", "iops = 1"))
for i in range(6000):
    if Raw(sock).go("e5")[0] == ACK:
        break
    time.sleep(0.01)
d = opened("e3")
d.done = 0
for i in range(100):
    d.send(READ, 0, 512, i)
take(d)
os.kill(pid, signal.SIGTERM)
try:
    while True:
        take(d)
except EOFError:
    pass
check("at the end all that was asked is answered", d.done == 100)
