# What fsync promised is there after a power cut: we write, Linux replays.
# LOG_ONLY picks scenarios; LOG_SEED and LOG_RANDOM (how many) change those
# that are made up.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
requires_kernel_btrfs
requires mkfs.btrfs python3 chattr
drive=$abs_top_builddir/tests/log/drive
requires_file "$drive"

# run_py ARG...: each line of its TAP is a test of ours.
run_py ()
{
  local what=$1 line before=$tap_count
  shift
  python3 "$abs_top_srcdir/tests/log/fsync.py" --drive "$drive" \
    --dir "$tmp" "$@" >"$tmp/tap" 2>&1 || fail "$what: fsync.py"
  while IFS= read -r line; do
    case $line in
      "ok - "*) pass "$what: ${line#ok - }" ;;
      "not ok - "*) fail "$what: ${line#not ok - }" ;;
      *) echo "$line" ;;
    esac
  done <"$tmp/tap"
  [ -n "${LOG_ONLY:-}" ] || [ $tap_count -gt $before ] ||
    fail "$what: no scenario at all"
}
cleanup_fn unmount "$tmp/top"

list=$abs_top_srcdir/tests/log/scenarios
only=${LOG_ONLY:-}
contents='^D|write|append|truncate|punch|sparse|inline|compress|shared|zeroes'
[ -z "${BTRNBD_FULL:-}" ] || contents=
[ -z "$only" ] || contents=$only
made_up=${LOG_RANDOM:-30}
[ -z "${BTRNBD_FULL:-}" ] || made_up=${LOG_RANDOM:-500}

run_py "16K" --only "$only" "$list"
if [ -z "${BTRNBD_QUICK:-}" ]; then
  run_py "4K, holes" --nodesize 4096 --holes --only "$only" "$list"
  run_py "4K" --nodesize 4096 --only "$contents" "$list"
  run_py "16K, holes" --holes --only "$contents" "$list"
  seed=${LOG_SEED:-1}
  run_py "made up" --random "$seed" "$made_up"
  run_py "made up, 4K" --nodesize 4096 --length 20 \
    --random $((seed + 10000)) "$made_up"
fi
done_testing
