"""A client that is gone while a worker asks the plugin about its export.

  leave.py SOCKET CONTROL kick|term PID LOG tls|clear

The plugin's open is slow and writes "opening" to LOG.  A connection that was
kicked meanwhile, or cut by the server's end, must not come to life again when
the plugin's answer is there.
"""
import json
import os
import signal
import socket
import ssl
import struct
import sys
import time

from raw import ACK, Raw


def starttls(raw):
    raw.opt(5)
    assert raw.reply()[0] == ACK
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    raw.s = context.wrap_socket(raw.s)


def control(path, method, params):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(path)
        s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method,
                              "params": params}).encode() + b"\n")
        return json.loads(s.makefile().readline())["result"]


def lines(log):
    try:
        with open(log) as f:
            return sum(line.startswith("opening ") for line in f)
    except FileNotFoundError:
        return 0


def main(where, ctl, how, pid, log, tls):
    before = lines(log)
    raw = Raw(where)
    if tls == "tls":
        starttls(raw)
    # Asked about, then more that must not be looked at.
    info = struct.pack(">QII", 0x49484156454F5054, 6, 8) + \
        struct.pack(">I", 2) + b"e0" + bytes(2)
    raw.s.sendall(info + info)
    while lines(log) == before:
        time.sleep(0.01)
    if how == "kick":
        for c in control(ctl, "host.clients", {}):
            control(ctl, "host.kick", {"client": c["client"]})
    else:
        os.kill(int(pid), signal.SIGTERM)
    try:
        assert raw.s.recv(1) == b""
    except (ConnectionError, ssl.SSLError):
        pass


main(*sys.argv[1:])
