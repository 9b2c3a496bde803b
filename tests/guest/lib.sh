# A guest kernel as a client: user-mode Linux, with nbd, ext4, xfs and btrfs,
# up in two seconds at native speed.  Its root is the host's, read only, so
# what is installed here is there.  Source after functions.sh and
# tests/daemon/lib.sh, whose start_daemon then serves the guest too.
#
#   start_guest
#   start_daemon -d "$pool"
#   ok "attach" guest "nbd-client $HOST /dev/nbd0 -N vm1 -C 4"
#
# The guest, the servers and a tap device between them are in a network
# namespace of their own.  All of it ends with the test, however that ends.

HOST=192.0.2.1          # the servers' address, as the guest sees it
# seconds that a command in the guest may take
GUEST_TIMEOUT=60
[ -z "${BTRNBD_FULL:-}" ] || GUEST_TIMEOUT=300
guest_dir=$tmp/guest

requires_guest ()
{
  local program
  requires_root
  for program in linux.uml nbd-client ip unshare nsenter setpriv "$@"; do
    command -v "$program" >/dev/null ||
      lacks_all "$program is not installed"
  done
  [ -c /dev/net/tun ] || lacks_all "no /dev/net/tun"
  unshare --net --pid --fork true 2>/dev/null ||
    lacks_all "no namespaces"
}

# in_net COMMAND...: in place of this shell, in the guest's network.
in_net ()
{
  exec nsenter --net="/proc/$net_pid/ns/net" -- "$@"
}

start_net ()
{
  setpriv --pdeathsig KILL unshare --net sleep infinity &
  net_pid=$!
  cleanup_fn stop_pid "$net_pid"
  wait_until 60 eval "! [ /proc/$net_pid/ns/net -ef /proc/self/ns/net ]" &&
    ( in_net bash -ec "
        ip link set lo up
        ip tuntap add dev tap0 mode tap
        ip addr add $HOST/24 dev tap0
        ip link set tap0 up" ) || return 1
  # start_daemon runs this.
  printf '#!/bin/bash\nexec nsenter --net=%q -- %q -l %q --plugin-dir %q "$@"\n' \
    "/proc/$net_pid/ns/net" "$DAEMON" "$HOST:10809" "${PLUGIN%/*}" \
    >"$tmp/btrnbdd"
  chmod +x "$tmp/btrnbdd"
  DAEMON=$tmp/btrnbdd
}

# start_guest [MEMORY]
start_guest ()
{
  mkdir -p "$guest_dir" "$tmp/uml"
  rm -f "$guest_dir"/*
  [ -n "${net_pid-}" ] || start_net || return 1
  # The outer shell is the first process of a namespace that ends with it.
  ( exec setpriv --pdeathsig KILL nsenter --net="/proc/$net_pid/ns/net" -- \
      unshare --pid --fork --kill-child -- bash -c '"$@"; exit $?' guest \
      env LD_PRELOAD="$abs_top_builddir/tests/guest/.libs/xstate.so" \
      linux.uml umid=guest uml_dir="$tmp/uml" mem="${1:-512M}" \
      root=/dev/root rootfstype=hostfs rootflags=/ ro \
      vec0:transport=tap,ifname=tap0,gro=1 con=null con0=null,fd:1 \
      init=/bin/bash -- "$abs_top_srcdir/tests/guest/init.sh" "$guest_dir"
  ) >"$tmp/guest.log" 2>&1 </dev/null &
  guest_pid=$!
  cleanup_fn stop_guest
  guest true && return 0
  diag "the guest did not start:"
  diag "$(tail -n 30 "$tmp/guest.log")"
  return 1
}

# As if its power was cut.
stop_guest ()
{
  [ -n "${guest_pid-}" ] || return 0
  kill -KILL "$guest_pid" 2>/dev/null
  wait "$guest_pid" 2>/dev/null
  guest_pid=
}

# guest TEXT: run this shell script in the guest; its output and status.
guest ()
{
  local n=0 end=$((SECONDS + GUEST_TIMEOUT))
  while [ -e "$guest_dir/cmd.$n" ]; do
    n=$((n + 1))
  done
  printf '%s\n' "$*" >"$guest_dir/new"
  mv "$guest_dir/new" "$guest_dir/cmd.$n"
  until [ -e "$guest_dir/status.$n" ]; do
    if ! kill -0 "$guest_pid" 2>/dev/null; then
      echo "the guest is gone" >&2
      return 125
    fi
    if (( SECONDS >= end )); then
      cat "$guest_dir/out.$n"
      echo "nothing more after $GUEST_TIMEOUT seconds; the guest's log:" >&2
      tail -n 20 "$tmp/guest.log" >&2
      kill -KILL "$guest_pid"
      return 124
    fi
    sleep 0.05
  done
  cat "$guest_dir/out.$n"
  return "$(cat "$guest_dir/status.$n")"
}

# attach DEVICE VOLUME [ARG...], detach DEVICE: in the guest.
attach ()
{
  guest "nbd-client $HOST /dev/$1 -N ${*:2}"
}

detach ()
{
  guest "nbd-client -d /dev/$1 &&
         for i in {1..100}; do
           nbd-client -c /dev/$1 >/dev/null || exit 0; sleep 0.05
         done; exit 1"
}

# Filesystems: make one, and judge one that is not mounted.
make_fs ()
{
  case $2 in
    ext4) guest "mkfs.ext4 -q /dev/$1" ;;
    xfs) guest "mkfs.xfs -q /dev/$1" ;;
    btrfs) guest "mkfs.btrfs -q /dev/$1" ;;
  esac
}

check_fs ()
{
  case $2 in
    ext4) guest "e2fsck -f -n /dev/$1" ;;
    xfs) guest "xfs_repair -n /dev/$1" ;;
    btrfs) guest "btrfs check --readonly /dev/$1" ;;
  esac
}

# used POOL: bytes of data in it; nothing may serve it.
used ()
{
  "$BTRNBD" -d "$1" --json df | jq .data.used
}
