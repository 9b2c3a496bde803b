"""Four clients write numbers to two volumes while snapshots of both are taken.

    snapshots.py run SOCKET CONTROL SECONDS STATE
    snapshots.py check SOCKET STATE

Each client has blocks of its own in both volumes and writes its numbers to
them in turn, one after the other.  A snapshot is right when it holds, of each
client and in both volumes together, exactly the writes 0 to N for some N,
where write N was asked for before the snapshot was answered, and what was
acknowledged before it was asked for is among them.

"run" looks at each snapshot while the writers go on; "check" looks at all of
them again: they still hold the same.
"""

import json
import multiprocessing
import os
import sys
import time

import nbd

sys.path.insert(0, os.path.join(os.environ["abs_top_srcdir"], "tests/lib"))
from control import Control, ok  # noqa: E402

VOLUMES = ("cow", "nocow")
CLIENTS, SLOTS, BLOCK = 4, 192, 4096
INTERVAL = 0.2


def connect(sock, export):
    h = nbd.NBD()
    h.set_export_name(export)
    h.connect_unix(sock)
    return h


def place(client, n):
    """The volume and offset of write N."""
    slot = n // len(VOLUMES) % SLOTS
    return n % len(VOLUMES), (client * SLOTS + slot) * BLOCK


def block(client, n):
    return (n << 8 | client | 1 << 63).to_bytes(8, "little") * (BLOCK // 8)


def writer(sock, client, asked, acked, end, waits):
    disks = [connect(sock, v) for v in VOLUMES]
    seen, n = [], 0
    while not end.value:
        volume, offset = place(client, n)
        data = block(client, n)
        asked[client] = n + 1
        start = time.monotonic()
        disks[volume].pwrite(data, offset,
                             nbd.CMD_FLAG_FUA if n % 997 == 996 else 0)
        if n % 997 != 996:
            seen.append((start, time.monotonic() - start))
        acked[client] = n + 1
        n += 1
        if n % 499 == 0:
            disks[n // 499 % len(VOLUMES)].flush()
    waits.put((client, seen))


def count_of(client, regions):
    """How many of the client's writes REGIONS, its blocks of both volumes,
    hold; or what is wrong with them.
    """
    held = [[regions[v][s * BLOCK:(s + 1) * BLOCK] for s in range(SLOTS)]
            for v in range(len(VOLUMES))]
    newest = max(int.from_bytes(b[:8], "little") & ~(1 << 63)
                 for r in held for b in r) >> 8
    empty = held[0][0] == bytes(BLOCK)
    count = 0 if empty else newest + 1
    for v in range(len(VOLUMES)):
        for s in range(SLOTS):
            # The last write to this slot among the first COUNT.
            first = s * len(VOLUMES) + v
            per_round = SLOTS * len(VOLUMES)
            want = bytes(BLOCK)
            if count > first:
                n = first + (count - 1 - first) // per_round * per_round
                want = block(client, n)
            if held[v][s] != want:
                return "client %d, volume %s, slot %d: %s, not as after " \
                    "%d writes" % (client, VOLUMES[v], s,
                                   held[v][s][:8].hex(), count)
    return count


def look(sock, tag):
    """Per client what count_of finds in the snapshot."""
    regions = []
    for v in VOLUMES:
        h = connect(sock, "%s@%s" % (v, tag))
        assert h.is_read_only()
        regions.append([h.pread(SLOTS * BLOCK, c * SLOTS * BLOCK)
                        for c in range(CLIENTS)])
        h.shutdown()
    return [count_of(c, [r[c] for r in regions]) for c in range(CLIENTS)]


def complaints(snap, counts):
    for c, n in enumerate(counts):
        if isinstance(n, str):
            yield "%s: %s" % (snap["tag"], n)
        elif not snap["before"][c] <= n <= snap["after"][c]:
            yield "%s: client %d: %d writes, expected %d to %d" % (
                snap["tag"], c, n, snap["before"][c], snap["after"][c])


def looker(sock, queue, answers):
    """Looks at snapshots as they are made, in a process of its own."""
    while (snap := queue.get()) is not None:
        snap["counts"] = look(sock, snap["tag"])
        answers.put(snap)
    answers.put(None)


def snapshots(control, seconds, asked, acked, queue):
    """Take them; the times that it took."""
    took, start = [], time.monotonic()
    while time.monotonic() < start + seconds:
        snap = {"tag": "s%d" % len(took), "before": list(acked)}
        t = time.monotonic()
        control.call("volume.snapshot", names=list(VOLUMES), tag=snap["tag"])
        took.append(time.monotonic() - t)
        snap["after"] = list(asked)
        queue.put(snap)
        # On the beat, as long as one is done within it.
        beat = start + (len(took) * INTERVAL)
        time.sleep(max(0, beat - time.monotonic()))
    return took


def report(took, began, waits):
    """How long writers waited; before, nobody took snapshots."""
    took.sort()
    print("%d snapshots, median %.1f ms, longest %.1f ms" % (
        len(took), took[len(took) // 2] * 1e3, took[-1] * 1e3))
    for client, seen in sorted(waits):
        before = sorted(t for start, t in seen if start < began)
        during = sorted(t for start, t in seen if start >= began)
        print("client %d: %d writes, median %.3f ms (%.3f without snapshots),"
              " 99.9 %% %.1f ms (%.1f), longest pause %.1f ms (%.1f)" % (
                  client, len(during),
                  during[len(during) // 2] * 1e3,
                  before[len(before) // 2] * 1e3,
                  during[len(during) * 999 // 1000] * 1e3,
                  before[len(before) * 999 // 1000] * 1e3,
                  during[-1] * 1e3, before[-1] * 1e3))


def run(sock, control, seconds, state):
    asked = multiprocessing.Array("Q", CLIENTS, lock=False)
    acked = multiprocessing.Array("Q", CLIENTS, lock=False)
    end = multiprocessing.Value("b", 0, lock=False)
    waits, queue, answers = (multiprocessing.Queue() for _ in range(3))
    writers = [multiprocessing.Process(
        target=writer, args=(sock, c, asked, acked, end, waits))
        for c in range(CLIENTS)]
    watcher = multiprocessing.Process(target=looker,
                                      args=(sock, queue, answers))
    for p in writers + [watcher]:
        p.daemon = True
        p.start()
    began = time.monotonic() + seconds / 4
    while min(acked) < 3 * SLOTS or time.monotonic() < began:
        assert all(p.is_alive() for p in writers)
        time.sleep(0.01)
    began = time.monotonic()
    took = snapshots(Control(control), seconds, asked, acked, queue)
    end.value = 1
    queue.put(None)
    snaps = list(iter(answers.get, None))
    all_waits = [waits.get() for _ in writers]
    for p in writers + [watcher]:
        p.join()
    report(took, began, all_waits)
    bad = [x for s in snaps for x in complaints(s, s["counts"])]
    ok(len(snaps) == len(took) >= seconds and not bad,
       "each snapshot is a prefix of what every client wrote", len(snaps),
       *bad[:10])
    ok(all(p.exitcode == 0 for p in writers), "no client saw an error")
    ok(min(snaps[-1]["before"]) > max(snaps[0]["after"]),
       "all clients wrote on meanwhile", snaps[0], snaps[-1])
    with open(state, "w") as f:
        json.dump(snaps, f)


def check(sock, state):
    with open(state) as f:
        snaps = json.load(f)
    bad = [s["tag"] for s in snaps if look(sock, s["tag"]) != s["counts"]]
    ok(not bad, "all %d snapshots hold the same" % len(snaps), *bad)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(sys.argv[2], sys.argv[3], float(sys.argv[4]), sys.argv[5])
    else:
        check(sys.argv[2], sys.argv[3])
