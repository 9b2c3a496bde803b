# The N-th read, write, flush and allocation fails, for every N.
# FAULT_ARGS adds arguments.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"

fault=$abs_top_builddir/tests/fault/fault
stride=1
[ -z "${BTRNBD_QUICK:-}" ] || stride=13

# round NAME ARG...
round ()
{
  local name=$1
  shift
  # Word splitting is wanted.
  # shellcheck disable=SC2086
  if "$fault" -d "$tmp" "$@" ${FAULT_ARGS:-} > "$tmp/out" 2>&1; then
    sed 's/^/# /' "$tmp/out"
    pass "$name"
  else
    tail -n 60 "$tmp/out" | sed 's/^/# /'
    fail "$name"
  fi
}

for kind in read write flush alloc; do
  round "the n-th $kind fails" -k $kind -m $stride -c 25
done
for kind in read write flush; do
  round "the n-th $kind and all after it fail" -k $kind -F -m $stride -c 25
done
for kind in read write; do
  round "the n-th $kind fails, trees of small nodes" \
        -k $kind -N 4096 -n 400 -s 2 -m $stride -c 25
done
round "memory runs out for good" -k alloc -F -m $((stride * 7)) -c 25
done_testing
