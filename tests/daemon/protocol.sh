#!/bin/bash
# btrnbdd speaks NBD: handshake and transmission, right and wrong.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"

for try in true false; do
  ok "start, try=$try" start_daemon --plugin "$TEST_PLUGIN" exports=4 \
    bad-at=13M try=$try log="$tmp/plugin.log" || break
  tap_from python3 "$abs_top_srcdir/tests/daemon/options.py" "$sock"
  tap_from python3 "$abs_top_srcdir/tests/daemon/transmission.py" "$sock"
  tap_from python3 "$abs_top_srcdir/tests/daemon/replies.py" "$sock" $RANDOM
  ok "SIGTERM ends it with status 0" stop_daemon
  is "$(plugin_log_count close)" "$(plugin_log_count open)" \
    "every handle was closed"
done

# Its leaks are not ours.
ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 \
  ok "start with a stock plugin" start_daemon --plugin memory 64M
ok "nbdinfo" nbdinfo "$uri"
ok "make data" dd if=/dev/urandom of="$tmp/in" bs=1M count=20 status=none
truncate -s 64M "$tmp/in"
ok "nbdcopy to it" nbdcopy "$tmp/in" "$uri"
ok "nbdcopy from it" nbdcopy "$uri" "$tmp/out"
ok "same bytes" cmp "$tmp/in" "$tmp/out"
ok "qemu-img compare" qemu-img compare -f raw -F raw "$tmp/in" "$uri"
ok "qemu-io" qemu-io -f raw "$uri" -c 'write -P 5 512 1k' \
  -c 'read -P 5 512 1k' -c 'write -z 4k 8k' -c 'read -P 0 4k 8k' \
  -c 'discard 1M 1M' -c flush
ok "fio verifies on 4 connections" fio --name=v --ioengine=nbd --uri="$uri" \
  --rw=randwrite --bs=4k --size=8M --io_size=8M --numjobs=4 --thread \
  --offset_increment=8M --iodepth=16 --verify=crc32c --do_verify=1 \
  --output="$tmp/fio.out"
ok "SIGINT ends it with status 0" stop_daemon INT

fails_with 2 'give the devices' "no plugin" "$DAEMON"
fails_with 2 'out of range' "wrong number" "$DAEMON" --plugin memory \
  --loops 0 1M
fails_with 1 'there is no plugin' "no such plugin" "$DAEMON" \
  --plugin no-such-plugin
fails_with 1 'unknown parameter' "wrong parameter" "$DAEMON" -l \
  "unix:$tmp/x" --plugin "$TEST_PLUGIN" nonsense=1
fails_with 2 'not unix:PATH' "wrong address" "$DAEMON" -l nowhere \
  --plugin "$TEST_PLUGIN"
ok "help" "$DAEMON" --help
ok "version" "$DAEMON" --version
done_testing
