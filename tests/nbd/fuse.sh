# A filesystem of another kind on a volume, through nbdfuse: made, used,
# checked.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/nbd/nbd.sh"
requires nbdfuse mkfs.ext4 e2fsck mkfs.xfs xfs_repair
requires_root
[ -e /dev/fuse ] || lacks_all "no /dev/fuse"
[ -e /dev/loop-control ] || lacks_all "no loop devices"

img=$tmp/pool.img
ok "make a pool" make_pool "$img" 3G ext4 512M xfs 512M

try_fs ()
{
  local kind=$1
  mkdir -p "$tmp/$kind.fuse" "$tmp/$kind.mnt"
  nbdfuse "$tmp/$kind.fuse/disk" "$(uri "$kind")" &
  local pid=$!
  cleanup_fn stop_pid "$pid"
  cleanup_fn fusermount3 -qu "$tmp/$kind.fuse"
  ok "$kind: nbdfuse" wait_until 60 test -e "$tmp/$kind.fuse/disk" || return
  case $kind in
  ext4) ok "mkfs.ext4" mkfs.ext4 -q "$tmp/ext4.fuse/disk" || return ;;
  xfs) ok "mkfs.xfs" mkfs.xfs -q "$tmp/xfs.fuse/disk" || return ;;
  esac
  if mount -t $kind -o loop,nouuid "$tmp/$kind.fuse/disk" "$tmp/$kind.mnt" \
       2>/dev/null ||
      mount -t $kind -o loop "$tmp/$kind.fuse/disk" "$tmp/$kind.mnt"; then
    pass "$kind: mount"
    cleanup_fn unmount "$tmp/$kind.mnt"
  else
    fail "$kind: mount"
    return
  fi
  ok "$kind: copy files" cp -a /usr/share/perl5 "$tmp/$kind.mnt/"
  ok "$kind: more" bash -c "
    cd '$tmp/$kind.mnt' && for i in \$(seq 300); do
      head -c \$((i * 37)) /dev/urandom >f\$i; done && sync -f . &&
    md5sum f* >sums && rm -rf perl5 && fstrim . && cp -a /usr/share/perl5 . &&
    md5sum -c --quiet sums && diff -r /usr/share/perl5 perl5"
  ok "$kind: unmount" umount "$tmp/$kind.mnt"
  ok "$kind: fusermount" fusermount3 -u "$tmp/$kind.fuse"
  wait "$pid"
}

serve "$img" || { fail "serve"; done_testing; }
try_fs ext4
try_fs xfs
ok "stop" stop_nbdkit

# what they left, in another life of the server
serve "$img" || { fail "serve"; done_testing; }
ok "ext4 out" nbdcopy "$(uri ext4)" "$tmp/ext4.raw"
ok "e2fsck" e2fsck -fn "$tmp/ext4.raw"
ok "xfs out" nbdcopy "$(uri xfs)" "$tmp/xfs.raw"
ok "xfs_repair" xfs_repair -n "$tmp/xfs.raw"
ok "stop" stop_nbdkit
judge "in the end" "$img"
done_testing
