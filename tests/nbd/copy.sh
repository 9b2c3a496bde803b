# Whole images in and out with nbdcopy and qemu-img.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/nbd/nbd.sh"
requires qemu-img

img=$tmp/pool.img
ok "make a pool" make_pool "$img" 2G a 256M b 256M c 256M
/usr/bin/python3 - "$tmp/in.raw" <<'PY'
import os, random, sys
random.seed(7)
size = 256 << 20
with open(sys.argv[1], 'wb') as f:
    f.truncate(size)
    for i in range(300):
        f.seek(random.randrange(0, size - (1 << 20)))
        f.write(os.urandom(random.randrange(1, 1 << 19)))
PY
want=$(md5sum <"$tmp/in.raw")
serve "$img" || { fail "serve"; done_testing; }

ok "nbdcopy in, 4 connections" nbdcopy -C 4 --flush "$tmp/in.raw" "$(uri a)"
ok "nbdcopy out" nbdcopy "$(uri a)" "$tmp/out.raw"
is "$(md5sum <"$tmp/out.raw")" "$want" "the same bytes"
ok "nbdcopy between exports" nbdcopy "$(uri a)" "$(uri b)"
ok "qemu-img compare" qemu-img compare -f raw -F raw "$tmp/in.raw" "$(uri b)"
ok "qemu-img convert in" qemu-img convert -n -W -f raw -O raw \
   "$tmp/in.raw" "$(uri c)"
ok "qemu-img convert out" qemu-img convert -f raw -O raw "$(uri c)" \
   "$tmp/out2.raw"
is "$(md5sum <"$tmp/out2.raw")" "$want" "the same bytes"
ok "qemu-img map" qemu-img map --output=json -f raw "$(uri a)"
cp "$tmp/ok.log" "$tmp/map"
holes=$(/usr/bin/python3 -c '
import json, sys
m = json.load(open(sys.argv[1]))
print(sum(e["length"] for e in m if e["zero"]) > (100 << 20),
      sum(e["length"] for e in m) == 256 << 20)' "$tmp/map")
is "$holes" "True True" "the map covers everything and knows the holes"
ok "stop" stop_nbdkit

serve "$img" cache-size=8M || { fail "serve"; done_testing; }
ok "after a restart, with a small cache" nbdcopy "$(uri b)" "$tmp/out3.raw"
is "$(md5sum <"$tmp/out3.raw")" "$want" "the same bytes"
ok "over it again" nbdcopy "$tmp/in.raw" "$(uri a)"
ok "nbdcopy of zeroes" nbdcopy --allocated --destination-is-zero \
   "$tmp/in.raw" "$(uri c)" || :
ok "stop" stop_nbdkit
judge "in the end" "$img"
done_testing
