# What fsync promised is there after a power cut: we write, Linux replays.
# LOG_ONLY picks scenarios.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
requires_kernel_btrfs
requires mkfs.btrfs python3 chattr
drive=$abs_top_builddir/tests/log/drive
requires_file "$drive"

# run_py ARG...: each line of its TAP is a test of ours.
run_py ()
{
  local what=$1 line
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
}
cleanup_fn unmount "$tmp/top"

list=$abs_top_srcdir/tests/log/scenarios
run_py "16K" --only "${LOG_ONLY:-}" "$list"
if [ -z "${BTRNBD_QUICK:-}" ]; then
  run_py "4K" --nodesize 4096 --only "${LOG_ONLY:-}" "$list"
  run_py "16K, holes" --holes --only "${LOG_ONLY:-}" "$list"
  run_py "4K, holes" --nodesize 4096 --holes --only "${LOG_ONLY:-}" "$list"
fi
done_testing
