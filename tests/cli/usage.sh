# Help, version, and every kind of wrong usage: one line, status 2.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
requires_file "$BTRNBD"
img=$tmp/pool.img

commands="mkfs create ls info df regroup rm snapshot snapshots clone rollback diff clone-range dedupe subvol resize mkdir mv ln put get dump-tree clients
kick stat top reload events"
commands=$(xargs <<<"$commands")

ok "--help" "$BTRNBD" --help
cp "$tmp/ok.log" "$tmp/help"
listed=$(awk '/^Commands:/ { on = 1; next } /^$/ { on = 0 }
              on { print $1 }' "$tmp/help" | xargs)
is "$listed" "$commands" "help lists the commands"
like "$("$BTRNBD" --version)" '^btrnbd [0-9]+\.[0-9]+\.[0-9]+$' "--version"
for command in $commands; do
  ok "$command --help" "$BTRNBD" "$command" --help
  grep -Eq "usage: btrnbd -[ds] .* $command" "$tmp/ok.log"
  is $? 0 "$command --help shows its usage"
  grep -q "^=head2 $command" "$abs_top_srcdir/server/cli/btrnbd.pod"
  is $? 0 "the man page has $command"
done
# Every option that help tells is in the man page.
missing=$(for command in $commands; do
  "$BTRNBD" "$command" --help | grep -oE -- ' --[a-z-]+' | sort -u |
    while read -r option; do
      grep -qe "$option" -e "-${option:2:1}\b" \
        "$abs_top_srcdir/server/cli/btrnbd.pod" || echo "$command $option"
    done
done)
is "$missing" "" "the man page has every option"

wrong ()
{
  local pattern=$1 name=$2
  shift 2
  fails_with 2 "$pattern" "$name" "$BTRNBD" "$@"
  is "$(grep -c '^btrnbd' "$tmp/ok.log")" 1 "$name: one line says it"
}

wrong "no command" "no command"
wrong "unknown command \"frob\"" "unknown command" frob
wrong "which device" "no device" ls
wrong "which device.*-s" "no pool" ls
wrong "which server" "no server" clients
wrong "asks a server" "clients of devices" -d "$img" clients
wrong "works on devices" "mkfs through a server" -s "$tmp/sock" mkfs
wrong "not both" "devices and a server" -s "$tmp/sock" -d "$img" ls
wrong "is not a number" "an interval that is none" -s "$tmp/sock" top \
  --interval abc
wrong "begin at 1" "no interval" -s "$tmp/sock" top --interval 0
wrong "begin at 1" "no picture" -s "$tmp/sock" top --count 0
wrong "not the number" "kick a name" -s "$tmp/sock" kick vm1
wrong "unrecognized option" "unknown global option" --frob ls
wrong "unrecognized option" "unknown option" -d "$img" ls --frob
wrong "requires an argument" "option without its argument" -d "$img" \
      create x --size
wrong "mkfs takes no arguments" "too many arguments" -d "$img" mkfs x
wrong "resize takes the arguments NAME SIZE" "too few arguments" \
      -d "$img" resize x
wrong "one device only" "mkfs on two devices" -d "$img" -d "$img.2" mkfs
wrong "size is required" "create without a size" -d "$img" create x
wrong "no tree" "dump-tree of nothing" -d "$img" dump-tree nothing
wrong "exclude each other" "mv two ways" -d "$img" mv -x -n a b
for size in "" x 1X -1 1.5G 10GG 99999999999999999999 9E 10Ki; do
  wrong "is not a size" "size \"$size\"" -d "$img" resize -- x "$size"
done

fails_with 1 "^btrnbd: $tmp/sock: No such file" "a socket that is not there" \
           "$BTRNBD" -s "$tmp/sock" ls
fails_with 1 "^btrnbd: $tmp/env: No such file" "a socket of the environment" \
           env BTRNBD_SOCKET="$tmp/env" "$BTRNBD" ls
[ ! -e "$img" ]; is $? 0 "no pool was made by any of it"
fails_with 1 "^btrnbd: .*pool.img: " "a pool that is not there" \
           "$BTRNBD" -d "$img" ls
head -c 1M /dev/zero >"$img"
fails_with 1 "^btrnbd: .*pool.img: " "a file that is no pool" \
           "$BTRNBD" -d "$img" ls

# Messages do not go to the disk when nobody has opened a place for them.
rm "$img"
ok "a pool" "$BTRNBD" -d "$img" mkfs --size 256M
"$BTRNBD" -d "$img" rm nothing <&- >&- 2>&-; is $? 1 "nothing is open"
"$BTRNBD" -d "$img" create vm1 --size 1M 2>&-; is $? 0 "no standard error"
"$BTRNBD" -d "$img" rm nothing 2>&-; is $? 1 "a message for nobody"
cmp -s -n 65536 "$img" /dev/zero; is $? 0 "the disk has none of it"
fails_with 1 "standard output" "no standard output" \
           bash -c "'$BTRNBD' -d '$img' ls >&-"
"$BTRNBD" -d "$img" put - file <&- 2>/dev/null; is $? 1 "no standard input"
if [ -c /dev/full ]; then
  fails_with 1 "standard output" "output that does not fit" \
             bash -c "'$BTRNBD' --help >/dev/full"
fi
done_testing
