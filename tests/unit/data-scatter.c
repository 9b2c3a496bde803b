/* Files whose extents lie in another order on disk: they are read in that of
 * the disk, gaps and all, and whatever fails on the way harms nobody.
 */
#include <config.h>

#include "io/fault.h"
#include "snap_help.h"

#define BLOCKS 2048            /* of the volume: 8 MiB */
#define ROUNDS 8

struct scene {
  struct image im;
  struct model m;
  struct btrnbd_pool *pool;
  struct device *fault;
};

static void
write_every (struct scene *s, unsigned first, unsigned step, uint32_t *seq)
{
  struct btrnbd_file *f = open_export (s->pool, "vm");
  unsigned blk;

  for (blk = first; blk < BLOCKS; blk += step)
    disk_write (f, &s->m, blk, 1, seq);
  btrnbd_file_close (f);
  pool_ok (btrnbd_pool_sync (s->pool));
}

/* Blocks of eight rounds of writes side by side, then holes without
 * checksums in the extents of the first one.
 */
static void
make_scene (struct scene *s, const char *mkfs_opts)
{
  const struct btrnbd_volume_opts o = { .size = BLOCKS * BLK };
  uint32_t seq = 0;
  unsigned round;

  image_make (&s->im, mkfs_opts, 256);
  s->pool = pool_open_at (s->im.path, 0);
  pool_ok (btrnbd_volume_create (s->pool, "vm", &o));
  model_init (&s->m, BLOCKS);
  for (round = 0; round < ROUNDS; ++round)
    write_every (s, round, ROUNDS, &seq);
  write_every (s, 0, 3 * ROUNDS, &seq);
  pool_ok (btrnbd_pool_close (s->pool));
}

static void
open_cold (struct scene *s)
{
  const struct device_open_opts dopts = { .read_only = false };
  const struct btrnbd_open_opts opts = { .commit_interval = UINT_MAX,
    .cache_size = 128 << 20, .workers = 1, .no_regroup = true };
  struct device *dev;

  ok (device_open (s->im.path, &dopts, &dev));
  ok (fault_new (dev, &s->fault));
  pool_ok (btrnbd_pool_open_devices (&s->fault, 1, &opts, &s->pool));
}

static void
end_scene (struct scene *s)
{
  image_check (&s->im);
  image_remove (&s->im);
  free (s->m.v);
}

static const char *const opts[] = {
  "", "--mixed", "--csum sha256", "--csum xxhash -n 65536",
};

static void
test_few_reads (void **state)
{
  struct btrnbd_pool_stats before, after;
  struct btrnbd_file *f;
  struct scene s;
  unsigned k;

  (void) state;
  for (k = 0; k < ARRAY_SIZE (opts); ++k) {
    make_scene (&s, opts[k]);
    open_cold (&s);
    f = open_export (s.pool, "vm");
    fault_arm (s.fault, IO_READ, FAULT_OFF, 0);
    pool_ok (btrnbd_prefetch (f, 0, BLOCKS * BLK));
    assert_true (fault_count (s.fault, IO_READ) < BLOCKS / 8);
    /* All of it is there, and right. */
    btrnbd_pool_get_stats (s.pool, &before);
    assert_int_equal (before.data_misses, BLOCKS);
    disk_compare (f, &s.m, opts[k]);
    btrnbd_pool_get_stats (s.pool, &after);
    assert_int_equal (after.data_misses, before.data_misses);
    btrnbd_file_close (f);
    pool_ok (btrnbd_pool_close (s.pool));
    end_scene (&s);
  }
}

/* A stream without a prefetch; requests at odd places. */
static void
test_stream (void **state)
{
  const size_t step = 100 * 1000;
  uint8_t *want = malloc (BLOCKS * BLK), *got = malloc (step);
  struct btrnbd_file *f;
  struct scene s;
  size_t at, n;
  unsigned i;

  (void) state;
  make_scene (&s, "");
  for (i = 0; i < BLOCKS; ++i)
    blk_fill (want + i * BLK, s.m.v[i]);
  open_cold (&s);
  f = open_export (s.pool, "vm");
  for (at = 0; at < BLOCKS * BLK; at += n) {
    n = MIN (step, BLOCKS * BLK - at);
    pool_ok (btrnbd_pread (f, got, n, at));
    assert_memory_equal (got, want + at, n);
  }
  btrnbd_file_close (f);
  pool_ok (btrnbd_pool_close (s.pool));
  end_scene (&s);
  free (got);
  free (want);
}

/* Each operation in turn fails: its sectors are read one by one. */
static void
test_failing (void **state)
{
  uint64_t n, total = 1;
  struct btrnbd_file *f;
  struct scene s;

  (void) state;
  make_scene (&s, "");
  for (n = 0; n <= total; ++n) {
    open_cold (&s);
    f = open_export (s.pool, "vm");
    fault_arm (s.fault, IO_READ, n == 0 ? FAULT_OFF : FAULT_ONCE, n);
    pool_ok (btrnbd_prefetch (f, 0, BLOCKS * BLK));
    if (n == 0)
      total = fault_count (s.fault, IO_READ);
    assert_int_equal (fault_hits (s.fault, IO_READ), n > 0);
    disk_compare (f, &s.m, "after a failure");
    btrnbd_file_close (f);
    pool_ok (btrnbd_pool_close (s.pool));
  }
  assert_true (total > 2);
  end_scene (&s);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_few_reads),
    cmocka_unit_test (test_stream),
    cmocka_unit_test (test_failing),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
