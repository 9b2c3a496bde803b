# Patterns through qemu-io, which sends FUA on every write by default.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/nbd/nbd.sh"
requires qemu-io

img=$tmp/pool.img
ok "make a pool" make_pool "$img" 1G cow 128M
ok "a nocow volume" "$BTRNBD" -d "$img" create nocow --size 128M --nocow

# io NAME COMMAND...: on $export
io ()
{
  local name=$1 c args=()
  shift
  for c; do args+=(-c "$c"); done
  ok "$export: $name" qemu-io -f raw "${args[@]}" "$(uri "$export")" &&
    if grep -q "verification failed\|failed:" "$tmp/ok.log"; then
      fail "$export: $name: contents"
      diag "$(cat "$tmp/ok.log")"
    else
      pass "$export: $name: contents"
    fi
}

for export in cow nocow; do
  serve "$img" || { fail "serve"; done_testing; }
  io "write and read" "write -P 0x11 0 1M" "write -P 0x22 64k 64k" \
     "read -P 0x11 0 64k" "read -P 0x22 64k 64k" "read -P 0x11 128k 896k"
  io "unaligned" "write -P 0x33 1000 5000" "read -P 0x11 0 1000" \
     "read -P 0x33 1000 5000" "read -P 0x11 6000 512" \
     "write -P 0x44 4095 2" "read -P 0x44 4095 2" "read -P 0x33 4097 1903"
  io "zero" "write -z 128k 128k" "read -P 0 128k 128k" "read -P 0x11 256k 4k" \
     "write -zu 256k 64k" "read -P 0 256k 64k" "write -z 300001 777" \
     "read -P 0 300001 777" "write -P 0x55 320k 4k" "read -P 0x55 320k 4k"
  io "discard" "write -P 0x66 2M 1M" "discard 2M 512k" "read -P 0 2M 512k" \
     "read -P 0x66 2560k 512k"
  io "in flight" "aio_write -P 0x71 4M 64k" "aio_write -P 0x72 4160k 64k" \
     "aio_write -P 0x73 8M 1M" "aio_flush" "read -P 0x71 4M 64k" \
     "read -P 0x72 4160k 64k" "read -P 0x73 8M 1M"
  io "without FUA" "writev -P 0x7a 16M 64k 64k" "flush" \
     "read -P 0x7a 16M 128k"
  io "the end" "write -P 0x7b 134217216 512" "read -P 0x7b 134217216 512"
  # all of it was acknowledged with FUA or FLUSH: a crash loses nothing
  kill_server
  serve "$img" || { fail "serve after a crash"; done_testing; }
  io "after a crash" "read -P 0x44 4095 2" \
     "read -P 0 128k 128k" "read -P 0x55 320k 4k" "read -P 0 2M 512k" \
     "read -P 0x66 2560k 512k" "read -P 0x73 8M 1M" "read -P 0x7a 16M 128k" \
     "read -P 0x7b 134217216 512"
  ok "stop" stop_nbdkit
done
judge "in the end" "$img"
done_testing
