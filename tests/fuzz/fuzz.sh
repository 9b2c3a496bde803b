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

# target NAME PROGRAM [SEEDS]
target ()
{
  local name=$1 program=$2 f
  ok "$name: kept inputs" "$bin/replay-$program" "$dir/corpus-$name"
  ok "$name: random inputs" \
     "$bin/replay-$program" -r "${FUZZ_RANDOM:-300}" "${FUZZ_SEED:-1}"
  if [ -x "$bin/fuzz-$program" ]; then
    mkdir "$tmp/new-$name"
    ok "$name: ${FUZZ_SECONDS:-10} seconds of fuzzing" \
       "$bin/fuzz-$program" -max_total_time="${FUZZ_SECONDS:-10}" \
       -timeout=20 -rss_limit_mb=2048 -max_len=4200 -print_final_stats=1 \
       "-artifact_prefix=$tmp/" "$tmp/new-$name" "$dir/corpus-$name" \
       "${3:-$tmp/seeds}" ||
      for f in "$tmp"/crash-* "$tmp"/timeout-* "$tmp"/oom-*; do
        [ ! -e "$f" ] || diag "$(basename "$f"): $(base64 -w0 "$f")"
      done
  else
    skip "$name: fuzzing" "configure --enable-fuzzers CC=clang"
  fi
}

target format format
target image image
# The same, of an image with a log: what it holds is changed, and replayed.
export FUZZ_BASE=$abs_top_srcdir/tests/log/log.img.zst
target log image
# Sessions of NBD clients.
mkdir "$tmp/sessions"
ok "make sessions" "$bin/nbd-seeds" "$tmp/sessions" 200
ok "nbd: sessions" "$bin/replay-nbd" "$tmp/sessions"
target nbd nbd "$tmp/sessions"
done_testing
