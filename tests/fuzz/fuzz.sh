#!/bin/bash
# Every fuzz target survives its kept inputs; where the targets were built
# for libFuzzer too, each also runs for $FUZZ_SECONDS (10).
. "${abs_top_srcdir:?}/tests/lib/functions.sh"

dir=$abs_top_srcdir/tests/fuzz
bin=$abs_top_builddir/tests/fuzz
export FUZZ_BASE=$abs_top_srcdir/tests/corrupt/base.img.zst

mkdir "$tmp/seeds"
ok "make seeds" "$bin/seeds" "$FUZZ_BASE" "$tmp/seeds"
ok "format: seeds" "$bin/replay-format" "$tmp/seeds"
for target in format image; do
  ok "$target: kept inputs" "$bin/replay-$target" "$dir/corpus-$target"
  ok "$target: random inputs" \
     "$bin/replay-$target" -r "${FUZZ_RANDOM:-300}" "${FUZZ_SEED:-1}"
  if [ -x "$bin/fuzz-$target" ]; then
    mkdir "$tmp/new-$target"
    ok "$target: ${FUZZ_SECONDS:-10} seconds of fuzzing" \
       "$bin/fuzz-$target" -max_total_time="${FUZZ_SECONDS:-10}" \
       -timeout=20 -rss_limit_mb=2048 -max_len=4200 -print_final_stats=1 \
       "-artifact_prefix=$tmp/" "$tmp/new-$target" "$dir/corpus-$target" \
       "$tmp/seeds" ||
      for f in "$tmp"/crash-* "$tmp"/timeout-* "$tmp"/oom-*; do
        [ ! -e "$f" ] || diag "$(basename "$f"): $(base64 -w0 "$f")"
      done
  else
    skip "$target: fuzzing" "configure --enable-fuzzers CC=clang"
  fi
done
done_testing
