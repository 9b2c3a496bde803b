# fio verifies what it wrote, over four connections at once.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/nbd/nbd.sh"
requires_fio_nbd

img=$tmp/pool.img
ok "make a pool" make_pool "$img" 1G disk0 256M
ok "a nocow volume" "$BTRNBD" -d "$img" create nocow --size 256M --nocow
serve "$img" cache-size=32M || { fail "serve"; done_testing; }

# verify NAME EXPORT ARG...
verify ()
{
  local name=$1 export=$2
  shift 2
  ok "$export: $name" timeout 300 fio --name=v --ioengine=nbd \
     --uri="$(uri "$export")" --thread --numjobs=4 --size=32M \
     --offset_increment=64M --verify=crc32c --do_verify=1 --verify_fatal=1 \
     --verify_state_save=0 --randseed=11 --iodepth=16 --group_reporting \
     --output="$tmp/fio.log" "$@" || diag "$(tail -n 30 "$tmp/fio.log")"
}

for e in disk0 nocow; do
  verify "random 4K writes" $e --rw=randwrite --bs=4k
  verify "random sizes, flushes" $e --rw=randwrite --bsrange=512-128k \
         --bs_unaligned=0 --blockalign=512 --fsync=64
  verify "sequential 1M" $e --rw=write --bs=1M
done
ok "stop" stop_nbdkit
judge "in the end" "$img"
done_testing
