# Blocks and extents that the kernel has made shared (snapshots, reflinks) are
# changed by us through every one of their owners.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
requires_kernel_btrfs
requires mkfs.btrfs

churn=$abs_top_builddir/tests/lib/churn
requires_file "$churn"
img=$tmp/img
mnt=$tmp/mnt

make_pool ()
{
  local i j
  rm -f "$img"
  truncate -s 800M "$img"
  # Word splitting is wanted.
  # shellcheck disable=SC2086
  mkfs.btrfs -q $1 "$img" >/dev/null 2>&1 || return
  mount_loop "$img" "$mnt" || return
  btrfs -q subvolume create "$mnt/sub" || return
  for i in $(seq 0 99); do
    head -c $((i % 20 * 4096 + 4096)) /dev/urandom >"$mnt/sub/file0.$i"
  done
  for i in $(seq 300); do echo "$i" >"$mnt/sub/small$i"; done
  sync -f "$mnt"
  btrfs -q subvolume snapshot "$mnt/sub" "$mnt/s1" &&
  btrfs -q subvolume snapshot -r "$mnt/sub" "$mnt/kept" || return
  # More references than an extent item has room for.
  for i in $(seq 0 30); do
    for j in $(seq 12); do
      cp --reflink=always "$mnt/sub/file0.1" "$mnt/sub/file1.$((i * 12 + j))"
    done
    head -c 9000 /dev/urandom | dd of="$mnt/s1/file0.$i" conv=notrunc \
      status=none
  done
  btrfs -q subvolume snapshot "$mnt/s1" "$mnt/s2" && unmount "$mnt"
}

sums ()
{
  (cd "$mnt/kept" && find . -type f -exec sha256sum {} + | sort)
}

kernel_turn ()
{
  mount_loop "$img" "$mnt" || return
  sums >"$tmp/now" && cmp "$tmp/kept" "$tmp/now" || return
  btrfs -q subvolume snapshot "$mnt/sub" "$mnt/turn$1" || return
  echo "$1" >"$mnt/sub/by-kernel"
  unmount "$mnt" && kernel_is_content
}

one ()
{
  local turn s
  ok "$1: make" make_pool "$1" || return
  mount_loop "$img" "$mnt" ro && sums >"$tmp/kept"
  unmount "$mnt"
  for turn in 1 2 3; do
    for s in sub s1 s2; do
      ok "$1: change $s, turn $turn" "$churn" dir=$s seed=$turn threads=2 \
        ops=150 names=200 len=40000 "$img" || return
      ok "$1: btrfs check" check_clean "$img" || return
    done
    ok "$1: btrfs check, lowmem" check_clean "$img" lowmem || return
    ok "$1: the snapshot is as it was" kernel_turn "$turn" || return
  done
  mount_loop "$img" "$mnt" || return
  ok "$1: scrub" scrub_clean "$mnt"
  btrfs -q subvolume delete "$mnt/s1" "$mnt/s2" "$mnt/turn1" "$mnt/turn3"
  btrfs subvolume sync "$mnt" >/dev/null
  unmount "$mnt"
  ok "$1: check after the kernel dropped snapshots" check_clean "$img"
}

one ""
one "-n 4096 -O ^skinny-metadata"
done_testing
