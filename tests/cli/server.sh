# btrnbd and servers: copies, clients, kicks under load, events, and the way
# from a pool in use to its socket.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
requires_file "$BTRNBD" "$PLUGIN"
requires jq nbdkit nbdcopy fio
img=$tmp/pool.img
ctl=$tmp/control.sock
ok "mkfs" "$BTRNBD" -d "$img" mkfs --size 1G
ok "create" "$BTRNBD" -d "$img" create vm1 --size 64M

s ()
{
  "$BTRNBD" -s "$ctl" "$@"
}

# --- btrnbdd ---
ok "btrnbdd" start_daemon --control "$ctl" --plugin "$PLUGIN" "$img"
fails_with 1 "in use by process $daemon_pid \(btrnbdd\); use -s $ctl$" \
           "a pool in use: where its server is" "$BTRNBD" -d "$img" ls
is "$(BTRNBD_SOCKET=$ctl "$BTRNBD" ls)" vm1 "the socket of the environment"
is "$(s clients)" "" "no clients yet"

head -c 5000000 /dev/urandom >"$tmp/data"
truncate -s 20M "$tmp/data"
ok "put" s put "$tmp/data" vm1
ok "get" s get vm1 "$tmp/back"
ok "it is the same" cmp -n $((20 << 20)) "$tmp/data" "$tmp/back"
is "$(stat -c %s "$tmp/back")" $((64 << 20)) "of the volume's size"
ok "with holes" test "$(stat -c %b "$tmp/back")" -lt 20000
ok "put from a pipe" bash -c "cat '$tmp/data' | '$BTRNBD' -s '$ctl' put - f"
ok "get into a pipe" bash -c \
   "'$BTRNBD' -s '$ctl' get f - | cmp - '$tmp/data'"
fails_with 1 "^btrnbd: nope: no such file" "get of nothing" \
           s get nope "$tmp/nope"
not_ok "leaves no file" test -e "$tmp/nope"

# A copy that is cut, and one of what is open.
ok "a file" s put "$tmp/data" cut
mkfifo "$tmp/slow"
"$BTRNBD" -s "$ctl" put - cut <"$tmp/slow" >"$tmp/cut.log" 2>&1 &
put=$!
cleanup_fn stop_pid "$put"
exec 8>"$tmp/slow"
head -c 20M /dev/zero >&8
wait_until 60 eval "s ls .btrnbd-put.cut"
nbdinfo --list "$(export_uri "")" >"$tmp/list"
ok "the exports" grep -q 'export="vm1"' "$tmp/list"
not_ok "it is no export" grep put "$tmp/list"
fails_with 1 "replaced by somebody else" "a second one" \
           s put "$tmp/data" cut
kill -KILL "$put"; wait "$put" 2>/dev/null
wait_until 60 eval "! s ls .btrnbd-put.cut >/dev/null 2>&1"
exec 8>&-
ok "what was there is there" bash -c \
   "'$BTRNBD' -s '$ctl' get cut - | cmp - '$tmp/data'"
# A pipeline that is ended as a whole has not come to its end.
for i in 1 2 3; do
  setsid bash -c "{ head -c 20M /dev/zero; exec sleep 60; } |
                  '$BTRNBD' -s '$ctl' put - cut" >"$tmp/cut.log" 2>&1 &
  group=$!
  wait_until 60 eval "s ls .btrnbd-put.cut"
  kill -KILL -- "-$group"
  wait "$group" 2>/dev/null
  wait_until 60 eval "! s ls .btrnbd-put.cut >/dev/null 2>&1"
  ok "what was there is there, again" bash -c \
     "'$BTRNBD' -s '$ctl' get cut - | cmp - '$tmp/data'"
done
/usr/bin/python3 -c "import nbd, sys, time
h = nbd.NBD (); h.connect_uri (sys.argv[1]); open (sys.argv[2], 'w')
time.sleep (60)" "$(export_uri cut)" "$tmp/open" &
client=$!
cleanup_fn stop_pid "$client"
wait_until 60 test -e "$tmp/open"
fails_with 1 "cut is open" "what is open is not replaced" \
           s put "$tmp/data" cut
ok "but written to" s put --in-place "$tmp/data" cut
stop_pid "$client"
ok "rm" s rm -w cut

ok "dump-tree" s dump-tree fs
grep -q INODE_ITEM "$tmp/ok.log"; is $? 0 "with items"

# Events in order, from the moment on that the listener is known to be there.
"$BTRNBD" -s "$ctl" events --json >"$tmp/all-events" &
events=$!
cleanup_fn stop_pid "$events"
heard ()
{
  s mkdir listening && s rm listening && grep -q listening "$tmp/all-events"
}
wait_until 60 heard
s mkdir now
ok "a listener" wait_until 60 grep -q '"now"' "$tmp/all-events"
before=$(wc -l <"$tmp/all-events")
got_events ()
{
  tail -n +$((before + 1)) "$tmp/all-events" >"$tmp/events"
  [ "$(wc -l <"$tmp/events")" -ge "$1" ]
}
ok "create" s create vm2 --size 1M
nbdinfo --size "$(export_uri vm2)" >/dev/null
wait_until 60 got_events 3
ok "mv" s mv vm2 vm3
ok "resize" s resize vm3 2M
ok "mkdir" s mkdir d
ok "rm" s rm vm3 d
wait_until 60 got_events 8
stop_pid "$events"
"$BTRNBD" -s "$ctl" events --count 1 >"$tmp/one-event" &
events=$!
wait_until 60 eval "s mkdir listening; s rm listening; ! kill -0 $events"
wait "$events"
is "$? $(wc -l <"$tmp/one-event")" "0 1" "one event and no more"
is "$(jq -r .type "$tmp/events" | xargs)" "volume.created client.connected \
client.disconnected file.renamed file.resized file.created file.removed \
file.removed" \
   "events in order"
is "$(jq .seq "$tmp/all-events" | xargs)" "$(seq $((before + 8)) | xargs)" \
   "none is missing"
is "$(jq -r 'select (.type == "client.connected").params.export' \
      "$tmp/events")" vm2 "of that export"

# Space as of now: written, not flushed, and hardly committed yet.
committed ()
{
  s --json df | jq -e ".data | [.pinned, .reserved, .promised] == [0, 0, 0]"
}
ok "create" s create fresh --size 16M
ok "all is committed" wait_until 60 committed
before=$(s --json df | jq .data.used)
head -c 8M /dev/urandom >"$tmp/fresh"
ok "write" nbdcopy "$tmp/fresh" "$(export_uri fresh)"
is "$(( $(s --json df | jq .data.used) - before ))" $((8 << 20)) \
  "df knows of it"
ok "it is committed" wait_until 60 committed
is "$(( $(s --json df | jq .data.used) - before ))" $((8 << 20)) \
  "which takes no more"
is "$(s --json info | jq .bytes_used)" \
  "$(s --json df | jq ".data.used + .metadata.used + .system.used")" \
  "info says the same"
ok "rm" s rm fresh

# Counters.
ok "create" s create counted --size 8M
if /usr/bin/python3 - "$(export_uri counted)" <<'PY'
import nbd, sys
h = nbd.NBD()
h.set_strict_mode(0)
h.connect_uri(sys.argv[1])
for i in range(10):
    h.pread(4096, i * 4096)
for i in range(5):
    h.pwrite(bytes(8192), i * 8192)
h.flush()
h.flush()
h.trim(65536, 0)
h.zero(4096, 0)
for i in range(30):
    try:
        h.pread(4096, 8 << 20)
        sys.exit(1)
    except nbd.Error:
        pass
h.shutdown()
PY
then pass "requests of every kind"; else fail "requests of every kind"; fi
counted ()
{
  s --json stat | jq -c '.server.exports[] | select (.name == "counted") |
    [.ops | to_entries[] | [.key, .value.requests, .value.errors,
     .value.bytes, (.value.buckets | add)]]'
}
is "$(counted)" '[["read",40,30,40960,10],["write",5,0,40960,5],'\
'["flush",2,0,0,2],["trim",1,0,65536,1],["zero",1,0,4096,1]]' \
   "they are counted"
ok "stat as text" s stat
grep -Eq '^counted +read +40 +40.0 KiB +30 ' "$tmp/ok.log"
is $? 0 "with errors"
is "$(grep -c 'export "counted": read .* error 22' "$tmp/daemon.log")" 10 \
   "errors are logged, not all of a flood"
ok "rm" s rm counted

# Kicks while I/O runs: that client loses, the other does not notice.
fio --name=good --ioengine=nbd --uri="$(export_uri vm1)" --rw=randrw \
  --bs=4k --size=32M --time_based --runtime=5 --thread --iodepth=8 \
  --verify=crc32c --output="$tmp/good.out" &
good=$!
# fio makes one connection to look and one for I/O: wait for the second.
busy ()
{
  s --json clients | jq -e --arg e "$1" \
    '[.[] | select (.export == $e and .requests > 50)] | length == 1'
}
ok "the good client is there" wait_until 60 busy vm1
good_id=$(s --json clients | jq '.[0].client')
ok "top" s top
grep -Eq '^vm1 +1 +[1-9]' "$tmp/ok.log"; is $? 0 "with the client's rate"
ok "two pictures as JSON" bash -c \
   "'$BTRNBD' -s '$ctl' --json top -n 2 >'$tmp/top.json'"
is "$(jq -s '[length, (.[] | .exports[0].write.requests > 0)]' \
     -c "$tmp/top.json")" "[2,true,true]" "with rates"
ok "create" s create victim --size 64M
fails_with 1 "in use.*btrnbd clients tells by whom" "rm says who may know" \
           s rm vm1
for i in 1 2 3; do
  fio --name=bad --ioengine=nbd --uri="$(export_uri victim)" --rw=randwrite \
    --bs=64k --size=64M --time_based --runtime=60 --thread --iodepth=16 \
    --output="$tmp/bad.out" 2>/dev/null &
  bad=$!
  ok "victim $i is busy" wait_until 60 busy victim
  fails_with 1 "^btrnbd: victim: in use" "its volume cannot go" s rm victim
  fails_with 1 "in use" "nor shrink" s resize --shrink victim 1M
  ok "kick" s kick "$(s --json clients |
    jq '.[] | select (.export == "victim").client')"
  wait "$bad"
  isnt=$?
  ok "it lost its connection ($isnt)" test "$isnt" != 0
done
gone ()
{
  s --json clients | jq -e '[.[] | select (.export == "victim")] == []'
}
ok "all are gone" wait_until 60 gone
ok "now the volume can go" s rm victim
ok "create" s create held --size 1M
/usr/bin/python3 - "$(export_uri held)" <<'PY' &
import nbd, sys, time
h = nbd.NBD()
h.connect_uri(sys.argv[1])
time.sleep(2)
h.shutdown()
PY
holder=$!
held ()
{
  s --json clients | jq -e '[.[] | select (.export == "held")] != []'
}
ok "a client holds it" wait_until 60 held
ok "rm --when-free" timeout 20 "$BTRNBD" -s "$ctl" rm --when-free held
wait "$holder"
is "$?" 0 "it had the volume until it left"
fails_with 1 "no such file" "it is gone" s ls held
ok "the good client saw no error" wait "$good"
fails_with 1 "there is no client $good_id" "kick who has left" \
           s kick "$good_id"
ok "reload" s reload
ok "btrnbdd ends" stop_daemon
fails_with 1 "^btrnbd: $ctl: No such file" "no server" s ls

# --- nbdkit ---
ok "nbdkit" start_nbdkit n "$PLUGIN" "$img" control="$ctl"
fails_with 1 "in use by process $nbdkit_pid \(nbdkit\); use -s $ctl$" \
           "a pool in use by nbdkit" "$BTRNBD" -d "$img" ls
is "$(s ls | sort | xargs)" "f vm1" "ls"
fails_with 1 "does not offer that; btrnbdd" "nbdkit knows no clients" \
           s clients
ok "get" s get f "$tmp/back2"
ok "it is the same" cmp "$tmp/data" "$tmp/back2"
ok "nbdkit ends" stop_nbdkit
ok "nbdkit without a socket" start_nbdkit n2 "$PLUGIN" "$img"
fails_with 1 "in use by process $nbdkit_pid \(nbdkit\)$" \
           "a pool in use without a socket" "$BTRNBD" -d "$img" ls
ok "nbdkit ends" stop_nbdkit
ok "the pool is clean" check_clean "$img"
done_testing
