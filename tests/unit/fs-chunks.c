/* Chunks are read from their tree as they are needed: what opening costs, and
 * where a tree that is damaged is noticed.
 */
#include <config.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include <btrnbd/engine.h>

#include "snap_help.h"

#include "fs/api_priv.h"
#include "lib/rawimg.h"

#define GIB (UINT64_C (1) << 30)
#define GIBS 60u               /* about as many chunks: more than one leaf */

static struct image im;

/* A pool of 64 GiB, and a volume with a written block at each GiB. */
static int
setup (void **state)
{
  const struct btrnbd_mkfs_opts mkfs = { .size = 64 * GIB,
    .nodesize = 4096 };
  const struct btrnbd_volume_opts opts = { .size = GIBS * GIB };
  const char *tmp = getenv ("TMPDIR");
  struct btrnbd_pool *pool;
  struct btrnbd_file *f;
  uint8_t buf[BLK];
  unsigned i;

  (void) state;
  snprintf (im.dir, sizeof im.dir, "%s/btrnbd-chunks-XXXXXX",
            tmp == NULL ? "/tmp" : tmp);
  assert_non_null (mkdtemp (im.dir));
  snprintf (im.path, sizeof im.path, "%s/pool", im.dir);
  snprintf (im.mnt, sizeof im.mnt, "%s/mnt", im.dir);
  pool_ok (btrnbd_mkfs (im.path, &mkfs));
  pool = pool_open_at (im.path, 32 << 20);
  pool_ok (btrnbd_volume_create (pool, "v", &opts));
  f = open_export (pool, "v");
  for (i = 0; i < GIBS; ++i) {
    pool_ok (btrnbd_zero (f, i * GIB, GIB, 0));
    blk_fill (buf, i + 1);
    pool_ok (btrnbd_pwrite (f, buf, BLK, i * GIB, 0));
  }
  btrnbd_file_close (f);
  pool_ok (btrnbd_pool_close (pool));
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  return run ("rm -rf %s", im.dir);
}

/* --- damage --- */

struct damage {
  struct rawimg img;
  uint8_t *leaf[2];            /* of the chunk tree, not the first: copies */
  uint8_t *node[2], *first[2]; /* its root; the first leaf */
  uint8_t old[3][4096];
};

static uint8_t *
block_at (struct damage *d, uint64_t logical, unsigned copy)
{
  uint8_t *b = rawimg_block (&d->img, logical, copy);

  assert_non_null (b);
  return b;
}

static void
damage_begin (struct damage *d)
{
  uint64_t root;
  uint32_t n;
  unsigned i;

  assert_int_equal (rawimg_open (im.path, true, &d->img), 0);
  ok (rawimg_load (&d->img));
  root = le64_get (d->img.super->chunk_root);
  for (i = 0; i < 2; ++i) {
    d->node[i] = block_at (d, root, i);
    assert_int_equal (tb_level (d->node[i]), 1);
    n = tb_nritems (d->node[i]);
    assert_true (n > 1);
    d->first[i] = block_at (d, le64_get (tb_ptr (d->node[i], 0)->blockptr),
                            i);
    d->leaf[i] = block_at (d, le64_get (tb_ptr (d->node[i],
                                                n - 1)->blockptr), i);
  }
  memcpy (d->old[0], d->node[0], 4096);
  memcpy (d->old[1], d->first[0], 4096);
  memcpy (d->old[2], d->leaf[0], 4096);
}

static void
damage_end (struct damage *d)
{
  unsigned i;

  for (i = 0; i < 2; ++i) {
    memcpy (d->node[i], d->old[0], 4096);
    memcpy (d->first[i], d->old[1], 4096);
    memcpy (d->leaf[i], d->old[2], 4096);
  }
  rawimg_close (&d->img);
}

/* --- what is done with it --- */

static int
read_gib (struct btrnbd_file *f, unsigned i)
{
  uint8_t buf[BLK], want[BLK];
  int r = btrnbd_pread (f, buf, BLK, i * GIB);

  if (r < 0)
    return r;
  blk_fill (want, i + 1);
  assert_memory_equal (buf, want, BLK);
  return 0;
}

static struct btrnbd_pool *
open_pool (bool read_only)
{
  const struct btrnbd_open_opts o = { .commit_interval = UINT_MAX,
    .workers = 2, .read_only = read_only };
  const char *path = im.path;
  struct btrnbd_pool *p;

  pool_ok (btrnbd_pool_open (&path, 1, &o, &p));
  return p;
}

/* What lies in chunks of the first leaf can be read, the last GiB cannot, nor
 * is anything written: CODE, told with WHAT.
 */
static void
expect_late_error (int code, const char *what)
{
  struct btrnbd_pool *pool;
  struct btrnbd_file *f;
  uint8_t buf[BLK] = "x";
  uint64_t generation;
  unsigned rw;
  int r;

  for (rw = 0; rw < 2; ++rw) {
    pool = open_pool (!rw);
    f = open_export (pool, "v");
    generation = le64_get (volume_super (pool->fs->volume)->generation);
    pool_ok (read_gib (f, 0));
    r = read_gib (f, GIBS - 1);
    if (r != -code)
      fail_msg ("%d: %s", r, btrnbd_last_error (r));
    if (strstr (btrnbd_last_error (r), what) == NULL)
      fail_msg ("%s: no word of %s", btrnbd_last_error (r), what);
    pool_ok (read_gib (f, 0));
    if (rw) {
      r = btrnbd_pwrite (f, buf, BLK, 0, BTRNBD_FUA);
      if (r != -code || strstr (btrnbd_last_error (r), what) == NULL)
        fail_msg ("write: %d: %s", r, btrnbd_last_error (r));
    }
    btrnbd_file_close (f);
    r = btrnbd_pool_close (pool);
    assert_int_equal (r, 0);
    pool = open_pool (true);
    assert_int_equal (le64_get (volume_super (pool->fs->volume)->generation),
                      generation);
    pool_ok (btrnbd_pool_close (pool));
  }
}

static void
expect_healthy (void)
{
  struct btrnbd_pool *pool = open_pool (false);
  struct btrnbd_file *f = open_export (pool, "v");

  pool_ok (read_gib (f, GIBS - 1));
  btrnbd_file_close (f);
  pool_ok (btrnbd_pool_close (pool));
}

/* --- tests --- */

static void
test_cost (void **state)
{
  struct btrnbd_pool_stats at, stats;
  struct btrnbd_pool_info info;
  struct btrnbd_pool *pool;
  struct btrnbd_file *f;
  struct damage d;
  unsigned i, leaves;

  (void) state;
  damage_begin (&d);
  leaves = tb_nritems (d.node[0]);
  damage_end (&d);
  pool = open_pool (true);
  btrnbd_pool_get_stats (pool, &stats);
  assert_true (stats.block_reads <= 14);
  f = open_export (pool, "v");
  for (i = 0; i < GIBS; ++i)
    pool_ok (read_gib (f, i));
  /* Not a leaf of chunks is read twice. */
  btrnbd_pool_get_stats (pool, &at);
  for (i = 0; i < GIBS; ++i)
    pool_ok (read_gib (f, GIBS - 1 - i));
  btrnbd_pool_get_stats (pool, &stats);
  assert_int_equal (at.block_reads, stats.block_reads);
  /* All chunks are listed, whatever has been needed before. */
  pool_ok (btrnbd_pool_get_info (pool, &info));
  assert_true (info.data.total >= GIBS * GIB);
  btrnbd_file_close (f);
  pool_ok (btrnbd_pool_close (pool));

  pool = open_pool (true);
  btrnbd_pool_get_stats (pool, &at);
  pool_ok (btrnbd_pool_get_info (pool, &info));
  btrnbd_pool_get_stats (pool, &stats);
  assert_true (stats.block_reads - at.block_reads >= leaves);
  assert_true (info.data.total >= GIBS * GIB);
  pool_ok (btrnbd_pool_close (pool));
}

struct reader {
  pthread_t thread;
  struct btrnbd_file *f;
  unsigned first;
};

static void *
read_some (void *opaque)
{
  struct reader *r = opaque;
  uint8_t buf[BLK] = "y";
  unsigned i;

  for (i = 0; i < GIBS; ++i) {
    pool_ok (read_gib (r->f, (r->first + i) % GIBS));
    if (i == r->first)
      pool_ok (btrnbd_pwrite (r->f, buf, BLK, r->first * GIB + (1 << 20), 0));
  }
  return NULL;
}

/* Misses from all sides, and the first writes among them. */
static void
test_threads (void **state)
{
  struct reader readers[8];
  struct btrnbd_pool *pool;
  struct btrnbd_file *f;
  unsigned i;

  (void) state;
  pool = open_pool (false);
  f = open_export (pool, "v");
  for (i = 0; i < 8; ++i) {
    readers[i] = (struct reader) { .f = f, .first = i * 7 };
    assert_int_equal (pthread_create (&readers[i].thread, NULL, read_some,
                                      &readers[i]), 0);
  }
  for (i = 0; i < 8; ++i)
    pthread_join (readers[i].thread, NULL);
  btrnbd_file_close (f);
  pool_ok (btrnbd_pool_close (pool));
  image_check (&im);
}

static void
test_bad_leaf (void **state)
{
  struct damage d;
  unsigned i;

  (void) state;
  damage_begin (&d);
  for (i = 0; i < 2; ++i)
    d.leaf[i][2000] ^= 1;
  expect_late_error (ERR_no_mirror, "chunk tree");
  damage_end (&d);
  expect_healthy ();
}

/* One copy is enough, and stays as it is until a scrub comes. */
static void
test_bad_copy (void **state)
{
  struct damage d;

  (void) state;
  damage_begin (&d);
  d.leaf[0][2000] ^= 1;
  expect_healthy ();
  damage_end (&d);
}

/* The last chunk of a leaf reaches into the first one of the next. */
static void
test_overlap (void **state)
{
  struct damage d;
  struct btrfs_chunk *chunk;
  unsigned i;

  (void) state;
  damage_begin (&d);
  for (i = 0; i < 2; ++i) {
    chunk = tb_item_data (d.first[i], tb_nritems (d.first[i]) - 1);
    chunk->length = le64_make (le64_get (chunk->length) + 65536);
    tb_set_csum (d.first[i], 4096, 0);
  }
  expect_late_error (ERR_chunk_overlap, "overlap");
  damage_end (&d);
  expect_healthy ();
}

/* A block of the chunk tree outside of the system chunks: to find it one would
 * have to have it.
 */
static void
test_circle (void **state)
{
  struct damage d;
  unsigned i;

  (void) state;
  damage_begin (&d);
  for (i = 0; i < 2; ++i) {
    tb_ptr (d.node[i], tb_nritems (d.node[i]) - 1)->blockptr =
      le64_make (50 * GIB);
    tb_set_csum (d.node[i], 4096, 0);
  }
  alarm (60);
  expect_late_error (ERR_unmapped, "chunk tree");
  alarm (0);
  damage_end (&d);
  expect_healthy ();
}

/* Leaves that are beyond their pointer's keys. */
static void
test_bounds (void **state)
{
  struct damage d;
  struct btrfs_key_ptr *p;
  unsigned i;

  (void) state;
  damage_begin (&d);
  for (i = 0; i < 2; ++i) {
    uint32_t n = tb_nritems (d.first[i]);

    /* The first pointer's end comes before its leaf's last key. */
    p = tb_ptr (d.node[i], 1);
    p->key.offset = le64_make (tb_item_key (d.first[i], n - 1).offset);
    tb_set_csum (d.node[i], 4096, 0);
  }
  {
    const char *path = im.path;
    const struct btrnbd_open_opts o = { .read_only = true };
    struct btrnbd_pool *pool;

    pool_fails (btrnbd_pool_open (&path, 1, &o, &pool), ERR_block_parent);
  }
  damage_end (&d);
  expect_healthy ();
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_cost),
    cmocka_unit_test (test_bad_leaf),
    cmocka_unit_test (test_bad_copy),
    cmocka_unit_test (test_overlap),
    cmocka_unit_test (test_circle),
    cmocka_unit_test (test_bounds),
    cmocka_unit_test (test_threads),
  };

  return cmocka_run_group_tests (tests, setup, teardown);
}
