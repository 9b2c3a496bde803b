"""Raw requests against a server on a unix socket, in each dialect: every
command and flag, right and wrong.

  transmission.py SOCKET [DIALECT]...

A server that gets stuck with many reads in flight is given STUCK_SECONDS.
"""
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(__file__))
import socket

path = sys.argv[1]
dialects = sys.argv[2:] or ["simple", "structured", "extended"]
OPTS = 0x49484156454F5054
READ, WRITE, DISC, FLUSH, TRIM, CACHE, ZERO, STATUS = range(8)
FUA, NO_HOLE, DF, REQ_ONE, FAST, PAYLOAD = 1, 2, 4, 8, 16, 32
EPERM, EIO, EINVAL, ENOSPC, EOVERFLOW = 1, 5, 22, 28, 75
SIZE = 16 << 20


def check(name, good):
    print(("ok" if good else "not ok") + " " + name)


class Client:
    def __init__(self, dialect, name=b"e0"):
        self.dialect = dialect
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(60)
        self.s.connect(path)
        self.get(18)
        self.s.sendall(struct.pack(">I", 3))
        if dialect == "structured":
            self.option(8)
        if dialect == "extended":
            self.option(11)
        if dialect != "simple":
            self.option(10, struct.pack(">I", len(name)) + name
                        + struct.pack(">II", 1, 15) + b"base:allocation")
        self.option(7, struct.pack(">I", len(name)) + name
                    + struct.pack(">H", 0))
        self.cookie = 0

    def get(self, n):
        data = b""
        while len(data) < n:
            more = self.s.recv(n - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def option(self, option, data=b""):
        self.s.sendall(struct.pack(">QII", OPTS, option, len(data)) + data)
        while True:
            magic, o, kind, n = struct.unpack(">QIII", self.get(20))
            self.get(n)
            assert kind < 0x80000000, hex(kind)
            if kind == 1:
                return

    def send(self, kind, offset=0, length=0, flags=0, data=b""):
        self.cookie += 1
        if self.dialect == "extended":
            if kind == WRITE:
                flags |= PAYLOAD
            h = struct.pack(">IHHQQQ", 0x21E41C71, flags, kind, self.cookie,
                            offset, length)
        else:
            h = struct.pack(">IHHQQI", 0x25609513, flags, kind, self.cookie,
                            offset, length)
        self.s.sendall(h + data)
        return self.cookie

    def reply(self, read_length=0):
        """(cookie, error, kind of chunk, payload)"""
        magic, = struct.unpack(">I", self.get(4))
        if magic == 0x67446698:
            error, cookie = struct.unpack(">IQ", self.get(12))
            data = self.get(read_length) if error == 0 else b""
            return cookie, error, None, data
        if magic == 0x668E33EF:
            flags, kind, cookie, n = struct.unpack(">HHQI", self.get(16))
        else:
            assert magic == 0x6E8A278C, hex(magic)
            flags, kind, cookie, off, n = struct.unpack(">HHQQQ",
                                                        self.get(28))
        data = self.get(n)
        assert flags & 1
        error = struct.unpack(">I", data[:4])[0] if kind & 0x8000 else 0
        return cookie, error, kind, data

    def call(self, kind, offset=0, length=0, flags=0, data=b""):
        self.send(kind, offset, length, flags, data)
        cookie, error, chunk, payload = self.reply(
            length if kind == READ else 0)
        assert cookie == self.cookie
        if kind == READ and chunk == 1:
            assert struct.unpack(">Q", payload[:8])[0] == offset
            payload = payload[8:]
        return error, payload


for dialect in dialects:
    c = Client(dialect)

    def t(name, good):
        check(dialect + ": " + name, good)

    blob = os.urandom(70000)
    t("write", c.call(WRITE, 12345, 70000, 0, blob)[0] == 0)
    t("read back", c.call(READ, 12345, 70000)[1] == blob)
    t("a large write", c.call(WRITE, 0, 8 << 20, FUA,
                              b"\xa5" * (8 << 20))[0] == 0)
    t("a large read", c.call(READ, 0, 8 << 20)[1] == b"\xa5" * (8 << 20))
    t("flush", c.call(FLUSH)[0] == 0)
    t("flush with a range", c.call(FLUSH, 0, 512)[0] == EINVAL)
    t("trim", c.call(TRIM, 0, 4096)[0] == 0)
    t("zero", c.call(ZERO, 4096, 4096, NO_HOLE | FUA)[0] == 0)
    t("fast zero", c.call(ZERO, 8192, 4096, FAST)[0] == 0)
    t("zeroes read", c.call(READ, 0, 12288)[1] == bytes(12288))
    t("cache", c.call(CACHE, 0, 4096)[0] == 0)
    t("read beyond the end", c.call(READ, SIZE - 1, 2)[0] == EINVAL)
    t("read far beyond the end",
      c.call(READ, (1 << 64) - 1, 4096)[0] == EINVAL)
    t("write beyond the end",
      c.call(WRITE, SIZE - 1, 2, 0, b"xy")[0] == ENOSPC)
    t("the last byte", c.call(WRITE, SIZE - 1, 1, 0, b"z")[0] == 0
      and c.call(READ, SIZE - 1, 1)[1] == b"z")
    t("trim beyond the end", c.call(TRIM, SIZE, 1)[0] == EINVAL)
    t("zero beyond the end", c.call(ZERO, SIZE, 1)[0] == ENOSPC)
    t("length zero", c.call(READ, 0, 0)[0] == EINVAL)
    t("unknown command", c.call(77)[0] == EINVAL)
    t("unknown flag", c.call(READ, 0, 1, 0x4000)[0] == EINVAL)
    t("flag of another command", c.call(READ, 0, 1, NO_HOLE)[0] == EINVAL)
    if dialect != "extended":
        t("flag of another dialect", c.call(READ, 0, 65536, PAYLOAD)[0]
          == EINVAL)
    t("still in step", c.call(READ, SIZE - 1, 1)[1] == b"z")
    bad = 13 << 20
    error, payload = c.call(READ, bad - 10, 20)
    t("an error of the plugin", error == EIO)
    if dialect != "simple":
        t("its text", b"is bad" in payload)
        t("don't fragment", c.call(READ, 0, 8192, DF)[0] == 0)
        error, payload = c.call(STATUS, 0, 16384)
        if dialect == "structured":
            want = struct.pack(">I4I", 1, 12288, 3, 4096, 0)
        else:
            want = struct.pack(">II4Q", 1, 2, 12288, 3, 4096, 0)
        t("block status", error == 0 and payload == want)
        # Hole, data, hole: the one that is told ends where data begins.
        if dialect == "structured":
            want = struct.pack(">I2I", 1, 12288, 3)
        else:
            want = struct.pack(">II2Q", 1, 1, 12288, 3)
        t("one block status", c.call(WRITE, 16384, 8192, 0, bytes(8192))[0]
          == 0 and c.call(STATUS, 0, 24576, REQ_ONE)[1] == want)
    else:
        t("block status without context",
          c.call(STATUS, 0, 4096)[0] == EINVAL)
    t("a write to the bad byte, its payload taken from the stream",
      c.call(WRITE, bad, 512, 0, bytes(512))[0] == EIO)
    # Many at once: every cookie comes back once, with its own data.
    for i in range(200):
        c.call(WRITE, i * 512, 512, 0, bytes([i]) * 512)
    good = True
    c.s.settimeout(float(os.environ.get("STUCK_SECONDS", "60")))
    try:
        sent = {c.send(READ, i * 512, 512): i for i in range(200)}
        while sent:
            cookie, error, kind, data = c.reply(512)
            i = sent.pop(cookie)
            good &= error == 0 and data[-512:] == bytes([i]) * 512
        c.s.settimeout(60)
    except TimeoutError:
        good = False
        c = Client(dialect)
    t("200 reads in flight", good)
    c.send(READ, 0, 65536)
    c.send(DISC)
    t("what was asked before a disconnect is answered",
      c.reply(65536)[1] == 0)
    try:
        c.get(1)
        t("then the end", False)
    except (EOFError, ConnectionError):
        t("then the end", True)

if "extended" in dialects:
    c = Client("extended")
    error, payload = c.call(READ, 0, 65 << 20)
    check("extended: a read larger than the export", error == EINVAL)
    error, payload = c.call(ZERO, 0, SIZE)
    check("extended: all at once", error == 0)
    c.send(TRIM, 0, 4096, PAYLOAD, bytes(4096))
    check("extended: payload where none belongs", c.reply()[1] == EINVAL)
    check("extended: still in step", c.call(READ, 0, 16)[1] == bytes(16))
else:
    c = Client(dialects[0])
c.s.sendall(b"\0" * 32)
try:
    c.get(1)
    check("bad magic ends", False)
except (EOFError, ConnectionError):
    check("bad magic ends", True)
c = Client("structured")
c.send(WRITE, 0, 0xFFFFFFFF)
try:
    c.s.sendall(bytes(1 << 20))
    c.get(1)
    check("a payload without bound ends", False)
except (EOFError, ConnectionError):
    check("a payload without bound ends", True)
