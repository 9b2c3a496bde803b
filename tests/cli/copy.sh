# put and get: the same bytes, holes stay holes, and nothing is half done in
# silence.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
requires_file "$BTRNBD"
requires jq
img=$tmp/pool.img

b ()
{
  "$BTRNBD" -d "$img" "$@"
}

used ()
{
  b --json ls | jq -r --arg n "$1" '.[] | select (.name == $n) | .used'
}

ok "mkfs" b mkfs --size 1G

# Sizes around every border.
for size in 0 1 511 4095 4096 4097 65537 1048576 1048577 5000000; do
  head -c $size /dev/urandom >"$tmp/in"
  ok "put $size bytes" b put "$tmp/in" file
  ok "get $size bytes" b get file "$tmp/out"
  cmp -s "$tmp/in" "$tmp/out"; is $? 0 "$size bytes are the same"
done
ok "put a shorter one over it" b put /dev/null file
ok "get it" b get file "$tmp/out"
is "$(stat -c %s "$tmp/out")" 0 "it is empty"

# Interrupted: what was there is there, and nothing else.
mkfifo "$tmp/slow"
for signal in INT TERM; do
  # A background job of a script ignores SIGINT unless it is told otherwise.
  python3 -c 'import os, signal, sys
signal.signal (signal.SIGINT, signal.SIG_DFL)
os.execv (sys.argv[1], sys.argv[1:])' "$BTRNBD" -d "$img" put - file \
    <"$tmp/slow" 2>"$tmp/put.log" &
  put=$!
  cleanup_fn kill "$put"
  exec 8>"$tmp/slow"
  head -c 20M /dev/zero >&8 # more than a pipe holds
  kill -$signal "$put"
  wait "$put"; is $? 1 "put, SIG$signal: status 1"
  exec 8>&-
  like "$(cat "$tmp/put.log")" "^btrnbd: file: interrupted$" \
    "SIG$signal: it is told"
  is "$(b ls / | xargs)" file "SIG$signal: nothing is left of it"
done
ok "get what was there" b get file "$tmp/out"
cmp -s "$tmp/out" /dev/null; is $? 0 "it is as it was"

# The pool itself is no place for what comes out of it.
"$BTRNBD" -d "$tmp/self.img" mkfs --size 256M
"$BTRNBD" -d "$tmp/self.img" put "$tmp/in" file
ln "$tmp/self.img" "$tmp/link.img"
for to in self.img link.img; do
  fails_with 1 "a device of the pool" "get over the pool ($to)" \
    "$BTRNBD" -d "$tmp/self.img" get file "$tmp/$to"
done
ok "get over the pool, appending" eval \
  '! "$BTRNBD" -d "$tmp/self.img" get file - >>"$tmp/self.img" 2>/dev/null'
ok "get another" "$BTRNBD" -d "$tmp/self.img" get file "$tmp/out"
cmp -s "$tmp/in" "$tmp/out"; is $? 0 "the pool is as it was"
if [ "$(id -u)" = 0 ]; then
  loop=$(losetup -f --show "$tmp/self.img")
  cleanup_fn losetup -d "$loop"
  fails_with 1 "a device of the pool|busy" "get over the pool, a disk" \
    "$BTRNBD" -d "$loop" get file "$loop"
  ok "get another" "$BTRNBD" -d "$loop" get file "$tmp/out"
else
  lacks "get over the pool, a disk" "needs root"
fi

# Sparse files.
truncate -s 200M "$tmp/sparse"
for at in 0 1 50 120 199; do
  head -c 70000 /dev/urandom |
    dd of="$tmp/sparse" bs=1M seek=$at conv=notrunc status=none
done
truncate -s 200M "$tmp/sparse"
ok "put a sparse file" b put "$tmp/sparse" sparse
is "$(( $(used sparse) < 1 << 20 ))" 1 "it is sparse in the pool"
ok "get a sparse file" b get sparse "$tmp/out"
cmp -s "$tmp/sparse" "$tmp/out"; is $? 0 "the same bytes"
is "$(( $(stat -c %b "$tmp/out") * 512 < 2 << 20 ))" 1 "it is sparse again"
is "$(b get sparse - | sha256sum)" "$(sha256sum <"$tmp/sparse")" \
   "get to a pipe writes the zeroes"
ok "put over a sparse file" b put --nocow "$tmp/sparse" sparse

# Volumes keep their size.
ok "create" b create vol --size 64M
head -c 3000000 /dev/urandom >"$tmp/in"
ok "put into a volume" b put "$tmp/in" vol
ok "get the volume" b get vol "$tmp/out"
is "$(stat -c %s "$tmp/out")" $((64 << 20)) "it kept its size"
cmp -s -n 3000000 "$tmp/in" "$tmp/out"; is $? 0 "the same bytes"
head -c 1000 /dev/urandom >"$tmp/in"
ok "put a smaller one" b put "$tmp/in" vol
ok "get the volume" b get vol "$tmp/out"
truncate -s 64M "$tmp/in"
cmp -s "$tmp/in" "$tmp/out"; is $? 0 "zeroes behind it"
fails_with 1 "larger than vol" "put what does not fit" \
           b put "$tmp/sparse" vol
is "$(b get vol - | sha256sum)" "$(sha256sum <"$tmp/in")" \
   "the volume is as before"

# Pipes.
is "$(head -c 3333333 /dev/zero | tr '\0' x | sha256sum)" \
   "$(head -c 3333333 /dev/zero | tr '\0' x | b put - piped &&
      b get piped - | sha256sum)" "from a pipe"
fails_with 1 "larger than vol" "a pipe that does not fit" \
           bash -c "head -c 70M /dev/urandom | '$BTRNBD' -d '$img' put - vol"

# Progress, for people only.
b put "$tmp/sparse" sparse 2>"$tmp/stderr"
is "$(cat "$tmp/stderr")" "" "no progress without a terminal"
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
  for command in "put $tmp/sparse sparse" "get sparse $tmp/out"; do
    script -qec "'$BTRNBD' -d '$img' $command" /dev/null \
      >"$tmp/screen" </dev/null
    is $? 0 "${command%% *} on a terminal"
    like "$(tr '\r' '\n' <"$tmp/screen")" "sparse +100 %  200 MiB of 200 MiB" \
      "${command%% *}: progress"
  done
else
  lacks "progress" "script is not installed, or no terminals here"
fi

# A descriptor that somebody uses goes on where it stands.
printf 'some words' >"$tmp/words"
ok "put a few bytes" b put "$tmp/words" words
{ echo first; b get words -; echo " last"; } >"$tmp/joined"
is "$(cat "$tmp/joined")" $'first\nsome words last' "get in the middle"
{ b get words -; echo " last"; } >"$tmp/joined"
is "$(cat "$tmp/joined")" "some words last" "get at the start, then more"
echo first >"$tmp/joined"
b get words - >>"$tmp/joined"
is "$(cat "$tmp/joined")" $'first\nsome words' "get that appends"
{ read -r -n 5; b put - rest; } <"$tmp/words"
ok "get the rest" b get rest "$tmp/rest"
is "$(cat "$tmp/rest")" "words" "put of what was not read yet"

# Errors.
fails_with 1 "^btrnbd: $tmp/nope: No such file" "put of nothing" \
           b put "$tmp/nope" x
fails_with 1 "is a directory" "put of a directory" b put "$tmp" x
fails_with 1 "^btrnbd: d/x: no such file" "put below nothing" \
           b put "$tmp/in" d/x
fails_with 1 "^btrnbd: nope: no such file" "get of nothing" \
           b get nope "$tmp/new"
[ ! -e "$tmp/new" ]; is $? 0 "no file is left behind"
fails_with 1 "/nope/out" "get into nothing" b get vol /nope/out
if [ -c /dev/full ]; then
  fails_with 1 "No space left" "get to what is full" b get vol /dev/full
fi

head -c 600M /dev/urandom >"$tmp/big" || lacks_all "no room in $tmp"
ok "put what fits" b put "$tmp/big" big
fails_with 1 "^btrnbd: big2: .*no space" "put into a full pool" \
           b put "$tmp/big" big2
fails_with 1 "no such file" "nothing is left of it" b ls big2
ok "get what was there" b get big "$tmp/out"
cmp -s "$tmp/big" "$tmp/out"; is $? 0 "the same bytes"

# What is there is replaced as a whole or not at all.
same ()                         # NAME-IN-POOL FILE TEXT
{
  is "$(b get "$1" - | sha256sum)" "$(sha256sum <"$2")" "$3"
}

fails_with 1 "^btrnbd: big: .*no space" "no room for old and new" \
           bash -c "head -c 600M /dev/urandom | '$BTRNBD' -d '$img' put - big"
same big "$tmp/big" "the old one is whole"
is "$(b ls -l | grep -c put)" 0 "nothing else is left"
head -c 300M /dev/urandom >"$tmp/big"
ok "in place there is" b put --in-place "$tmp/big" big
same big "$tmp/big" "in place"
fails_with 1 "no such file" "in place of nothing" \
           b put --in-place "$tmp/words" nothing
fails_with 2 "exclude each other" "in place, and nocow" \
           b put --in-place --nocow "$tmp/words" words

ok "a nocow file" b put --nocow "$tmp/words" plain
ok "put over it" b put "$tmp/in" plain
is "$(b --json ls plain | jq -r ".[0].nocow")" true "it stays nocow"
same plain "$tmp/in" "with the new contents"
ok "in place" b put --in-place "$tmp/words" plain
same plain "$tmp/words" "with the new contents"
ok "another name" b ln words words2
fails_with 1 "has 2 names" "one of two names is not replaced" \
           b put "$tmp/in" words
ok "in place it is written to" b put --in-place "$tmp/in" words
same words2 "$tmp/in" "under its other name, too"
ok "put" b put "$tmp/in" vol

if command -v btrfs >/dev/null; then
  ok "btrfs check" check_clean "$img"
  ok "btrfs check of the data" btrfs check --check-data-csum "$img"
fi
if [ "$(id -u)" = 0 ] && grep -qw btrfs /proc/filesystems; then
  if ok "mount" mount_loop "$img" "$tmp/mnt" ro; then
    cmp -s "$tmp/big" "$tmp/mnt/big"; is $? 0 "the kernel reads the same"
    cmp -s "$tmp/sparse" "$tmp/mnt/sparse"
    is $? 0 "the kernel reads the same holes"
    unmount "$tmp/mnt"
  fi
fi
done_testing
