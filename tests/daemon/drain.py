"""Write numbers to an export from four connections until the server ends
them; then nothing that was acknowledged may be missing.

  drain.py SOCKET EXPORT FILE     write; what was acknowledged goes to FILE
  drain.py --verify SOCKET EXPORT FILE

A block of 512 bytes has its own number and that of its last write; each
connection has blocks of its own and 8 requests in flight.
"""
import json
import os
import struct
import sys
import threading

sys.path.insert(0, os.path.dirname(__file__))
from raw import ACK, Raw  # noqa: E402

CONNECTIONS, BLOCKS, DEPTH = 4, 256, 8
READ, WRITE = 0, 1


def block(number, generation):
    return struct.pack(">QQ", number, generation) * 32


def opened(path, export):
    c = Raw(path)
    kind, what = c.go(export)
    assert kind == ACK, what
    return c


def write(path, export, first, acked, ended):
    """Keeps DEPTH writes in flight; acked[block] is the last generation that
    was acknowledged."""
    c = opened(path, export)
    flying = {}
    generation = {}
    cookie = 0
    try:
        while True:
            while len(flying) < DEPTH:
                number = first + cookie % BLOCKS
                # One request per block at a time, so order is known.
                if any(n == number for n, _ in flying.values()):
                    break
                generation[number] = generation.get(number, 0) + 1
                c.send(WRITE, number * 512, 512, cookie,
                       data=block(number, generation[number]))
                flying[cookie] = (number, generation[number])
                cookie += 1
            error, got, _ = c.answer()
            assert error == 0, error
            number, g = flying.pop(got)
            acked[number] = g
    except (EOFError, ConnectionError):
        pass
    ended.append(first)


def main(args):
    if args[0] == "--verify":
        with open(args[3]) as f:
            acked = {int(k): v for k, v in json.load(f).items()}
        c = opened(args[1], args[2])
        lost = 0
        for number, g in acked.items():
            c.send(READ, number * 512, 512)
            error, _, data = c.answer(512)
            assert error == 0
            got, there = struct.unpack(">QQ", data[:16])
            if got != number or there < g or data != block(number, there):
                lost += 1
        print("%d blocks, %d lost" % (len(acked), lost))
        return lost > 0
    acked, ended = {}, []
    threads = [threading.Thread(target=write, args=(
        args[0], args[1], i * BLOCKS, acked, ended))
        for i in range(CONNECTIONS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    with open(args[2], "w") as f:
        json.dump(acked, f)
    print("%d blocks acknowledged" % len(acked))
    return len(ended) != CONNECTIONS or not acked


sys.exit(main(sys.argv[1:]))
