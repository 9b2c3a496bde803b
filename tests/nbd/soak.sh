# Eight connections write, zero, trim and flush on two volumes while commits
# run every second; the server is killed in the middle, again and again.
# After each crash every sector must hold what the last flush (or FUA) of its
# writer covered, or something written to it later.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/nbd/nbd.sh"

rounds=${BTRNBD_SOAK_ROUNDS:-6}
img=$tmp/pool.img
ok "make a pool" make_pool "$img" 1G cow 64M
ok "a nocow volume" "$BTRNBD" -d "$img" create nocow --size 64M --nocow

# state: per export and writer, the values that each sector may have
cat >"$tmp/soak.py" <<'PY'
import nbd, os, pickle, random, sys, threading, time
sock, mode, statefile, seed = sys.argv[1:]
SECTOR, SECTORS, WRITERS = 4096, 1024, 4
def connect(export):
    h = nbd.NBD()
    h.set_export_name(export)
    h.connect_unix(sock)
    return h
try:
    state, why = pickle.load(open(statefile, 'rb'))
except FileNotFoundError:
    why = {}
    state = {(e, w): [{0} for i in range(SECTORS)]
             for e in ('cow', 'nocow') for w in range(WRITERS)}
def sector(v):
    return v.to_bytes(8, 'little') * (SECTOR // 8)
def base(w):
    return w * SECTORS * SECTOR * 3 + 8192

if mode == 'check':
    bad = 0
    for (e, w), possible in state.items():
        h = connect(e)
        for i in range(SECTORS):
            b = h.pread(SECTOR, base(w) + i * SECTOR)
            v = int.from_bytes(b[:8], 'little')
            if b != sector(v) or v not in possible[i]:
                bad += 1
                if bad < 10:
                    print(e, w, i, 'holds', v, b == sector(v), possible[i],
                          why.get((e, w, i)), 'last', why.get((e, w)))
            possible[i] = {v}
    pickle.dump((state, why), open(statefile, 'wb'))
    sys.exit(bad > 0)

done = [0]
why.clear()   # for messages: what made a sector durable, and when
def work(e, w):
    rng = random.Random('%s %s %d' % (seed, e, w))
    possible = state[(e, w)]
    h = connect(e)
    n = (int(seed) << 32) + (w << 24)
    now = {}
    try:
        while True:
            k = rng.random()
            first = rng.randrange(SECTORS)
            count = min(rng.choice([1, 1, 2, 8, 32]), SECTORS - first)
            off = base(w) + first * SECTOR
            what = range(first, first + count)
            if k < 0.04:
                why[(e, w)] = ('flush begins', n)
                h.flush()
                for i, v in now.items():
                    possible[i] = {v}
                    why[(e, w, i)] = ('flush', n)
                now.clear()
                continue
            fua = nbd.CMD_FLAG_FUA if rng.random() < 0.02 else 0
            n += 1
            v = 0 if k < 0.2 else n
            why[(e, w)] = (k, n, fua, first, count)
            for i in what:
                possible[i].add(v)
            if k < 0.1:
                h.zero(count * SECTOR, off, fua | rng.choice(
                    [0, nbd.CMD_FLAG_NO_HOLE]))
            elif k < 0.2:
                h.trim(count * SECTOR, off, fua)
            else:
                h.pwrite(sector(v) * count, off, fua)
            done[0] += 1
            if done[0] == 100:
                open(statefile + '.ready', 'w').close()
            for i in what:
                if fua:
                    possible[i] = {v}
                    why[(e, w, i)] = ('fua', k, n, first, count)
                    now.pop(i, None)
                else:
                    now[i] = v
            if rng.random() < 0.2:
                b = h.pread(count * SECTOR, off)
                if b != sector(v) * count:
                    at = [i for i in range(count) if b[i * SECTOR:
                          (i + 1) * SECTOR] != sector(v)]
                    print(e, w, 'read', v, first, count, 'wrong at', at,
                          [int.from_bytes(b[i * SECTOR:i * SECTOR + 8],
                                          'little') for i in at], why[(e, w)])
    except nbd.Error:
        pass
ts = [threading.Thread(target=work, args=k) for k in state]
for t in ts: t.start()
for t in ts: t.join()
pickle.dump((state, why), open(statefile, 'wb'))
print(done[0], 'requests')
PY

for round in $(seq "$rounds"); do
  serve "$img" cache-size=8M commit-interval=1 ||
    { fail "serve"; done_testing; }
  if [ "$round" -gt 1 ]; then
    ok "crash $((round - 1)): nothing flushed is lost" timeout 120 \
       /usr/bin/python3 "$tmp/soak.py" "$nbdkit_sock" check "$tmp/state" 0
  fi
  timeout 120 /usr/bin/python3 "$tmp/soak.py" "$nbdkit_sock" run \
          "$tmp/state" "${BTRNBD_SEED:-$round}" >"$tmp/soak.out" 2>&1 &
  soak=$!
  wait_until 60 test -e "$tmp/state.ready"
  rm -f "$tmp/state.ready"
  cleanup_fn stop_pid "$soak"
  sleep "$(( round % 3 )).$((round % 10))"
  kill_server
  wait "$soak"
  # nothing else in it: a reader that sees something else raises an exception
  like "$(cat "$tmp/soak.out")" "^[1-9][0-9]* requests$" "round $round"
  (( round % 2 )) && ok "crash $round: btrfs check" check_clean "$img"
done
serve "$img" || { fail "serve"; done_testing; }
ok "crash $rounds: nothing flushed is lost" timeout 120 \
   /usr/bin/python3 "$tmp/soak.py" "$nbdkit_sock" check "$tmp/state" 0
ok "stop" stop_nbdkit
judge "in the end" "$img"
done_testing
