/* A pool full of metadata: errors without damage, and a way back. */
#include <config.h>

#include "inode_help.h"

#include "subvol/subvol.h"

#define FILES 60000

/* Fill directory DIR with inodes that are as fat as they can be; the number
 * of files that fitted.
 */
static unsigned
fill (struct image *im, const char *path, unsigned first)
{
  const struct inode_new new = { .mode = S_IFREG | 0644 };
  static char value[3000];
  struct inode *dir = walk_to (im, path), *in;
  char name[32];
  unsigned i;
  int r = 0;

  for (i = first; i < FILES && r == 0; ++i) {
    snprintf (name, sizeof name, "file-%u", i);
    r = inode_create (dir, name, strlen (name), &new, &in);
    if (r < 0)
      break;
    r = inode_setxattr (in, "user.fat", value, sizeof value);
    inode_put (in);
  }
  inode_put (dir);
  assert_true (i < FILES);
  if (r != -ERR_nospace_meta)
    fail_msg ("filling ended with %s", err_text (r));
  err_clear ();
  return i;
}

static void
empty (struct image *im, const char *path, unsigned n)
{
  struct inode *dir = walk_to (im, path);
  char name[32];
  unsigned i;
  int r;

  for (i = 0; i < n; ++i) {
    snprintf (name, sizeof name, "file-%u", i);
    r = inode_unlink (dir, name, strlen (name));
    if (r != 0 && r != -ERR_not_found)
      fail_msg ("unlink %u of %u: %s", i, n, err_text (r));
  }
  inode_put (dir);
}

static void
test_full (void **state)
{
  static const char *const opts[] = {
    "-m single", "-m dup -n 4096 -s 4096", "--mixed -n 4096 -s 4096",
  };
  unsigned k, round, n, before = 0;
  struct image im;

  (void) state;
  for (k = 0; k < ARRAY_SIZE (opts); ++k) {
    image_make (&im, opts[k], 128);
    image_open (&im);
    ok (make_dir (&im, "d"));
    for (round = 0; round < 3; ++round) {
      n = fill (&im, "d", 0);
      assert_true (n > 1000);
      /* What was freed by each round is there for the next. */
      if (round > 0)
        assert_true (n > before / 10 * 8);
      before = n;
      if (round == 1)
        ok (fs_commit (im.fs));
      if (round == 2)
        image_judge (&im);
      empty (&im, "d", n + 1);
      ok (unlink_path (&im, "d"));
      ok (fs_commit (im.fs));
      ok (make_dir (&im, "d"));
    }
    image_judge (&im);
    image_close (&im);
    image_remove (&im);
  }
}

static void
test_full_subvol (void **state)
{
  const struct subvol_new new = { .mode = 0755 };
  struct inode *top;
  struct image im;
  unsigned n;

  (void) state;
  image_make (&im, "-n 4096 -s 4096", 128);
  image_open (&im);
  ok (inode_top (im.fs->inodes, &top));
  ok (subvol_create (im.fs->subvols, top, "s", 1, &new, NULL));
  n = fill (&im, "s", 0);
  ok (fs_commit (im.fs));
  n = fill (&im, "s", n + 1);
  ok (subvol_delete (im.fs->subvols, top, "s", 1));
  ok (subvols_drop_dead (im.fs->subvols, NULL, NULL));
  ok (fs_commit (im.fs));
  ok (subvol_create (im.fs->subvols, top, "s", 1, &new, NULL));
  assert_true (fill (&im, "s", 0) > n / 10 * 8);
  inode_put (top);
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_full),
    cmocka_unit_test (test_full_subvol),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
