"""Clients that do not read what they ask for in the handshake; see limits.sh.
Prints TAP lines without numbers."""
import os
import select
import struct
import sys

sys.path.insert(0, os.path.dirname(__file__))
from raw import ACK, INFO, OPTS, SERVER, Raw  # noqa: E402

ABORT, LIST, GO = 2, 3, 7
LISTS = 100


def check(name, good):
    print(("ok" if good else "not ok") + " " + name, flush=True)


def asks(last, data=b""):
    """A client that has asked for many lists, and then for LAST."""
    c = Raw(sys.argv[1])
    c.s.sendall(struct.pack(">QII", OPTS, LIST, 0) * LISTS
                + struct.pack(">QII", OPTS, last, len(data)) + data)
    return c


c = asks(GO, b"\0\0\0\2e7\0\0")
lists = names = 0
while lists < LISTS:
    kind, _ = c.reply()
    lists += kind == ACK
    names += kind == SERVER
kinds = [c.reply()[0], c.reply()[0]]
while kinds[-1] == INFO:
    kinds.append(c.reply()[0])
check("many lists at once, and an export", names == LISTS * 1000
      and kinds[0] == INFO and kinds[-1] == ACK)

c = asks(ABORT)
poll = select.poll()
poll.register(c.s, 0)
check("who does not read the end of the handshake is let go",
      poll.poll(60000))
