#!/bin/bash
# Random mutations of valid sessions: only their own connections end.
#   MUTATIONS=COUNT MUTATIONS_SEED=SEED tests/daemon/mutations.sh
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"

count=${MUTATIONS:-${BTRNBD_FULL:+500000}}
count=${count:-25000}
seed=${MUTATIONS_SEED:-$((RANDOM * 32768 + RANDOM))}
# Nobody else comes into the innocent's export, whatever mutations make of a
# name.
printf '%s\n' "[export e4]" "max-connections = 1" >"$tmp/btrnbd.conf"

fds () { ls "/proc/$daemon_pid/fd" | wc -l; }

for try in true false; do
  ok "start, try=$try" start_daemon --config "$tmp/btrnbd.conf" \
    --plugin "$TEST_PLUGIN" exports=9 size=1M try=$try
  fds=$(fds)
  tap_from "$abs_top_builddir/tests/daemon/mutate" "$sock" "$count" "$seed" \
    e7 e4
  all_closed () { [ "$(fds)" -le "$fds" ]; }
  ok "no descriptor is left" wait_until 60 all_closed
  rss=$(awk '/VmRSS/ { print $2 }' "/proc/$daemon_pid/status")
  diag "resident: $rss KiB"
  ok "stop" stop_daemon
done
done_testing
