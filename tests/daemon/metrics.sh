#!/bin/bash
# Metrics and the status page, in a browser too.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
requires_file "$BTRNBD" "$PLUGIN"
requires jq
requires_python_nbd
img=$tmp/pool.img
ctl=$tmp/control.sock
page=$abs_top_srcdir/server/daemon/page

from_python ()
{
  local line
  while IFS= read -r line; do
    case $line in
      ok\ *) pass "${line#ok }" ;;
      not\ ok\ *) fail "${line#not ok }" ;;
      *) echo "# $line" ;;
    esac
  done < <(/usr/bin/python3 "$@" 2>&1 ||
           echo "not ok python ended with status $?")
}

"$BTRNBD" -d "$img" mkfs --size 1G --label "a <b>pool</b>"
free_port
ok "start" start_daemon --metrics "$port" --plugin "$PLUGIN" "$img"
is "$(ss -Hltn "sport = :$port" | awk '{ print $4 }')" "127.0.0.1:$port" \
   "on loopback unless asked otherwise"
fails_with 1 "metrics: .*in use" "a port that is taken" timeout 20 \
  "$DAEMON" -l "unix:$tmp/2.sock" --control off --metrics "$port" \
  --plugin "$TEST_PLUGIN" size=1M
for bad in : host: "no.such.host.invalid:1" 127.0.0.1:notaport; do
  status=2 # wrong usage, but for what only a look-up tells
  [ "$bad" = "no.such.host.invalid:1" ] && status=1
  fails_with $status "metrics" "--metrics \"$bad\"" timeout 60 "$DAEMON" \
    -l "unix:$tmp/2.sock" --control off --metrics "$bad" \
    --plugin "$TEST_PLUGIN" size=1M
done
from_python "$abs_top_srcdir/tests/daemon/metrics.py" "$ctl" "$port" \
  "$(export_uri %s)"

# The page asks nobody but its server.
is "$(cat "$page"/*.html "$page"/*.css "$page"/*.js |
      grep -oE '(https?:)?//[a-z0-9.]+[^ ]*' |
      grep -v '^http://www.w3.org/2000/svg' || true)" "" \
   "no address of anybody else in it"

chromium=$(command -v chromium || command -v chromium-browser)
if [ -z "$chromium" ]; then
  lacks "the page in a browser" "chromium is not installed"
  ok "stop" stop_daemon
  done_testing
fi

# browse NAME ARG...: writes NAME.html, NAME.png and NAME.net.
browse ()
{
  local name=$1 how
  shift
  for how in --dump-dom "--screenshot=$tmp/$name.png"; do
    timeout -k 5 120 "$chromium" --headless=new --no-sandbox --disable-gpu \
      --disable-dev-shm-usage --hide-scrollbars --no-first-run \
      --user-data-dir="$tmp/chrome" --window-size=1280,1600 \
      --virtual-time-budget=5000 --log-net-log="$tmp/$name.net" \
      --enable-logging=stderr "$how" "$@" "http://127.0.0.1:$port/" \
      2>>"$tmp/$name.log" >"$tmp/$name.out" </dev/null || return 1
    [ "$how" != --dump-dom ] || mv "$tmp/$name.out" "$tmp/$name.html"
  done
}

value_of ()
{
  grep -oE "id=\"$2\"[^>]*" "$tmp/$1.html" |
    grep -oE "${3:-data-value}=\"[^\"]*\"" | cut -d'"' -f2
}

/usr/bin/python3 - "$(export_uri plain)" <<'PY' &
import nbd, sys, time
h = nbd.NBD()
h.connect_uri(sys.argv[1])
for i in range(7):
    h.pwrite(bytes(65536), 0)
time.sleep(600)
PY
client=$!
cleanup_fn stop_pid "$client"
wait_until 60 eval "'$BTRNBD' -s '$ctl' --json clients |
  jq -e '.[0].requests == 7'"
ok "the page in a browser" browse light
ok "and in the dark" browse dark --force-dark-mode \
  --blink-settings=preferredColorScheme=0
"$BTRNBD" -s "$ctl" --json stat >"$tmp/stat.json"
for op in read write flush trim zero; do
  for what in "data-value requests" "data-bytes bytes" \
              "data-errors errors"; do
    is "$(value_of light "total-$op" "${what% *}")" \
       "$(jq ".server.ops.$op.${what#* }" "$tmp/stat.json")" \
       "$op: ${what#* } on the page are those of stat"
  done
done
is "$(value_of light connections)" \
   "$(jq .server.connections "$tmp/stat.json")" "connections"
is "$(value_of light space-size)" "$(jq .space.total_bytes "$tmp/stat.json")" \
   "size of the pool"
is "$(grep -o 'data-name="' "$tmp/light.html" | wc -l)" \
   "$("$BTRNBD" -s "$ctl" ls | wc -l)" "one row for every export"
grep -q '&lt;img src=x onerror=alert(1)&gt;</td>\|&lt;img src=x' \
  "$tmp/light.html"
is $? 0 "a name is text"
grep -q '<img src="x"\|<img src=x' "$tmp/light.html"
is $? 1 "and never an element"
grep -q 'a &lt;b&gt;pool&lt;/b&gt;' "$tmp/light.html"
is $? 0 "so is the label"
grep -q 'class="read line" d="M' "$tmp/light.html"; is $? 0 "charts are drawn"
grep -oE 'CONSOLE.*' "$tmp/light.log" "$tmp/dark.log"
is $? 1 "the browser has no complaint"
is "$(jq -r --arg own "http://127.0.0.1:$port" '
  .events[] | .params | select (.url? and
    ((.initiator? // "") | startswith ($own))) | .url' "$tmp/light.net" |
    grep -v "^http://127.0.0.1:$port/" || true)" "" \
   "it asked nobody but its server"
is "$(jq -r '.events[] | .params.url? // empty' "$tmp/light.net" |
    grep -c "^http://127.0.0.1:$port/status.json" | grep -vx 0 | wc -l)" 1 \
   "which it did ask"
# The first pixel of a picture.
pixel ()
{
  /usr/bin/python3 - "$tmp/$1.png" <<'PY'
import struct, sys, zlib
d = open(sys.argv[1], "rb").read()
assert d[:8] == b"\x89PNG\r\n\x1a\n"
at, idat = 8, b""
while at < len(d):
    n, kind = struct.unpack(">I4s", d[at:at + 8])
    if kind == b"IHDR":
        print(*struct.unpack(">II", d[at + 8:at + 16]), end=" ")
    if kind == b"IDAT":
        idat += d[at + 8:at + 8 + n]
    at += 12 + n
print("light" if min(zlib.decompress(idat)[1:4]) > 200 else "dark")
PY
}
is "$(pixel light)" "1280 1600 light" "by day it is light"
is "$(pixel dark)" "1280 1600 dark" "by night it is dark"
if [ -n "${BTRNBD_KEEP:-}" ]; then
  cp "$tmp"/*.png "$BTRNBD_KEEP"
fi

# A reader of the metrics does not stop the end.
ok "stop" stop_daemon
done_testing
