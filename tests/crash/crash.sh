# Power cuts: everything that was acknowledged is there, nothing else is
# wrong.  CRASH_SEEDS names the seeds, CRASH_ARGS adds arguments.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"

command -v btrfs >/dev/null || lacks "btrfs check" "btrfs is not installed"
crash=$abs_top_builddir/tests/crash/crash
# What the judges are given does not need a disk's barriers.
dir=$tmp
shm=$(mktemp -d /dev/shm/btrnbd-crash.XXXXXX 2>/dev/null) && dir=$shm
[ "$dir" = "$tmp" ] || cleanup_fn rm -rf --one-file-system "$dir"
cuts=250 checks=20
[ -z "${BTRNBD_QUICK:-}" ] || cuts=20 checks=5
seeds=${CRASH_SEEDS:-"1 2 3 4 5 6"}
[ -z "${BTRNBD_FULL:-}" ] || seeds=${CRASH_SEEDS:-$(seq -s ' ' 1 20)}

# Every seed has a kind of pool of its own.
args_of ()
{
  case $(( $1 % 6 )) in
    0) echo "-t 3 -N 4096 -D -W -A" ;;
    1) echo "-W" ;;
    2) echo "-M -C xxhash -N 4096 -D -A -I" ;;
    3) echo "-W -t 2 -f ^no-holes,^block-group-tree -C sha256" ;;
    4) echo "-X -N 4096 -S 200 -A" ;;
    5) echo "-t 1 -E -S 80 -n 200 -D" ;;
  esac
}

for seed in $seeds; do
  args="-c $cuts -k $checks $(args_of "$seed")"
  # Word splitting is wanted.
  # shellcheck disable=SC2086
  if "$crash" -s "$seed" -d "$dir" $args ${CRASH_ARGS:-} > "$tmp/out" 2>&1
  then
    grep '^ok' "$tmp/out" | sed 's/^ok/# ok/'
    pass "seed $seed: $args"
  else
    sed 's/^/# /' "$tmp/out"
    fail "seed $seed: $args"
  fi
done
done_testing
