# A small pool is filled through NBD with random sizes to the last block,
# emptied and filled again: every refusal is told on the write, nothing that
# was acknowledged is lost, and a full pool can delete, trim and commit.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/nbd/nbd.sh"

rounds=${BTRNBD_ENOSPC_ROUNDS:-20}
img=$tmp/pool.img
ok "make a pool" make_pool "$img" 256M disk0 1G
serve "$img" cache-size=32M || { fail "serve"; done_testing; }

PY_TIMEOUT=560 py "$rounds rounds" ROUNDS="$rounds" \
  SEED="${BTRNBD_SEED:-5}" <<'PY'
import errno
random.seed(int(os.environ['SEED']))
rounds = int(os.environ['ROUNDS'])
h = connect()
size = h.get_size()
filled = []
for rnd in range(rounds):
    tags = {}
    off, full, total = 0, 0, 0
    # until several writes in a row, small ones included, do not fit
    while full < 20 and off < size - (1 << 20):
        n = random.choice([512, 4096, 8192, 65536, 100000, 1 << 20])
        if full:
            n = min(n, 4096)
        v = random.randrange(1, 256)
        try:
            h.pwrite(bytes([v]) * n, off,
                     nbd.CMD_FLAG_FUA if random.random() < 0.01 else 0)
            tags[off] = (n, v)
            off += (n + 4095) & ~4095
            total += n
        except nbd.Error as e:
            assert e.errnum == errno.ENOSPC, (e.errnum, e.string)
            full += 1
    assert full == 20, (rnd, off)
    h.flush()
    assert total > 60 << 20, (rnd, total)
    filled.append(total)
    for o, (n, v) in tags.items():
        assert h.pread(n, o) == bytes([v]) * n, (rnd, o, n)
    # a full pool can trim, and commit
    keys = sorted(tags)
    if rnd % 3 == 0:
        for o in keys[::2]:
            h.trim((tags[o][0] + 4095) & ~4095, o)
        h.flush()
    h.trim(off, 0, nbd.CMD_FLAG_FUA)
    h.flush()
    assert h.pread(65536, 0) == bytes(65536)
# space does not leak away
assert min(filled[1:]) > max(filled) * 0.7, filled
print(filled)
PY
ok "the server is healthy" nbdinfo "$(uri disk0)"
ok "stop" stop_nbdkit
ok "full and emptied: remove the volume" "$BTRNBD" -d "$img" rm disk0
ok "and make another" "$BTRNBD" -d "$img" create disk1 --size 1G
judge "in the end" "$img"
done_testing
