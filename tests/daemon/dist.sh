#!/bin/bash
# The tarball builds, installs, runs from where it was installed, and leaves
# nothing behind when it is uninstalled.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
[ -z "${BTRNBD_QUICK:-}" ] || skip_all "a whole build: not when quick"
grep -q '^#define BTRNBD_SANITIZE' "$abs_top_builddir/config.h" &&
  skip_all "once is enough, without sanitizers"
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES

cd "$abs_top_builddir" || exit 99
rm -f ./*.tar.xz
ok "make dist" make dist-xz || done_testing
mkdir "$tmp/src"
tar -xf ./*.tar.xz -C "$tmp/src" --strip-components=1
rm ./*.tar.xz
chmod -R a-w "$tmp/src"
mkdir "$tmp/build"
cd "$tmp/build" || exit 99
at=$tmp/inst
# What optimization makes of it other tests see.
ok "configure, the source read-only" "$tmp/src/configure" -q CFLAGS=-O0 \
  --prefix="$at"
ok "make" make -j"$(nproc)"
ok "make install" make install
for f in bin/btrnbd bin/btrnbdd lib/nbdkit/plugins/nbdkit-btrfs-plugin.so \
  etc/btrnbd/btrnbd.conf lib/systemd/system/btrnbd.service \
  lib/systemd/system/btrnbd.socket lib/sysusers.d/btrnbd.conf \
  share/man/man1/btrnbd.1 share/man/man1/nbdkit-btrfs-plugin.1 \
  share/man/man5/btrnbd.conf.5 share/man/man8/btrnbdd.8 \
  share/man/man7/btrnbd-control.7 include/btrnbd/plugin-ext.h; do
  [ -s "$at/$f" ]; is $? 0 "it has $f"
done
for page in man5/btrnbd.conf.5 man8/btrnbdd.8; do
  is "$(sed 's/\\//g' "$at/share/man/$page" |
        grep -o "/[^ ]*/btrnbd/btrnbd.conf" | sort -u)" \
     "$at/etc/btrnbd/btrnbd.conf" "$page tells where the configuration is"
done
DAEMON=$at/bin/btrnbdd
ok "mkfs" "$at/bin/btrnbd" -d "$tmp/pool.img" mkfs --size 256M
ok "create" "$at/bin/btrnbd" -d "$tmp/pool.img" create disk0 --size 1M
sed "s,^device = .*,device = $tmp/pool.img," "$at/etc/btrnbd/btrnbd.conf" \
  >"$tmp/btrnbd.conf"
ok "serve what was installed" start_daemon -c "$tmp/btrnbd.conf"
is "$(nbdinfo --size "$(export_uri disk0)")" 1048576 "a client"
ok "stop" stop_daemon
ok "nbdkit's own plugins are found, too" "$DAEMON" --check-config \
  --plugin memory 1M
echo "# mine" >>"$at/etc/btrnbd/btrnbd.conf"
ok "make install again" make install
ok "the configuration was left alone" grep -q '^# mine' \
  "$at/etc/btrnbd/btrnbd.conf"
ok "make uninstall" make uninstall
is "$(find "$at" -type f | sed "s,^$at/,,")" etc/btrnbd/btrnbd.conf \
  "only the administrator's file is left"
chmod -R u+w "$tmp/src"
done_testing
