/* A file that takes another one's place: all of it or nothing, whatever comes
 * in between.
 */
#include <config.h>

#include "snap_help.h"

#define TEMP "v/" BTRNBD_UNFINISHED "disk"

static bool
exists (struct btrnbd_pool *p, const char *path)
{
  struct btrnbd_stat st;

  return btrnbd_stat (p, path, &st) == 0;
}

static int
no_temp (void *opaque, const struct btrnbd_export *e)
{
  (void) opaque;
  assert_null (strstr (e->name, BTRNBD_UNFINISHED));
  return 0;
}

static void
export_is (struct btrnbd_pool *p, const struct model *m, const char *what)
{
  struct btrnbd_file *f = open_export (p, "v");

  disk_compare (f, m, what);
  btrnbd_file_close (f);
}

static void
test_replace (void **state)
{
  const struct btrnbd_volume_opts opts = { .size = 64 * BLK, .nocow = true,
    .description = "told" };
  struct btrnbd_replace *rep, *other;
  struct btrnbd_stat before, after;
  struct model old, new, cut;
  struct btrnbd_pool *p;
  struct btrnbd_file *f;
  char value[8];
  uint32_t seq = 0;
  struct image im;
  size_t len;

  (void) state;
  image_make (&im, "", 256);
  p = pool_open_at (im.path, 16 << 20);
  pool_ok (btrnbd_volume_create (p, "v", &opts));
  pool_ok (btrnbd_setxattr (p, "v/disk", "user.a", "value", 5));
  pool_ok (btrnbd_chmod (p, "v/disk", 0640, 12, 34));
  pool_ok (btrnbd_stat (p, "v/disk", &before));
  model_init (&old, 64);
  model_init (&new, 64);
  f = open_export (p, "v");
  disk_write (f, &old, 0, 64, &seq);

  /* Not while a client has it. */
  pool_fails (btrnbd_replace_begin (p, "v", false, &rep), ERR_busy);
  btrnbd_file_close (f);
  pool_ok (btrnbd_replace_begin (p, "v", false, &rep));
  assert_true (btrnbd_replace_is_volume (rep));
  pool_fails (btrnbd_replace_begin (p, "v", false, &other), ERR_busy);
  pool_ok (btrnbd_exports (p, SIZE_MAX, no_temp, NULL));
  disk_write (btrnbd_replace_file (rep), &new, 0, 20, &seq);
  export_is (p, &old, "while it is written");

  /* The power goes; a commit had been. */
  pool_ok (btrnbd_pool_sync (p));
  cut = new;
  model_init (&new, 64);
  assert_int_equal (run ("cp --sparse=always %s %s/cut", im.path, im.dir), 0);
  btrnbd_replace_abort (rep);
  btrnbd_pool_kill (p);
  assert_int_equal (run ("mv %s/cut %s", im.dir, im.path), 0);
  image_check (&im);
  p = pool_open_at (im.path, 16 << 20);
  export_is (p, &old, "after the cut");
  assert_true (exists (p, TEMP));
  pool_ok (btrnbd_exports (p, SIZE_MAX, no_temp, NULL));

  /* Given up. */
  pool_ok (btrnbd_replace_begin (p, "v", false, &rep));
  btrnbd_replace_abort (rep);
  assert_false (exists (p, TEMP));
  export_is (p, &old, "after giving up");

  /* Somebody opens the old one in the meantime. */
  pool_ok (btrnbd_replace_begin (p, "v", false, &rep));
  f = open_export (p, "v");
  pool_fails (btrnbd_replace_commit (rep), ERR_busy);
  assert_false (exists (p, TEMP));
  disk_compare (f, &old, "in use");
  btrnbd_file_close (f);

  /* To the end, and the power goes at once. */
  pool_ok (btrnbd_replace_begin (p, "v", false, &rep));
  disk_write (btrnbd_replace_file (rep), &new, 10, 30, &seq);
  pool_ok (btrnbd_replace_commit (rep));
  btrnbd_pool_kill (p);
  p = pool_open_at (im.path, 16 << 20);
  export_is (p, &new, "replaced");
  assert_false (exists (p, TEMP));
  pool_ok (btrnbd_stat (p, "v/disk", &after));
  assert_int_equal (after.mode, before.mode);
  assert_int_equal (after.uid, 12);
  assert_int_equal (after.gid, 34);
  assert_int_equal (after.size, before.size);
  assert_true (after.is_nocow);
  pool_ok (btrnbd_getxattr (p, "v/disk", "user.a", value, sizeof value,
                            &len));
  assert_int_equal (len, 5);
  pool_ok (btrnbd_pool_close (p));
  image_check (&im);
  free (old.v);
  free (new.v);
  free (cut.v);
  image_remove (&im);
}

static void
test_refused (void **state)
{
  struct btrnbd_replace *rep;
  struct btrnbd_pool *p;
  char name[BTRFS_NAME_MAX + 1];
  struct image im;

  (void) state;
  image_make (&im, "", 256);
  p = pool_open_at (im.path, 16 << 20);
  pool_ok (btrnbd_mkdir (p, "d", 0755));
  pool_fails (btrnbd_replace_begin (p, "d", false, &rep), ERR_not_file);
  pool_fails (btrnbd_replace_begin (p, "x/y", false, &rep), ERR_not_found);
  pool_ok (btrnbd_create (p, "a", 0644, false));
  pool_ok (btrnbd_link (p, "a", "b"));
  pool_fails (btrnbd_replace_begin (p, "a", false, &rep), ERR_busy);

  /* A new file, and one that somebody makes meanwhile. */
  pool_ok (btrnbd_replace_begin (p, "d/new", true, &rep));
  assert_false (exists (p, "d/new"));
  pool_ok (btrnbd_replace_commit (rep));
  assert_true (exists (p, "d/new"));
  pool_ok (btrnbd_replace_begin (p, "d/newer", false, &rep));
  pool_ok (btrnbd_create (p, "d/newer", 0644, false));
  pool_fails (btrnbd_replace_commit (rep), ERR_exists);
  assert_false (exists (p, "d/" BTRNBD_UNFINISHED "newer"));

  memset (name, 'n', BTRFS_NAME_MAX);
  name[BTRFS_NAME_MAX] = '\0';
  pool_ok (btrnbd_replace_begin (p, name, false, &rep));
  pool_ok (btrnbd_replace_commit (rep));
  assert_true (exists (p, name));
  pool_ok (btrnbd_pool_close (p));
  image_check (&im);
  image_remove (&im);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_replace),
    cmocka_unit_test (test_refused),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
