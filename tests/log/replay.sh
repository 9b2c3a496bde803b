#!/bin/bash
# Logs that Linux left behind: its own replay of a copy is what ours must
# give, in memory and on disk.  LOG_ONLY picks scenarios.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
requires_kernel_btrfs
requires mkfs.btrfs python3 chattr
look=$abs_top_builddir/tests/log/look
requires_file "$look"
cleanup_fn unmount "$tmp/top"

# run_py WHAT ARG...: each line of its TAP is a test of ours.
run_py ()
{
  local what=$1 line before=$tap_count
  shift
  python3 "$abs_top_srcdir/tests/log/replay.py" --look "$look" --dir "$tmp" \
    "$@" >"$tmp/tap" 2>&1 || fail "$what: replay.py"
  while IFS= read -r line; do
    case $line in
      "ok - "*) pass "$what: ${line#ok - }" ;;
      "not ok - "*) fail "$what: ${line#not ok - }" ;;
      *) echo "# $line" ;;
    esac
  done <"$tmp/tap"
  [ -n "${LOG_ONLY:-}" ] || [ $tap_count -gt $before ] ||
    fail "$what: no scenario at all"
}

list=$abs_top_srcdir/tests/log/replay-scenarios
only=${LOG_ONLY:-}
if [ -n "${BTRNBD_FULL:-}" ]; then
  run_py full --only "$only" "$list"
  run_py full --nodesize 4096 --only "$only" "$list"
  run_py full --holes --only "$only" "$list"
  run_py full --nodesize 4096 --holes --only "$only" "$list"
  run_py "full, fsync.py's" --any --rotate 0 --only "$only" \
    "$abs_top_srcdir/tests/log/scenarios"
elif [ -n "${BTRNBD_QUICK:-}" ]; then
  run_py quick --rotate 1 --only "${only:-^new-file|^hc|^rename}" "$list"
else
  run_py replay --rotate 0 --only "$only" "$list"
fi
[ -z "$only" ] || done_testing

# Logs of our own, under Linux and under us.
drive=$abs_top_builddir/tests/log/drive
requires_file "$drive"
if [ -z "${BTRNBD_QUICK:-}" ]; then
  run_py "our logs" --drive "$drive" --fast --rotate 1 "$list"
fi

# Made up from seeds; any other: replay.py --random SEED 1.
count=25
[ -z "${BTRNBD_QUICK:-}" ] || count=5
[ -z "${BTRNBD_FULL:-}" ] || count=1000
run_py "random" --fast --rotate 0 --random "${LOG_SEED:-1}" $count
run_py "random, our logs" --drive "$drive" --fast --rotate 0 \
  --random "${LOG_SEED:-1}" $count

# A log that cannot be replayed: the last commit is served read-only, whoever
# asks is told what was promised beyond it, and nothing is written.
make_log ()
{
  rm -f "$tmp/k" "$tmp/cut"
  truncate -s 256M "$tmp/k"
  mkfs.btrfs -q "$tmp/k" 2>/dev/null
  ok "mount" mount_loop "$tmp/k" "$tmp/m" commit=3000
  btrfs -q subvolume create "$tmp/m/v"
  echo old >"$tmp/m/a"
  sync -f "$tmp/m"
  echo >"$tmp/m/settle"
  sync -f "$tmp/m"
  echo new >"$tmp/m/a"
  echo new >"$tmp/m/v/b"
  sync "$tmp/m/a" "$tmp/m/v/b"
  ok "power cut" cp --sparse=always "$tmp/k" "$tmp/cut"
  unmount "$tmp/m"
}

is_refused ()
{
  local what=$1 names=$2 before
  before=$(md5sum <"$tmp/cut")
  fails_with 1 'read-only' "$what: no writing" "$BTRNBD" -d "$tmp/cut" mkdir d
  like "$("$BTRNBD" -d "$tmp/cut" info 2>&1)" "$names" \
    "$what: what the log named is told"
  ok "$what: the last commit is served" "$BTRNBD" -d "$tmp/cut" get a \
    "$tmp/got"
  is "$(cat "$tmp/got")" old "$what: as it was"
  is "$(md5sum <"$tmp/cut")" "$before" "$what: nothing was written"
}

make_log
ok "damage" "$look" -d "$tmp/cut" 0
is_refused "no log root" 'nothing that can be read'
make_log
ok "damage" "$look" -d "$tmp/cut" 5
is_refused "no log of one subvolume" 'subvolume 256: inodes.* 257'

done_testing
