# A pool that the kernel made is served, written, and handed back.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/nbd/nbd.sh"
requires_kernel_btrfs
requires mkfs.btrfs

img=$tmp/pool.img
truncate -s 2G "$img"
ok "mkfs.btrfs" mkfs.btrfs -q -L kernel "$img"
ok "mount" mount_loop "$img" "$tmp/mnt" compress=zstd || done_testing
(
  set -e
  cd "$tmp/mnt"
  btrfs subvolume create vm1
  truncate -s 64M vm1/disk
  head -c 5M /dev/urandom | dd of=vm1/disk bs=1M seek=3 conv=notrunc
  yes "compressible text" | head -c 3M | dd of=vm1/disk conv=notrunc bs=1M
  setfattr -n user.btrnbd.description -v "made by the kernel" vm1 || :
  btrfs subvolume snapshot -r vm1 vm1@monday
  mkdir -p isos/old
  head -c 700001 /dev/urandom >isos/old/x.iso
  ln -s x.iso isos/old/link.iso
  echo tiny >tiny
  cp --reflink=always vm1/disk clone.raw
  fallocate -l 8M prealloc.raw
) >"$tmp/make.log" 2>&1 && pass "make files" ||
  { fail "make files"; diag "$(cat "$tmp/make.log")"; }
sums=$(cd "$tmp/mnt" && md5sum vm1/disk isos/old/x.iso tiny clone.raw)
ok "unmount" unmount "$tmp/mnt"

serve "$img" || { fail "serve"; done_testing; }
is "$(nbdinfo --list --json "$nbdkit_uri" | /usr/bin/python3 -c '
import json, sys
print(*[e["export-name"] for e in json.load(sys.stdin)["exports"]])')" \
   "vm1 vm1@monday clone.raw isos/old/x.iso prealloc.raw tiny @pool" "the list"
# sum_of EXPORT
sum_of ()
{
  nbdcopy "$(uri "$1")" - | md5sum | cut -d' ' -f1
}
while read -r sum name; do
  is "$(sum_of "$name")" "$sum" "$name"
done <<<"$sums"
is "$(sum_of vm1@monday)" "$(head -n1 <<<"$sums" | cut -d' ' -f1)" "snapshot"
not_ok "a symbolic link is not followed" nbdinfo "$(uri isos/old/link.iso)"
py "the snapshot is read-only, the volume is not" <<'PY'
assert connect('vm1@monday').is_read_only()
h = connect('vm1')
assert not h.is_read_only()
h.pwrite(b'n' * 100000, 1 << 20)
h.pwrite(b'm' * 777, (4 << 20) + 1)
h.trim(1 << 20, 6 << 20)
h.flush()
p = connect('prealloc.raw')
assert extents(p, 8 << 20, 0) == [(8 << 20, nbd.STATE_ZERO)]
p.pwrite(b'p' * 4096, 1 << 20)
c = connect('clone.raw')
assert c.pread(100, 1 << 20) != b'n' * 100
c.pwrite(b'c' * 5000, 123)
PY
want=$(sum_of vm1; sum_of clone.raw; sum_of vm1@monday)
ok "stop" stop_nbdkit

ok "btrfs check" check_clean "$img"
ok "btrfs check, lowmem" check_clean "$img" lowmem
ok "mount again" mount_loop "$img" "$tmp/mnt" || done_testing
is "$(cd "$tmp/mnt" && for f in vm1/disk clone.raw vm1@monday/disk; do
        md5sum <$f | cut -d' ' -f1; done)" "$want" "the kernel reads the same"
ok "scrub" scrub_clean "$tmp/mnt"
ok "the kernel writes" bash -c "cd '$tmp/mnt' &&
   head -c 3M /dev/urandom | dd of=vm1/disk bs=64k seek=11 conv=notrunc,fsync &&
   btrfs subvolume snapshot vm1 vm2"
want=$(md5sum <"$tmp/mnt/vm1/disk" | cut -d' ' -f1)
ok "unmount" unmount "$tmp/mnt"
ok "the kernel has no complaint" kernel_is_content

serve "$img" || { fail "serve"; done_testing; }
is "$(sum_of vm1)" "$want" "and we read that"
is "$(sum_of vm2)" "$want" "and its snapshot"
py "write on both sides of a snapshot" <<'PY'
a, b = connect('vm1'), connect('vm2')
old = b.pread(1 << 20, 0)
a.pwrite(b'A' * (1 << 20), 0)
assert b.pread(1 << 20, 0) == old
b.pwrite(b'B' * (1 << 19), 0)
assert a.pread(1 << 20, 0) == b'A' * (1 << 20)
a.flush()
PY
ok "stop" stop_nbdkit
judge "in the end" "$img"
done_testing
