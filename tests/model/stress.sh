# Threads on one pool; see stress.c.
. "$abs_top_srcdir/tests/lib/functions.sh"
requires btrfs
stress=$abs_top_builddir/tests/model/stress
requires_file "$stress"

for seed in ${BTRNBD_SEED:-1 2 3}; do
  # Every other one as if memory were short.
  if ok "seed $seed" timeout 300 "$stress" -t 4 \
        $( (( seed % 2 == 0 )) || echo -W) \
        -n "${BTRNBD_STRESS_OPS:-2000}" -d "$tmp/img" "$seed"; then
    ok "seed $seed: btrfs check" check_clean "$tmp/img"
  fi
  rm -f "$tmp/img"
done
done_testing
