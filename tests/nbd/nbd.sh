# What the NBD tests share; sourced after tests/lib/functions.sh.

requires nbdkit nbdinfo nbdcopy
requires_python_nbd
requires_file "$PLUGIN" "$BTRNBD"
if [ -z "${BTRNBD_HOST:-}" ] &&
   nm -D "$PLUGIN" 2>/dev/null | grep -q "__asan_init\|__tsan_init"; then
  skip_all "nbdkit cannot load a plugin with sanitizers"
fi

# make_pool IMAGE SIZE [VOLUME SIZE]...
make_pool ()
{
  local image=$1 size=$2
  shift 2
  "$BTRNBD" -d "$image" mkfs --size "$size" >/dev/null || return 1
  while (( $# > 0 )); do
    "$BTRNBD" -d "$image" create "$1" --size "$2" >/dev/null || return 1
    shift 2
  done
}

# serve IMAGE ARG...: a server named "s", see start_nbdkit; it has opened the
# pool and answers (the pid file comes before that).  BTRNBD_HOST=btrnbdd: the
# same plugin in our own host.
serve ()
{
  start_${BTRNBD_HOST:-nbdkit} s "$PLUGIN" "$@" &&
    wait_until 60 nbdinfo --list "$nbdkit_uri"
}

start_btrnbdd ()
{
  local name=$1 plugin=$2 options=()
  shift 2
  while [[ ${1-} = -* ]]; do
    options+=("$1")
    shift
  done
  nbdkit_sock=$tmp/$name.sock
  nbdkit_log=$tmp/$name.log
  nbdkit_uri="nbd+unix:///?socket=$nbdkit_sock"
  rm -f "$nbdkit_sock" "$tmp/$name.pid"
  "$abs_top_builddir/btrnbdd" --control off -l "unix:$nbdkit_sock" \
    --drain-timeout 3 \
    --pidfile "$tmp/$name.pid" --plugin "$plugin" "${options[@]}" "$@" \
    >"$nbdkit_log" 2>&1 </dev/null &
  nbdkit_pid=$!
  cleanup_fn stop_pid "$nbdkit_pid"
  wait_until 60 eval "[ -s '$tmp/$name.pid' ] || ! kill -0 $nbdkit_pid"
  [ -s "$tmp/$name.pid" ] || { cat "$nbdkit_log"; return 1; }
}

# kill_server: as a crash would, nothing is written any more.
kill_server ()
{
  kill -KILL "$nbdkit_pid"
  wait "$nbdkit_pid" 2>/dev/null
  return 0
}

# py NAME [ENV=VALUE...]: run the Python program on standard input, with
# "nbd", "uri (export)" and "connect (export)" defined; one TAP result.
py ()
{
  local name=$1
  shift
  {
    cat <<'PRELUDE'
import nbd, os, random, sys, threading, time
sock = os.environ['SOCK']
def uri(export=''):
    return 'nbd+unix:///%s?socket=%s' % (export, sock)
def connect(export='disk0', flags=None):
    h = nbd.NBD()
    h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    h.set_strict_mode(h.get_strict_mode() & ~nbd.STRICT_ALIGN)
    h.set_export_name(export)
    h.connect_unix(sock)
    return h
def extents(h, count, offset):
    found = []
    def cb(context, off, entries, err):
        found.extend(entries)
        return 0
    h.block_status(count, offset, cb)
    return list(zip(found[0::2], found[1::2]))
def fails(errno, fn, *args, **kw):
    try:
        fn(*args, **kw)
    except nbd.Error as e:
        assert e.errnum == errno, (e.errnum, e.string)
        return
    raise AssertionError('no error')
PRELUDE
    cat
  } >"$tmp/prog.py"
  ok "$name" env SOCK="$nbdkit_sock" "$@" \
     timeout -k 5 "${PY_TIMEOUT:-120}" /usr/bin/python3 "$tmp/prog.py"
}
