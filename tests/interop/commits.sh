# Pools of mkfs.btrfs and of ours, in every variant, changed by us at random,
# judged, changed by the kernel, and changed by us again.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
requires_kernel_btrfs
requires mkfs.btrfs

churn=$abs_top_builddir/tests/lib/churn
mkfs=$abs_top_builddir/tests/lib/mkfs-pool
requires_file "$churn" "$mkfs"
img=$tmp/img
mnt=$tmp/mnt

clean ()
{
  ok "$1: btrfs check" check_clean "$img" &&
  ok "$1: btrfs check, lowmem" check_clean "$img" lowmem
}

kernel_turn ()
{
  local i
  mount_loop "$img" "$mnt" || return
  find "$mnt" -type f -exec cat {} + >"$tmp/all" || return
  mkdir -p "$mnt/kernel"
  for i in $(seq 60); do
    head -c $((i * 1500)) /dev/urandom >"$mnt/kernel/$i" || return
  done
  rm -f "$mnt"/file*3 "$mnt"/kernel/*7
  sync -f "$mnt"
  scrub_clean "$mnt" && unmount "$mnt" && kernel_is_content
}

# one NAME: what is in $img
one ()
{
  ok "$1: change" "$churn" seed=1 threads=2 len=200000 "$img" || return
  clean "$1" || return
  # Small writes: fragments, bitmaps; then whatever comes without a close.
  ok "$1: change again" "$churn" seed=2 len=12288 ops=800 discard=1 \
    kill=1 "$img" ||
    return
  clean "$1, killed" || return
  ok "$1: the kernel's turn" kernel_turn
  unmount "$mnt"
  ok "$1: change after the kernel" "$churn" seed=3 len=60000 "$img" || return
  clean "$1, after the kernel"
}

while read -r options; do
  rm -f "$img"
  truncate -s 500M "$img"
  # Word splitting is wanted.
  # shellcheck disable=SC2086
  if mkfs.btrfs -q $options "$img" >"$tmp/mkfs" 2>&1; then
    one "mkfs.btrfs $options"
  else
    diag "mkfs.btrfs $options: $(tail -1 "$tmp/mkfs")"
  fi
done <<EOL

-n 4096
-n 65536
-M
-m single
-d dup
--csum sha256
--csum blake2
-O ^no-holes
-O ^skinny-metadata
-O ^skinny-metadata,^no-holes,^extref -R ^free-space-tree -n 4096
-R ^free-space-tree
-M -R ^free-space-tree
-R quota
EOL

for features in "" "^block-group-tree"; do
  for nodesize in 4096 65536; do
    rm -f "$img"
    ok "make $nodesize $features" "$mkfs" size=$((500 << 20)) \
      nodesize=$nodesize features="$features" "$img" &&
      one "ours $nodesize $features"
  done
done

# The free space tree: files of the old kind, a tree that is not valid.
rm -f "$img"
truncate -s 500M "$img"
mkfs.btrfs -q -R ^free-space-tree "$img" >/dev/null 2>&1
if mount_loop "$img" "$mnt" space_cache=v1; then
  for i in $(seq 100); do head -c 20000 /dev/urandom >"$mnt/old$i"; done
  sync -f "$mnt"
  rm "$mnt"/old*5
  unmount "$mnt"
  one "space cache v1"
fi
done_testing
