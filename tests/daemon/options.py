"""Raw handshakes against a server on a unix socket: what a library would
never send.  Prints TAP lines without numbers for the shell to count."""
import socket
import struct
import sys

MAGIC = 0x4E42444D41474943
OPTS = 0x49484156454F5054
REP = 0x0003E889045565A9
ACK, SERVER, INFO, META = 1, 2, 3, 4
UNSUP, POLICY, INVALID = 0x80000001, 0x80000002, 0x80000003
UNKNOWN = 0x80000006
path = sys.argv[1]


class Client:
    def __init__(self, flags=3):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(60)
        self.s.connect(path)
        magic, opts, self.flags = struct.unpack(">QQH", self.get(18))
        assert magic == MAGIC and opts == OPTS
        if flags is not None:
            self.s.sendall(struct.pack(">I", flags))

    def get(self, n):
        data = b""
        while len(data) < n:
            more = self.s.recv(n - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def opt(self, option, data=b"", length=None):
        length = len(data) if length is None else length
        self.s.sendall(struct.pack(">QII", OPTS, option, length) + data)

    def reply(self):
        magic, option, kind, length = struct.unpack(">QIII", self.get(20))
        assert magic == REP
        return option, kind, self.get(length)

    def ended(self):
        try:
            return self.s.recv(1) == b""
        except ConnectionResetError:
            return True


def check(name, good):
    print(("ok" if good else "not ok") + " " + name)


def go(name, infos=(), option=7):
    name = name.encode() if isinstance(name, str) else name
    data = struct.pack(">I", len(name)) + name
    data += struct.pack(">H", len(infos))
    data += b"".join(struct.pack(">H", i) for i in infos)
    return option, data


c = Client()
check("greeting offers fixed newstyle without zeroes", c.flags == 3)
c.opt(99)
check("unknown option", c.reply() == (99, UNSUP, b""))
c.opt(3)
seen = []
while True:
    option, kind, data = c.reply()
    if kind != SERVER:
        break
    n, = struct.unpack(">I", data[:4])
    seen.append((data[4:4 + n], data[4 + n:]))
check("list: names and descriptions",
      kind == ACK and (b"e0", b"some memory") in seen and len(seen) == 4)
c.opt(3, b"x")
check("list with data is refused", c.reply()[1] == INVALID)
c.opt(8, b"x")
check("structured replies with data are refused", c.reply()[1] == INVALID)
c.opt(5)
check("TLS is not offered", c.reply()[1] == POLICY)
c.opt(10, struct.pack(">I", 2) + b"e0" + struct.pack(">I", 0))
check("meta contexts need structured replies", c.reply()[1] == INVALID)
c.opt(8)
check("structured replies", c.reply()[1] == ACK)
query = struct.pack(">I", 15) + b"base:allocation"
c.opt(9, struct.pack(">I", 2) + b"e0" + struct.pack(">I", 0))
check("listing all contexts",
      c.reply() == (9, META, struct.pack(">I", 0) + b"base:allocation")
      and c.reply()[1] == ACK)
c.opt(10, struct.pack(">I", 2) + b"e0" + struct.pack(">I", 1) + query)
option, kind, data = c.reply()
check("setting base:allocation", kind == META and data[4:] == query[4:]
      and c.reply()[1] == ACK)
c.opt(10, struct.pack(">I", 2) + b"e0" + struct.pack(">I", 1)
      + struct.pack(">I", 99) + b"base:allocation")
check("a query beyond the option", c.reply()[1] == INVALID)
c.opt(*go("nobody"))
option, kind, data = c.reply()
check("unknown export, with the reason", kind == UNKNOWN
      and b"nobody" in data)
c.opt(*go(b"e\0"))
check("NUL in a name", c.reply()[1] == INVALID)
c.opt(7, struct.pack(">I", 5000) + b"e" * 5000 + struct.pack(">H", 0))
check("a name that is too long", c.reply()[1] == INVALID)
c.opt(7, struct.pack(">I", 100) + b"e0")
check("a name beyond the option", c.reply()[1] == INVALID)
c.opt(7, struct.pack(">I", 2) + b"e0" + struct.pack(">H", 9))
check("more infos than there are", c.reply()[1] == INVALID)
c.opt(*go("e1", (1, 2, 3), option=6))
got = {}
while True:
    option, kind, data = c.reply()
    if kind != INFO:
        break
    got[struct.unpack(">H", data[:2])[0]] = data[2:]
check("INFO tells all", kind == ACK and got[1] == b"e1"
      and got[2] == b"some memory"
      and struct.unpack(">III", got[3]) == (1, 4096, 32 << 20)
      and struct.unpack(">QH", got[0])[0] == 16 << 20)
c.opt(*go(""))
while True:
    option, kind, data = c.reply()
    if kind != INFO:
        break
check("GO to the default export", kind == ACK)
c.s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 2, 1, 0, 0))
check("disconnect ends", c.ended())

c = Client()
c.opt(1, b"e0")
size, flags = struct.unpack(">QH", c.get(10))
check("EXPORT_NAME without zeroes", size == 16 << 20 and flags & 1)
c = Client(flags=1)
c.opt(1, b"e0")
check("EXPORT_NAME with zeroes", c.get(134)[10:] == bytes(124))
c = Client()
c.opt(1, b"nobody")
check("EXPORT_NAME of an unknown export ends", c.ended())
c = Client()
c.opt(2)
check("ABORT is acknowledged", c.reply() == (2, ACK, b"") and c.ended())
c = Client(flags=0x80)
check("unknown client flags end", c.ended())
c = Client()
c.s.sendall(b"x" * 16)
check("a bad option magic ends", c.ended())
c = Client()
c.opt(7, b"", length=1 << 30)
check("an endless option ends", c.ended())
c = Client()
try:
    for i in range(1000):
        c.opt(99)
    for i in range(1000):
        c.reply()
    check("endless options end", False)
except (EOFError, ConnectionError):
    check("endless options end", True)
c = Client(flags=0)
c.opt(7, go("e0")[1])
check("GO without fixed newstyle ends", c.ended())
c = Client()
for b in struct.pack(">QII", OPTS, *(7, len(go("e0")[1]))) + go("e0")[1]:
    c.s.sendall(bytes([b]))
while True:
    option, kind, data = c.reply()
    if kind != INFO:
        break
check("a handshake byte by byte", kind == ACK)
