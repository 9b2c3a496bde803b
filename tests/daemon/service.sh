#!/bin/bash
# The installed service under a systemd that is PID 1: of this machine's own
# root, under an overlay in memory, in namespaces of its own.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
[ -n "${BTRNBD_FULL:-}" ] ||
  skip_all "a whole systemd is started: only with BTRNBD_FULL=1"
grep -q '^#define BTRNBD_SANITIZE' "$abs_top_builddir/config.h" &&
  skip_all "the service's limits leave no room for sanitizers"
requires_root
requires systemctl dbus-daemon nbdcopy python3 unshare
for fs in overlay cgroup2; do
  grep -qw "$fs" /proc/filesystems || lacks_all "the kernel has no $fs"
done
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES

mkdir "$tmp/over" "$tmp/cgroup"
mount -t tmpfs -o mode=755 none "$tmp/over"
cleanup_fn umount "$tmp/over"
mkdir "$tmp/over/"{upper,work}
root=$tmp/over/upper
ok "make install" make -s -C "$abs_top_builddir" install DESTDIR="$root"
mkdir -p "$root/etc/systemd/system" "$root/test" "$root/var/lib"
: >"$root/etc/fstab"
cp "$abs_top_srcdir/tests/daemon/service-inside.sh" \
  "$abs_top_srcdir/tests/daemon/service-clients.py" "$root/test/"
cat >"$root/etc/systemd/system/btrnbd-test.target" <<'UNIT'
[Unit]
Requires=basic.target btrnbd-test.service
AllowIsolate=yes
UNIT
cat >"$root/etc/systemd/system/btrnbd-test.service" <<'UNIT'
[Service]
Type=oneshot
ExecStart=/bin/bash /test/service-inside.sh
StandardOutput=append:/test/tap
StandardError=append:/test/log
TimeoutStartSec=10min
UNIT

# A part of the tree of control groups that this systemd may have.
mount -t cgroup2 none "$tmp/cgroup"
cleanup_fn umount "$tmp/cgroup"
group=$tmp/cgroup/btrnbd-test.$$
mkdir "$group"
remove_group ()
{
  find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null
  [ ! -e "$group" ]
}
cleanup_fn wait_until 20 remove_group

cat >"$tmp/enter.sh" <<'ENTER'
set -e
mount --make-rprivate /
cd "$1"
mkdir root
mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work none root
cd root
mount -t proc none proc
mount -t sysfs none sys
mount -t cgroup2 none sys/fs/cgroup
mount -t tmpfs -o mode=755 none dev
for d in null zero full random urandom tty; do
  touch dev/$d
  mount --bind /dev/$d dev/$d
done
mkdir dev/shm dev/pts
ln -s /proc/self/fd dev/fd
mount -t tmpfs none run
mount -t tmpfs none tmp
mkdir run/old
pivot_root . run/old
cd /
umount -l run/old
exec env -i container=btrnbd-test PATH="$PATH" \
  /lib/systemd/systemd --system --unit=btrnbd-test.target
ENTER
bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' - "$group" \
  unshare --fork --kill-child --pid --mount --uts --ipc --net --cgroup \
  bash "$tmp/enter.sh" "$tmp/over" >"$tmp/boot.log" 2>&1 &
systemd=$!
cleanup_fn stop_pid "$systemd"
ended ()
{
  grep -q '^done$' "$root/test/tap" 2>/dev/null || ! kill -0 "$systemd"
}
wait_until 600 ended
grep -q '^done$' "$root/test/tap" ||
  diag "$(tail -n 30 "$tmp/boot.log" "$root/test/log" 2>&1)"
tap_from sed '/^done$/d' "$root/test/tap"
ok "it came to its end" grep -q '^done$' "$root/test/tap"
done_testing
