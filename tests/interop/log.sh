#!/bin/bash
# Logs: ours under Linux, Linux's under us; what we cannot replay stays.
. "$abs_top_srcdir/tests/lib/functions.sh"
requires_kernel_btrfs
requires setfattr
requires getfattr

sums () { (cd "$1" && find . -type f -exec md5sum {} + | sort -k 2); }

# P>K and P>P: writes of a volume and of a nocow one, each flushed; the image
# is copied while it is served, as a power cut would leave it.
for nodesize in 4096 16384; do
  ok "mkfs" "$BTRNBD" -d "$tmp/pool" mkfs --size 1G --nodesize $nodesize \
    --force
  ok "create" "$BTRNBD" -d "$tmp/pool" create cow --size 256M
  ok "create" "$BTRNBD" -d "$tmp/pool" create place --size 64M --nocow
  start_nbdkit s "$PLUGIN" "$tmp/pool" commit-interval=3600
  for name in cow place; do
    u=$(uri $name)
    ok "$name: first writes" qemu-io -f raw "$u" -c 'write -P 1 0 2M' \
      -c 'write -P 2 16M 1M' -c flush
    for i in 1 2 3 4 5; do
      ok "$name: round $i" qemu-io -f raw "$u" \
        -c "write -P 1$i 64k 64k" -c "write -P 2$i ${i}M 12k" \
        -c "write -P 3$i $((i * 300))k 512" -c 'discard 512k 64k' \
        -c "write -z 17M 64k" -c "write -P 4$i 17000k 8k" -c flush
    done
    ok "$name: what is expected" nbdcopy "$u" "$tmp/want-$name"
  done
  ok "power cut" cp --sparse=always "$tmp/pool" "$tmp/cut"
  ok "end" stop_nbdkit
  like "$(btrfs inspect-internal dump-super "$tmp/cut")" \
    'log_root[[:space:]]+[1-9]' "the log holds it"
  cp --sparse=always "$tmp/cut" "$tmp/ours"
  ok "Linux replays" mount_loop "$tmp/cut" "$tmp/m"
  for name in cow place; do
    ok "Linux: $name" cmp "$tmp/want-$name" "$tmp/m/$name/disk"
  done
  ok "scrub" scrub_clean "$tmp/m"
  unmount "$tmp/m"
  for name in cow place; do
    ok "read-only: get $name" "$BTRNBD" -d "$tmp/ours" get $name/disk \
      "$tmp/got"
    ok "read-only: $name" cmp "$tmp/want-$name" "$tmp/got"
  done
  like "$(btrfs inspect-internal dump-super "$tmp/ours")" \
    'log_root[[:space:]]+[1-9]' "reading wrote nothing"
  ok "open for writing" "$BTRNBD" -d "$tmp/ours" mkdir d
  like "$(btrfs inspect-internal dump-super "$tmp/ours")" \
    'log_root[[:space:]]+0' "the log is gone"
  ok "check after our replay" check_clean "$tmp/ours"
  ok "mount" mount_loop "$tmp/ours" "$tmp/m"
  for name in cow place; do
    ok "ours: $name" cmp "$tmp/want-$name" "$tmp/m/$name/disk"
  done
  ok "scrub" scrub_clean "$tmp/m"
  unmount "$tmp/m"
  rm -f "$tmp"/want-* "$tmp/got" "$tmp/pool" "$tmp/cut" "$tmp/ours"
done

# K>P: Linux fsyncs an old file after writes, holes, truncation, attributes;
# its replay of a copy is what is expected.
truncate -s 1G "$tmp/k"
mkfs.btrfs -q "$tmp/k"
ok "mount" mount_loop "$tmp/k" "$tmp/m" commit=300
for f in a b c; do
  dd if=/dev/urandom of="$tmp/m/$f" bs=64k count=32 status=none
  setfattr -n user.old -v 1 "$tmp/m/$f"
done
sync -f "$tmp/m"
dd if=/dev/urandom of="$tmp/m/a" bs=4k seek=10 count=7 conv=notrunc,fsync \
  status=none
fallocate -p -o 65536 -l 131072 "$tmp/m/b"
truncate -s 1500000 "$tmp/m/b"
setfattr -x user.old "$tmp/m/b"
setfattr -n user.new -v 2 "$tmp/m/b"
dd if=/dev/urandom of="$tmp/m/b" bs=1k seek=99 count=1 conv=notrunc,fsync \
  status=none
truncate -s 8M "$tmp/m/c"
fallocate -o 4M -l 1M "$tmp/m/c"
dd if=/dev/urandom of="$tmp/m/c" bs=4k seek=1030 count=3 \
  conv=notrunc,fsync status=none
ok "power cut" cp --sparse=always "$tmp/k" "$tmp/cut"
unmount "$tmp/m"
cp --sparse=always "$tmp/cut" "$tmp/ours"
ok "Linux replays" mount_loop "$tmp/cut" "$tmp/m"
want=$(sums "$tmp/m"; getfattr -d -R --absolute-names "$tmp/m" | sort)
unmount "$tmp/m"
ok "we replay" "$BTRNBD" -d "$tmp/ours" mkdir d
ok "check after our replay" check_clean "$tmp/ours"
ok "mount" mount_loop "$tmp/ours" "$tmp/m"
is "$(sums "$tmp/m"; getfattr -d -R --absolute-names "$tmp/m" | sort)" \
  "$want" "the same files"
ok "scrub" scrub_clean "$tmp/m"
unmount "$tmp/m"

done_testing
