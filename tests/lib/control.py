"""A client of the control socket, for tests."""

import array
import json
import os
import socket
import sys


class Failure(Exception):
    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]
        self.data = error.get("data", {})


class Control:
    def __init__(self, path, timeout=60):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.sock.settimeout(timeout)
        self.buf = b""
        self.id = 0
        self.events = []

    def send(self, data, fds=()):
        if isinstance(data, str):
            data = data.encode()
        if fds:
            self.sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                        array.array("i", fds))])
        else:
            self.sock.sendall(data)

    def line(self):
        """The next line as an object, None at the end."""
        while b"\n" not in self.buf:
            try:
                data = self.sock.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self.buf += data
        line, _, self.buf = self.buf.partition(b"\n")
        return json.loads(line)

    def answer(self):
        while True:
            a = self.line()
            if a is None or "id" in a:
                return a
            self.events.append(a["params"])

    def request(self, method, fds=(), **params):
        self.id += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self.id,
                              "method": method, "params": params}) + "\n",
                  fds)
        return self.id

    def call(self, method, fds=(), **params):
        id = self.request(method, fds, **params)
        a = self.answer()
        if a is None:
            raise EOFError("the server closed the connection")
        assert a["id"] == id, a
        if "error" in a:
            raise Failure(a["error"])
        return a["result"]

    def event(self):
        if self.events:
            return self.events.pop(0)
        a = self.line()
        return a["params"] if a else None

    def close(self):
        self.sock.close()


def ok(condition, name, *detail):
    print(("ok " if condition else "not ok ") + name, flush=True)
    if not condition:
        for d in detail:
            print("# %r" % (d,), flush=True)


def equal(got, want, name):
    ok(got == want, name, got, want)


def code_of(control, method, **params):
    """The code of the error that a call ends with, 0 without one."""
    try:
        control.call(method, **params)
    except Failure as f:
        return f.code
    return 0
