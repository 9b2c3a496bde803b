/* Dead space is given back and fragments are put together; what is shared
 * stays shared; what is told of the space of files is exact.
 */
#include <config.h>

#include "snap_help.h"

#define BLOCKS 8192            /* of a volume: 32 MiB */
#define K (UINT64_C (1) << 10)

static void
make_volume_of (struct btrnbd_pool *p, const char *name, struct model *m,
                unsigned blocks, uint64_t unit)
{
  const struct btrnbd_volume_opts o = { .size = (uint64_t) blocks * BLK,
                                        .alloc_unit = unit };

  pool_ok (btrnbd_volume_create (p, name, &o));
  model_init (m, blocks);
}

/* Large extents, in which there is much dead space soon. */
static void
make_volume (struct btrnbd_pool *p, const char *name, struct model *m,
             unsigned blocks)
{
  make_volume_of (p, name, m, blocks, 256 * K);
}

static void
fill (struct btrnbd_pool *p, const char *name, struct model *m, uint32_t *seq)
{
  struct btrnbd_file *f = open_export (p, name);
  unsigned blk;

  for (blk = 0; blk < m->blocks; blk += 256)
    disk_write (f, m, blk, 256, seq);
  pool_ok (btrnbd_flush (f));
  btrnbd_file_close (f);
}

static void
scribble (struct btrnbd_pool *p, const char *name, struct model *m,
          unsigned writes, uint64_t *seed, uint32_t *seq)
{
  struct btrnbd_file *f = open_export (p, name);
  unsigned i;

  for (i = 0; i < writes; ++i) {
    disk_write (f, m, snap_rnd (seed, m->blocks), 1, seq);
    if (i % 1000 == 999)
      pool_ok (btrnbd_flush (f));
  }
  btrnbd_file_close (f);
}

static struct btrnbd_usage
usage_of (struct btrnbd_pool *p, const char *name)
{
  struct btrnbd_usage u;

  pool_ok (btrnbd_usage (p, name, &u));
  assert_true (u.exclusive <= u.allocated && u.dead <= u.allocated);
  assert_int_equal (u.exclusive + u.shared, u.allocated);
  return u;
}

static struct btrnbd_usage
usage_of_pool (struct btrnbd_pool *p)
{
  struct btrnbd_usage u;

  pool_ok (btrnbd_pool_usage (p, &u));
  return u;
}

static uint64_t
regroup (struct btrnbd_pool *p, const char *name)
{
  uint64_t moved;

  pool_ok (btrnbd_regroup (p, name, NULL, NULL, &moved));
  pool_ok (btrnbd_pool_sync (p));
  return moved;
}

static uint64_t
data_used (struct btrnbd_pool *p)
{
  struct btrnbd_pool_info i;

  pool_ok (btrnbd_pool_get_info (p, &i));
  return i.data.used;
}

/* Linux finds the same bytes, and nothing wrong. */
static void
judge (struct image *im, const char *name, const struct model *m)
{
  char want[PATH_MAX + 32];

  image_check (im);
  if (!have_kernel ())
    return;
  image_mount (im, "subvolid=5");
  snprintf (want, sizeof want, "%s/want", im->dir);
  model_dump (m, want);
  assert_int_equal (run ("cmp %s %s/%s/disk", want, im->mnt, name), 0);
  assert_int_equal (run ("btrfs scrub start -Bq %s", im->mnt), 0);
  image_umount (im);
}

static const char *const opts[] = {
  "", "-n 4096 -O ^no-holes,^skinny-metadata", "--mixed",
  "--csum xxhash -n 65536 -R ^free-space-tree",
};

static const uint64_t unit[] = { 256 * K, 16 * K, 64 * K, 128 * K };

/* Filled in large pieces, then overwritten three times in small ones. */
static void
test_dead (void **state)
{
  struct btrnbd_usage u;
  struct btrnbd_pool *p;
  struct model m;
  struct image im;
  uint64_t seed = 1;
  uint32_t seq = 0;
  unsigned k, i;

  (void) state;
  for (k = 0; k < ARRAY_SIZE (opts); ++k) {
    const uint64_t size = (uint64_t) BLOCKS * BLK;

    image_make (&im, opts[k], 512);
    p = pool_open_at (im.path, 0);
    make_volume_of (p, "vm", &m, BLOCKS, unit[k]);
    fill (p, "vm", &m, &seq);
    u = usage_of (p, "vm");
    assert_int_equal (u.allocated, size);
    assert_int_equal (u.exclusive, size);
    assert_int_equal (u.dead, 0);
    /* One more where free space ends. */
    assert_in_range (u.extents, size / unit[k], size / unit[k] + 4);
    scribble (p, "vm", &m, 3 * BLOCKS, &seed, &seq);
    pool_ok (btrnbd_pool_sync (p));
    u = usage_of (p, "vm");
    assert_int_equal (u.allocated - u.dead, size);
    assert_true (u.dead > size / 4 * unit[k] / (256 * K));
    assert_true (regroup (p, "vm") > 0);
    u = usage_of (p, "vm");
    assert_int_equal (u.allocated - u.dead, size);
    assert_true (u.dead <= u.allocated / 5);
    assert_true (u.extents <= 2 * size / MIN (unit[k], 64 * K));
    if (k != 2)
      assert_int_equal (data_used (p), u.allocated);
    /* Free space is in larger pieces now; then there is nothing to do. */
    for (i = 0; regroup (p, "vm") > 0; ++i)
      assert_true (i < 5);
    export_compare (p, "vm", &m);
    pool_ok (btrnbd_pool_close (p));
    judge (&im, "vm", &m);
    image_remove (&im);
    free (m.v);
  }
}

/* What a snapshot or a clone has, too, stays where it is. */
static int
find_unit (void *opaque, const struct btrnbd_export *e)
{
  if (strcmp (e->name, "copy") == 0)
    *(uint64_t *) opaque = e->alloc_unit;
  return 0;
}

/* A volume's unit is that of its clones, of files that it is put into, and
 * stays when the pool is closed; what is no unit is refused.
 */
static void
test_unit (void **state)
{
  const uint64_t bad[] = { 4 * K, 24 * K, 512 * K, UINT64_MAX };
  const uint64_t size = 1024 * BLK;
  struct btrnbd_volume_opts o = { .size = size };
  struct btrnbd_pool *p;
  struct model m, copy;
  struct image im;
  uint32_t seq = 0;
  uint64_t got = 0;
  unsigned i;

  (void) state;
  image_make (&im, opts[0], 512);
  p = pool_open_at (im.path, 0);
  for (i = 0; i < ARRAY_SIZE (bad); ++i) {
    o.alloc_unit = bad[i];
    pool_fails (btrnbd_volume_create (p, "bad", &o), ERR_invalid);
  }
  make_volume_of (p, "usual", &m, 1024, 0);
  fill (p, "usual", &m, &seq);
  assert_int_equal (usage_of (p, "usual").extents, size / (16 * K));
  free (m.v);
  make_volume_of (p, "vm", &m, 1024, 64 * K);
  pool_ok (btrnbd_reflink (p, "vm", "file"));
  pool_ok (btrnbd_volume_clone (p, "vm", "copy"));
  pool_ok (btrnbd_pool_close (p));
  p = pool_open_at (im.path, 0);
  model_init (&copy, 1024);
  fill (p, "copy", &copy, &seq);
  assert_int_equal (usage_of (p, "copy").extents, size / (64 * K));
  fill (p, "file", &m, &seq);
  assert_int_equal (usage_of (p, "file").extents, size / (64 * K));
  pool_ok (btrnbd_exports (p, SIZE_MAX, find_unit, &got));
  assert_int_equal (got, 64 * K);
  export_compare (p, "copy", &copy);
  pool_ok (btrnbd_pool_close (p));
  judge (&im, "copy", &copy);
  free (m.v);
  free (copy.v);
  image_remove (&im);
}

static void
test_shared (void **state)
{
  const char *const names[] = { "vm" };
  struct btrnbd_usage before, after, pool;
  struct btrnbd_pool *p;
  struct model m, at;
  struct image im;
  uint64_t seed = 2, moved;
  uint32_t seq = 0;

  (void) state;
  image_make (&im, "", 512);
  p = pool_open_at (im.path, 0);
  make_volume (p, "vm", &m, BLOCKS);
  fill (p, "vm", &m, &seq);
  scribble (p, "vm", &m, BLOCKS, &seed, &seq);
  pool_ok (btrnbd_volume_snapshot (p, names, 1, "a"));
  at = model_clone (&m);
  before = usage_of (p, "vm");
  assert_int_equal (before.exclusive, 0);
  assert_int_equal (regroup (p, "vm"), 0);

  scribble (p, "vm", &m, BLOCKS, &seed, &seq);
  pool_ok (btrnbd_pool_sync (p));
  before = usage_of (p, "vm@a");
  pool = usage_of_pool (p);
  assert_int_equal (pool.allocated, data_used (p));
  regroup (p, "vm");
  after = usage_of (p, "vm@a");
  assert_int_equal (after.allocated, before.allocated);
  assert_int_equal (after.extents, before.extents);
  assert_true (usage_of_pool (p).allocated <= pool.allocated);
  assert_int_equal (usage_of_pool (p).allocated, data_used (p));
  pool_fails (btrnbd_regroup (p, "vm@a", NULL, NULL, &moved),
              ERR_inode_readonly);
  export_compare (p, "vm@a", &at);
  export_compare (p, "vm", &m);

  /* Alone again, it all can go. */
  pool_ok (btrnbd_volume_remove (p, "vm@a"));
  pool_ok (btrnbd_pool_sync (p));
  assert_true (regroup (p, "vm") > 0);
  after = usage_of (p, "vm");
  assert_int_equal (after.shared, 0);
  assert_true (after.dead <= after.allocated / 5);
  assert_true (after.extents <= BLOCKS * BLK / (64 * K));
  export_compare (p, "vm", &m);
  pool_ok (btrnbd_pool_close (p));
  judge (&im, "vm", &m);
  image_remove (&im);
  free (at.v);
  free (m.v);
}

/* By itself, after the client has gone, and while another volume of the pool
 * is removed.
 */
static void
test_background (void **state)
{
  const struct btrnbd_open_opts o = { .commit_interval = 1 };
  struct btrnbd_pool_stats st;
  struct btrnbd_usage u;
  struct btrnbd_pool *p;
  struct model m, m2;
  struct image im;
  const char *path;
  uint64_t seed = 3;
  uint32_t seq = 0;
  unsigned i;

  (void) state;
  image_make (&im, "", 512);
  path = im.path;
  pool_ok (btrnbd_pool_open (&path, 1, &o, &p));
  make_volume (p, "vm", &m, BLOCKS);
  make_volume (p, "gone", &m2, BLOCKS);
  fill (p, "vm", &m, &seq);
  fill (p, "gone", &m2, &seq);
  scribble (p, "gone", &m2, BLOCKS, &seed, &seq);
  scribble (p, "vm", &m, 3 * BLOCKS, &seed, &seq);
  pool_ok (btrnbd_pool_sync (p));
  assert_true (usage_of (p, "vm").dead > BLOCKS * BLK / 4);
  for (i = 0; i < 600; ++i) {
    btrnbd_pool_get_stats (p, &st);
    if (st.regroup_moved_bytes > 0 && btrnbd_volume_remove (p, "gone") == 0)
      break;
    usleep (50000);
  }
  assert_true (i < 600);
  for (i = 0; i < 600 && st.regroup_noted_bytes > 0; ++i) {
    usleep (50000);
    btrnbd_pool_get_stats (p, &st);
  }
  assert_int_equal (st.regroup_noted_bytes, 0);
  assert_int_equal (st.regroup_failed, 0);
  usleep (200000);
  pool_ok (btrnbd_pool_sync (p));
  u = usage_of (p, "vm");
  assert_true (u.dead <= u.allocated / 5);
  assert_true (u.extents <= BLOCKS * BLK / (64 * K));
  export_compare (p, "vm", &m);
  /* Nothing is left to do, so nothing is done. */
  btrnbd_pool_get_stats (p, &st);
  seed = st.regroup_moved_bytes;
  usleep (2500000);
  btrnbd_pool_get_stats (p, &st);
  assert_int_equal (st.regroup_moved_bytes, seed);
  pool_ok (btrnbd_pool_close (p));
  judge (&im, "vm", &m);
  image_remove (&im);
  free (m2.v);
  free (m.v);
}

static void
put (struct btrnbd_file *f, uint64_t offset, uint64_t len, unsigned flags)
{
  uint8_t *buf = malloc (len);

  memset (buf, 0x5a, len);
  pool_ok (btrnbd_pwrite (f, buf, len, offset, flags));
  free (buf);
}

static uint64_t
noted (struct btrnbd_pool *p)
{
  struct btrnbd_pool_stats st;

  btrnbd_pool_get_stats (p, &st);
  return st.regroup_noted_bytes;
}

/* Whatever way a change takes, it is noted.  Nothing is when a pool has just
 * been opened, and nothing is worked on in the first second.
 */
static void
test_notes (void **state)
{
  const struct btrnbd_volume_opts nocow = { .size = 16 << 20, .nocow = true };
  struct btrnbd_pool *p;
  struct btrnbd_file *f;
  struct model m;
  struct image im;
  uint32_t seq = 0;
  unsigned way;

  (void) state;
  image_make (&im, "", 512);
  p = pool_open_at (im.path, 0);
  make_volume (p, "vm", &m, 1024);
  fill (p, "vm", &m, &seq);
  pool_ok (btrnbd_volume_create (p, "a", &nocow));
  pool_ok (btrnbd_volume_create (p, "b", &nocow));
  f = open_export (p, "a");
  put (f, 0, 256 * K, 0);
  btrnbd_file_close (f);
  f = open_export (p, "b");
  put (f, 0, 256 * K, 0);
  btrnbd_file_close (f);
  for (way = 0; way < 4; ++way) {
    pool_ok (btrnbd_pool_close (p));
    p = pool_open_at (im.path, 0);
    assert_int_equal (noted (p), 0);
    f = open_export (p, "vm");
    switch (way) {
    case 0:                     /* write-out */
      put (f, 0, 4 * K, 0);
      pool_ok (btrnbd_pool_sync (p));
      break;
    case 1:                     /* beside the log */
      put (f, 64 * K, 4 * K, BTRNBD_FUA);
      break;
    case 2:
      pool_ok (btrnbd_trim (f, 128 * K, 64 * K, 0));
      break;
    default:
      pool_ok (btrnbd_clone_range (p, "a", 0, 64 * K, "b", 64 * K));
    }
    if (noted (p) == 0)
      fail_msg ("way %u is not noted", way);
    btrnbd_file_close (f);
  }
  pool_ok (btrnbd_pool_close (p));
  image_check (&im);
  image_remove (&im);
  free (m.v);
}

static void
expect (struct btrnbd_pool *p, const char *name, uint64_t extents,
        uint64_t allocated, uint64_t exclusive, uint64_t dead)
{
  const struct btrnbd_usage u = usage_of (p, name);

  if (u.extents != extents || u.allocated != allocated * K
      || u.exclusive != exclusive * K || u.dead != dead * K)
    fail_msg ("%s: %llu extents, %llu K allocated, %llu exclusive, %llu dead, "
              "not %llu, %llu, %llu, %llu", name,
              (unsigned long long) u.extents,
              (unsigned long long) u.allocated / K,
              (unsigned long long) u.exclusive / K,
              (unsigned long long) u.dead / K, (unsigned long long) extents,
              (unsigned long long) allocated, (unsigned long long) exclusive,
              (unsigned long long) dead);
}

/* Nobody has noted anything: the pool was closed since. */
static void
test_after_reopen (void **state)
{
  struct btrnbd_open_opts o = { .no_regroup = true };
  struct btrnbd_usage u;
  struct btrnbd_pool *p;
  struct model m;
  struct image im;
  const char *path;
  uint64_t seed = 9;
  uint32_t seq = 0;
  unsigned i;

  (void) state;
  image_make (&im, "", 512);
  path = im.path;
  pool_ok (btrnbd_pool_open (&path, 1, &o, &p));
  make_volume (p, "vm", &m, BLOCKS);
  fill (p, "vm", &m, &seq);
  scribble (p, "vm", &m, 3 * BLOCKS, &seed, &seq);
  pool_ok (btrnbd_pool_close (p));
  o = (struct btrnbd_open_opts) { .regroup_scan_after = 1 };
  pool_ok (btrnbd_pool_open (&path, 1, &o, &p));
  u = usage_of (p, "vm");
  assert_true (u.dead > BLOCKS * BLK / 4);
  for (i = 0; i < 600 && u.dead > u.allocated / 5; ++i) {
    usleep (100000);
    u = usage_of (p, "vm");
  }
  assert_true (i < 600);
  export_compare (p, "vm", &m);
  pool_ok (btrnbd_pool_close (p));
  judge (&im, "vm", &m);
  image_remove (&im);
  free (m.v);
}

/* Counted by hand. */
static void
test_usage (void **state)
{
  const struct btrnbd_volume_opts o = { .size = 16 << 20,
                                        .alloc_unit = 256 * K };
  const char *const names[] = { "vm" };
  struct btrnbd_usage u;
  struct btrnbd_pool *p;
  struct btrnbd_file *f;
  struct image im;

  (void) state;
  image_make (&im, "", 512);
  p = pool_open_at (im.path, 0);
  pool_ok (btrnbd_volume_create (p, "vm", &o));
  expect (p, "vm", 0, 0, 0, 0);
  f = open_export (p, "vm");
  put (f, 0, 128 * K, BTRNBD_FUA);
  expect (p, "vm", 1, 128, 128, 0);
  put (f, 16 * K, 4 * K, BTRNBD_FUA); /* splits it */
  expect (p, "vm", 2, 132, 132, 4);
  pool_ok (btrnbd_trim (f, 64 * K, 32 * K, 0));
  expect (p, "vm", 2, 132, 132, 36);
  pool_ok (btrnbd_zero (f, 256 * K, 64 * K, 0)); /* prealloc */
  expect (p, "vm", 3, 196, 196, 36);
  put (f, 256 * K, 8 * K, BTRNBD_FUA); /* in place */
  expect (p, "vm", 3, 196, 196, 36);

  /* Within the file: the same extent twice, and its dead part once. */
  pool_ok (btrnbd_clone_range (p, "vm", 0, 16 * K, "vm", 1024 * K));
  expect (p, "vm", 3, 196, 196, 36);
  /* The rest of it goes, but what was cloned stays. */
  put (f, 0, 128 * K, BTRNBD_FUA);
  expect (p, "vm", 3, 320, 320, 112);
  pool_ok (btrnbd_trim (f, 1024 * K, 16 * K, 0));
  expect (p, "vm", 2, 192, 192, 0);

  pool_ok (btrnbd_volume_snapshot (p, names, 1, "a"));
  expect (p, "vm", 2, 192, 0, 0);
  expect (p, "vm@a", 2, 192, 0, 0);
  put (f, 0, 4 * K, BTRNBD_FUA);
  expect (p, "vm", 3, 196, 4, 4);
  expect (p, "vm@a", 2, 192, 0, 0);
  put (f, 0, 128 * K, BTRNBD_FUA);
  expect (p, "vm", 2, 192, 128, 0);
  expect (p, "vm@a", 2, 192, 128, 0);
  u = usage_of_pool (p);
  assert_int_equal (u.allocated, 320 * K);
  assert_int_equal (u.dead, 0);
  assert_int_equal (u.extents, 3);

  /* Another volume has a part of it. */
  pool_ok (btrnbd_volume_create (p, "other", &o));
  pool_ok (btrnbd_clone_range (p, "vm", 32 * K, 32 * K, "other", 0));
  expect (p, "other", 1, 128, 0, 96);
  expect (p, "vm", 2, 192, 0, 0);
  btrnbd_file_close (f);
  pool_ok (btrnbd_volume_remove (p, "vm@a"));
  pool_ok (btrnbd_volume_remove (p, "vm"));
  pool_ok (btrnbd_pool_sync (p));
  expect (p, "other", 1, 128, 128, 96);
  u = usage_of_pool (p);
  assert_int_equal (u.allocated, 128 * K);
  assert_int_equal (u.dead, 96 * K);
  regroup (p, "other");
  expect (p, "other", 1, 32, 32, 0);
  assert_int_equal (data_used (p), 32 * K);
  pool_ok (btrnbd_pool_close (p));
  image_check (&im);
  image_remove (&im);
}

/* What is told to be safely writable is, in the worst order, and can be
 * committed; and it is not much less than what fits.
 */
static void
test_writable (void **state)
{
  static const char *const kinds[] = { "", "--mixed", "-d dup" };
  uint8_t *buf = calloc (1, BLK);
  unsigned k;

  (void) state;
  for (k = 0; k < ARRAY_SIZE (kinds); ++k) {
    const struct btrnbd_volume_opts o = { .size = UINT64_C (1) << 40 };
    struct btrnbd_pool_info i;
    struct btrnbd_pool *p;
    struct btrnbd_file *f;
    struct image im;
    uint64_t blk = 1, n = 0, claim;
    int r = 0;

    image_make (&im, kinds[k], 256);
    im.no_lowmem = true;        /* it would take minutes */
    p = pool_open_at (im.path, 0);
    pool_ok (btrnbd_volume_create (p, "vm", &o));
    pool_ok (btrnbd_pool_sync (p));
    pool_ok (btrnbd_pool_get_info (p, &i));
    claim = i.writable / BLK;
    f = open_export (p, "vm");
    for (; r == 0; ++n) {
      /* A generator of the multiplicative group: each block once. */
      blk = blk * 3 % 65537;
      r = btrnbd_pwrite (f, buf, BLK, blk * 4095 * BLK, 0);
    }
    assert_int_equal (r, -ERR_nospace);
    print_message ("# %s: %llu blocks are safe, %llu were written\n",
                   kinds[k], (unsigned long long) claim,
                   (unsigned long long) n - 1);
    assert_true (n - 1 >= claim);
    assert_true (claim > (n - 1) / 2);
    btrnbd_file_close (f);
    pool_ok (btrnbd_pool_get_info (p, &i));
    if (k != 1)
      assert_true (i.writable < 1 << 20);
    pool_ok (btrnbd_pool_close (p));
    image_check (&im);
    image_remove (&im);
  }
  free (buf);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_dead),
    cmocka_unit_test (test_unit),
    cmocka_unit_test (test_shared),
    cmocka_unit_test (test_background),
    cmocka_unit_test (test_notes),
    cmocka_unit_test (test_after_reopen),
    cmocka_unit_test (test_usage),
    cmocka_unit_test (test_writable),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
