# Single requests: alignment, zero and trim flags, block status, durability
# across connections, many at a time.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/nbd/nbd.sh"

img=$tmp/pool.img
ok "make a pool" make_pool "$img" 2G disk0 64M big 2T
ok "a nocow volume" "$BTRNBD" -d "$img" create nocow --size 64M --nocow
serve "$img" || { fail "serve"; done_testing; }

for e in disk0 nocow; do
  py "$e: any byte range" E=$e <<'PY'
random.seed(1)
h = connect(os.environ['E'])
model = bytearray(1 << 20)
h.pwrite(bytes(model), 0)
for i in range(1500):
    off = random.randrange(len(model))
    n = random.choice([1, 2, 511, 512, 513, 4095, 4096, 4097, 10000, 70000])
    n = min(n, len(model) - off)
    if random.random() < 0.5:
        off &= ~511
    what = random.random()
    if what < 0.5:
        b = random.randbytes(n)
        h.pwrite(b, off, nbd.CMD_FLAG_FUA if random.random() < 0.02 else 0)
        model[off:off + n] = b
    elif what < 0.6:
        h.zero(n, off, random.choice([0, nbd.CMD_FLAG_NO_HOLE]))
        model[off:off + n] = bytes(n)
    elif what < 0.65:
        h.trim(n, off)
        got = h.pread(n, off)
        for j in range(n):
            assert got[j] in (0, model[off + j])
        model[off:off + n] = got
    else:
        assert h.pread(n, off) == model[off:off + n], (i, off, n)
assert h.pread(len(model), 0) == model
open(os.environ.get('OUT', '/dev/null'), 'wb').write(model)
PY

  py "$e: zero and trim by their flags" E=$e <<'PY'
import errno
h = connect(os.environ['E'])
M = 1 << 20
h.pwrite(b'x' * (4 * M), 8 * M)
h.flush()
HOLE, ZERO = nbd.STATE_HOLE, nbd.STATE_ZERO
assert extents(h, 4 * M, 8 * M) == [(4 * M, 0)], extents(h, 4 * M, 8 * M)
h.zero(M, 8 * M)
e = extents(h, 2 * M, 8 * M)
assert e[0] == (M, HOLE | ZERO) and e[1][1] == 0, e
h.zero(M, 9 * M, nbd.CMD_FLAG_NO_HOLE)
e = extents(h, 3 * M, 8 * M)
assert e[1] == (M, ZERO) and e[2][1] == 0, e
h.zero(M, 10 * M, nbd.CMD_FLAG_FAST_ZERO)
h.zero(M, 10 * M, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE |
       nbd.CMD_FLAG_FUA)
assert h.pread(3 * M, 8 * M) == bytes(3 * M)
h.pwrite(b'y' * 8192, 9 * M + 4096)
assert h.pread(16384, 9 * M) == bytes(4096) + b'y' * 8192 + bytes(4096)
h.trim(3 * M, 8 * M, nbd.CMD_FLAG_FUA)
assert h.pread(3 * M, 8 * M) == bytes(3 * M)
e = extents(h, 4 * M, 8 * M)
assert e == [(3 * M, HOLE | ZERO), (M, 0)], e
# edges: at most whole sectors inside the range change
h.trim(100, 11 * M + 5)
assert h.pread(4096, 11 * M) == b'x' * 4096
PY
done

py "block status is clipped, also at 4 GiB" <<'PY'
h = connect('big')
n = 0xffffffff
e = extents(h, n, 0)
assert sum(l for l, f in e) <= n and e[0][0] > 0, e
assert all(f == nbd.STATE_HOLE | nbd.STATE_ZERO for l, f in e), e
h.pwrite(b'z' * 4096, 1 << 40)
e = extents(h, 1 << 20, (1 << 40) - 8192)
assert e[0] == (8192, 3) and e[1] == (4096, 0), e
assert extents(h, 4096, (1 << 40) + 4096)[0] == (4096, 3)
e = extents(h, 1 << 30, (2 << 40) - (1 << 30))
assert e == [(1 << 30, 3)], e
# unaligned questions
e = extents(h, 3, (1 << 40) + 1)
assert e == [(3, 0)], e
assert extents(connect('disk0'), 64 << 20, 0)[0][0] <= 64 << 20
PY

PY_TIMEOUT=60 py "trimming 2 TiB takes no time" <<'PY'
h = connect('big')
step = 1 << 31
for off in range(0, 2 << 40, step):
    h.trim(step, off)
    assert off > 0 or h.pread(4096, 0) == bytes(4096)
assert h.pread(4096, 1 << 40) == bytes(4096)
PY

py "limits" <<'PY'
import errno
h = connect('disk0')
h.set_strict_mode(0)
size = h.get_size()
fails(errno.EINVAL, h.pread, 4096, size)
fails(errno.ENOSPC, h.pwrite, b'x' * 4096, size)
h.pwrite(b'q' * 512, size - 512)
assert h.pread(512, size - 512) == b'q' * 512
h.pwrite(b'w' * (32 << 20), 16 << 20)
assert h.pread(32 << 20, 16 << 20) == b'w' * (32 << 20)
h.cache(1 << 20, 0)
PY

py "many requests in flight, overlapping" <<'PY'
random.seed(3)
h = connect('disk0')
N = 64
for rnd in range(30):
    off = random.randrange(0, 1 << 20) & ~511
    cookies, vals = [], []
    for i in range(N):
        v = random.randrange(1, 255)
        buf = nbd.Buffer.from_bytearray(bytearray([v]) * 8192)
        cookies.append((h.aio_pwrite(buf, off), buf))
        vals.append(v)
    while any(not h.aio_command_completed(c) for c, b in cookies[-1:]):
        h.poll(-1)
    while h.aio_in_flight() > 0:
        h.poll(-1)
    got = h.pread(8192, off)
    assert got == bytes([got[0]]) * 8192 and got[0] in vals
PY

py "flush on one connection covers another" <<'PY'
for e in ['disk0', 'nocow']:
    a, b = connect(e), connect(e)
    a.pwrite(b'1' * 8192, 4 << 20)
    a.pwrite(b'1' * 3000, (5 << 20) + 77)
    b.flush()
    a.pwrite(b'2' * 8192, 6 << 20, nbd.CMD_FLAG_FUA)
    # over blocks that are on disk: in place, where nocow allows it
    b.pwrite(b'3' * 4096, (4 << 20) + 4096)
    a.flush()
    a.zero(4096, 6 << 20, nbd.CMD_FLAG_FUA)
    b.trim(4096, 4 << 20, nbd.CMD_FLAG_FUA)
PY
kill_server
serve "$img" || { fail "serve after a crash"; done_testing; }
py "after a crash it is there" <<'PY'
for e in ['disk0', 'nocow']:
    h = connect(e)
    assert h.pread(8192, 4 << 20) == bytes(4096) + b'3' * 4096
    assert h.pread(3000, (5 << 20) + 77) == b'1' * 3000
    assert h.pread(8192, 6 << 20) == bytes(4096) + b'2' * 4096
PY
ok "stop" stop_nbdkit

# Zeroes that keep their space, over data of the last commit: what is written
# there next must not end up in its place before the next commit.
serve "$img" cache-size=8M commit-interval=3000 ||
  { fail "serve"; done_testing; }
py "write, flush, zero, write again, no commit" <<'PY'
for e in ['disk0', 'nocow']:
    h = connect(e)
    h.pwrite(b'A' * 65536, 0)
    h.flush()
    h.zero(65536, 0, nbd.CMD_FLAG_NO_HOLE)
    h.pwrite(b'B' * 65536, 0)
h = connect('big')
for i in range(48):     # more than the cache holds: all is written out
    h.pwrite(b'x' * (1 << 20), i << 20)
time.sleep(1)
PY
kill_server
serve "$img" || { fail "serve after a crash"; done_testing; }
py "after a crash it is one of them" <<'PY'
for e in ['disk0', 'nocow']:
    b = connect(e).pread(65536, 0)
    for i in range(0, 65536, 4096):
        assert b[i:i + 4096] in (b'A' * 4096, b'B' * 4096, bytes(4096))
PY
ok "stop" stop_nbdkit
judge "in the end" "$img"
done_testing
