# Memory stays within cache-size + 96 MiB while a volume is torn into extents
# of one sector each, read, and torn again: under nbdkit and under btrnbdd.
# BTRNBD_FULL=1: with the default cache, and a volume that goes with it.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/nbd/nbd.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
requires_fio_nbd

cache=128 size=512 again=80000
if [ -n "${BTRNBD_FULL:-}" ]; then
  cache=256 size=2048 again=600000
elif [ -n "${BTRNBD_QUICK:-}" ]; then
  size=256 again=20000
fi
img=$tmp/pool.img

# load NAME ARG...: $uri is the export's
load ()
{
  local name=$1
  shift
  ok "$host: $name" timeout 900 fio --name=m --ioengine=nbd --uri="$uri" \
     --thread --bs=4k --iodepth=32 --size=${size}M --output="$tmp/fio.log" \
     "$@" || diag "$(tail -n 30 "$tmp/fio.log")"
}

# bound PID: the most that was ever resident, in MiB
bound ()
{
  local mib
  mib=$(awk '/^VmHWM/ { print int ($2 / 1024) }' "/proc/$1/status")
  diag "$host: at most $mib MiB"
  ok "$host: cache-size + 96 MiB are enough" \
     test "$mib" -le $(( cache + 96 ))
}

# workloads PID: on a volume that is torn already
workloads ()
{
  load "4K reads" --rw=randread --norandommap=1 --number_ios=20000
  load "4K writes once more" --rw=randwrite --norandommap=1 \
       --number_ios=$again --randseed=7 --end_fsync=1
  load "trims" --rw=trim --bs=64k --io_size=$(( size / 8 ))M
  load "large writes and reads" --rw=rw --bs=1M --io_size=$(( size / 2 ))M \
       --end_fsync=1
  bound "$1"
}

ok "make a pool" make_pool "$img" $(( size * 3 ))M disk ${size}M
host=nbdkit
if serve "$img" cache-size=${cache}M; then
  uri=$(uri disk)
  load "4K writes all over the volume" --rw=randwrite --end_fsync=1
  workloads "$nbdkit_pid"
  ok "stop nbdkit" stop_nbdkit
else
  fail "serve"
fi
host=btrnbdd
if start_daemon --plugin "$PLUGIN" "$img" cache-size=${cache}M; then
  uri=$(export_uri disk)
  workloads "$daemon_pid"
  ok "stop btrnbdd" stop_daemon
else
  fail "start btrnbdd"
fi
# The other mode of btrfs check takes minutes for so many extents.
ok "btrfs check" check_clean "$img"
done_testing
