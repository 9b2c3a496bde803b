# Random operations against a model, over the variants of the format; every
# run ends in btrfs check.  One seed by hand:
#   BTRNBD_SEED=7 make check TESTS=tests/model/model.sh
. "$abs_top_srcdir/tests/lib/functions.sh"
requires btrfs
model=$abs_top_builddir/tests/model/model
requires_file "$model"

ops=1500
[ "${BTRNBD_QUICK:-0}" = 1 ] && ops=500
ops=${BTRNBD_MODEL_OPS:-$ops}
first=${BTRNBD_SEED:-1}

# one SEED OPTION...
one ()
{
  local seed=$1
  shift
  if ok "seed $seed${*:+ }$*" timeout 600 "$model" -n "$ops" "$@" \
        -d "$tmp/img" "$seed"; then
    ok "seed $seed: btrfs check" check_clean "$tmp/img"
  fi
  rm -f "$tmp/img"
}

one "$first"
if [ -z "${BTRNBD_SEED:-}" ]; then
  one 2
  one 3 -N 4096
  one 4 -N 65536
  one 5 -c xxhash
  one 6 -c sha256
  one 7 -c blake2b
  one 8 -f ^no-holes,^block-group-tree
  one 9 -f ^block-group-tree
  one 10 -f ^free-space-tree,^block-group-tree
  one 12 -f ^extref,^skinny-metadata
  one 11 -m -S 256 -N 4096
  # pools that get full
  one 13 -F -S 40
  one 14 -F -S 48 -N 4096
  one 15 -F -S 64 -f ^block-group-tree,^free-space-tree
  one 16 -F -S 32 -m -N 4096
fi
done_testing
