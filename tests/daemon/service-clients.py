"""Clients that connect all the time, to both sockets of the service, until
SIGTERM: prints how many got a greeting, were refused, or lost their connection
before it."""
import signal
import socket
import time

WHERE = [(socket.AF_UNIX, "/run/btrnbd/nbd.sock"),
         (socket.AF_INET, ("127.0.0.1", 10809))]
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
met = refused = cut = turn = 0
while not ended:
    family, where = WHERE[turn % 2]
    turn += 1
    s = socket.socket(family)
    s.settimeout(120)
    try:
        s.connect(where)
    except OSError as e:
        refused += 1
        print(e)
        continue
    try:
        greeting = s.recv(18)
    except ConnectionError:
        greeting = b""
    if greeting[:8] == b"NBDMAGIC":
        met += 1
    else:
        cut += 1
    s.close()
    time.sleep(0.01)
print(met, refused, cut)
