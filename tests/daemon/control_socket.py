"""The control socket from the outside, good and hostile clients.

control_socket.py SOCKET HOST NBD-URI-FORMAT
"""

import json
import os
import random
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.environ["abs_top_srcdir"], "tests/lib"))
from control import Control, Failure, code_of, equal, ok

path, host, uri = sys.argv[1:4]


def error_of(text):
    """The answer to one raw line."""
    c = Control(path)
    c.send(text)
    a = c.answer()
    c.close()
    return a


def raw(text, code, name):
    a = error_of(text)
    ok(a and a.get("id") is None and a["error"]["code"] == code, name, a)


def protocol():
    raw("{\n", -32700, "not JSON")
    raw("[" * 60000 + "\n", -32700, "deep nesting")
    raw("\xff\xfe\n".encode("latin1"), -32700, "not UTF-8")
    raw('{"a":1,"a":2}\n', -32700, "a member twice")
    raw("[]\n", -32600, "an empty batch")
    raw('[{"jsonrpc":"2.0","id":1,"method":"rpc.info"}]\n', -32600, "a batch")
    raw("17\n", -32600, "a number")
    raw('{"jsonrpc":"2.0","id":{},"method":"x"}\n', -32600, "an odd id")
    for text, code in (('{"id":7,"method":"rpc.info"}', -32600),
                       ('{"jsonrpc":"1.0","id":7,"method":"x"}', -32600),
                       ('{"jsonrpc":"2.0","id":7,"method":3}', -32600),
                       ('{"jsonrpc":"2.0","id":7}', -32600),
                       ('{"jsonrpc":"2.0","id":7,"method":"x.y"}', -32601),
                       ('{"jsonrpc":"2.0","id":7,"method":"pool.df",'
                        '"params":[1]}', -32602),
                       ('{"jsonrpc":"2.0","id":7,"method":"pool.df",'
                        '"params":{"x":1}}', -32602),
                       ('{"jsonrpc":"2.0","id":7,"method":"volume.create",'
                        '"params":{"name":"x","size":"1"}}', -32602),
                       ('{"jsonrpc":"2.0","id":7,"method":"volume.create",'
                        '"params":{"name":"x","size":-1}}', -32602)):
        a = error_of(text + "\n")
        ok(a["id"] == 7 and a["error"]["code"] == code, "refused: " + text, a)
    c = Control(path)
    c.send('{"jsonrpc":"2.0","method":"pool.df"}\n\n\r\n'
           '{"jsonrpc":"2.0","id":"s","method":"pool.df","params":[]}\n')
    a = c.answer()
    equal((a["id"], "result" in a), ("s", True),
          "a notification has no answer; a string is an id")
    for i in range(100):
        c.request("pool.df")
    got = sorted(c.answer()["id"] for i in range(100))
    equal(got, list(range(1, 101)), "100 requests in a row")
    c.send(json.dumps({"jsonrpc": "2.0", "id": 9, "method": "pool.df"}))
    c.sock.shutdown(socket.SHUT_WR)
    equal(c.line(), None, "half a line at the end is no request")
    c = Control(path)
    c.request("pool.df")
    c.sock.shutdown(socket.SHUT_WR)
    ok(c.answer() is not None and c.line() is None,
       "an answer after the end of input")
    c = Control(path)
    c.send("x" * 70000)
    a = c.answer()
    ok(a["error"]["code"] == -32600 and c.line() is None,
       "a line without an end is cut")
    info = Control(path).call("rpc.info")
    equal((info["server"], info["host"]), ("btrnbd", host), "rpc.info")
    documented = set()
    pod = os.path.join(os.environ["abs_top_srcdir"],
                       "plugins/btrfs/control/btrnbd-control.pod")
    for l in open(pod):
        if l.startswith("=item B<"):
            documented.add(l.split("<")[1].split(">")[0])
    equal(sorted(m for m in info["methods"] if m not in documented), [],
          "every method is in the man page")


def volumes():
    c = Control(path)
    c.call("volume.create", name="a", size=1 << 20, description="d")
    equal([(e["name"], e["size"], e["description"])
           for e in c.call("export.list", name="a")], [("a", 1 << 20, "d")],
          "create and list")
    equal(code_of(c, "volume.create", name="a", size=1), -32000,
          "a name that is there")
    try:
        c.call("volume.remove", name="nope")
    except Failure as f:
        equal((f.code, f.data["code"], f.data["errno"]),
              (-32000, "not_found", 2), "the engine's error is told")
    c.call("volume.rename", **{"from": "a", "to": "b"})
    c.call("volume.resize", name="b", size=2 << 20)
    c.call("file.mkdir", path="d/e", parents=True)
    with tempfile.TemporaryFile() as f:
        data = random.Random(1).randbytes(300000) + bytes(1 << 20) + b"end"
        f.write(data[:300000])
        f.seek((1 << 20) + 300000)
        f.write(b"end")
        f.seek(0)
        c.call("file.put", fds=[f.fileno()], path="d/file")
        with tempfile.TemporaryFile() as g:
            c.call("file.get", fds=[g.fileno()], path="d/file")
            g.seek(0)
            ok(g.read() == data, "put and get through descriptors")
            ok(os.fstat(g.fileno()).st_blocks * 512 < len(data),
               "holes stay holes")
    r, w = os.pipe()
    id = c.request("file.put", fds=[r], path="d/piped")
    os.close(r)
    os.write(w, b"through a pipe")
    os.close(w)
    equal(c.answer().get("result", 1), None, "put from a pipe")
    r, w = os.pipe()
    c.request("file.get", fds=[w], path="d/piped")
    os.close(w)
    c.answer()
    equal(os.read(r, 100), b"through a pipe", "get into a pipe")
    os.close(r)
    equal(code_of(c, "file.get", path="d/piped"), -32602,
          "get without a descriptor")
    c.call("file.link", target="d/piped", path="d/hard")
    c.call("file.rename", **{"from": "d/hard", "to": "d/hard2"})
    c.call("file.resize", path="d/hard2", size=7, shrink=True)
    equal(c.call("file.stat", path="d/piped")["size"], 7, "one file")
    equal(sorted(e["name"] for e in c.call("file.list", path="d")),
          ["e", "file", "hard2", "piped"], "a directory")
    equal(len(c.call("file.list", path="d", skip=1, max=2)), 2, "a page")
    equal(code_of(c, "file.list", path="d", max=0), -32602, "no page")
    for name in ("d/e", "d/file", "d/hard2", "d/piped", "d"):
        c.call("file.remove", path=name)
    for i in range(40):
        c.call("volume.create", name="many%d" % i, size=4096)
    seen = []
    while True:
        page = c.call("export.list", skip=len(seen), max=7)
        seen += [e["name"] for e in page]
        if len(page) < 7:
            break
    equal(len(set(seen)), len(c.call("export.list")), "pages cover all")
    for i in range(40):
        c.call("volume.remove", name="many%d" % i)
    c.call("pool.sync")
    ok(c.call("pool.stats")["commits"] > 0, "statistics of the engine")
    c.call("volume.remove", name="b")


def attached():
    """What a client holds open cannot be taken from it."""
    import nbd
    c = Control(path)
    c.call("volume.create", name="held", size=8 << 20)
    h = nbd.NBD()
    h.connect_uri(uri % "held")
    h.pwrite(b"x" * 65536, 0)
    for method, params in (("volume.remove", {"name": "held"}),
                           ("file.remove", {"path": "held"}),
                           ("volume.resize", {"name": "held", "size": 4096,
                                              "shrink": True}),
                           ("file.resize", {"path": "held", "size": 4096,
                                            "shrink": True})):
        try:
            c.call(method, **params)
            ok(False, method + " of a volume in use")
        except Failure as f:
            equal(f.data["code"], "busy", method + " of a volume in use")
    c.call("volume.resize", name="held", size=16 << 20)
    equal(h.pread(4, 0), b"xxxx", "it may grow")
    h.shutdown()
    for i in range(100):
        if code_of(c, "volume.remove", name="held") == 0:
            break
        time.sleep(0.05)
    ok(i < 99, "removed when the client has left")


def hostile():
    rss = lambda: int([l for l in open("/proc/%d/status" % pid)
                       if l.startswith("VmRSS")][0].split()[1])
    c = Control(path)
    pid = c.call("rpc.info")["pid"]
    for i in range(200):
        c.call("volume.create", name="v%03d" % i, size=4096,
               description="d" * 1000)
    before = rss()
    # 20 ask for much and never read; others dribble half a line.
    deaf, slow = [], []
    for i in range(20):
        d = Control(path)
        d.sock.setblocking(False)
        try:
            for j in range(2000):
                d.sock.send(b'{"jsonrpc":"2.0","id":1,'
                            b'"method":"export.list"}\n' * 20)
        except BlockingIOError:
            pass
        deaf.append(d)
    for i in range(5):
        s = Control(path)
        s.send('{"jsonrpc"')
        slow.append(s)
    ok(c.call("pool.df"), "others are served meanwhile")
    grown = rss() - before
    # Sanitizers keep what was freed.
    bound = 1000000 if "BTRNBD_SANITIZED" in os.environ else 100000
    ok(grown < bound, "deaf clients hold little memory (%d KiB)" % grown)
    for s in slow:
        s.sock.settimeout(120)
        ok(s.line() is None, "half a line is cut")
    for d in deaf:
        # Not by reading: that would make it a good client.
        p = select.poll()
        p.register(d.sock, 0)
        ok(p.poll(120000), "a deaf client is cut")
        d.close()
    # More than there are places: who is quiet leaves.
    many = [Control(path) for i in range(100)]
    equal(many[-1].call("pool.stats") is not None, True, "the 100th is served")
    alive = 0
    for m in many:
        try:
            m.call("pool.stats")
            alive += 1
        except (EOFError, ConnectionError):
            pass
    ok(0 < alive <= 32, "at most 32 at once (%d)" % alive)
    for m in many:
        m.close()
    # Stalled descriptors: gone with their clients, or there would be no
    # worker left.
    ends = []
    for i in range(8):
        s = Control(path)
        r, w = os.pipe()
        s.request("file.put", fds=[r], path="stall%d" % i)
        os.close(r)
        ends.append(w)
        s.close()
    ok(Control(path, 60).call("pool.df"), "stalled copies end")
    for w in ends:
        os.close(w)
    # All that may be slow at once: the rest goes on.
    if host == "btrnbdd":
        ends, stuck = [], []
        for i in range(8):
            s = Control(path)
            r, w = os.pipe()
            s.request("file.put", fds=[r], path="stuck%d" % i)
            os.close(r)
            ends.append(w)
            stuck.append(s)
        ok(Control(path).call("host.clients") == [] and
           code_of(Control(path), "host.kick", client=1) == -32000,
           "clients can be seen and kicked meanwhile")
        for w in ends:
            os.close(w)
        ok(all("result" in s.answer() for s in stuck), "then the others end")
    # Descriptors that nobody asked for do not leak.
    fds = lambda: len(os.listdir("/proc/%d/fd" % pid))
    c = Control(path)
    c.call("pool.df")
    count = fds()
    with open("/dev/null") as null:
        for i in range(50):
            c.call("pool.stats", fds=[null.fileno()])
            c.send(b" ", [null.fileno()])
            c.call("pool.stats", fds=[null.fileno()] * (2 + i % 4))
    c.call("pool.stats")
    ok(fds() <= count + 1, "no descriptor leaks (%d, %d)" % (fds(), count))
    # Anything at all.
    rng = random.Random(int(os.environ.get("BTRNBD_SEED", "5")))
    good = [json.dumps({"jsonrpc": "2.0", "id": 1, "method": m,
                        "params": {"name": "x", "size": 5, "path": "/",
                                   "from": "a", "to": "b"}})
            for m in ("volume.create", "file.list", "export.list", "pool.df",
                      "events.subscribe", "host.kick", "rpc.info")]
    for i in range(300):
        c = Control(path)
        try:
            for j in range(10):
                b = bytearray(rng.choice(good).encode() + b"\n")
                for k in range(rng.randrange(6)):
                    b[rng.randrange(len(b))] = rng.randrange(256)
                c.send(bytes(b))
        except ConnectionError:
            pass
        c.close()
    ok(Control(path).call("pool.df"), "alive after 3000 mutated requests")
    c = Control(path)
    for e in c.call("export.list"):
        c.call("file.remove", path=e["name"])


for name in sys.argv[4:]:
    globals()[name]()
