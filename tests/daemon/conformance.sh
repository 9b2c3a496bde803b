#!/bin/bash
# The checks of protocol.sh against stock nbdkit with the same plugin: where
# the two hosts differ, tests/daemon/differences says why.
. "$abs_top_srcdir/tests/lib/functions.sh"
. "$abs_top_srcdir/tests/daemon/lib.sh"
requires nbdkit
if nm -D "$TEST_PLUGIN" | grep -q "__asan_init\|__tsan_init"; then
  skip_all "nbdkit cannot load a plugin with sanitizers"
fi

here=$abs_top_srcdir/tests/daemon
# In turns per connection: nbdkit aborts when a client goes away while several
# replies are queued (NBD_CMD_DISC with reads in flight does that).
start_nbdkit n "$TEST_PLUGIN" exports=4 bad-at=13M model=2 ||
  { fail "start nbdkit"; done_testing; }
pass "start nbdkit"
version=$(nbdkit --version)

# differing PROGRAM ARG...: the checks that fail; all of them are made.
differing ()
{
  timeout 300 python3 "$@" >"$tmp/out" 2>&1
  is $? 0 "${1##*/} runs to its end on nbdkit"
  grep -v "^ok \|^not ok " "$tmp/out" | sed 's/^/# /'
  diag "$(grep -c "^ok " "$tmp/out") checks are the same"
  sed -n 's/^not ok //p' "$tmp/out" >>"$tmp/differ"
}
differing "$here/options.py" "$nbdkit_sock"
# Extended headers: nbdkit has none.
# It is known to get stuck, so there is no point in patience.
STUCK_SECONDS=3 differing "$here/transmission.py" "$nbdkit_sock" simple structured
case $version in
  *" 1.32."*)
    is "$(sort "$tmp/differ")" \
      "$(sed -n 's/^\([^#|]*[^ |]\) *|.*/\1/p' "$here/differences" | sort)" \
      "the differences are those that are explained" ;;
  *)
    skip "the differences" "they are those of nbdkit 1.32, not $version" ;;
esac
done_testing
