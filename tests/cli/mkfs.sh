# mkfs through the CLI; tests/interop/mkfs.sh judges the pools themselves.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
requires_file "$BTRNBD"
requires jq
img=$tmp/pool.img

b ()
{
  "$BTRNBD" -d "$img" "$@"
}

info ()
{
  b --json info | jq -r "$1"
}

ok "every option" b mkfs -s 256M -L label --nodesize 4K --sectorsize 4096 \
   --csum blake2b --data dup --metadata single -O ^block-group-tree
is "$(info '[.label, .csum, .nodesize, .sectorsize, .total_bytes] |
           join (" ")')" "label blake2b 4096 4096 $((256 << 20))" "as asked"
is "$(b --json df | jq -r '[.data.profile, .metadata.profile] | join (" ")' |
     tr A-Z a-z)" "dup single" "the profiles"
is "$(( $(info .compat_ro) & 8 ))" 0 "no block group tree"
fails_with 1 "^btrnbd: mkfs: .*--force" "not over a pool" b mkfs
ok "unless forced" b mkfs --force --mixed
is "$(info .nodesize)" 4096 "mixed"
is "$(info .label)" "" "the old label is gone"
ok "open it for writing" b create vm --size 1M
if command -v nbdkit >/dev/null && [ -e "$PLUGIN" ]; then
  ok "serve it" start_nbdkit busy "$PLUGIN" "$img"
  fails_with 1 "in use" "not over a pool in use" b mkfs --force --size 512M
  is "$(stat -c %s "$img")" $((256 << 20)) "and its size is as before"
  fails_with 1 "in use" "nor is it opened twice" b ls
  ok "end the server" stop_nbdkit
fi
rm "$img"
fails_with 1 "give a size" "a new file needs a size" b mkfs
fails_with 1 "too small" "too small" b mkfs --size 1M
fails_with 2 "is not a size" "a bad size" b mkfs --size 1Z
fails_with 1 "unknown checksum" "a bad checksum" b mkfs --size 1G --csum md5
[ ! -e "$img" ]; is $? 0 "no file is left behind"
fails_with 1 "/nope/pool" "a directory that is not there" \
           "$BTRNBD" -d /nope/pool mkfs --size 1G
done_testing
