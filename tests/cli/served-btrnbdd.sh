# The commands of names.sh on a pool that btrnbdd serves.
DAEMON=${abs_top_builddir:?}/btrnbdd
serve ()
{
  "$DAEMON" --control "$tmp/ctl" -l "unix:$tmp/nbd" --pidfile "$tmp/pid" \
    --plugin "$PLUGIN" "$img" 2>"$tmp/daemon.log" </dev/null &
  server=$!
  cleanup_fn stop_pid "$server"
  ok "btrnbdd serves" wait_until 60 test -s "$tmp/pid"
  reach=(-s "$tmp/ctl")
}
unserve ()
{
  kill "$server"
  ok "btrnbdd ends" wait "$server"
}
. "${abs_top_srcdir:?}/tests/cli/names.sh"
