# A pool whose superblock is damaged: refused, told what is intact, opened
# from a copy when somebody says so, and whole again after a commit.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
requires_file "$BTRNBD"
img=$tmp/pool.img

b ()
{
  "$BTRNBD" -d "$img" "$@"
}

# The second half of a superblock does not get written: a torn write.
tear ()
{
  dd if=/dev/urandom of="$img" bs=512 seek=132 count=4 conv=notrunc status=none
}

ok "mkfs" b mkfs --size 256M
head -c 300000 /dev/urandom > "$tmp/in"
ok "put" b put "$tmp/in" file
ok "tear the superblock" tear
fails_with 1 "copy 1 at 67108864 is intact, of generation" \
           "refused, and told what is intact" b ls
fails_with 2 "not 1 or 2" "a copy that does not exist" b --super-copy 3 ls
fails_with 1 "pool.img" "a copy that the device has no room for" \
           b --super-copy 2 ls
ok "list from the copy" b --super-copy 1 ls
not_ok "which repairs nothing" b ls
ok "write, opened from the copy" b mkdir --super-copy 1 dir
ok "the first one is whole again" b ls
ok "get" b get file "$tmp/out"
ok "the bytes are the same" cmp "$tmp/in" "$tmp/out"
if command -v btrfs > /dev/null; then
  ok "btrfs check" btrfs check --readonly "$img"
else
  lacks "btrfs check" "no btrfs"
fi
done_testing
