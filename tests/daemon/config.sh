#!/bin/bash
# btrnbdd's configuration file: what is good, and one clear line for what is
# not.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"

conf=$tmp/btrnbd.conf
pool="[plugin $TEST_PLUGIN]"$'\nsize = 1M\n'

# bad PATTERN NAME TEXT: the file is refused, with one line that has the
# pattern.
bad ()
{
  local pattern=$1 name=$2
  printf '%s\n' "$3" >"$conf"
  fails_with 1 "^btrnbdd: error: $pattern" "$name" \
    "$DAEMON" --check-config -c "$conf"
  is "$(wc -l <"$tmp/ok.log")" 1 "$name: one line"
}
good ()
{
  local name=$1
  printf '%s\n' "$2" >"$conf"
  ok "$name" "$DAEMON" --check-config -c "$conf"
  is "$(cat "$tmp/ok.log")" "$conf is in order" "$name: and it says so"
}

good "a small file" "$pool"
good "everything there is" "# comment
; another
 [server]
listen = unix:$tmp/a.sock
listen = 127.0.0.1:0
max-connections = 5
 idle-timeout=60
drain-timeout = 2
max-memory = 1G
loops = 1
workers = 4
verbose = no
$pool
[export *]
allow = none
[export \"a b\"]
allow = any
allow = unix & uid:0 user:root addr:10.0.0.0/8 addr:fd00::/8 addr:::1
allow = tcp vsock vsock:3
readonly = yes
iops = 1000
bandwidth = 10M
max-connections = 3
[export \"\"]
readonly = no"

bad "$conf:1: neither" "not a file of this kind" "hello"
bad "$conf:1: x stands before" "a key without a section" "x = 1"
bad "$conf:1: a section must end" "a section that is open" "[server"
bad "$conf:2: a control character" "a control character" $'[server]\n\x01 = 2'
bad "$conf:1: \[nonsense\]" "an unknown section" "[nonsense]"
bad "$conf:3: section \[server\] is there twice, first in line 1" \
  "a section twice" $'[server]\n\n[server]'
bad "$conf:1: \[server\] has no name" "a name too many" "[server x]"
bad "$conf:1: \[pool NAME\] needs" "a pool without a name" "[pool]"
bad "$conf:1: \[pool a\] needs device" "a pool without a device" "[pool a]"
bad "$conf:1: \[export NAME\] needs" "an export without a name" "[export]"
bad "$conf:3: one server has one pool" "two pools" \
  $'[pool a]\ndevice = /a\n[pool b]\ndevice = /b'
bad "$conf:3: one server has one pool" "a pool and a plugin" \
  $'[pool a]\ndevice = /a\n[plugin memory]'
bad "$conf:4: cache-size is there twice, first in line 3" "a parameter twice" \
  $'[pool a]\ndevice = /a\ncache-size = 64M\ncache-size = 32M'
bad "$conf has neither" "nothing to serve" "[server]"
bad "$conf:2: \[server\] has no setting \"colour\"" "an unknown setting" \
  $'[server]\ncolour = red'
bad "$conf:2: \[server\] has no setting \"config\"" "only for the line" \
  $'[server]\nconfig = /x'
bad "$conf:3: loops is there twice, first in line 2" "a setting twice" \
  $'[server]\nloops = 1\nloops = 2'
bad "$conf:2: loops: \"two\" is not a number" "a bad number" \
  $'[server]\nloops = two'
bad "$conf:2: loops: 0 is out of range" "a number out of range" \
  $'[server]\nloops = 0'
bad "$conf:2: max-memory: .* out of range" "a size out of range" \
  $'[server]\nmax-memory = 9999999999G'
for where in foo unix: 127.0.0.1:65536 :4294967296 "[::1]:70000" \
  127.0.0.1: "[nonsense]:10809" :no-such-service vsock:x:1; do
  bad "$conf:2: listen: .*${where//[\[\]]/.}" "listen = $where" \
    $'[server]\n'"listen = $where"
done
for where in 65536 127.0.0.1:99999 host: no-such-service; do
  bad "$conf:2: metrics: $where: " "metrics = $where" \
    $'[server]\n'"metrics = $where"
done
fails_with 2 "metrics: 75000: a port is at most 65535" "--metrics 75000" \
  "$DAEMON" --check-config --plugin "$TEST_PLUGIN" --metrics 75000
bad "$conf:2: verbose: must be yes or no" "a bad switch" \
  $'[server]\nverbose = maybe'
bad "$conf:2: tls: must be off" "a bad word" $'[server]\ntls = perhaps'
bad "$conf:2: pidfile: the value is empty" "an empty value" \
  $'[server]\npidfile ='
bad "$conf:4: an export has no such|$conf:4: mood: an export" \
  "an unknown setting of an export" "$pool"$'[export a]\nmood = 1'
bad "$conf:4: allow: \"everybody\" is not one" "a bad rule" \
  "$pool"$'[export a]\nallow = everybody'
bad "$conf:4: allow: empty" "an empty rule" "$pool"$'[export a]\nallow ='
bad "$conf:4: allow: addr:10.1.0.0/8: the address has bits" "a bad network" \
  "$pool"$'[export a]\nallow = addr:10.1.0.0/8'
bad "$conf:4: allow: addr:10.0.0.0/33" "a bad prefix" \
  "$pool"$'[export a]\nallow = addr:10.0.0.0/33'
bad "$conf:4: allow: addr:example.org" "a name for an address" \
  "$pool"$'[export a]\nallow = addr:example.org'
bad "$conf:4: allow: user:nobody-of-this-name: there is no such user" \
  "a user that does not exist" \
  "$pool"$'[export a]\nallow = user:nobody-of-this-name'
bad "$conf:4: allow: uid:x" "a bad uid" "$pool"$'[export a]\nallow = uid:x'
bad "$conf:4: allow: & joins" "half a conjunction" \
  "$pool"$'[export a]\nallow = unix &'
bad "$conf:4: allow: a quote is not closed" "an open quote" \
  "$pool"$'[export a]\nallow = cn:"x'
bad "$conf:5: iops: is there twice" "a rate twice" \
  "$pool"$'[export a]\niops = 5\niops = 6'
bad "$conf:4: bandwidth: must be a number" "a bad rate" \
  "$pool"$'[export a]\nbandwidth = fast'
bad "$conf:4: iops: is out of range" "no rate at all" \
  "$pool"$'[export a]\niops = 0'
bad "$conf:4: max-connections: must be a number from 1" "no connection" \
  "$pool"$'[export a]\nmax-connections = 0'
bad "$conf:4: readonly: must be yes or no" "neither" \
  "$pool"$'[export a]\nreadonly = 7'
bad "allow = cn: and dn: need tls-verify-peer" "names nobody verifies" \
  "$pool"$'[export a]\nallow = cn:x'
bad "allow = psk: needs tls-psk" "keys that there are none of" \
  "$pool"$'[export a]\nallow = psk:x'
bad "allow = tls needs tls" "a rule that can never hold" \
  "$pool"$'[export a]\nallow = tls'
bad "$conf:2: unknown parameter" "a parameter that the plugin does not know" \
  $'[plugin '"$TEST_PLUGIN"$']\nnonsense = 1'
head -c 2000000 /dev/zero | tr '\0' ' ' >"$conf"
fails_with 1 "no plugin \"xyz\"; looked for /a/nbdkit-xyz-plugin.so,\
 /b c/nbdkit-xyz-plugin.so$" "a plugin that is not there" \
  "$DAEMON" --plugin-dir "/a:/b c" --plugin xyz
mkdir "$tmp/dir"
ln -s "$TEST_PLUGIN" "$tmp/dir/nbdkit-xyz-plugin.so"
ok "a plugin in the second place" "$DAEMON" --check-config \
  --plugin-dir "/a:$tmp/dir" --plugin xyz
fails_with 1 "larger than" "a file without end" "$DAEMON" --check-config \
  -c "$conf"
printf '[server]\0' >"$conf"
fails_with 1 "NUL" "a file with NUL bytes" "$DAEMON" --check-config -c "$conf"
fails_with 1 "$tmp/none: No such file" "no file" "$DAEMON" -c "$tmp/none"
fails_with 1 "$tmp: Is a directory" "a directory" "$DAEMON" -c "$tmp"

# The command line and the file together.
printf '%s\n' "$pool" >"$conf"
fails_with 2 "so -d and --plugin do not go with it" "a pool too many" \
  "$DAEMON" -c "$conf" -d /x
fails_with 2 "so -d and --plugin do not go with it" "a plugin too many" \
  "$DAEMON" -c "$conf" --plugin memory
printf '%s\n' "[server]" "loops = 0" >"$conf"
fails_with 1 "$conf:2: loops" "the line does not hide a bad file" \
  "$DAEMON" -c "$conf" --loops 1 --plugin memory
printf '%s\n' "[server]" "listen = unix:$tmp/b.sock" "read-only = yes" \
  "[plugin $TEST_PLUGIN]" "exports = 3" "size = 1M" >"$conf"
ok "start with both" start_daemon -c "$conf" size=2M
ok "the line's socket" nbdinfo "$uri"
ok "the file's socket" nbdinfo "nbd+unix:///?socket=$tmp/b.sock"
is "$(nbdinfo --size "$(export_uri e2)")" 2097152 "parameters of both"
ok "the file's switch" nbdinfo --is readonly "$uri"
ok "stop" stop_daemon
done_testing
