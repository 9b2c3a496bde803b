# Snapshots and reflinks go back and forth between Linux and us: each makes
# them of what the other one left, writes to all, and both agree on the bytes.
# Trees that Linux has dropped by half are finished by us.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
requires_kernel_btrfs
requires mkfs.btrfs fsfreeze sha256sum

img=$tmp/img
mnt=$tmp/mnt
b=("$BTRNBD" -d "$img")

# A few blocks of FILE change; SEED tells which.
scribble ()
{
  local file=$1 seed=$2 i at
  RANDOM=$seed
  for i in $(seq 12); do
    at=$((RANDOM % 500))
    head -c $(((RANDOM % 8 + 1) * 4096)) /dev/urandom |
      dd of="$file" bs=4096 seek=$at conv=notrunc status=none || return
  done
}

# By us: the disk goes out, changes, and goes in again.
scribble_ours ()
{
  "${b[@]}" get "$1" "$tmp/disk" && scribble "$tmp/disk" "$2" &&
    "${b[@]}" put "$tmp/disk" "$1"
}

sums ()
{
  local v
  for v in "$mnt"/*/disk; do
    sha256sum "$v" | sed "s|$mnt/||"
  done | sort -k2
}

sums_ours ()
{
  local v
  for v in $("${b[@]}" ls); do
    case $v in */*) continue ;; esac
    echo "$("${b[@]}" get "$v" - | sha256sum | cut -d' ' -f1)  $v/disk"
  done | sort -k2
}

agree ()
{
  sums_ours >"$tmp/ours" && mount_loop "$img" "$mnt" ro || return
  sums >"$tmp/theirs"
  unmount "$mnt" && diff "$tmp/ours" "$tmp/theirs"
}

# Every snapshot is what it was when it was made.
note () { grep '@' "$tmp/ours" >"$tmp/known"; }
unchanged () { diff <(cat "$tmp/known") <(grep -F -f <(cut -c67- "$tmp/known") "$tmp/ours"); }

kernel_turn ()
{
  local n=$1 v
  mount_loop "$img" "$mnt" || return
  btrfs -q subvolume snapshot -r "$mnt/vm" "$mnt/vm@linux$n" &&
  btrfs -q subvolume snapshot "$mnt/vm@ours$n" "$mnt/of-ours$n" &&
  cp --reflink=always "$mnt/vm/disk" "$mnt/of-ours$n/disk2" &&
  mv "$mnt/of-ours$n/disk2" "$mnt/of-ours$n/disk" || return
  for v in vm vm2 "of-ours$n"; do
    scribble "$mnt/$v/disk" "$((n * 10))" || return
  done
  scrub_clean "$mnt" || return
  unmount "$mnt" && kernel_is_content
}

our_turn ()
{
  local n=$1 k
  "${b[@]}" snapshot vm vm2 "ours$n" &&
  "${b[@]}" clone "vm@ours$n" "clone$n" &&
  "${b[@]}" clone-range --from-offset 64K --to-offset 512K --length 256K \
    vm "clone$n" || return
  if [ "$n" -gt 1 ]; then
    k=$((n - 1))
    "${b[@]}" clone "vm@linux$k" "of-linux$k" &&
    scribble_ours "of-linux$k" "$n" && scribble_ours "of-ours$k" "$n" || return
  fi
  scribble_ours vm "$n" && scribble_ours vm2 "$n"
}

one ()
{
  local name=$1 n
  shift
  rm -f "$img"
  truncate -s 600M "$img"
  mkfs.btrfs -q "$@" "$img" >/dev/null 2>&1 || { fail "$name: mkfs"; return; }
  ok "$name: create" "${b[@]}" create vm --size 2200K
  ok "$name: create" "${b[@]}" create vm2 --size 2200K --nocow
  for n in 1 2 3; do
    ok "$name: our turn $n" our_turn "$n" || return
    ok "$name: check $n" check_clean "$img" || return
    ok "$name: both agree $n" agree || return
    [ "$n" = 1 ] || ok "$name: snapshots are as they were $n" unchanged
    note
    ok "$name: the turn of Linux $n" kernel_turn "$n" || return
    ok "$name: check after Linux $n" check_clean "$img" || return
    ok "$name: both agree after Linux $n" agree || return
    ok "$name: snapshots are as they were after Linux $n" unchanged
    note
  done
  ok "$name: remove some" "${b[@]}" rm vm@ours1 vm@linux2 vm2@ours3 of-linux1
  ok "$name: remove a volume with its snapshots" "${b[@]}" rm -r vm
  ok "$name: both agree at the end" agree
  judge "$name" "$img"
}

one "defaults"
one "small nodes" -n 4096 -O ^no-holes,^skinny-metadata

# --- half dropped by Linux ---

is_half_dropped ()
{
  btrfs inspect-internal dump-tree -t root "$img" >"$tmp/roots" &&
    grep -q 'drop_progress key ([1-9]' "$tmp/roots"
}

# An unmount stops the cleaner of Linux where it is.
half_dropped ()
{
  local i t
  rm -f "$img"
  truncate -s 2G "$img"
  mkfs.btrfs -q -n 4096 "$img" >/dev/null 2>&1 && mount_loop "$img" "$mnt" &&
  btrfs -q subvolume create "$mnt/kept" || return
  for i in $(seq 120); do
    mkdir "$mnt/kept/$i" &&
    (cd "$mnt/kept/$i" && seq -f 'a-name-of-some-length-to-fill-leaves-%g' \
       300 | xargs touch) || return
  done
  head -c 8M /dev/urandom >"$mnt/kept/disk"
  sha256sum <"$mnt/kept/disk" >"$tmp/kept"
  unmount "$mnt"
  for t in 0.001 0.008 0.002 0.004 0.001 0.006 0.012 0.003 0.02; do
    mount_loop "$img" "$mnt" &&
    btrfs -q subvolume snapshot "$mnt/kept" "$mnt/big" &&
    rm -rf "$mnt"/big/[3-7]5 "$mnt"/kept/[2-9]0 && unmount "$mnt" || return
    mount_loop "$img" "$mnt" && btrfs -q subvolume delete -c "$mnt/big" &&
    sleep "$t" && unmount "$mnt" || return
    is_half_dropped && return
  done
  return 3
}

half_dropped >"$tmp/log" 2>&1
case $? in
  0) ok "half dropped: btrfs check" check_clean "$img"
     ok "half dropped: snapshot of what shares it" \
       "${b[@]}" clone kept kept2
     ok "half dropped: another one" "${b[@]}" clone kept2 kept3
     ok "half dropped: remove that, and finish both" "${b[@]}" rm kept3
     ok "half dropped: it is finished" \
       eval '! btrfs inspect-internal dump-tree -t root "$img" | grep -q ORPHAN_ITEM'
     is "$("${b[@]}" get kept2 - | sha256sum)" "$(cat "$tmp/kept")" \
       "half dropped: what shared it is whole"
     judge "half dropped" "$img" ;;
  3) skip "half dropped" "Linux was too quick" ;;
  *) sed 's/^/# /' "$tmp/log"
     fail "half dropped: make" ;;
esac
done_testing
