# Tests of btrnbdd: starting and stopping it.  Source after functions.sh.

DAEMON=$abs_top_builddir/btrnbdd
TEST_PLUGIN=$abs_top_builddir/tests/daemon/.libs/btrnbdtest.so

# start_daemon ARG...: serve on $sock; sets daemon_pid and uri.
start_daemon ()
{
  sock=$tmp/nbd.sock
  uri="nbd+unix:///?socket=$sock"
  rm -f "$tmp/daemon.pid"
  "$DAEMON" -l "unix:$sock" --control "$tmp/control.sock" --pidfile "$tmp/daemon.pid" "$@" \
    2>"$tmp/daemon.log" </dev/null &
  daemon_pid=$!
  cleanup_fn end_daemon
  wait_until 60 eval "[ -s '$tmp/daemon.pid' ] || ! kill -0 $daemon_pid"
  [ -s "$tmp/daemon.pid" ] && return 0
  diag "btrnbdd did not start:"
  diag "$(cat "$tmp/daemon.log")"
  return 1
}

export_uri ()
{
  echo "nbd+unix:///$1?socket=$sock"
}

# stop_daemon [SIGNAL]: its exit status.
stop_daemon ()
{
  local status
  kill -"${1:-TERM}" "$daemon_pid"
  wait "$daemon_pid"
  status=$?
  daemon_pid=
  return $status
}

end_daemon ()
{
  [ -z "${daemon_pid:-}" ] && return
  kill -KILL "$daemon_pid" 2>/dev/null
  wait "$daemon_pid" 2>/dev/null
}

# The number of lines of a kind in the test plugin's log.
plugin_log_count ()
{
  grep -c "^$1 " "$tmp/plugin.log" 2>/dev/null || true
}

# tap_from COMMAND...: unnumbered TAP lines of a program become ours.
tap_from ()
{
  local line last= seen=0
  while IFS= read -r line; do
    case $line in
      "ok "*) pass "${line#ok }"; seen=1;;
      "not ok "*) fail "${line#not ok }"; seen=1;;
      "status "*) last=$line;;
      *) diag "$line";;
    esac
  done < <("$@" 2>&1; echo "status $?")
  [ "$last" = "status 0" ] && [ $seen = 1 ] ||
    fail "$* ran to its end"
}
