"""A client of a few lines: what exports a server lists, what it says of one.

  raw.py [--from ADDRESS] WHERE list
  raw.py [--from ADDRESS] WHERE go NAME

WHERE is the path of a socket, or HOST:PORT.  `list` prints names, one a
line; `go` prints "open SIZE rw|ro" or "refused KIND TEXT".
"""
import socket
import struct
import sys

MAGIC = 0x4E42444D41474943
OPTS = 0x49484156454F5054
REP = 0x0003E889045565A9
REQUEST = 0x25609513
REPLY = 0x67446698
ACK, SERVER, INFO = 1, 2, 3


class Raw:
    def __init__(self, where, source=None):
        if where.startswith("/"):
            self.s = socket.socket(socket.AF_UNIX)
            self.s.settimeout(60)
            self.s.connect(where)
        else:
            host, port = where.rsplit(":", 1)
            self.s = socket.create_connection(
                (host.strip("[]"), int(port)), 60,
                (source, 0) if source else None)
        magic, opts, _ = struct.unpack(">QQH", self.get(18))
        assert magic == MAGIC and opts == OPTS
        self.s.sendall(struct.pack(">I", 3))

    def get(self, n):
        data = b""
        while len(data) < n:
            more = self.s.recv(n - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def opt(self, option, data=b""):
        self.s.sendall(struct.pack(">QII", OPTS, option, len(data)) + data)

    def reply(self):
        magic, _, kind, length = struct.unpack(">QIII", self.get(20))
        assert magic == REP
        return kind, self.get(length)

    def list(self):
        self.opt(3)
        names = []
        while True:
            kind, data = self.reply()
            if kind != SERVER:
                assert kind == ACK, hex(kind)
                return names
            n, = struct.unpack(">I", data[:4])
            names.append(data[4:4 + n].decode())

    def go(self, name):
        """(kind, text) of a refusal, or (ACK, (size, flags))."""
        name = name.encode()
        self.opt(7, struct.pack(">I", len(name)) + name + bytes(2))
        what = None
        while True:
            kind, data = self.reply()
            if kind == ACK:
                return kind, what
            if kind != INFO:
                return kind, data.decode()
            if data[:2] == b"\0\0":
                what = struct.unpack(">QH", data[2:])

    def send(self, command, offset=0, length=0, cookie=0, flags=0, data=b""):
        self.s.sendall(struct.pack(">IHHQQI", REQUEST, flags, command, cookie,
                                   offset, length) + data)

    def answer(self, length=0):
        """(error, cookie, data) of a simple reply."""
        magic, error, cookie = struct.unpack(">IIQ", self.get(16))
        assert magic == REPLY
        return error, cookie, b"" if error else self.get(length)


def main(args):
    source = None
    if args[0] == "--from":
        source = args[1]
        args = args[2:]
    c = Raw(args[0], source)
    if args[1] == "list":
        for name in c.list():
            print(name)
        return
    kind, what = c.go(args[2])
    if kind == ACK:
        print("open", what[0], "ro" if what[1] & 2 else "rw")
    else:
        print("refused", hex(kind), what)


if __name__ == "__main__":
    main(sys.argv[1:])
