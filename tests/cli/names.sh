# Volumes, files and directories from the command line: on the devices, or,
# from served.sh, through a server.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
requires_file "$BTRNBD"
requires jq
img=$tmp/pool.img
reach=(-d "$img")
declare -F serve >/dev/null || serve () { :; }
declare -F unserve >/dev/null || unserve () { :; }

b ()
{
  "$BTRNBD" "${reach[@]}" "$@"
}

# export_field NAME FIELD
export_field ()
{
  b --json ls | jq -r --arg n "$1" ".[] | select (.name == \$n) | .$2"
}

ok "mkfs" b mkfs --size 1G --label "my pool" \
   --uuid 12345678-9abc-def0-1234-56789abcdef0
serve
is "$(b --json info | jq -r .label)" "my pool" "info: label"
is "$(b --json info | jq -r .uuid)" 12345678-9abc-def0-1234-56789abcdef0 \
   "info: uuid"
is "$(b --json info | jq -r '[.nodesize, .sectorsize, .csum] | join (" ")')" \
   "16384 4096 crc32c" "info: the defaults"
is "$(b --json info | jq -c '[.read_only, .read_only_reason]')" \
   "[false,null]" "info: it can be written"
ok "info as text" b info
is "$(b --json ls | jq -c .)" "[]" "ls: nothing yet"
is "$(b ls)" "" "ls: nothing yet, as text"
is "$(b --json df | jq '.total_bytes')" $((1 << 30)) "df: total"
ok "df as text" b df

ok "create" b create vm1 --size 2G --description "web server"
fails_with 0 "odd: the size is 4096 bytes" "create, not whole sectors" \
           b create odd --size 1000
fails_with 0 "odd: the size is 8192 bytes" "resize, not whole sectors" \
           b resize odd 5000
ok "rm" b rm odd
ok "create, nocow" b create vm2 --size 4096 --nocow
ok "create, allocation unit" b create vm4 --size 1M --alloc-unit 64K
is "$(export_field vm4 alloc_unit)" 65536 "ls: the allocation unit"
ok "clone" b clone vm4 vm5
is "$(export_field vm5 alloc_unit)" 65536 "a clone has it too"
head -c 1M /dev/urandom >"$tmp/rnd"
ok "put" b put "$tmp/rnd" vm5
is "$(export_field vm5 alloc_unit)" 65536 "and keeps it when it is replaced"
is "$(b --json df -v | jq '.exports[] | select (.name == "vm5").extents')" 16 \
   "extents are as large as that"
ok "rm" b rm vm4 vm5
fails_with 1 "power of two" "not an allocation unit" \
           b create vm4 --size 1M --alloc-unit 48K
is "$(export_field vm2 alloc_unit)" 16384 "ls: the usual one"
ok "create, leading zero" b create vm4 --size 010M
is "$(export_field vm4 size)" $((10 << 20)) "it means nothing"
ok "rm" b rm vm4
ok "create, option before the name" b create -s 1M vm3
fails_with 1 "^btrnbd: vm1: " "create what is there" b create vm1 --size 1G
for name in "" . .. a/../b /../x; do
  not_ok "create \"$name\"" b create "$name" --size 1M
done
is "$(b ls | sort | xargs)" "vm1 vm2 vm3" "ls: the names"
is "$(export_field vm1 size)" $((2 << 30)) "ls: size"
is "$(export_field vm1 description)" "web server" "ls: description"
is "$(export_field vm1 volume)" true "ls: a volume"
is "$(export_field vm1 nocow)" false "ls: not nocow"
is "$(export_field vm2 nocow)" true "ls: nocow"
is "$(export_field vm3 description)" null "ls: no description"
ok "ls -l" b ls -l
grep -q "web server" "$tmp/ok.log"; is $? 0 "ls -l tells the description"
is "$(awk '{ print $1 }' "$tmp/ok.log" | xargs)" "vw- vwn vw-" \
   "ls -l: what a server would let write"
is "$(export_field vm1 read_only)" false "ls: not read-only"
is "$(b ls vm1)" vm1 "ls of one"
is "$(b ls /vm1)" vm1 "ls of one with a slash"
fails_with 1 "^btrnbd: nope: no such file" "ls of what is not there" \
           b ls nope

ok "resize" b resize vm1 3G
is "$(export_field vm1 size)" $((3 << 30)) "resize: larger"
fails_with 1 "^btrnbd: vm1: .*it has $((3 << 30)) bytes; --shrink" \
           "resize to 31 for 31G" b resize vm1 31
is "$(export_field vm1 size)" $((3 << 30)) "nothing is cut off unasked"
ok "resize to what it is" b resize vm1 3G
ok "resize --shrink" b resize --shrink vm1 1M
is "$(export_field vm1 size)" $((1 << 20)) "resize: smaller"
fails_with 1 "no bytes" "no volume without bytes" b resize --shrink vm1 0
fails_with 1 "no bytes" "nor a new one" b create none --size 0
fails_with 1 "^btrnbd: nope: no such file or directory$" \
           "resize what is not there: the name is told once" \
           b resize nope 1M
fails_with 1 "not UTF-8" "a description that JSON cannot tell" \
           b create bad --size 1M --description $'a\xffb'
is "$(b ls | sort | xargs)" "vm1 vm2 vm3" "none of these was made"

fails_with 1 "^btrnbd: nope: no such file or directory$" \
           "df of several: one is not there" b df vm1 nope vm2
is "$(b --json df vm1 nope vm2 2>/dev/null | jq -r .exports[].name | xargs)" \
   "vm1 vm2" "the others are told of"
is "$(b --json regroup nope vm2 2>/dev/null | jq -r .[].name)" vm2 \
   "regroup goes on, too"
b regroup nope vm2 >"$tmp/out" 2>/dev/null; is $? 1 "status 1"

ok "mkdir" b mkdir dir
fails_with 1 "^btrnbd: dir: .*exists" "mkdir again" b mkdir dir
ok "mkdir -p" b mkdir -p dir/a/b/c dir
fails_with 1 "^btrnbd: x/y: no such file" "mkdir below nothing" b mkdir x/y
echo hello >"$tmp/hello"
ok "put" b put "$tmp/hello" dir/hello
is "$(b ls dir | sort | xargs)" "a hello" "ls of a directory"
is "$(b --json ls dir | jq -r '.[] | select (.name == "hello") |
     [.type, .size, .nlink] | join (" ")')" "file 6 1" "ls --json of it"
is "$(export_field dir/hello size)" 6 "a file is an export"
ok "ln" b ln dir/hello hard
is "$(b get hard -)" hello "the hard link reads the same"
is "$(b --json ls dir | jq -r '.[] | select (.name == "hello") | .nlink')" 2 \
   "two links"
ok "ln -s" b ln -s dir/hello soft
is "$(b --json ls / | jq -r '.[] | select (.name == "soft") | .type')" \
   symlink "a symbolic link"
fails_with 1 "^btrnbd: hard: .*exists" "ln over a name" b ln dir/hello hard

ok "mv a volume" b mv vm1 web
is "$(b ls | grep -c '^vm1$')" 0 "the old name is gone"
is "$(export_field web size)" $((1 << 20)) "the new one is there"
is "$(export_field web description)" "web server" "with its description"
ok "mv a file over another" b mv hard dir/a/moved
echo other >"$tmp/other"
ok "put another" b put "$tmp/other" other
ok "mv over a file" b mv other dir/hello
is "$(b get dir/hello -)" other "it replaced the file"
is "$(b get dir/a/moved -)" hello "the other link is untouched"
fails_with 1 "exists" "mv -n over a file" b mv -n dir/hello dir/a/moved
ok "mv --exchange" b mv --exchange dir/hello dir/a/moved
is "$(b get dir/hello -) $(b get dir/a/moved -)" "hello other" "exchanged"
not_ok "mv of nothing" b mv nope nope2
fails_with 1 "both names are the same" "mv to itself" b mv web web

# "@" at the top is for the pool's image and for snapshots.
for name in @pool @x web@new; do
  reserved="are reserved$"
  [ "$name" = web@new ] && reserved="those of snapshots$"
  fails_with 1 "$reserved" "put $name" b put "$tmp/other" "$name"
  fails_with 1 "$reserved" "mkdir $name" b mkdir "$name"
  fails_with 1 "$reserved" "ln $name" b ln dir/hello "$name"
  fails_with 1 "$reserved" "ln -s $name" b ln -s dir/hello "$name"
  fails_with 1 "$reserved" "mv a file to $name" b mv dir/hello "$name"
  fails_with 1 "@" "mv a volume to $name" b mv web "$name"
  fails_with 1 "$reserved" "put --reflink $name" \
             b put --reflink dir/hello "$name"
  fails_with 1 "$reserved" "subvol snapshot to $name" \
             b subvol snapshot web "$name"
  fails_with 1 "@" "create $name" b create "$name" --size 1M
  fails_with 1 "@" "clone to $name" b clone web "$name"
done
ok "below the top it is a name" b put "$tmp/other" dir/@x
ok "rm" b rm dir/@x

ok "lock" b subvol lock web
fails_with 1 "unlock it first" "rm of what is locked" b rm web
ok "unlock" b subvol unlock web
ok "rm a file" b rm dir/hello soft
ok "rm a volume" b rm web
is "$(b ls | grep -c '^web$')" 0 "it is gone"
fails_with 1 "^btrnbd: dir: .*not empty" "rm of a full directory" b rm dir
ok "rm an empty directory" b rm dir/a/b/c
fails_with 1 "^btrnbd: web: no such file" "rm again" b rm web
fails_with 1 "^btrnbd: nope: no such" "rm of several, one is missing" \
           b rm nope vm3
is "$(b ls | sort | xargs)" "dir/a/moved vm2" "the others are removed"

ok "dump-tree" b dump-tree
ok "dump-tree fs" b dump-tree fs
grep -q "INODE_ITEM" "$tmp/ok.log"; is $? 0 "it shows inodes"
ok "dump-tree by number" b dump-tree 1

for i in $(seq 200); do b mkdir "dir/many$i" || break; done
is "$(b ls dir | grep -c many)" 200 "200 directories, a pool open each"

unserve
if command -v btrfs >/dev/null; then
  ok "btrfs check" check_clean "$img"
  ok "btrfs check, lowmem" check_clean "$img" lowmem
fi
done_testing
