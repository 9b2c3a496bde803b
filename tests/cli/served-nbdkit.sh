# The commands of names.sh on a pool that stock nbdkit serves.
serve ()
{
  requires nbdkit
  ok "nbdkit serves" start_nbdkit n "$PLUGIN" "$img" control="$tmp/ctl"
  reach=(-s "$tmp/ctl")
}
unserve ()
{
  ok "nbdkit ends" stop_nbdkit
}
. "${abs_top_srcdir:?}/tests/cli/names.sh"
