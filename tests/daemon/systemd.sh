#!/bin/bash
# btrnbdd under systemd: notifications, passed sockets, units.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"

tap_from python3 "$abs_top_srcdir/tests/daemon/systemd.py" "$DAEMON" \
  "$TEST_PLUGIN" "$tmp"

# The units, as they would be installed.
if command -v systemd-analyze >/dev/null; then
  mkdir -p "$tmp/unit" "$tmp/bin"
  cp "$DAEMON" "$tmp/bin/" 2>/dev/null || touch "$tmp/bin/btrnbdd"
  chmod +x "$tmp/bin/btrnbdd"
  cp "$abs_top_srcdir/server/packaging/btrnbd.socket" "$tmp/unit/"
  sed "s,^ExecStart=[^ ]*,ExecStart=$tmp/bin/btrnbdd," \
    "$abs_top_builddir/server/packaging/btrnbd.service" \
    >"$tmp/unit/btrnbd.service"
  systemd-analyze verify --man=no "$tmp/unit/btrnbd.service" \
    "$tmp/unit/btrnbd.socket" >"$tmp/verify" 2>&1
  is "$(grep -F "$tmp/unit" "$tmp/verify")" "" "systemd has no complaint"
  like "$(systemd-analyze security --offline=yes --no-pager \
    "$tmp/unit/btrnbd.service" 2>/dev/null | tail -n 1)" \
    "OK|SAFE|exposure level.*[0-3]\.[0-9]" "the service is hardened"
else
  lacks "the units" "systemd-analyze is not installed"
fi
if command -v systemd-sysusers >/dev/null; then
  mkdir -p "$tmp/root/etc"
  ok "systemd-sysusers makes the user" systemd-sysusers --root="$tmp/root" \
    "$abs_top_srcdir/server/packaging/btrnbd.sysusers"
  ok "it is there" grep -q '^btrnbd:' "$tmp/root/etc/passwd"
else
  lacks "the user" "systemd-sysusers is not installed"
fi

# Every setting has its help and its place in the manual.
missing=
for name in $(sed -n 's/^  { "\([a-z-]*\)", .*SET_.*/\1/p' \
                "$abs_top_srcdir/server/daemon/settings.c"); do
  "$DAEMON" --help | grep -qe "--$name\b" || missing+=" --help:$name"
  grep -q "^=item .*B<--$name>" "$abs_top_srcdir/server/daemon/btrnbdd.pod" ||
    missing+=" btrnbdd(8):$name"
  case $name in config | check-config | device | plugin) continue ;; esac
  grep -q "B<$name>" "$abs_top_srcdir/server/daemon/btrnbd.conf.pod" ||
    missing+=" btrnbd.conf(5):$name"
done
is "$missing" "" "every setting is described"
sed "s,^device = .*,device = $tmp/pool.img," \
  "$abs_top_builddir/server/packaging/btrnbd.conf" >"$tmp/default.conf"
ok "the default configuration is in order" "$DAEMON" --check-config \
  --plugin-dir "${PLUGIN%/*}" -c "$tmp/default.conf"
done_testing
