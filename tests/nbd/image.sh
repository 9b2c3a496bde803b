# The export @pool: flags, block status, parameters, what it tells, its end.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/nbd/nbd.sh"
requires btrfs jq

img=$tmp/pool.img
ctl=$tmp/ctl
ok "make a pool" make_pool "$img" 1G disk0 200M
serve "$img" image-reserve=32M control="$ctl" ||
  { fail "serve"; done_testing; }
df ()
{
  "$BTRNBD" -s "$ctl" --json df | jq -r ".image.$1"
}
is "$(df limit) $(df clients) $(df held)" "$((32 << 20)) 0 0" \
  "nothing is open"

py "read-only, with holes that read zero" <<'PY'
h = connect('@pool')
assert h.is_read_only() and h.can_multi_conn() and h.get_size() == 1 << 30
fails(1, h.pwrite, b'x' * 4096, 0)
pos, holes = 0, 0
while pos < 1 << 30:
    for n, t in extents(h, (1 << 30) - pos, pos):
        if t:
            assert t == nbd.STATE_HOLE | nbd.STATE_ZERO, t
            assert h.pread(4096, pos) == bytes(4096)
            holes += n
        pos += n
assert pos == 1 << 30 and holes > 256 << 20, (pos, holes)
for at in 65536, 64 << 20:
    assert h.pread(8, at + 64) == b'_BHRfS_M'
PY

ok "data" bash -c "head -c 150M /dev/urandom >'$tmp/data' &&
  nbdcopy '$tmp/data' '$(uri disk0)'"
ok "a copy of it" nbdcopy "$(uri @pool)" "$tmp/copy.img"
ok "is a clean pool" btrfs check --readonly --check-data-csum "$tmp/copy.img"
ok "with the volume" "$BTRNBD" -d "$tmp/copy.img" get disk0 "$tmp/back"
ok "as it was" cmp -n $((150 << 20)) "$tmp/data" "$tmp/back"

cat >"$tmp/hold.py" <<'PY'
# Two clients; commands come one a line, each is answered by one.
import os, sys
import nbd
def client():
    h = nbd.NBD()
    h.set_export_name('@pool')
    h.connect_unix(os.environ['SOCK'])
    return h
a, b = client(), client()
print('open', flush=True)
for line in sys.stdin:
    if line == 'read\n':
        try:
            a.pread(4096, 65536)
            print('ok', flush=True)
        except nbd.Error as e:
            print(e.errno, flush=True)
    else:
        print('?', flush=True)
PY
coproc HOLD { SOCK=$nbdkit_sock exec /usr/bin/python3 "$tmp/hold.py"; }
hold_pid=$HOLD_PID
cleanup_fn stop_pid "$hold_pid"
ask ()
{
  local answer
  [ -z "${1-}" ] || echo "$1" >&"${HOLD[1]}"
  read -r -t 20 answer <&"${HOLD[0]}"
  echo "$answer"
}
is "$(ask)" open "two clients"
is "$(df clients)" 2 "both are told of"
like "$("$BTRNBD" -s "$ctl" info)" "@pool +2 clients, generation [0-9]+" \
  "info tells, too"
"$BTRNBD" -s "$ctl" events >"$tmp/events" 2>&1 &
events_pid=$!
cleanup_fn stop_pid "$events_pid"
ok "a little is overwritten" bash -c "'$BTRNBD' -s '$ctl' create small --size 4M"
is "$(ask read)" ok "it can be read"
like "$("$BTRNBD" -s "$ctl" df)" "held by @pool .* of 32.0 MiB" \
  "df tells what is held"
ok "the rest is overwritten" nbdcopy "$tmp/data" "$(uri disk0)"
ok "and committed" "$BTRNBD" -s "$ctl" create other --size 4M
like "$(df ended)" "image-reserve" "that ends it"
is "$(ask read)" EIO "with an error"
is "$(df held)" 0 "nothing is held any more"
ok "an event" wait_until 60 grep -q image.ended "$tmp/events"
if [ "${BTRNBD_HOST:-}" != btrnbdd ]; then
  ok "in the log" grep -q "image of the pool has been ended.*image-reserve" \
    "$nbdkit_log"
fi
stop_pid "$hold_pid"
ok "closed" wait_until 60 eval '[ "$(df clients)" = 0 ]'
ok "a new one" nbdinfo "$(uri @pool)"
stop_pid "$events_pid"
ok "stop" stop_nbdkit

serve "$img" image-reserve=0 || { fail "serve"; done_testing; }
not_ok "switched off" nbdinfo "$(uri @pool)"
not_ok "and not listed" bash -c "nbdinfo --list '$nbdkit_uri' | grep -q @pool"
ok "stop" stop_nbdkit
not_ok "too small" nbdkit -U - "$PLUGIN" "$img" image-reserve=4k --run true
done_testing
