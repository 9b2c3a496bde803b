"""Metrics and status against the counters of the control socket.

metrics.py CONTROL-SOCKET PORT NBD-URI-FORMAT
"""

import http.client
import json
import os
import socket
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.environ["abs_top_srcdir"], "tests/lib"))
sys.path.insert(0, os.path.dirname(__file__))
import nbd
import prometheus
from control import Control, equal, ok

path, port, uri = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def get(url, method="GET", body=None):
    h = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    h.request(method, url, body)
    r = h.getresponse()
    text = r.read().decode()
    h.close()
    return r, text


def metrics():
    time.sleep(0.6)  # an answer may be half a second old
    r, text = get("/metrics")
    return prometheus.parse(text)


c = Control(path)
NAMES = ["plain", 'quo"te', "back\\slash", "<img src=x onerror=alert(1)>",
         "größe"]
for n in NAMES:
    c.call("volume.create", name=n, size=4 << 20)
handles = []
for i, n in enumerate(NAMES):
    h = nbd.NBD()
    h.set_strict_mode(0)
    h.connect_uri(uri % urllib.parse.quote(n, safe=""))
    for k in range(i + 3):
        h.pwrite(bytes(4096 * (k + 1)), 0)
        h.pread(8192, 0)
    h.flush()
    try:
        h.pread(4096, 4 << 20)
    except nbd.Error:
        pass
    handles.append(h)

r, text = get("/metrics")
equal(r.getheader("Content-Type"),
      "text/plain; version=0.0.4; charset=utf-8", "the format is told")
try:
    m = metrics()
    ok(True, "a strict reader accepts it")
except prometheus.Bad as e:
    ok(False, "a strict reader accepts it", e)
    sys.exit(0)
stat = c.call("host.stat")
for e in stat["exports"]:
    for op, s in e["ops"].items():
        for name, key in (("requests", "requests"), ("request_errors",
                                                     "errors"),
                          ("request_bytes", "bytes")):
            equal(prometheus.value(m, "btrnbd_%s_total" % name,
                                   export=e["name"], op=op), s[key],
                  "%s of %s, %s" % (key, e["name"], op))
        equal(prometheus.value(m, "btrnbd_request_duration_seconds_count",
                               export=e["name"], op=op),
              sum(s["buckets"]), "latencies of %s, %s" % (e["name"], op))
    equal(prometheus.value(m, "btrnbd_export_connections",
                           export=e["name"]), 1, e["name"] + " is open")
equal(sorted(e["name"] for e in stat["exports"]), sorted(NAMES),
      "every export, whatever its name")
equal(prometheus.value(m, "btrnbd_connections"), len(NAMES), "connections")
df, stats = c.call("pool.df"), c.call("pool.stats")
equal(prometheus.value(m, "btrnbd_pool_size_bytes"), df["total_bytes"],
      "size of the pool")
equal(prometheus.value(m, "btrnbd_pool_block_groups_bytes", kind="data",
                       state="total"), df["data"]["total"], "block groups")
equal(prometheus.value(m, "btrnbd_pool_read_only"), 0, "it is writable")
equal(prometheus.value(m, "btrnbd_volume_size_bytes", export="plain"),
      4 << 20, "size of a volume")
ok(prometheus.value(m, "btrnbd_pool_commits_total") > 0, "commits")

# status.json has the same.
time.sleep(0.6)
status = json.loads(get("/status.json")[1])
equal(status["server"]["exports"], c.call("host.stat")["exports"],
      "the counters of status.json")
equal(status["clients"], c.call("host.clients"), "its clients")
equal(status["pool"]["info"]["uuid"], c.call("pool.info")["uuid"],
      "its pool")
for i in range(100):
    if len(json.loads(get("/status.json")[1])["history"]["samples"]) > 1:
        break
    time.sleep(0.2)
h = json.loads(get("/status.json")[1])["history"]
equal([len(h["fields"])] * len(h["samples"]),
      [len(s) for s in h["samples"]], "samples have all fields")
reads = sum(s[h["fields"].index("reads")] for s in h["samples"])
ok(reads > 0, "they saw the reads")

# HTTP: for looking only.
for url in ("/", "/page.css", "/page.js", "/icon.svg", "/metrics",
            "/status.json"):
    r, text = get(url)
    equal(r.status, 200, url)
    csp = r.getheader("Content-Security-Policy")
    ok(csp.startswith("default-src 'none'") and "unsafe" not in csp,
       url + " has a policy")
    r, text = get(url, "HEAD")
    equal((r.status, text), (200, ""), "HEAD " + url)
for url in ("/nothing", "/../etc/passwd", "/metrics/", "//"):
    equal(get(url)[0].status, 404, url + " is not there")
for method in ("POST", "PUT", "DELETE", "OPTIONS"):
    equal(get("/", method, "x" * 100)[0].status, 405, method + " is refused")


def raw(data, name):
    s = socket.create_connection(("127.0.0.1", port), 60)
    try:
        s.sendall(data)
        s.settimeout(60)
        while s.recv(65536):
            pass
    except OSError:
        pass
    s.close()
    equal(get("/metrics")[0].status, 200, "alive after " + name)


raw(b"\0" * 100000, "zeroes")
raw(b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 100000 + b"\r\n\r\n",
    "a header without an end")
raw(b"POST / HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n" +
    b"z" * 1000000, "a body without an end")
# Those who say nothing do not keep others out.
silent = [socket.create_connection(("127.0.0.1", port), 60)
          for i in range(60)]
time.sleep(12)
for s in silent:
    s.close()
equal(get("/metrics")[0].status, 200, "alive after 60 silent ones")
for h in handles:
    h.shutdown()
