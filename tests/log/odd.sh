#!/bin/bash
# Replay of a kept image when something goes wrong: see odd.c.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
requires_file "$abs_top_builddir/tests/log/odd"
exec "$abs_top_builddir/tests/log/odd" "$abs_top_srcdir/tests/log/log.img.zst" \
  "$abs_top_srcdir/tests/log/log.list"
