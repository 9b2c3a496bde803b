# TRIM gives the space of a pool in a file back to who holds the file.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/nbd/nbd.sh"

img=$tmp/pool.img
ok "make a pool" make_pool "$img" 1G disk0 256M

# MiB of the file that the host's filesystem has allocated
held ()
{
  sync "$img"
  echo $(($(stat -c %b "$img") / 2048))
}

less_than ()
{
  [ "$1" -lt "$2" ]
}

# write_and_trim NAME [PARAMETER]
write_and_trim ()
{
  local name=$1
  shift
  ok "$name: serve" serve "$img" commit-interval=1 "$@" || return
  py "$name: write and trim" <<'EOP'
M = 1 << 20
h = connect()
for i in range(100):
    h.pwrite(bytes([i + 1]) * M, i * M)
h.flush()
h.trim(90 * M, 0)
h.flush()
assert h.pread(M, 95 * M) == bytes([96]) * M
assert h.pread(M, 5 * M) == bytes(M)
h.shutdown()
EOP
  ok "$name: stop" stop_nbdkit
}

empty=$(held)
write_and_trim "no discard"
ok "the file keeps the space" less_than $((empty + 90)) "$(held)"
write_and_trim "discard" discard=true
ok "the file gave it back" less_than "$(held)" $((empty + 60))
ok "btrfs check" check_clean "$img"
done_testing
