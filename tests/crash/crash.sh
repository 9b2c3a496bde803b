# Power cuts: everything that was acknowledged is there, nothing else is
# wrong.  CRASH_SEEDS names the seeds, CRASH_ARGS adds arguments.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"

crash=$abs_top_builddir/tests/crash/crash
cuts=500
[ -z "${BTRNBD_QUICK:-}" ] || cuts=100
seeds=${CRASH_SEEDS:-"1 2 3"}
[ -z "${BTRNBD_FULL:-}" ] || seeds=${CRASH_SEEDS:-$(seq -s ' ' 1 20)}

for seed in $seeds; do
  # One load in three runs on several threads; one has single metadata.
  args="-t $(( seed % 3 == 0 ? 3 : 0 )) -c $cuts -k 40"
  [ $(( seed % 4 )) -ne 2 ] || args="$args -M"
  # Word splitting is wanted.
  # shellcheck disable=SC2086
  if "$crash" -s "$seed" -d "$tmp" $args ${CRASH_ARGS:-} > "$tmp/out"; then
    grep '^ok' "$tmp/out" | sed 's/^ok/# ok/'
    pass "seed $seed"
  else
    sed 's/^/# /' "$tmp/out"
    fail "seed $seed"
  fi
done
done_testing
