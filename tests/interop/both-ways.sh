# Pools go back and forth: made by us or by mkfs.btrfs, written by us, judged
# and written by the kernel, read and written by us again, judged again.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
requires_kernel_btrfs
requires mkfs.btrfs
requires_file "$BTRNBD"

img=$tmp/pool.img
mnt=$tmp/mnt
mkdir "$tmp/in" "$tmp/out"
head -c 3000001 /dev/urandom >"$tmp/in/random"
head -c 1000 /dev/urandom >"$tmp/in/inline"
: >"$tmp/in/empty"
truncate -s 20M "$tmp/in/sparse"
for at in 3 77 400; do
  head -c 30000 /dev/urandom |
    dd of="$tmp/in/sparse" bs=32k seek=$at conv=notrunc status=none
done
yes "text that compresses well" | head -c 1500000 >"$tmp/in/text"

b ()
{
  "$BTRNBD" -d "$img" "$@"
}

our_writes ()
{
  local f
  b mkdir -p dir/below || return
  for f in random inline empty sparse text; do
    b put "$tmp/in/$f" "dir/$f" || return
  done
  b put --nocow "$tmp/in/random" dir/nocow &&
  b put "$tmp/in/text" dir/random2 && b put "$tmp/in/random" dir/random2 &&
  b ln dir/random hardlink && b ln -s dir/random symlink &&
  b create vol --size 32M && b put "$tmp/in/random" vol &&
  b put "$tmp/in/text" dir/gone && b rm dir/gone
}

same_in_kernel ()
{
  local f
  for f in random inline empty sparse text; do
    cmp "$tmp/in/$f" "$mnt/dir/$f" || return
  done
  cmp "$tmp/in/random" "$mnt/dir/nocow" &&
  cmp "$tmp/in/random" "$mnt/dir/random2" &&
  cmp "$tmp/in/random" "$mnt/symlink" &&
  [ "$(stat -c %h "$mnt/hardlink")" = 2 ] &&
  cmp -n 3000001 "$tmp/in/random" "$mnt/vol/disk" &&
  [ "$(stat -c %s "$mnt/vol/disk")" = $((32 << 20)) ] &&
  [ ! -e "$mnt/dir/gone" ]
}

kernel_writes ()
{
  (
    set -e
    cd "$mnt"
    head -c 2000000 /dev/urandom >kernel
    cp --reflink=always dir/random clone
    btrfs -q subvolume snapshot . snap
    btrfs -q subvolume snapshot -r vol vol@kernel
    head -c 50000 /dev/urandom |
      dd of=dir/random bs=4k seek=100 conv=notrunc,fsync status=none
    head -c 50000 /dev/urandom |
      dd of=vol/disk bs=4k seek=9 conv=notrunc status=none
    fallocate -l 1M prealloc
    fallocate -p -o 65536 -l 1M dir/text
    rm dir/inline
    for c in zlib lzo zstd; do
      touch c.$c
      btrfs property set c.$c compression $c
      cat "$tmp/in/text" >c.$c
    done
    for i in $(seq 300); do echo $i >dir/below/$i; done
    sync -f .
  ) || return
  rm -rf "$tmp/want"
  mkdir "$tmp/want"
  (cd "$mnt" && cp -r --sparse=always kernel clone prealloc dir snap/dir/random \
     vol/disk c.* "$tmp/want")
}

# What the kernel left, read by us.
same_for_us ()
{
  local f
  for f in kernel clone prealloc dir/random dir/text dir/nocow dir/sparse \
           c.zlib c.lzo c.zstd dir/below/1 dir/below/300; do
    b get "$f" "$tmp/out/f" && cmp "$tmp/out/f" "$tmp/want/$f" ||
      { echo "$f differs"; return 1; }
  done
  b get vol "$tmp/out/f" && cmp "$tmp/out/f" "$tmp/want/disk" || return
  b get snap/dir/random "$tmp/out/f" && cmp "$tmp/out/f" "$tmp/in/random" ||
    return
  b get vol@kernel "$tmp/out/f" &&
    cmp -n 3000001 "$tmp/out/f" "$tmp/in/random"
}

# Changes to what is shared, compressed, preallocated.
our_second_writes ()
{
  b put --in-place "$tmp/in/text" clone &&
  b put --in-place "$tmp/in/random" dir/random &&
  b put --in-place "$tmp/in/sparse" vol &&
  b put --in-place "$tmp/in/random" c.zstd &&
  b put --in-place "$tmp/in/inline" prealloc && b rm kernel dir/below/7 &&
  b put --in-place "$tmp/in/random" snap/dir/text &&
  b mv dir/random2 dir/moved && b resize --shrink dir/sparse 10M
}

second_same_in_kernel ()
{
  cmp "$tmp/in/text" "$mnt/clone" && cmp "$tmp/in/random" "$mnt/dir/random" &&
  cmp -n $((20 << 20)) "$tmp/in/sparse" <(head -c 20M "$mnt/vol/disk") &&
  cmp "$tmp/in/random" "$mnt/c.zstd" && cmp "$tmp/in/inline" "$mnt/prealloc" &&
  cmp "$tmp/in/random" "$mnt/snap/dir/text" &&
  cmp "$tmp/in/random" "$mnt/snap/dir/random" &&
  cmp "$tmp/want/c.lzo" "$mnt/c.lzo" &&
  cmp "$tmp/in/random" "$mnt/dir/moved" &&
  cmp -n $((10 << 20)) "$tmp/in/sparse" "$mnt/dir/sparse" &&
  [ "$(stat -c %s "$mnt/dir/sparse")" = $((10 << 20)) ] &&
  [ ! -e "$mnt/kernel" ] && [ ! -e "$mnt/dir/below/7" ] &&
  [ "$(cat "$mnt/dir/below/300")" = 300 ]
}

mounted ()
{
  mount_loop "$img" "$mnt" || return
  "$@"
  local status=$?
  unmount "$mnt" && kernel_is_content && return $status
}

mounted_and_scrubbed ()
{
  mount_loop "$img" "$mnt" || return
  "$@" && scrub_clean "$mnt"
  local status=$?
  unmount "$mnt" && kernel_is_content && return $status
}

# there_and_back NAME: $img is an empty pool.
there_and_back ()
{
  local name=$1
  ok "$name: we write" our_writes || return
  ok "$name: check" check_clean "$img" || return
  ok "$name: the kernel reads the same" mounted same_in_kernel
  ok "$name: the kernel writes" mounted kernel_writes || return
  ok "$name: we read the same" same_for_us
  ok "$name: we write again" our_second_writes || return
  ok "$name: check" check_clean "$img"
  ok "$name: check, lowmem" check_clean "$img" lowmem
  ok "$name: the kernel reads the same, scrub" \
     mounted_and_scrubbed second_same_in_kernel
}

ours ()
{
  local name="ours: $*"
  rm -f "$img"
  ok "$name: mkfs" b mkfs --size 512M "$@" && there_and_back "$name"
}

theirs ()
{
  local name="theirs: $*"
  rm -f "$img"
  truncate -s 512M "$img"
  ok "$name: mkfs" mkfs.btrfs -q "$@" "$img" && there_and_back "$name"
}

if [ "${BTRNBD_QUICK:-0}" = 1 ]; then
  ours
  ours --mixed --csum xxhash
  theirs
  done_testing
fi

ours
for csum in xxhash sha256 blake2b; do
  ours --csum $csum --nodesize 4K
done
ours --nodesize 64K --metadata single
ours --mixed
ours --mixed --metadata dup
ours --data dup --metadata dup --csum xxhash
ours -O ^block-group-tree
ours -O ^block-group-tree,^no-holes --nodesize 4K
ours -O ^block-group-tree,^free-space-tree
ours -O ^skinny-metadata
ours -O ^block-group-tree,^no-holes,^skinny-metadata,^free-space-tree,^extref

theirs
theirs --csum sha256 -n 4096 -d single -m single
theirs --csum blake2 -n 65536 -d dup -m dup
theirs --csum xxhash --mixed
theirs -R ^free-space-tree
theirs -O ^no-holes -R ^free-space-tree
theirs -O ^skinny-metadata,^extref,^no-holes -n 4096
theirs -R quota

done_testing
