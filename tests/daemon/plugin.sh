#!/bin/bash
# The plugin's own tests, with btrnbdd in nbdkit's place.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"

export BTRNBD_HOST=btrnbdd BTRNBD_QUICK=1
names="io signals clients copy discard qemu-io fio enospc"
# These start nbdkit too, which cannot load a plugin with sanitizers.
nm -D "$PLUGIN" 2>/dev/null | grep -q "__asan_init\|__tsan_init" ||
  names="info params $names"
for name in $names; do
  if bash "$abs_top_srcdir/tests/nbd/$name.sh" >"$tmp/out" 2>&1 </dev/null &&
     grep -q '^1\.\.0 # SKIP' "$tmp/out"; then
    skip "$name" "$(sed -n 's/^1\.\.0 # SKIP //p' "$tmp/out")"
    continue
  fi
  # Its numbers become a part of the names here.
  tap_from sed "s/^\(not \|\)ok \([0-9]*\) -/\1ok $name \2:/" "$tmp/out"
  grep -q '^1\.\.[1-9]' "$tmp/out"; is $? 0 "$name ran to its end"
done
done_testing
