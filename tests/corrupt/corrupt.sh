#!/bin/bash
# Damaged images give the errors of the table.
dir=$abs_top_srcdir/tests/corrupt
exec "$abs_top_builddir/tests/corrupt/corrupt" "$dir/base.img.zst" \
  "$dir/mutations"
