/* Many clones of one image, each written a little, half of them removed in
 * random order: what is left is right, space comes back, memory is bounded.
 */
#include <config.h>

#include "snap_help.h"

#define BLOCKS 4096            /* of the image */

static uint64_t
resident (void)
{
  unsigned long size, pages;
  FILE *fp = fopen ("/proc/self/statm", "r");

  assert_non_null (fp);
  assert_int_equal (fscanf (fp, "%lu %lu", &size, &pages), 2);
  fclose (fp);
  return (uint64_t) pages * sysconf (_SC_PAGESIZE);
}

static void
space (struct btrnbd_pool *p, uint64_t *ret_data, uint64_t *ret_meta)
{
  struct btrnbd_pool_info info;

  pool_ok (btrnbd_pool_sync (p));
  pool_ok (btrnbd_pool_get_info (p, &info));
  *ret_data = info.data.used;
  *ret_meta = info.metadata.used;
}

static void
change (struct btrnbd_pool *p, const char *name, uint64_t *seed,
        uint32_t *seq, uint32_t *v, unsigned *ret_blk)
{
  struct btrnbd_file *f = open_export (p, name);
  uint8_t buf[BLK];

  *ret_blk = snap_rnd (seed, BLOCKS);
  *v = ++*seq;
  blk_fill (buf, *v);
  pool_ok (btrnbd_pwrite (f, buf, BLK, (uint64_t) *ret_blk * BLK, 0));
  btrnbd_file_close (f);
}

static void
test_many (void **state)
{
  const unsigned clones = getenv ("BTRNBD_FULL") != NULL ? 1000 : 300;
  const struct btrnbd_volume_opts o = { .size = (uint64_t) BLOCKS * BLK };
  uint64_t seed = 11, data0, meta0, data, meta, rss;
  struct btrnbd_pool *p;
  struct btrnbd_file *f;
  struct image im;
  struct model m;
  uint32_t seq = 0, *v = calloc (clones, sizeof *v);
  unsigned *blk = calloc (clones, sizeof *blk), i, left = clones;
  uint8_t *there = malloc (clones);
  char name[32];

  (void) state;
  image_make (&im, "", 2048);
  p = pool_open_at (im.path, 32 << 20);
  pool_ok (btrnbd_volume_create (p, "golden", &o));
  model_init (&m, BLOCKS);
  f = open_export (p, "golden");
  /* Installed, then used: many items to share, and extents with many
   * references to each.
   */
  for (i = 0; i < BLOCKS; i += 64)
    disk_write (f, &m, i, 64, &seq);
  for (i = 0; i < BLOCKS / 4; ++i)
    disk_write (f, &m, snap_rnd (&seed, BLOCKS), 1, &seq);
  btrnbd_file_close (f);
  space (p, &data0, &meta0);
  rss = resident ();
  for (i = 0; i < clones; ++i) {
    snprintf (name, sizeof name, "c%u", i);
    pool_ok (btrnbd_volume_clone (p, "golden", name));
    change (p, name, &seed, &seq, &v[i], &blk[i]);
    there[i] = 1;
  }
  space (p, &data, &meta);
  /* A block each, and what a path takes. */
  assert_int_equal (data - data0, clones * BLK);
  assert_true ((meta - meta0) / clones < 8 * 16384);
  while (left > clones / 2) {
    i = snap_rnd (&seed, clones);
    if (!there[i])
      continue;
    there[i] = 0;
    --left;
    snprintf (name, sizeof name, "c%u", i);
    pool_ok (btrnbd_volume_remove (p, name));
  }
  space (p, &data, &meta);
  assert_int_equal (data - data0, left * BLK);
#ifndef BTRNBD_SANITIZE        /* it keeps what was freed */
  assert_true (resident () < rss + (64 << 20));
#else
  (void) rss;
#endif
  for (i = 0; i < clones; i += 7)
    if (there[i]) {
      struct model c = model_clone (&m);

      c.v[blk[i]] = v[i];
      snprintf (name, sizeof name, "c%u", i);
      export_compare (p, name, &c);
      free (c.v);
    }
  export_compare (p, "golden", &m);
  pool_ok (btrnbd_pool_close (p));
  im.no_lowmem = true;         /* it takes minutes for that many references */
  image_check (&im);
  im.no_lowmem = false;
  p = pool_open_at (im.path, 32 << 20);
  for (i = 0; i < clones; ++i)
    if (there[i]) {
      snprintf (name, sizeof name, "c%u", i);
      pool_ok (btrnbd_volume_remove (p, name));
    }
  space (p, &data, &meta);
  assert_int_equal (data, data0);
  /* Leaves that were full of references are not all merged; a block that each
   * clone had left behind would be more.
   */
  assert_true (meta < meta0 + 128 * 16384);
  export_compare (p, "golden", &m);
  pool_ok (btrnbd_pool_close (p));
  image_check (&im);
  if (have_kernel ()) {
    image_mount (&im, "subvolid=5");
    assert_int_equal (run ("btrfs scrub start -Bq %s", im.mnt), 0);
    image_umount (&im);
  }
  free (there);
  free (blk);
  free (v);
  free (m.v);
  image_remove (&im);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_many),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
