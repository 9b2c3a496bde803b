# Power cuts with logs: what a FLUSH or an fsync acknowledged is there, names
# too, however our replay or Linux's ends it.  CRASH_SEEDS names the seeds,
# CRASH_ARGS adds arguments.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"

crash=$abs_top_builddir/tests/crash/crash
requires_file "$crash"
# Linux writes its superblocks with a barrier each; memory has none.
dir=$tmp
shm=$(mktemp -d /dev/shm/btrnbd-crash.XXXXXX 2>/dev/null) && dir=$shm
[ "$dir" = "$tmp" ] || cleanup_fn rm -rf --one-file-system "$dir"

# Every tenth is for Linux.
every=10
missing=$(BTRNBD_REQUIRE_KERNEL=0 requires_kernel_btrfs)
if [ -n "$missing" ]; then
  every=0
  lacks "Linux replays, too" "${missing#*SKIP }"
fi

points=0
run_crash ()
{
  local what=$1
  shift
  if "$crash" -L -d "$dir" -K $every "$@" ${CRASH_ARGS:-} >"$tmp/out" 2>&1
  then
    grep '^ok' "$tmp/out" | sed 's/^ok/# ok/'
    points=$((points + $(sed -n 's/^ok 2 - \([0-9]*\) cuts.*/\1/p' \
      "$tmp/out") + $(sed -n 's/^ok 5 .* cut at \([0-9]*\) places.*/\1/p' \
      "$tmp/out")))
    pass "$what: $*"
  else
    sed 's/^/# /' "$tmp/out"
    fail "$what: $*"
  fi
}

# --- a mixed load ---

# Every seed has a kind of pool and of load of its own.
args_of ()
{
  case $(( $1 % 6 )) in
    0) echo "-t 3 -V 2 -N 4096 -D" ;;
    1) echo "-t 2 -V 3" ;;
    2) echo "" ;;
    3) echo "-t 2 -f ^no-holes,^block-group-tree -C sha256" ;;
    4) echo "-t 1 -X -N 4096 -S 200" ;;
    5) echo "-M -C xxhash -N 4096 -f ^no-holes,^block-group-tree -D" ;;
  esac
}

seeds="1 2 3 4" most=500
[ -z "${BTRNBD_QUICK:-}" ] || seeds=1 most=60
[ -z "${BTRNBD_FULL:-}" ] || seeds=$(seq -s ' ' 1 12) most=600
for seed in ${CRASH_SEEDS:-$seeds}; do
  # Word splitting is wanted.
  # shellcheck disable=SC2046
  run_crash "seed $seed" -s "$seed" -T $most -k 8 $(args_of "$seed")
done

# --- eight threads flush files in three subvolumes beside commits ---

rounds=2 seconds=0 ops=500 most=100
[ -z "${BTRNBD_QUICK:-}" ] || rounds=1 ops=200 most=20
[ -z "${BTRNBD_FULL:-}" ] || seconds=60 ops=1000 most=100
end=$((SECONDS + seconds))
for (( round = 1; round <= rounds || SECONDS < end; ++round )); do
  run_crash "concurrent, round $round" -s $((100 + round)) -t 8 -V 3 -p 100 \
    -n $ops -N 4096 -c 100 -T $most -k 0
done
if [ -z "${BTRNBD_QUICK:-}${CRASH_SEEDS:-}" ]; then
  ok "5,000 cut points: $points" test $points -ge 5000
fi
done_testing
