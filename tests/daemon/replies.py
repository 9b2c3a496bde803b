"""Replies come whole and in one piece each, however slowly they are read.

  replies.py SOCKET SEED

Two connections ask for far more than a socket holds, small and large mixed,
and read it in odd portions and with pauses, so that replies get stuck half
sent wherever they are sent from.  Every block has a pattern of its own that
all writes repeat.
"""
import os
import random
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(__file__))
from raw import ACK, REPLY, Raw  # noqa: E402

path, seed = sys.argv[1], int(sys.argv[2])
READ, WRITE, FLUSH = 0, 1, 3
SIZE, BLOCK = 4 << 20, 4096
REQUESTS = 600
disk = b"".join(struct.pack(">Q", i) * (BLOCK // 8)
                for i in range(SIZE // BLOCK))


def session(number, result):
    r = random.Random(seed * 2 + number)
    c = Raw(path)
    assert c.go("e0")[0] == ACK
    asked = {}
    for cookie in range(REQUESTS):
        length = BLOCK * (r.randint(1, 90) if r.random() < 0.2
                          else r.randint(1, 3))
        at = r.randrange(SIZE - length)
        asked[cookie] = (r.choice([READ, READ, READ, WRITE, FLUSH]), at,
                         length)

    def ask():
        for cookie, (command, at, length) in asked.items():
            if command == FLUSH:
                c.send(command, cookie=cookie)
            else:
                c.send(command, at, length, cookie, data=disk[at:at + length]
                       if command == WRITE else b"")

    def get(n):
        data = b""
        while len(data) < n:
            if r.random() < 0.05:
                time.sleep(r.random() / 200)
            more = c.s.recv(min(n - len(data), r.choice([7, 1000, 70000,
                                                         1 << 20])))
            assert more, "the server hung up"
            data += more
        return data

    asker = threading.Thread(target=ask)
    asker.start()
    seen = set()
    for _ in range(REQUESTS):
        magic, error, cookie = struct.unpack(">IIQ", get(16))
        assert magic == REPLY and error == 0, (hex(magic), error)
        assert cookie not in seen
        seen.add(cookie)
        command, at, length = asked[cookie]
        assert command != READ or get(length) == disk[at:at + length], at
    asker.join()
    result[number] = True


first = Raw(path)
assert first.go("e0")[0] == ACK
for at in range(0, SIZE, 1 << 20):
    first.send(WRITE, at, 1 << 20, data=disk[at:at + (1 << 20)])
    assert first.answer()[0] == 0
done = {}
threads = [threading.Thread(target=session, args=(i, done)) for i in range(2)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(("ok" if len(done) == 2 else "not ok")
      + " %d replies, read slowly (seed %d)" % (2 * REQUESTS, seed))
