"""btrnbdd as systemd starts it: sockets passed, notifications sent.  Prints
TAP lines without numbers."""
import os
import select
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
from raw import ACK, Raw  # noqa: E402

daemon, plugin, tmp = sys.argv[1:4]
conf = tmp + "/systemd.conf"


def check(name, good):
    print(("ok" if good else "not ok") + " " + name, flush=True)


with open(conf, "w") as f:
    f.write("[server]\ndrain-timeout = 7\n[plugin %s]\nsize = 1M\n" % plugin)
path = tmp + "/passed.sock"
unix = socket.socket(socket.AF_UNIX)
unix.bind(path)
unix.listen(16)
tcp = socket.create_server(("127.0.0.1", 0))
where = "127.0.0.1:%d" % tcp.getsockname()[1]
notes = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notes.bind(tmp + "/notify")
notes.settimeout(60)


def note():
    """The lines of the next notification."""
    return notes.recv(4096).decode().split("\n")


def start(sockets, names="nbd:tcp", fds=None):
    def pass_sockets():
        high = [os.dup2(s.fileno(), 100 + i) for i, s in enumerate(sockets)]
        for i, fd in enumerate(high):
            os.dup2(fd, 3 + i)
        os.environ["LISTEN_PID"] = str(os.getpid())
    env = dict(os.environ, NOTIFY_SOCKET=tmp + "/notify",
               LISTEN_FDS=str(len(sockets) if fds is None else fds),
               LISTEN_FDNAMES=names)
    # LISTEN_PID is that of the process that becomes btrnbdd.
    env.pop("LISTEN_PID", None)
    shell = 'export LISTEN_PID=$$; exec "$@"'
    return subprocess.Popen(
        ["sh", "-c", shell, "sh", daemon, "-c", conf, "--control", "off"],
        env=env, preexec_fn=pass_sockets, close_fds=False,
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)


p = start([unix, tcp])
lines = note()
check("READY=1, with a status", lines[0] == "READY=1"
      and lines[1].startswith("STATUS=Serving "))
check("the unix socket serves", Raw(path).go("")[0] == ACK)
check("the TCP socket serves", Raw(where).go("")[0] == ACK)
os.kill(p.pid, signal.SIGHUP)
lines = note()
check("RELOADING=1 with the time", lines[0] == "RELOADING=1"
      and lines[1].startswith("MONOTONIC_USEC="))
check("READY=1 after the reload", note()[0] == "READY=1")
check("passed sockets stay", Raw(where).go("")[0] == ACK)
with open(conf, "a") as f:
    f.write("nonsense\n")
os.kill(p.pid, signal.SIGHUP)
note()
lines = note()
check("a reload that fails says why", lines[0] == "READY=1"
      and conf in lines[1])
with open(conf) as f:
    text = f.read()
with open(conf, "w") as f:
    f.write(text.replace("nonsense\n", ""))

# A client in the middle of something, a stop, one that comes in between.
c = Raw(path)
c.go("")
c.send(0, 0, 4096)
os.kill(p.pid, signal.SIGTERM)
lines = note()
check("STOPPING=1, with time for the drain", lines[0] == "STOPPING=1"
      and "EXTEND_TIMEOUT_USEC=67000000" in lines)
check("what was asked is answered", c.answer(4096)[0] == 0)
check("status 0", p.wait(60) == 0)
check("the socket is still there", os.path.exists(path))
late = socket.socket(socket.AF_UNIX)
late.settimeout(60)
late.connect(path)
check("a client that comes meanwhile is not refused",
      not select.select([late], [], [], 0)[0])
p = start([unix, tcp])
check("READY=1 again", note()[0] == "READY=1")
check("and it is served", late.recv(8) == b"NBDMAGIC")
p.terminate()
note()
check("status 0", p.wait(60) == 0)


def refused(text, **args):
    with start(**args) as q:
        _, err = q.communicate(timeout=60)
        lines = err.decode().splitlines()
        return q.returncode == 1 and len(lines) == 1 and text in lines[0]


udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
check("a datagram socket is refused",
      refused("passed socket 3 (nbd): not a stream", sockets=[udp]))
plain = socket.socket(socket.AF_INET)
check("one that does not listen is refused",
      refused("passed socket 4 (tcp): not a stream", sockets=[unix, plain]))
check("a number that makes no sense is refused",
      refused("LISTEN_FDS=0 makes no sense", sockets=[unix], fds="0"))
