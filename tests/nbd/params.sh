# Parameters of the plugin, --dump-plugin, and devices that are refused.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/nbd/nbd.sh"

img=$tmp/pool.img
ok "make a pool" make_pool "$img" 1G disk0 10M

ok "--dump-plugin" nbdkit "$PLUGIN" --dump-plugin
dump=$(cat "$tmp/ok.log")
like "$dump" "name=btrfs" "its name"
like "$dump" "magic_config_key=device" "the magic key"
like "$dump" "btrfs_version=[0-9]" "our version"
like "$dump" "btrfs_checksums=crc32c" "features"
ok "--help" nbdkit "$PLUGIN" --help
like "$(cat "$tmp/ok.log")" "cache-size=" "help names the parameters"

# refused STATUS-TEXT PARAMETER...: one clear line, exit 1
refused ()
{
  local pattern=$1
  shift
  fails_with 1 "$pattern" "refused: ${*//$tmp\//}" \
             nbdkit -f -U "$tmp/p.sock" "$PLUGIN" "$@" --run true
  is "$(grep -c 'error:' "$tmp/ok.log")" 1 "in one line" ||
    diag "$(cat "$tmp/ok.log")"
}
refused "name the pool"
refused "unknown parameter 'colour'" "$img" colour=red
refused "cache-size" "$img" cache-size=1
refused "cache-size" "$img" cache-size=100P
refused "" "$img" cache-size=many
refused "commit-interval" "$img" commit-interval=0
refused "" "$img" commit-interval=x
refused "" "$img" readonly=perhaps
refused "" "$img" discard=sometimes
refused "twice" "$img" "$img"
refused "No such file|cannot open" "$tmp/nosuch"
truncate -s 1M "$tmp/empty"
refused "superblock" "$tmp/empty"
truncate -s 0 "$tmp/zero"
refused "small|superblock" "$tmp/zero"
refused "" "$tmp"

# Damage that only trees show is found before anything is in the background,
# where nobody would hear of it and a command of --run wait for ever.
requires btrfs
ok "a pool to be damaged" make_pool "$tmp/bad.img" 300M
root=$(btrfs inspect-internal dump-super "$tmp/bad.img" |
         awk '$1 == "root" { print $2 }')
for at in $(btrfs-map-logical -l "$root" "$tmp/bad.img" |
              sed -n 's/.*physical \([0-9]*\) .*/\1/p'); do
  dd if=/dev/urandom of="$tmp/bad.img" bs=4096 count=4 conv=notrunc \
     seek="$at" oflag=seek_bytes 2>/dev/null
done
fails_with 1 "cannot open the pool.*no good copy.*root of tree" \
   "a damaged tree, in the background" \
   nbdkit -U "$tmp/bad.sock" -P "$tmp/bad.pid" "$PLUGIN" "$tmp/bad.img"
fails_with 1 "cannot open the pool" "a damaged tree, with a command" \
   timeout 60 nbdkit -U - "$PLUGIN" "$tmp/bad.img" --run 'nbdinfo "$uri"'

ok "all parameters at once" nbdkit -U - "$PLUGIN" device="$img" \
   readonly=false cache-size=16M commit-interval=5 discard=true workers=2 \
   --run 'nbdinfo "$uri"'
ok "a relative path, in the background" sh -c "
  cd '$tmp' && nbdkit -U '$tmp/bg.sock' -P '$tmp/bg.pid' '$PLUGIN' pool.img"
ok "it serves" nbdinfo "nbd+unix:///disk0?socket=$tmp/bg.sock"
fails_with 1 "in use" "its claim survives the fork" \
           nbdkit -f -U "$tmp/3.sock" "$PLUGIN" "$img" --run true
# It is written in the background, too.
wait_until 60 test -s "$tmp/bg.pid"
pid=$(cat "$tmp/bg.pid")
kill "$pid"
ok "it ends" wait_until 60 eval "! kill -0 $pid"
ok "btrfs check" check_clean "$img"

# a kernel that has it
if [ "$(id -u)" = 0 ] && loop=$(losetup -f --show "$img" 2>/dev/null); then
  cleanup_fn losetup -d "$loop"
  fails_with 1 "in use.*loop" "a loop device has it" \
             nbdkit -f -U "$tmp/4.sock" "$PLUGIN" "$img" --run true
  mkdir "$tmp/mnt"
  if mount "$loop" "$tmp/mnt"; then
    cleanup_fn unmount "$tmp/mnt"
    fails_with 1 "in use" "a mounted block device" \
               nbdkit -f -U "$tmp/5.sock" "$PLUGIN" "$loop" --run true
  fi
else
  lacks "a loop device has it" "needs root and loop devices"
fi
done_testing
