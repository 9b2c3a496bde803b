# What clients are told: the list, names, sizes, flags, and who is refused.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/nbd/nbd.sh"

img=$tmp/pool.img
ok "make a pool" make_pool "$img" 1G disk0 100M
serve "$img" || { fail "serve"; done_testing; }

# one volume: it is the default
is "$(nbdinfo --size "$nbdkit_uri")" 104857600 "the only volume is the default"
is "$(nbdinfo --size "$(uri disk0)")" 104857600 "by name"
is "$(nbdinfo --size "nbd+unix:////disk0?socket=$nbdkit_sock")" 104857600 \
   "a leading slash"
not_ok "no such export" nbdinfo "$(uri nosuch)"
is "$(nbdinfo --size "$(uri disk0/disk)")" 104857600 "by path"
ok "stop" stop_nbdkit

ok "second volume" "$BTRNBD" -d "$img" create vol3 --size 5000000 --nocow \
   --description "the third"
ok "mkdir" "$BTRNBD" -d "$img" mkdir dir
head -c 12345 /dev/urandom >"$tmp/file"
ok "put" "$BTRNBD" -d "$img" put "$tmp/file" dir/file.raw
ok "put with a name beyond ASCII" "$BTRNBD" -d "$img" put "$tmp/file" "dir/ä€𝄞"
fails_with 1 "are reserved$" "put a name that is ours" \
           "$BTRNBD" -d "$img" put "$tmp/file" "@file"

serve "$img" || { fail "serve"; done_testing; }
nbdinfo --list --json "$nbdkit_uri" >"$tmp/list" 2>"$tmp/list.err"
list=$(/usr/bin/python3 - "$tmp/list" <<'PY'
import json, sys
for e in json.load(open(sys.argv[1]))["exports"]:
    print(e["export-name"], e["export-size"], e.get("description", "-"))
PY
)
grep -qx "disk0 104857600 -" <<<"$list" && pass "disk0 in the list" ||
  { fail "disk0 in the list"; diag "$list"; }
grep -Eqx "vol3 50[0-9]+ the third" <<<"$list" && pass "a description" ||
  { fail "a description"; diag "$list"; }
grep -qx "dir/file.raw 12345 -" <<<"$list" && pass "a file in the list" ||
  { fail "a file in the list"; diag "$list"; }
grep -q "^dir/ä€𝄞 12345" <<<"$list" && pass "a UTF-8 name" ||
  { fail "a UTF-8 name"; diag "$list"; }
grep -q "@file\|disk0/disk" <<<"$list" && fail "what must not be in the list" ||
  pass "what must not be in the list"
is "$(head -n1 <<<"$list" | cut -d' ' -f1)" disk0 "volumes come first"
like "$(tail -n1 <<<"$list")" "^@pool 1073741824 the pool itself" \
  "the pool itself comes last"
not_ok "several volumes: no default" nbdinfo "$nbdkit_uri"

py "names" <<'PY'
import errno
for bad in ['..', '../disk0', 'dir/../disk0', 'dir/.', '@file', '/', '',
            'dir', 'disk0/', 'disk0//disk', 'dir/' + 'x' * 300]:
    try:
        connect(bad)
    except nbd.Error:
        continue
    assert bad in ('disk0/', 'disk0//disk'), bad
# libnbd takes only strings: bad UTF-8 goes through a raw socket
import socket, struct
def raw(name):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sock)
    def need(n):
        b = b''
        while len(b) < n:
            c = s.recv(n - len(b))
            assert c, 'closed'
            b += c
        return b
    need(18)
    s.sendall(struct.pack('>I', 3))
    body = struct.pack('>I', len(name)) + name + struct.pack('>H', 0)
    s.sendall(b'IHAVEOPT' + struct.pack('>II', 7, len(body)) + body)
    while True:
        magic, opt, typ, n = struct.unpack('>QIII', need(20))
        need(n)
        if typ == 1:
            return True
        if typ & 0x80000000:
            return False
assert raw(b'disk0')
assert raw(b'///disk0')
assert not raw(b'\xff\xfe')
assert not raw(b'disk\xc0\xb0')
assert not raw(b'\xed\xa0\x80')
try:
    assert not raw(b'disk0\0x')
except (AssertionError, ConnectionError) as e:
    assert str(e) in ('closed',) or isinstance(e, ConnectionError), e
PY
like "$(cat "$nbdkit_log")" 'export "\.\./disk0".*"\.\."' "the reason is logged"
like "$(cat "$nbdkit_log")" 'not UTF-8' "that one, too"

py "what an export can do" <<'PY'
h = connect('vol3')
assert h.can_flush() and h.can_fua() and h.can_trim() and h.can_zero()
assert h.can_fast_zero() and h.can_cache() and h.can_multi_conn()
assert not h.is_read_only()
assert h.can_meta_context('base:allocation')
assert h.get_block_size(nbd.SIZE_MINIMUM) == 1
assert h.get_block_size(nbd.SIZE_PREFERRED) == 4096
assert h.get_block_size(nbd.SIZE_MAXIMUM) == 32 << 20
assert h.get_size() % 512 == 0
PY

py "two exports do not mix" <<'PY'
a, b = connect('disk0'), connect('vol3')
a.pwrite(b'a' * 65536, 0)
b.pwrite(b'b' * 65536, 0)
assert a.pread(65536, 0) == b'a' * 65536
assert b.pread(65536, 0) == b'b' * 65536
PY

py "one export, many handles" <<'PY'
hs = [connect('disk0') for i in range(8)]
for i, h in enumerate(hs):
    h.pwrite(bytes([i]) * 4096, i * 4096)
for h in hs:
    for i in range(8):
        assert h.pread(4096, i * 4096) == bytes([i]) * 4096
for h in hs:
    h.shutdown()
PY
ok "a removal while it is open is refused or waits for nobody" \
   sh -c "! '$BTRNBD' -d '$img' rm disk0"

# somebody else has it
fails_with 1 "$(basename "$img")|in use" "a second server is refused" \
           nbdkit -f -U "$tmp/2.sock" "$PLUGIN" "$img"
like "$(cat "$tmp/ok.log")" "nbdkit|pid" "and told who has it"
ok "stop" stop_nbdkit

# read-only
before=$(md5sum <"$img")
serve "$img" readonly=true control="$tmp/ctl" || { fail "serve"; done_testing; }
py "a read-only pool" <<'PY'
import errno
h = connect('disk0')
assert h.is_read_only()
assert h.pread(4096, 4096) == bytes([1]) * 4096
h.set_strict_mode(0)
fails(errno.EPERM, h.pwrite, b'x' * 512, 0)
h.flush()
PY
like "$("$BTRNBD" -s "$tmp/ctl" info)" "read-only +as asked for" \
     "info tells that it was asked for"
ok "stop" stop_nbdkit
is "$(md5sum <"$img")" "$before" "nothing was written to the read-only pool"
serve -r "$img" || { fail "serve"; done_testing; }
py "nbdkit -r" <<'PY'
assert connect('disk0').is_read_only()
PY
ok "stop" stop_nbdkit

ok "btrfs check" check_clean "$img"
done_testing
