#!/bin/bash
# The image of a pool while volumes are written at full speed and snapshots
# come and go: Linux here and in a guest reads every file, checks and scrubs
# the image, at the start and at the end of the time, and finds the same.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
. "$abs_top_srcdir/tests/guest/lib.sh"
requires_kernel_btrfs
requires_guest nbdfuse nbdcopy jq md5sum

pool=$tmp/pool.img
seconds=${BTRNBD_FULL:+60}
seconds=${seconds:-8}
size=${BTRNBD_FULL:+96}
size=${size:-24}
ctl=$tmp/control.sock
b () { "$BTRNBD" -s "$ctl" "$@"; }

ok "make a pool" "$BTRNBD" -d "$pool" mkfs --size 4G
ok "a volume with checksums" "$BTRNBD" -d "$pool" create cow --size ${size}M
ok "a nocow volume" "$BTRNBD" -d "$pool" create nocow --size ${size}M --nocow
ok "one that is removed later" "$BTRNBD" -d "$pool" create gone --size 8M
head -c ${size}M /dev/urandom >"$tmp/data"
head -c 700001 "$tmp/data" >"$tmp/file"
ok "a file" "$BTRNBD" -d "$pool" put "$tmp/file" file
ok "a guest" start_guest || done_testing
ok "serve" start_daemon -d "$pool" image-reserve=3G discard=true ||
  done_testing
for v in cow nocow; do
  ok "fill $v" nbdcopy "$tmp/data" "$(export_uri $v)"
done
ok "fill the other" bash -c "head -c 8M '$tmp/data' | nbdcopy - '$(export_uri gone)'"
ok "snapshots" b snapshot cow nocow first

# writer VOLUME: random writes, a FLUSH now and then, until it is killed.
cat >"$tmp/writer.py" <<'PY'
import os, random, sys
import nbd
h = nbd.NBD()
h.connect_uri(sys.argv[1])
rnd = random.Random(sys.argv[1])
size, n = h.get_size(), 0
data = os.urandom(1 << 20)
while True:
    length = 4096 << rnd.randrange(5)
    at = rnd.randrange(0, size - length) & ~4095
    pos = rnd.randrange(0, len(data) - length)
    if rnd.randrange(40) == 0:
        h.trim(length, at)
    else:
        h.pwrite(data[pos:pos + length], at)
    n += 1
    if n % 32 == 0:
        h.flush()
        open(sys.argv[2], 'w').write(str(n))
PY
writer ()
{
  /usr/bin/python3 "$tmp/writer.py" "$(export_uri "$1")" "$tmp/$1.count" &
  writers+=($!)
  cleanup_fn stop_pid $!
}

snapshots ()
{
  local i=0
  while :; do
    b snapshot cow nocow t$i && b rm cow@t$i && b rm nocow@t$i || return
    i=$((i + 1))
    echo $i >"$tmp/snapshots.count"
    sleep 0.1
  done
}

# fuse NAME: the image as a file.
fuse ()
{
  mkdir -p "$tmp/$1"
  nbdfuse "$tmp/$1/disk" "$(export_uri @pool)" &
  cleanup_fn stop_pid $!
  cleanup_fn fusermount3 -qu "$tmp/$1"
  wait_until 60 test -e "$tmp/$1/disk"
}

sums ()
{
  ( cd "$1" && find . -type f | sort | xargs md5sum )
}

# look NAME: through a client of its own; what all files hold is $tmp/NAME.
look ()
{
  local disk=$tmp/$1.fuse/disk
  ok "$1: a client" fuse "$1.fuse" || return
  ok "$1: btrfs check" btrfs check --readonly "$disk"
  ok "$1: mount" mount_loop "$disk" "$tmp/$1.mnt" ro || return
  sums "$tmp/$1.mnt" >"$tmp/$1"
  ok "$1: scrub" scrub_clean_ro "$tmp/$1.mnt"
  ok "$1: the kernel has nothing to say" kernel_is_content
  ok "$1: unmount" unmount "$tmp/$1.mnt"
}

scrub_clean_ro ()
{
  local out
  out=$(btrfs scrub start -B -r "$1" 2>&1)
  echo "$out"
  grep -q "no errors found" <<<"$out"
}

writers=()
writer cow
writer nocow
snapshots >"$tmp/snapshots.log" 2>&1 &
snapshots_pid=$!
cleanup_fn stop_pid "$snapshots_pid"
ok "there is a load" wait_until 60 test -s "$tmp/snapshots.count" -a \
  -s "$tmp/cow.count" -a -s "$tmp/nocow.count"

start=$SECONDS
look start
# The first client stays: all see its generation.
ok "remove a volume" b rm gone
ok "a directory that the image has not" b mkdir later
ok "the guest attaches it" attach nbd0 @pool -R
ok "the guest mounts it" guest "mount -t btrfs -o ro /dev/nbd0 /run/mnt"
guest "cd /run/mnt && find . -type f | sort | xargs md5sum" >"$tmp/guest1"
while (( SECONDS - start < seconds )); do
  sleep 0.5
done
look end
ok "the guest drops what it has read" guest "
  umount /run/mnt && blockdev --flushbufs /dev/nbd0 &&
  mount -t btrfs -o ro /dev/nbd0 /run/mnt"
guest "cd /run/mnt && find . -type f | sort | xargs md5sum" >"$tmp/guest2"
ok "the guest scrubs it" guest "
  btrfs scrub start -B -r /run/mnt | tee /run/scrub &&
  grep -q 'no errors found' /run/scrub"
ok "the guest has nothing to say" guest "! dmesg | grep -E 'BTRFS.*(error|warning|critical)'"
diag "$(b df | tail -n1), $(cat "$tmp/cow.count") and $(cat "$tmp/nocow.count") writes, $(cat "$tmp/snapshots.count") snapshots, $((SECONDS - start)) s"
is "$(b --json df | jq -r .image.ended)" null "the image is there still"
ok "and costs something" test "$(b --json df | jq .image.held)" -gt $((8 << 20))

for i in end guest1 guest2; do
  ok "$i: all files are as at the start" cmp "$tmp/start" "$tmp/$i"
done
for f in cow/disk nocow/disk gone/disk cow@first/disk nocow@first/disk file; do
  ok "$f is there" grep -q "  ./$f\$" "$tmp/start"
done
is "$(grep "first/disk" "$tmp/start" | cut -d' ' -f1 | sort -u)" \
  "$(md5sum <"$tmp/data" | cut -d' ' -f1)" "the snapshots are what was written"
is "$(grep "/file$" "$tmp/start" | cut -d' ' -f1)" \
  "$(md5sum <"$tmp/file" | cut -d' ' -f1)" "and so is the file"
is "$(nbdcopy "$(export_uri cow@first)" - | md5sum)" \
  "$(md5sum <"$tmp/data")" "the pool says the same"

ok "writers and snapshots are at work" kill -0 "${writers[@]}" "$snapshots_pid"
for p in "$snapshots_pid" "${writers[@]}"; do
  stop_pid "$p"
done
ok "the guest unmounts" guest "umount /run/mnt"
ok "and detaches" detach nbd0
for f in end start; do
  ok "$f: its client ends" fusermount3 -u "$tmp/$f.fuse"
done
ok "nothing is held any more" wait_until 60 eval \
  '[ "$(b --json df | jq .image.held)" = 0 ]'
ok "stop" stop_daemon
ok "the pool is clean" check_clean "$pool"
done_testing
