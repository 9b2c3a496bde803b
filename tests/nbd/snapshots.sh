# Snapshots of two volumes at one point in time, five a second, while four
# clients write to both: under nbdkit and under btrnbdd.  BTRNBD_FULL=1: for a
# minute.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/nbd/nbd.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"

seconds=4
[ -z "${BTRNBD_FULL:-}" ] || seconds=60
ctl=$tmp/ctl

clients () { tap_from /usr/bin/python3 "$abs_top_srcdir/tests/nbd/snapshots.py" "$@"; }

under ()
{
  local host=$1 img=$tmp/$1.img state=$tmp/$1.json
  shift
  ok "$host: make a pool" make_pool "$img" 2G cow 16M
  ok "$host: a nocow volume" "$BTRNBD" -d "$img" create nocow --size 16M --nocow
  BTRNBD_HOST=$host
  ok "$host: serve" serve "$@" "$img" commit-interval=1 ${control:+control="$control"} || return
  ok "$host: control socket" wait_until 60 test -S "$ctl"
  clients run "$nbdkit_sock" "$ctl" "$seconds" "$state"
  clients check "$nbdkit_sock" "$state"
  ok "$host: stop" stop_nbdkit
  rm -f "$ctl"
  ok "$host: serve again" serve "$img" || return
  clients check "$nbdkit_sock" "$state"
  ok "$host: stop" stop_nbdkit
  judge_snapshots "$host" "$img"
}

# Not in lowmem mode, which takes minutes for hundreds of trees.
judge_snapshots ()
{
  local name=$1 img=$2 dir=$tmp/mnt
  if ! command -v btrfs >/dev/null || [ "$(id -u)" != 0 ] ||
     ! grep -qw btrfs /proc/filesystems; then
    [ "${BTRNBD_REQUIRE_KERNEL:-0}" != 1 ] || fail "$name: needs the kernel's btrfs"
    return
  fi
  ok "$name: btrfs check" check_clean "$img"
  if ok "$name: mount" mount_loop "$img" "$dir"; then
    ok "$name: scrub" scrub_clean "$dir"
    ok "$name: unmount" unmount "$dir"
    ok "$name: the kernel has no complaint" kernel_is_content
  fi
}

control=$ctl under nbdkit
control='' under btrnbdd --control="$ctl"
done_testing
