# Snapshots, clones and shared data from the command line, on a pool that is
# not served and on one that is, with clients that write.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
requires jq nbdcopy nbdinfo nbdkit openssl

requires_python_nbd
pool=$tmp/pool.img
b=("$BTRNBD" -d "$pool")
size=$((16 << 20))

random () { openssl enc -aes-128-ctr -nosalt -pass "pass:$1" </dev/zero 2>/dev/null | head -c "$2"; }

same () { cmp "$1" <("${b[@]}" get "$2" -); }
used () { "${b[@]}" --json df | jq .data.used; }

random 1 $size >"$tmp/one"
random 2 $((size / 2)) >"$tmp/two"
cp "$tmp/one" "$tmp/three" &&
  dd if="$tmp/two" of="$tmp/three" bs=64K count=3 seek=7 conv=notrunc status=none

ok "mkfs" "${b[@]}" mkfs --size 512M
ok "create" "${b[@]}" create vm1 --size 16M --description "a disk"
ok "create nocow" "${b[@]}" create vm2 --size 16M --nocow
ok "put" "${b[@]}" put "$tmp/one" vm1
ok "put" "${b[@]}" put "$tmp/two" vm2
before=$(used)
ok "snapshot of two" "${b[@]}" snapshot vm1 vm2 a
ok "clone" "${b[@]}" clone vm1@a vm3
is "$(used)" "$before" "no data was copied"
ok "change" "${b[@]}" put "$tmp/three" vm1
ok "a snapshot stays" same "$tmp/one" vm1@a
ok "a clone stays" same "$tmp/one" vm3
ok "the volume has changed" same "$tmp/three" vm1
fails_with 1 "read-only" "a snapshot is read-only" "${b[@]}" put "$tmp/two" vm1@a
fails_with 1 "exists" "a tag is taken" "${b[@]}" snapshot vm1 a
fails_with 1 "tag" "a bad tag" "${b[@]}" snapshot vm1 a/b
fails_with 1 "no such" "no such volume" "${b[@]}" snapshot vm9 a
fails_with 2 "arguments|Try" "a tag is needed" "${b[@]}" snapshot vm1
is "$("${b[@]}" --json snapshots vm1 | jq -r '.[] | .name + " " + .tag + " \(.size) \(.read_only)"')" \
   "vm1@a a $size true" "snapshots, JSON"
like "$("${b[@]}" snapshots vm1)" "16.0 MiB +16.0 MiB  vm1@a" "snapshots"
is "$("${b[@]}" ls)" $'vm1\nvm1@a\nvm2\nvm2@a\nvm3' "snapshots are exports"
is "$("${b[@]}" diff vm1@a vm1@a)" "" "no difference"
ok "write a little into the clone" "${b[@]}" clone-range \
  --from-offset 4K --to-offset 1M --length 8K vm1@a vm3
is "$("${b[@]}" diff vm1@a vm3)" "1048576 8192" "diff"
is "$("${b[@]}" --json diff vm3 vm1@a | jq -c .)" \
   '[{"offset":1048576,"length":8192}]' "diff, JSON"
ok "rollback" "${b[@]}" rollback vm1 a
ok "it is what it was" same "$tmp/one" vm1
like "$("${b[@]}" ls -l vm1)" "a disk" "the description, too"
fails_with 1 "begins with vm1@; a clone" "a snapshot is no volume" \
           "${b[@]}" mv vm1@a plain
fails_with 1 "begins with vm1@" "nor one of another" "${b[@]}" mv vm1@a vm2@x
fails_with 1 "\"@\" in a tag" "no good tag" "${b[@]}" mv vm1@a vm1@a@b
fails_with 1 "tag is empty" "no tag" "${b[@]}" mv vm1@a vm1@
ok "another tag" "${b[@]}" mv vm1@a vm1@good
fails_with 1 "no such file" "the old one is gone" "${b[@]}" get vm1@a -
ok "back" "${b[@]}" mv vm1@good vm1@a
fails_with 1 "has snapshots" "subvol remove is no way around rm" "${b[@]}" subvol remove vm1
fails_with 1 "length is 0" "clone nothing" "${b[@]}" clone-range --length 0 vm1@a vm3
fails_with 1 "length is 0" "dedupe nothing" "${b[@]}" dedupe --length 0 vm1@a vm3
ok "rename" "${b[@]}" mv vm1 vm4
ok "the snapshot moved along" same "$tmp/one" vm4@a
fails_with 1 "has snapshots" "rm without -r" "${b[@]}" rm vm4
ok "rm -r" "${b[@]}" rm -r vm4
is "$("${b[@]}" ls)" $'vm2\nvm2@a\nvm3' "volume and snapshots are gone"

ok "put --reflink" "${b[@]}" put --reflink vm3 copy
: >"$tmp/empty"
ok "put" "${b[@]}" put "$tmp/empty" part
ok "clone-range" "${b[@]}" clone-range --length 1M vm3 part
ok "put" "${b[@]}" put "$tmp/one" once
ok "put" "${b[@]}" put "$tmp/one" again
before=$(used)
ok "dedupe" "${b[@]}" dedupe once again
after=$(used)
ok "it gave space back" test "$after" -lt "$before"
ok "the same bytes" same "$tmp/one" again
is "$("${b[@]}" --json dedupe once again | jq .shared)" 0 "nothing is left to do"
fails_with 1 "different bytes" "dedupe of what differs" "${b[@]}" dedupe --length 1M --from-offset 1M --to-offset 2M once again

ok "subvol snapshot" "${b[@]}" subvol snapshot / top
ok "subvol snapshot -r" "${b[@]}" subvol snapshot -r top top2
ok "subvol lock" "${b[@]}" subvol lock top
ok "subvol unlock" "${b[@]}" subvol unlock top2
ok "subvol default" "${b[@]}" subvol default top
fails_with 1 "in use" "the default stays" "${b[@]}" subvol remove top
ok "subvol default" "${b[@]}" subvol default /
ok "subvol remove" "${b[@]}" subvol remove top
fails_with 2 "no action" "no such action" "${b[@]}" subvol dance top
judge_if_root () { [ "$(id -u)" = 0 ] && grep -qw btrfs /proc/filesystems && judge "$1" "$pool"; }
command -v btrfs >/dev/null && judge_if_root "direct"

# --- served ---

ctl=$tmp/ctl
s=("$BTRNBD" -s "$ctl")
start_nbdkit srv "$PLUGIN" "$pool" control="$ctl" || { fail "nbdkit"; done_testing; }
ok "wait for the socket" wait_until 60 test -S "$ctl"
cat >"$tmp/clients.py" <<'PY'
# write: numbers into 2,000 blocks, round and round; check: a snapshot of that
# is the state after one of the writes; hold: stay attached.
import sys, time, nbd

what, uri = sys.argv[1:]
h = nbd.NBD()
h.connect_uri(uri)
if what == "write":
    for n in range(3000):
        h.pwrite(n.to_bytes(8, "little") * 512, n % 2000 * 4096)
    h.flush()
elif what == "check":
    assert h.is_read_only()
    v = [int.from_bytes(h.pread(8, b * 4096), "little") for b in range(2000)]
    last = max((x for x in v if x < 3000), default=-1)
    for b in range(2000):
        want = last // 2000 * 2000 + b
        if want > last:
            want -= 2000
        assert want < 0 or v[b] == want, (b, v[b], want, last)
else:
    print("up", flush=True)
    time.sleep(60)
PY
client () { /usr/bin/python3 "$tmp/clients.py" "$@"; }
client write "$(uri vm3)" >"$tmp/writer.log" 2>&1 &
pid=$!
for i in 1 2 3 4; do
  ok "snapshot $i while a client writes" "${s[@]}" snapshot vm3 vm2 "s$i"
done
ok "the client has seen nothing" wait "$pid"
like "$(nbdinfo --list "$(uri "")" 2>&1)" 'vm3@s4' "nbdinfo lists snapshots"
for i in 1 2 3 4; do
  ok "snapshot $i is a state that was" client check "$(uri "vm3@s$i")"
done
ok "clone of a served volume" "${s[@]}" clone vm3@s2 vm5
ok "the clone is an export" nbdcopy "$(uri vm5)" null:
/usr/bin/python3 "$tmp/clients.py" hold "$(uri vm3)" >"$tmp/up" 2>&1 &
holder=$!
cleanup_fn stop_pid "$holder"
wait_until 60 grep -q up "$tmp/up"
fails_with 1 "in use[^;]*; --when-free waits$" "rollback with a client" \
  "${s[@]}" rollback vm3 s1
fails_with 1 "in use" "rm -r with a client" "${s[@]}" rm -r vm3
timeout 60 "${s[@]}" rollback --when-free vm3 s1 >"$tmp/rollback" 2>&1 &
waiting=$!
sleep 1.5
ok "it waits" kill -0 "$waiting"
stop_pid "$holder"
wait "$waiting"
is "$?$(cat "$tmp/rollback")" 0 "rollback when it has gone"
ok "it is the snapshot" cmp <(nbdcopy "$(uri vm3)" -) <(nbdcopy "$(uri vm3@s1)" -)
is "$("${s[@]}" diff vm3 vm3@s1)" "" "no difference"
ok "rm -r" "${s[@]}" rm -r vm3
ok "stop" stop_nbdkit
command -v btrfs >/dev/null && judge_if_root "served"
done_testing
