/* Opening a pool for writing that must not be written. */
#include <config.h>

#include "snap_help.h"

#include "lib/rawimg.h"

/* Breaks both copies of the root block of tree ID, or mends them. */
static void
flip_root (struct image *im, uint64_t id)
{
  struct rawimg img;
  struct rawimg_root root;
  bool found;
  unsigned i;

  assert_int_equal (rawimg_open (im->path, true, &img), 0);
  ok (rawimg_load (&img));
  ok (rawimg_find_root (&img, id, &root, &found));
  assert_true (found);
  for (i = 0; i < rawimg_copies (&img, root.bytenr); ++i) {
    uint8_t *b = rawimg_block (&img, root.bytenr, i);

    assert_non_null (b);
    b[1000] ^= 1;
  }
  rawimg_close (&img);
}

/* It is there, but what it takes is not known: no new one can be made. */
static void
test_bad_free_space_tree (void **state)
{
  const struct btrnbd_volume_opts opts = { .size = 64 * BLK };
  struct btrnbd_pool_info info;
  struct btrnbd_pool *p;
  struct btrnbd_file *f;
  struct model m;
  uint32_t seq = 0;
  struct image im;

  (void) state;
  image_make (&im, "", 256);
  p = pool_open_at (im.path, 16 << 20);
  pool_ok (btrnbd_volume_create (p, "v", &opts));
  model_init (&m, 64);
  f = open_export (p, "v");
  disk_write (f, &m, 0, 64, &seq);
  btrnbd_file_close (f);
  pool_ok (btrnbd_pool_close (p));

  flip_root (&im, BTRFS_FREE_SPACE_TREE);
  p = pool_open_at (im.path, 16 << 20);
  pool_fails (btrnbd_volume_create (p, "w", &opts), ERR_readonly);
  btrnbd_pool_identify (p, &info);
  assert_true (info.read_only);
  assert_non_null (strstr (info.read_only_reason, "FREE_SPACE_TREE"));
  assert_int_equal (btrnbd_export_open (p, "v", BTRNBD_OPEN_RDONLY, &f), 0);
  disk_compare (f, &m, "served all the same");
  btrnbd_file_close (f);
  pool_ok (btrnbd_pool_close (p));

  flip_root (&im, BTRFS_FREE_SPACE_TREE);
  image_check (&im);
  p = pool_open_at (im.path, 16 << 20);
  pool_ok (btrnbd_volume_create (p, "w", &opts));
  pool_ok (btrnbd_pool_close (p));
  image_check (&im);
  free (m.v);
  image_remove (&im);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_bad_free_space_tree),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
