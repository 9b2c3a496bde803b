# Shell tests (bash): TAP, skips, cleanup, loop mounts, judges, nbdkit.
#
#   . "$abs_top_srcdir/tests/lib/functions.sh"
#   requires_kernel_btrfs
#   ok "what is expected" some command      # passes when the command does
#   is "$got" "$want" "what is compared"
#   done_testing
#
# Every test has a private directory $tmp, which is removed at the end; what
# was mounted, attached or started is undone in reverse order, also after a
# failure or a signal.

set -u
: "${abs_top_srcdir:?run by make check}" "${abs_top_builddir:?}"

# configure may have written it as BUILD/..
abs_top_srcdir=$(cd "$abs_top_srcdir" && pwd) || exit 99

BTRNBD=$abs_top_builddir/server/cli/btrnbd
PLUGIN=$abs_top_builddir/plugins/btrfs/.libs/nbdkit-btrfs-plugin.so
export LC_ALL=C PYTHONDONTWRITEBYTECODE=1
# No test finds a server that it was not told of.
export BTRNBD_SOCKET=
# Sanitizers must fail the program that they watch, and libraries that the
# hosts load are not ours to check for leaks.
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}

# --- cleanup ---

cleanup_stack=()

# cleanup_fn COMMAND ARG...: run at exit, last registered first.
cleanup_fn ()
{
  cleanup_stack+=("$(printf '%q ' "$@")")
}

run_cleanups ()
{
  local status=$? i
  trap - EXIT INT TERM
  for (( i = ${#cleanup_stack[@]} - 1; i >= 0; i-- )); do
    eval "${cleanup_stack[i]}" >&2 || true
  done
  exit "$status"
}
trap run_cleanups EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

tmp=$(mktemp -d "${TMPDIR:-/tmp}/btrnbd-test.XXXXXX") || exit 99
cleanup_fn rm -rf --one-file-system "$tmp"

# --- TAP ---

tap_count=0
tap_failed=0

diag ()
{
  printf '%s\n' "$*" | sed 's/^/# /'
}

pass ()
{
  tap_count=$((tap_count + 1))
  echo "ok $tap_count - $*"
}

fail ()
{
  tap_count=$((tap_count + 1))
  tap_failed=$((tap_failed + 1))
  echo "not ok $tap_count - $*"
}

# One test that is left out on purpose, on any machine of the kind, and why.
skip ()
{
  tap_count=$((tap_count + 1))
  echo "ok $tap_count - $1 # SKIP $2"
}

skip_all ()
{
  echo "1..0 # SKIP $*"
  exit 0
}

# What this machine lacks.  Where it must have everything, as in CI
# (BTRNBD_REQUIRE_KERNEL=1), that is a failure.
machine_is_complete ()
{
  [ "${BTRNBD_REQUIRE_KERNEL:-0}" = 1 ]
}

# lacks NAME WHAT: for one test.
lacks ()
{
  if machine_is_complete; then
    fail "$1"
    diag "$2 (BTRNBD_REQUIRE_KERNEL=1)"
  else
    skip "$1" "$2"
  fi
}

# lacks_all WHAT: before the first test, for all of them.
lacks_all ()
{
  machine_is_complete || skip_all "$*"
  echo "1..1"
  echo "not ok 1 - $* (BTRNBD_REQUIRE_KERNEL=1)"
  exit 1
}

# ok NAME COMMAND ARG...
ok ()
{
  local name=$1 log=$tmp/ok.log status
  shift
  "$@" >"$log" 2>&1 </dev/null
  status=$?
  if (( status == 0 )); then
    pass "$name"
    return 0
  fi
  fail "$name"
  diag "status $status: $*"
  tail -n 40 "$log" | sed 's/^/#   /'
  return 1
}

# not_ok NAME COMMAND ARG...: the command must fail with a plain status, not
# by a signal.
not_ok ()
{
  local name=$1 log=$tmp/ok.log status
  shift
  "$@" >"$log" 2>&1 </dev/null
  status=$?
  if (( status != 0 && status < 126 )); then
    pass "$name"
    return 0
  fi
  fail "$name"
  diag "status $status, a failure was expected: $*"
  tail -n 40 "$log" | sed 's/^/#   /'
  return 1
}

# fails_with STATUS PATTERN NAME COMMAND ARG...: status, and the extended
# pattern in what the command says.
fails_with ()
{
  local want=$1 pattern=$2 name=$3 log=$tmp/ok.log status
  shift 3
  "$@" >"$log" 2>&1 </dev/null
  status=$?
  if (( status == want )) && grep -Eq -e "$pattern" "$log"; then
    pass "$name"
    return 0
  fi
  fail "$name"
  diag "status $status (want $want), text to match: $pattern"
  tail -n 40 "$log" | sed 's/^/#   /'
  return 1
}

is ()
{
  if [ "$1" = "$2" ]; then
    pass "$3"
  else
    fail "$3"
    diag "got:  $1"
    diag "want: $2"
    return 1
  fi
}

like ()
{
  if [[ $1 =~ $2 ]]; then
    pass "$3"
  else
    fail "$3"
    diag "got: $1"
    diag "does not match: $2"
    return 1
  fi
}

# The last line of every test; a test that never gets here has no plan, and
# that is a failure.
done_testing ()
{
  echo "1..$tap_count"
  (( tap_failed == 0 ))
  exit $?
}

# --- what the machine must have ---

requires ()
{
  local program
  for program in "$@"; do
    command -v "$program" >/dev/null ||
      lacks_all "$program is not installed"
  done
}

requires_file ()
{
  local f
  for f in "$@"; do
    [ -e "$f" ] || lacks_all "${f#"$abs_top_builddir"/} was not built"
  done
}

requires_root ()
{
  [ "$(id -u)" = 0 ] || lacks_all "needs root"
}

requires_python_nbd ()
{
  /usr/bin/python3 -c 'import nbd' 2>/dev/null ||
    lacks_all "python3-libnbd is not installed"
}

requires_fio_nbd ()
{
  requires fio
  fio --enghelp 2>/dev/null | grep -qw nbd || lacks_all "fio has no nbd engine"
}

# The kernel is the judge.
requires_kernel_btrfs ()
{
  requires_root
  command -v btrfs >/dev/null || lacks_all "btrfs is not installed"
  grep -qw btrfs /proc/filesystems || modprobe -q btrfs 2>/dev/null
  grep -qw btrfs /proc/filesystems || lacks_all "no btrfs in the kernel"
  [ -e /dev/loop-control ] || lacks_all "no loop devices"
  [ -r /dev/kmsg ] || lacks_all "/dev/kmsg cannot be read"
}

# --- mounts ---

# Directory -> the loop device under it, and its file as the kernel names it.
declare -A loops=() loop_files=()
kernel_dir=

backing_file ()
{
  cat "/sys/block/${1#/dev/}/loop/backing_file" 2>/dev/null
}

# detach_loop DEVICE FILE: it is free, or somebody else's.  Programs that look
# at all devices may hold it for a moment.
detach_loop ()
{
  losetup -d "$1"
  wait_until 60 eval '[ "$(backing_file '"$1"')" != "'"$2"'" ]'
}

# What a mount that was cut short has left.
detach_loops ()
{
  local f
  for f in /sys/block/loop*/loop/backing_file; do
    case $(cat "$f" 2>/dev/null) in
      "$tmp"/*) f=${f%/loop/*}; losetup -d "/dev/${f##*/}" ;;
    esac
  done
}
cleanup_fn detach_loops

# mount_loop IMAGE DIR [OPTIONS]: unmount gives the loop device back.
mount_loop ()
{
  local dev flags=()
  [[ ,${3:-}, != *,ro,* ]] || flags=(-r)
  mkdir -p "$2"
  dev=$(losetup "${flags[@]}" --show -f "$1") || return 1
  loops[$2]=$dev
  loop_files[$2]=$(backing_file "$dev")
  kernel_dir=$2 kernel_text=
  kernel_mark=$(python3 "$abs_top_srcdir/tests/lib/kmsg.py" mark) || return 1
  cleanup_fn unmount "$2"
  mount -t "${mount_type:-btrfs}" ${3:+-o "$3"} "$dev" "$2" && return 0
  unmount "$2"
  return 1
}

# What the kernel complained about in the last mount_loop, until now or until
# its unmount.
kernel_complaints ()
{
  local dev=${loops[$kernel_dir]-}
  if [ -n "$dev" ]; then
    python3 "$abs_top_srcdir/tests/lib/kmsg.py" complaints "$kernel_mark" \
      "${dev#/dev/}" || echo "/dev/kmsg cannot be read"
  else
    echo -n "$kernel_text"
  fi
}

umount_retry ()
{
  local i
  for i in 1 2 3 4 5; do
    mountpoint -q "$1" || return 0
    umount "$1" && return 0
    sleep 0.5
  done
  umount -l "$1"
  return 1
}

# unmount DIR: what the kernel said is read before somebody else can have the
# loop device.
unmount ()
{
  local status=0 dev=${loops[$1]-}
  umount_retry "$1" || status=1
  [ -n "$dev" ] || return $status
  [ "$1" != "$kernel_dir" ] || kernel_text=$(kernel_complaints)
  detach_loop "$dev" "${loop_files[$1]}" || status=1
  unset "loops[$1]" "loop_files[$1]"
  return $status
}

kernel_is_content ()
{
  local text
  text=$(kernel_complaints)
  [ -z "$text" ] || { echo "$text"; return 1; }
}

# --- judges ---

# patient COMMAND ARG...: btrfs-progs look at all mounts of the machine, and
# give up when the loop device under one of them is just going away.
patient ()
{
  local i out status
  for i in 1 2 3 4 5; do
    out=$(command "$@" 2>&1)
    status=$?
    [[ $status != 0 && $out == *"mount status"* ]] || break
  done
  [ -z "$out" ] || echo "$out"
  return $status
}

mkfs.btrfs ()
{
  patient mkfs.btrfs "$@"
}

# check_clean IMAGE [original|lowmem]
check_clean ()
{
  local out
  out=$(patient btrfs check --readonly --mode="${2:-original}" "$1" 2>&1) &&
    grep -q "no error found" <<<"$out" &&
    ! grep -Eqi "^ERROR|^WARNING|mismatch|bad |wrong |missing" <<<"$out" &&
    return 0
  echo "$out"
  return 1
}

# scrub_clean MOUNTED-DIR
scrub_clean ()
{
  local out
  out=$(btrfs scrub start -BR "$1" 2>&1) || { echo "$out"; return 1; }
  awk '/_errors:/ && $2 != 0 { bad = 1 }
       /data_bytes_scrubbed/ { seen = 1 }
       END { exit bad || !seen }' <<<"$out" || { echo "$out"; return 1; }
}

# judge NAME IMAGE: check in both modes, a kernel mount and a scrub.
judge ()
{
  local name=$1 image=$2 dir=$tmp/judge.mnt
  ok "$name: btrfs check" check_clean "$image" || return 1
  ok "$name: btrfs check, lowmem" check_clean "$image" lowmem
  if ok "$name: mount" mount_loop "$image" "$dir"; then
    ok "$name: scrub" scrub_clean "$dir"
    ok "$name: unmount" unmount "$dir"
    ok "$name: the kernel has no complaint" kernel_is_content
  fi
}

# --- nbdkit ---

# wait_until SECONDS COMMAND ARG...
wait_until ()
{
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    (( SECONDS < end )) || return 1
    sleep 0.1
  done
}

# $port is a TCP port that nobody listens on, here or in the range that the
# kernel takes for clients, and that no other test takes meanwhile.
free_port ()
{
  for port in $(shuf -i 20000-32000 -n 100); do
    mkdir "${TMPDIR:-/tmp}/btrnbd-test.port.$port" 2>/dev/null || continue
    cleanup_fn rmdir "${TMPDIR:-/tmp}/btrnbd-test.port.$port"
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || return 0
  done
  fail "a free port"
  return 1
}

stop_pid ()
{
  kill "$1" 2>/dev/null || return 0
  wait_until 60 eval "! kill -0 $1" || kill -KILL "$1" 2>/dev/null
  wait "$1" 2>/dev/null
  return 0
}

# exec_with_plugin COMMAND...: in place of this shell, a host that is built
# without the plugin's sanitizers.  Their runtime must be loaded first; leaks,
# which may be the host's, are not looked for.
exec_with_plugin ()
{
  local runtime
  runtime=$(ldd "$PLUGIN" | awk '/lib[at]san\.so/ { print $3; exit }')
  if [ -n "$runtime" ]; then
    export ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 LD_PRELOAD=$runtime
  fi
  exec "$@"
}

# start_nbdkit NAME ARG...: serves on $tmp/NAME.sock; $nbdkit_pid, $nbdkit_uri
# (without an export name) and $nbdkit_log tell the rest.
start_nbdkit ()
{
  local name=$1
  shift
  nbdkit_sock=$tmp/$name.sock
  nbdkit_log=$tmp/$name.log
  nbdkit_uri="nbd+unix:///?socket=$nbdkit_sock"
  rm -f "$nbdkit_sock" "$tmp/$name.pid"
  exec_with_plugin nbdkit --exit-with-parent -f -U "$nbdkit_sock" \
         -P "$tmp/$name.pid" "$@" >"$nbdkit_log" 2>&1 </dev/null &
  nbdkit_pid=$!
  cleanup_fn stop_pid "$nbdkit_pid"
  wait_until 60 eval "[ -s '$tmp/$name.pid' ] || ! kill -0 $nbdkit_pid"
  if ! [ -s "$tmp/$name.pid" ]; then
    cat "$nbdkit_log"
    return 1
  fi
}

# stop_nbdkit: SIGTERM, and the exit status it ends with.
stop_nbdkit ()
{
  kill "$nbdkit_pid" || return 1
  wait "$nbdkit_pid"
}

# uri NAME: of an export of the server started last.
uri ()
{
  echo "nbd+unix:///$1?socket=$nbdkit_sock"
}
