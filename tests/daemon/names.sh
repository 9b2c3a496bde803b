#!/bin/bash
# Rules hold for an export however its name is said, and for whatever name it
# has now: in the file, by clients, after renames.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
requires_file "$BTRNBD" "$PLUGIN"
requires jq
/usr/bin/python3 -c 'import nbd' 2>/dev/null ||
  lacks_all "python3-libnbd is missing"

img=$tmp/pool.img
conf=$tmp/btrnbd.conf
raw () { python3 "$abs_top_srcdir/tests/daemon/raw.py" "$sock" "$@"; }
s () { "$BTRNBD" -s "$tmp/control.sock" "$@"; }
write_config ()
{
  printf '%s\n' "[pool main]" "device = $img" "$@" >"$conf.new"
  mv "$conf.new" "$conf"
}
serve () { start_daemon -c "$conf" --plugin-dir "${PLUGIN%/*}"; }
check ()
{
  "$DAEMON" --check-config -c "$conf" --plugin-dir "${PLUGIN%/*}"
}

ok "a pool" "$BTRNBD" -d "$img" mkfs --size 512M
for name in vm1 vm2 vm3 dir.img; do
  "$BTRNBD" -d "$img" create $name --size 1M
done
"$BTRNBD" -d "$img" mkdir dir
"$BTRNBD" -d "$img" mkdir plain
head -c 4096 /dev/zero >"$tmp/zero"
"$BTRNBD" -d "$img" put "$tmp/zero" dir/file >/dev/null
"$BTRNBD" -d "$img" put "$tmp/zero" plain/disk >/dev/null

# --- every way to say a name, in the file and by clients ---

refused="refused 0x80000006 there is no such export for you"
for said in /vm2 vm2/ //vm2// vm2/disk /vm2/disk/; do
  write_config "[export $said]" "allow = none"
  ok "[export $said]: start" serve
  for asked in vm2 /vm2 vm2/ vm2/disk /vm2//disk; do
    is "$(raw go "$asked")" "$refused" "[export $said]: $asked is refused"
  done
  is "$(raw list | grep -c '^vm[12]$')" 1 "[export $said]: it is not listed"
  is "$(raw go vm1)" "open 1048576 rw" "[export $said]: another is not meant"
  ok "stop" stop_daemon
done
write_config "[export //dir//*]" "allow = none" "[export plain//disk]" \
  "allow = none" "[export /@pool/1]" "allow = any"
ok "patterns, files, the image: start" serve
is "$(raw go dir/file)" "$refused" "a pattern that begins with slashes"
is "$(raw go dir.img)" "open 1048576 rw" "and ends with one"
is "$(raw go plain/disk)" "$refused" "a file \"disk\" that is no volume"
is "$(raw go @pool | cut -d' ' -f1)" open "the image under its longer name"
ok "stop" stop_daemon

# --- what a snapshot shows is what its volume held ---

snapshots_for () # WHAT SECTION-LINE...
{
  write_config "${@:2}"
  ok "$1: start" serve
}
"$BTRNBD" -d "$img" snapshot vm1 vm2 s
"$BTRNBD" -d "$img" put "$tmp/zero" vm3/more >/dev/null
"$BTRNBD" -d "$img" snapshot vm3 s
snapshots_for "a closed volume" "[export vm1]" "allow = none" \
  "[export vm3/more]" "allow = none"
for asked in vm1@s /vm1@s vm1@s/disk vm1@s//disk/ vm3@s/more; do
  is "$(raw go $asked)" "$refused" "a closed volume: $asked is refused"
done
is "$(raw list | grep -c '^vm1')" 0 "a closed volume: its snapshot is hidden"
is "$(raw go vm2@s)" "open 1048576 ro" "a closed volume: another's snapshot"
is "$(raw go vm3@s)" "open 1048576 ro" "a closed file beside a volume"
ok "stop" stop_daemon
snapshots_for "a rule of its own" "[export vm1]" "allow = none" \
  "[export vm1@s]" "allow = any" "[export vm2]" "allow = none" \
  "[export vm2@*]" "allow = any"
is "$(raw go vm1)" "$refused" "a rule of its own: not for the volume"
is "$(raw go vm1@s/disk)" "open 1048576 ro" "a rule of its own: opened"
is "$(raw go vm2@s)" "open 1048576 ro" "a pattern for snapshots: opened"
is "$(raw list | grep -c '@s')" 4 "a rule of its own: listed"
ok "stop" stop_daemon
snapshots_for "a pattern for both" "[export *]" "allow = any" \
  "[export vm*]" "allow = any" "[export vm1]" "allow = none"
is "$(raw go vm1@s)" "$refused" "a pattern for both is none of its own"
ok "stop" stop_daemon
snapshots_for "an open volume" "[export *]" "allow = none" "[export vm1]" \
  "allow = any"
is "$(raw go vm1@s)" "$refused" "an open volume opens no snapshots"
ok "stop" stop_daemon
"$BTRNBD" -d "$img" rm vm1@s vm2@s vm3@s

# --- what is wrong is told by --check-config ---

wrong_names ()
{
  local name=$1 text=$2
  write_config "[export vm1]" "[export $name]" "allow = none"
  fails_with 1 "$conf:4: $text" "[export $name] is refused" check
}
for name in ./vm2 vm2/. ../vm2 a/../vm2 './*' '""' /; do
  wrong_names "$name" "\[export .*\]: .*name"
done
for name in /vm1 vm1/ vm1/disk; do
  wrong_names "$name" "section \[export vm1\] is there twice, first in line 3"
done
write_config "[export vm*]" "[export vm1]" "[export /vm*]"
fails_with 1 "$conf:5: section \[export vm\*\] is there twice" \
  "a pattern twice" check
write_config "[export @pool]" "[export @pool/1]"
ok "@pool and @pool/1 may be two" check
fails_with 1 "$conf:4: section \[export @pool\] is there twice" \
  "but not in this pool" "$DAEMON" -c "$conf" --plugin-dir "${PLUGIN%/*}" \
  -l "unix:$tmp/other.sock" --control off
write_config "[export vm1]" "[export vm1*]"
ok "a name and its pattern are two" check

# --- a reload judges names the same ---

write_config "[export vm1]" "readonly = yes"
ok "start" serve
write_config "[export vm1]" "[export /vm1]" "readonly = no"
fails_with 1 "is there twice" "a reload with a section twice" s reload
is "$(raw go vm1)" "open 1048576 ro" "changes nothing"
write_config "[export /vm1/]" "allow = none"
ok "a reload with another way to say it" s reload
is "$(raw go vm1)" "$refused" "is enforced"

is "$(s --json top --interval 1 --count 2 | jq -c 'has ("seconds")' |
  tr '\n' ' ')/$(s --json top --interval 1 --count 1 | wc -l)" "true true /1" \
  "top prints one object per line"

# --- one client too many ---

write_config "[export vm1]" "max-connections = 1"
ok "reload" s reload
is "$(python3 - "$abs_top_srcdir/tests/daemon" "$sock" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from raw import Raw
first, second = Raw(sys.argv[2]), Raw(sys.argv[2])
first.go("vm1")
print(hex(second.go("vm1")[0]), second.go("vm1")[1], second.go("vm2")[0])
END
)" "0x80000002 the export has 1 clients, more are not allowed 1" \
  "it is told why, and may open another"

# --- an export that clients have open gets another name ---

write_config "[export secret]" "allow = none" "[export ro*]" "readonly = yes" \
  "[export d/*]" "allow = none"
ok "reload" s reload
cat >"$tmp/client.py" <<'END'
import sys, time
import nbd
h = nbd.NBD()
h.connect_uri(sys.argv[1])
h.pwrite(bytes(512), 0)
print("open", flush=True)
for line in sys.stdin:
    try:
        h.pwrite(bytes(512), 0)
        print("written", flush=True)
    except nbd.Error as e:
        print("gone" if e.errno == "ENOTCONN" else e.errno, flush=True)
END
attach ()
{
  coproc client { /usr/bin/python3 "$tmp/client.py" "$(export_uri "$1")" 2>&1; }
  client_pid_=$client_PID
  read -r -t 20 answer <&"${client[0]}"
  is "$answer" open "attach $1"
}
# What a write of the client comes to.
write_now ()
{
  echo >&"${client[1]}"
  read -r -t 20 answer <&"${client[0]}"
  echo "$answer"
}
leave ()
{
  local in=${client[1]:-}
  [ -z "$in" ] || eval "exec $in>&-"
  wait "$client_pid_" 2>/dev/null
}
exports_now () { s --json clients | jq -r '[.[].export] | join (" ")'; }
shows () { [ "$(exports_now)" = "$1" ]; }

attach vm3
is "$(exports_now)" vm3 "clients: the name it was opened by"
ok "mv" s mv vm3 other
ok "clients: the new name" wait_until 60 shows other
is "$(write_now)" written "it may still write"
ok "mv to a read-only name" s mv other ro3
ok "clients: that name" wait_until 60 shows ro3
is "$(write_now)" EPERM "and does not write"
ok "mv back" s mv ro3 vm3
ok "clients: its first name" wait_until 60 shows vm3
is "$(write_now)" written "and writes again"
attach_log=$(grep -c 'access was withdrawn' "$tmp/daemon.log")
ok "mv to a name that nobody may open" s mv vm3 secret
ok "its client is gone" wait_until 60 shows ""
is "$(write_now)" gone "and cannot write"
is "$(grep -c 'access was withdrawn' "$tmp/daemon.log")" \
  $((attach_log + 1)) "the log tells why"
leave
ok "mv back" s mv secret vm3

# The rules of a name that went to another export are not its client's.
attach vm3
ok "mv away" s mv vm3 mine
ok "another one comes there" s mv vm2 vm3
ok "clients: who was there first" wait_until 60 shows mine
is "$(s --json stat | jq -r '.server.exports[] | select (.connections > 0).name')" \
  mine "stat"
write_config "[export vm3]" "allow = none"
ok "reload" s reload
is "$(write_now)" written "the rules of its old name do not hold"
write_config "[export mine]" "allow = none"
ok "reload" s reload
ok "those of the new one do" wait_until 60 shows ""
leave

# The image of the pool is not opened to see whether it is there.
generation () { s --json info | jq .generation; }
write_config "[export @pool]" "allow = none"
s reload; s ls vm1 >/dev/null
before=$(generation)
ok "reload, with a rule for the image" s reload
ok "once more" s reload # which waits until the names were looked at
is "$(generation)" "$before" "nothing is committed for that"
is "$(grep -c 'image of the pool is open' "$tmp/daemon.log")" 0 \
  "the image is not opened"
is "$(grep -c '@pool.*: no export' "$tmp/daemon.log")" 0 "and known"

# A directory above it.
write_config "[export e/*]" "allow = none"
ok "reload" s reload
attach dir/file
ok "mv of a directory" s mv dir moved
ok "clients: the path" wait_until 60 shows moved/file
is "$(write_now)" written "it may write"
ok "mv to where nobody may" s mv moved e
ok "its client is gone" wait_until 60 shows ""
leave
ok "the server ends" stop_daemon
ok "the pool is whole" "$BTRNBD" -d "$img" df

done_testing
