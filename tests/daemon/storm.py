"""Clients that are killed at random points while four others verify data.

  storm.py SOCKET KILLS SEED [CA-CERTIFICATE]

Victims are processes: they handshake (some through TLS), read, write, list
and send halves of requests until SIGKILL.  Prints TAP lines without numbers.
"""
import os
import random
import signal
import ssl
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(__file__))
from raw import ACK, OPTS, REQUEST, Raw  # noqa: E402

path, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
tls = len(sys.argv) > 4
READ, WRITE, DISC, FLUSH, TRIM, ZERO = 0, 1, 2, 3, 4, 6
SIZE = 4 << 20
AT_ONCE = 12


def check(name, good):
    print(("ok" if good else "not ok") + " " + name, flush=True)


# --- those that must not notice ---

stop = threading.Event()


def verify(number, result):
    """Writes and reads blocks of an export of its own, eight at a time."""
    r = random.Random(number)
    c = Raw(path)
    kind, what = c.go("e%d" % number)
    assert kind == ACK, what
    there = {}
    errors = operations = 0
    while not stop.is_set():
        at = r.sample(range(SIZE // 4096), 8)
        for i, block in enumerate(at):
            if r.random() < 0.5:
                there[block] = r.randbytes(64) * 64
                c.send(WRITE, block * 4096, 4096, i, data=there[block])
            else:
                c.send(READ, block * 4096, 4096, 8 + i)
        for _ in at:
            error, cookie, _ = c.answer()
            operations += 1
            if error:
                errors += 1
            elif cookie >= 8:
                block = at[cookie - 8]
                data = c.get(4096)
                if data != there.setdefault(block, data):
                    errors += 1
    c.send(DISC)
    result[number] = (errors, operations)


# --- those that die ---

def victim(r):
    c = Raw(path)
    if tls and r.random() < 0.3:
        c.opt(5)
        assert c.reply()[0] == ACK
        x = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        x.check_hostname = False
        x.verify_mode = ssl.CERT_NONE
        c.s = x.wrap_socket(c.s)
    if r.random() < 0.2:
        c.list()
    if r.random() < 0.1:
        # Half an option, for ever.
        c.s.sendall(struct.pack(">QII", OPTS, 7, 100) + bytes(50))
        signal.pause()
    c.go("e%d" % r.randrange(4, 8))
    flying = 0
    while True:
        kind = r.random()
        if kind < 0.4:
            c.send(READ, r.randrange(SIZE - 262144), r.randrange(262144))
        elif kind < 0.8:
            n = r.randrange(262144)
            c.send(WRITE, r.randrange(SIZE - n), n, flags=r.randrange(2),
                   data=bytes(n))
        elif kind < 0.9:
            c.send(r.choice((FLUSH, TRIM, ZERO)), 0, 0)
        else:
            c.s.sendall(struct.pack(">IHH", REQUEST, 0, 0)[:r.randrange(9)])
        flying += 1
        if flying > 20 and r.random() < 0.5:
            c.s.recv(65536)


def spawn(r):
    if r.random() < 0.1:
        return os.posix_spawnp(
            "nbdcopy", ["nbdcopy", "nbd+unix:///e%d?socket=%s"
                        % (r.randrange(4, 8), path), "null:"], os.environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY,
                           0)])
    child_seed = r.random()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            victim(random.Random(child_seed))
        except BaseException:
            pass
        os._exit(0)
    return pid


def storm():
    r = random.Random(seed)
    living = []
    for n in range(kills):
        living.append(spawn(r))
        if len(living) >= AT_ONCE:
            time.sleep(r.random() * 0.02)
            pid = living.pop(r.randrange(len(living)))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    for pid in living:
        time.sleep(r.random() * 0.02)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


# Verifiers in one process of their own: fork and threads do not go together.
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.close(writer)
    result = {}
    threads = [threading.Thread(target=verify, args=(i, result), daemon=True)
               for i in range(4)]
    for t in threads:
        t.start()
    os.read(reader, 1) # until the parent is done, or dead
    stop.set()
    for t in threads:
        t.join(60)
    bad = len(result) < 4 or any(e for e, n in result.values())
    print("# errors and operations: %s" % sorted(result.values()), flush=True)
    os._exit(bad or any(n < 8 for e, n in result.values()))
os.close(reader)
storm()
os.close(writer)
check("%d clients died, four others saw no error" % kills,
      os.waitpid(child, 0)[1] == 0)
