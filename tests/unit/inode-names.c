/* Names: create, look up, list, link, unlink, rename, hash collisions. */
#include <config.h>

#include "inode_help.h"

#include "format/names.h"
#include "inode/items.h"

static void
test_create_all_types (void **state)
{
  struct image im;
  char deep[600] = "";
  unsigned i;

  (void) state;
  image_make (&im, "", 256);
  image_open (&im);
  ok (make_file (&im, "file"));
  ok (make_dir (&im, "dir"));
  ok (make_dir (&im, "dir/sub"));
  ok (make_file (&im, "dir/sub/file"));
  ok (make_mode (&im, "dir/link", S_IFLNK | 0777, "../file"));
  ok (make_mode (&im, "dir/char", S_IFCHR | 0600, NULL));
  ok (make_mode (&im, "dir/block", S_IFBLK | 0660, NULL));
  ok (make_mode (&im, "dir/fifo", S_IFIFO | 0644, NULL));
  ok (make_mode (&im, "dir/sock", S_IFSOCK | 0755, NULL));
  for (i = 0; i < 20; ++i) {
    strcat (deep, "/deep");
    ok (make_dir (&im, deep));
  }
  fails (make_file (&im, "file"), ERR_exists);
  fails (make_dir (&im, "dir/sub"), ERR_exists);
  image_judge (&im);
  assert_true (path_exists (&im, "dir/sub/file"));
  assert_true (path_exists (&im, "//dir///sub/"));
  assert_false (path_exists (&im, "dir/sub/nothing"));
  fails (make_file (&im, "file"), ERR_exists);
  ok (make_file (&im, "dir/another"));
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

static void
test_bad_names (void **state)
{
  static const struct {
    const char *name;
    size_t len;
    int code;
  } bad[] = {
    { "", 0, ERR_name_bad }, { ".", 1, ERR_name_bad },
    { "..", 2, ERR_name_bad }, { "a/b", 3, ERR_name_bad },
    { "a\0b", 3, ERR_name_bad },
  };
  const struct inode_new new = { .mode = S_IFREG | 0644 };
  char longest[256];
  struct inode *top, *in;
  struct image im;
  size_t i;

  (void) state;
  image_make (&im, "", 256);
  image_open (&im);
  ok (inode_top (im.fs->inodes, &top));
  for (i = 0; i < ARRAY_SIZE (bad); ++i) {
    fails (inode_create (top, bad[i].name, bad[i].len, &new, NULL),
           bad[i].code);
    fails (inode_lookup (top, bad[i].name, bad[i].len, &in), bad[i].code);
    fails (inode_unlink (top, bad[i].name, bad[i].len), bad[i].code);
  }
  memset (longest, 'x', sizeof longest);
  fails (inode_create (top, longest, 256, &new, NULL), ERR_name_long);
  ok (inode_create (top, longest, 255, &new, &in));
  fails (inode_lookup (in, "x", 1, &in), ERR_not_dir);
  fails (inode_create (in, "x", 1, &new, NULL), ERR_not_dir);
  inode_put (in);
  inode_put (top);
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

static int
count_entry (void *opaque, const struct dir_entry *e)
{
  uint64_t *n = opaque;

  (void) e;
  ++*n;
  return 0;
}

static int
stop_at_third (void *opaque, const struct dir_entry *e)
{
  uint64_t *n = opaque;

  if (++*n < 3)
    return 0;
  *n = e->index;
  return -ERR_busy;
}

static void
test_many (void **state)
{
  const char *opts[] = { "-n 4096 -s 4096", "" };
  struct image im;
  struct inode *dir;
  char path[64];
  unsigned i, k;
  uint64_t n;

  (void) state;
  for (k = 0; k < ARRAY_SIZE (opts); ++k) {
    image_make (&im, opts[k], 256);
    image_open (&im);
    ok (make_dir (&im, "d"));
    for (i = 0; i < 3000; ++i) {
      snprintf (path, sizeof path, "d/file-%u", i * 7919 % 3000);
      ok (make_file (&im, path));
      if (i % 1000 == 500)
        ok (fs_commit (im.fs));
    }
    for (i = 0; i < 3000; i += 3) {
      snprintf (path, sizeof path, "d/file-%u", i);
      ok (unlink_path (&im, path));
    }
    dir = walk_to (&im, "d");
    n = 0;
    ok (inode_readdir (dir, 0, count_entry, &n));
    assert_int_equal (n, 2000);
    n = 0;
    fails (inode_readdir (dir, 0, stop_at_third, &n), ERR_busy);
    i = n;
    n = 0;
    ok (inode_readdir (dir, i + 1, count_entry, &n));
    assert_int_equal (n, 1997);
    inode_put (dir);
    fails (unlink_path (&im, "d"), ERR_not_empty);
    image_judge (&im);
    for (i = 0; i < 3000; ++i)
      if (i % 3 != 0) {
        snprintf (path, sizeof path, "d/file-%u", i);
        ok (unlink_path (&im, path));
      }
    ok (unlink_path (&im, "d"));
    image_judge (&im);
    image_close (&im);
    image_remove (&im);
  }
}

/* Names with one hash, until an item is full. */
static void
test_collisions (void **state)
{
  const struct inode_new new = { .mode = S_IFREG | 0644 };
  const uint32_t seed = (uint32_t) ~1;
  char names[200][48], s[44];
  unsigned n = 0, i, added;
  struct inode *top, *in;
  struct image im;
  uint64_t hash;

  (void) state;
  hash = name_hash ("first", 5);
  for (i = 0; n < ARRAY_SIZE (names); ++i) {
    int len = snprintf (s, sizeof s, "collision-number-%u-with-padding-", i);

    memset (names[n], 0, sizeof names[n]);
    if (!collide (s, len, seed, hash, names[n]))
      continue;
    assert_int_equal (name_hash (names[n], strlen (names[n])), hash);
    ++n;
  }
  image_make (&im, "-n 4096 -s 4096", 256);
  image_open (&im);
  ok (inode_top (im.fs->inodes, &top));
  ok (inode_create (top, "first", 5, &new, NULL));
  for (added = 0; added < n; ++added) {
    int r = inode_create (top, names[added], strlen (names[added]), &new,
                          NULL);

    if (r == -ERR_name_hash)
      break;
    ok (r);
  }
  assert_true (added > 30 && added < n);
  ok (fs_commit (im.fs));
  fails (inode_create (top, names[3], strlen (names[3]), &new, NULL),
         ERR_exists);
  /* Away from the beginning, the middle and the end. */
  ok (inode_unlink (top, "first", 5));
  ok (inode_unlink (top, names[added / 2], strlen (names[added / 2])));
  ok (inode_unlink (top, names[added - 1], strlen (names[added - 1])));
  fails (inode_unlink (top, names[added - 1], strlen (names[added - 1])),
         ERR_not_found);
  ok (inode_lookup (top, names[1], strlen (names[1]), &in));
  inode_put (in);
  ok (inode_rename (top, names[0], strlen (names[0]), top, names[added],
                    strlen (names[added]), RENAME_NO_REPLACE));
  ok (inode_rename (top, names[1], strlen (names[1]), top, names[2],
                    strlen (names[2]), RENAME_REPLACE_OK));
  ok (inode_rename (top, names[4], strlen (names[4]), top, names[5],
                    strlen (names[5]), RENAME_SWAP));
  inode_put (top);
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

static void
test_links (void **state)
{
  struct image im;
  struct inode *in;

  (void) state;
  image_make (&im, "", 256);
  image_open (&im);
  ok (make_file (&im, "a"));
  ok (make_dir (&im, "d"));
  ok (link_path (&im, "a", "b"));
  ok (link_path (&im, "a", "d/a"));
  ok (link_path (&im, "d/a", "d/b"));
  fails (link_path (&im, "a", "b"), ERR_exists);
  fails (link_path (&im, "d", "e"), ERR_is_dir);
  in = walk_to (&im, "a");
  assert_int_equal (in->nlink, 4);
  inode_put (in);
  image_judge (&im);
  ok (unlink_path (&im, "a"));
  ok (unlink_path (&im, "d/a"));
  in = walk_to (&im, "b");
  assert_int_equal (in->nlink, 2);
  inode_put (in);
  image_judge (&im);
  ok (unlink_path (&im, "b"));
  ok (unlink_path (&im, "d/b"));
  ok (unlink_path (&im, "d"));
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

/* What is at a name before a rename. */
enum thing { NOTHING, FILE_, LINK, EMPTY, FULL, THINGS };

static void
put_thing (struct image *im, const char *path, enum thing t)
{
  char sub[64];

  switch (t) {
  case FILE_:
    ok (make_file (im, path));
    break;
  case LINK:
    ok (make_mode (im, path, S_IFLNK | 0777, "nowhere"));
    break;
  case EMPTY:
  case FULL:
    ok (make_dir (im, path));
    if (t == FULL) {
      snprintf (sub, sizeof sub, "%s/in", path);
      ok (make_file (im, sub));
    }
    break;
  default:
    break;
  }
}

static int
expected (enum thing from, enum thing to, enum rename_mode mode)
{
  if (from == NOTHING)
    return ERR_not_found;
  if (mode == RENAME_NO_REPLACE && to != NOTHING)
    return ERR_exists;
  if (mode == RENAME_SWAP)
    return to == NOTHING ? ERR_not_found : 0;
  if (to == NOTHING)
    return 0;
  if (from >= EMPTY && to < EMPTY)
    return ERR_not_dir;
  if (from < EMPTY && to >= EMPTY)
    return ERR_is_dir;
  return to == FULL ? ERR_not_empty : 0;
}

static void
one_rename (struct image *im, enum thing from, enum thing to,
            enum rename_mode mode, bool other_dir)
{
  char base[32], a[64], b[64];
  uint64_t ia, ib;
  int want = expected (from, to, mode), r;

  snprintf (base, sizeof base, "t%d%d%d%d", from, to, mode, other_dir);
  ok (make_dir (im, base));
  snprintf (a, sizeof a, "%s/longer-name", base);
  snprintf (b, sizeof b, "%s/d", base);
  if (other_dir)
    ok (make_dir (im, b));
  snprintf (b, sizeof b, other_dir ? "%s/d/x" : "%s/b", base);
  put_thing (im, a, from);
  put_thing (im, b, to);
  ia = ino_of (im, a);
  ib = ino_of (im, b);
  r = rename_path (im, a, b, mode);
  if (r != -want)
    fail_msg ("rename of %d to %d, mode %d: %s, expected %s", from, to, mode,
              r == 0 ? "success" : err_text (r),
              want == 0 ? "success" : btrnbd_error_name (want));
  assert_int_equal (ino_of (im, a), want != 0 ? ia
                    : mode == RENAME_SWAP ? ib : 0);
  assert_int_equal (ino_of (im, b), want != 0 ? ib : ia);
}

static void
test_rename_table (void **state)
{
  enum thing from, to;
  struct image im;
  int mode, other;

  (void) state;
  image_make (&im, "", 256);
  image_open (&im);
  for (from = NOTHING; from < THINGS; ++from)
    for (to = NOTHING; to < THINGS; ++to)
      for (mode = RENAME_REPLACE_OK; mode <= RENAME_SWAP; ++mode)
        for (other = 0; other < 2; ++other)
          one_rename (&im, from, to, mode, other);
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

static void
test_rename_special (void **state)
{
  struct image im;
  uint64_t ino;

  (void) state;
  image_make (&im, "", 256);
  image_open (&im);
  ok (make_dir (&im, "a"));
  ok (make_dir (&im, "a/b"));
  ok (make_dir (&im, "a/b/c"));
  ok (make_file (&im, "f"));
  /* Into itself and below, also as the other side of an exchange. */
  fails (rename_path (&im, "a", "a/b/x", RENAME_NO_REPLACE), ERR_invalid);
  fails (rename_path (&im, "a", "a/x", RENAME_NO_REPLACE), ERR_invalid);
  fails (rename_path (&im, "a/b/c", "a", RENAME_SWAP), ERR_invalid);
  fails (rename_path (&im, "a", "a/b/c", RENAME_SWAP), ERR_invalid);
  /* An ancestor as target is not empty. */
  fails (rename_path (&im, "a/b/c", "a", RENAME_REPLACE_OK), ERR_not_empty);
  /* One inode on both sides: nothing happens. */
  ok (rename_path (&im, "f", "f", RENAME_REPLACE_OK));
  fails (rename_path (&im, "f", "f", RENAME_NO_REPLACE), ERR_exists);
  ok (link_path (&im, "f", "g"));
  ok (rename_path (&im, "f", "g", RENAME_REPLACE_OK));
  assert_true (path_exists (&im, "f") && path_exists (&im, "g"));
  /* One of several links is replaced; the others stay. */
  ino = ino_of (&im, "f");
  ok (make_file (&im, "h"));
  ok (rename_path (&im, "h", "f", RENAME_REPLACE_OK));
  assert_int_equal (ino_of (&im, "g"), ino);
  assert_true (ino_of (&im, "f") != ino);
  /* A subtree moves up and down. */
  ok (rename_path (&im, "a/b", "b", RENAME_NO_REPLACE));
  ok (rename_path (&im, "a", "b/c/a", RENAME_NO_REPLACE));
  assert_true (path_exists (&im, "b/c/a"));
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

static void
test_symlinks (void **state)
{
  struct image im;
  char target[4096], *got;
  struct inode *in;

  (void) state;
  image_make (&im, "", 256);
  image_open (&im);
  memset (target, 't', sizeof target);
  target[4000] = '\0';
  ok (make_mode (&im, "long", S_IFLNK | 0777, target));
  ok (make_mode (&im, "dangling", S_IFLNK | 0777, "/no/where"));
  fails (make_mode (&im, "empty", S_IFLNK | 0777, ""), ERR_invalid);
  fails (make_mode (&im, "none", S_IFLNK | 0777, NULL), ERR_invalid);
  in = walk_to (&im, "long");
  ok (inode_readlink (in, &got));
  assert_string_equal (got, target);
  free (got);
  inode_put (in);
  in = walk_to (&im, "");
  fails (inode_readlink (in, &got), ERR_invalid);
  inode_put (in);
  image_judge (&im);
  ok (unlink_path (&im, "long"));
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_create_all_types),
    cmocka_unit_test (test_bad_names),
    cmocka_unit_test (test_many),
    cmocka_unit_test (test_collisions),
    cmocka_unit_test (test_links),
    cmocka_unit_test (test_rename_table),
    cmocka_unit_test (test_rename_special),
    cmocka_unit_test (test_symlinks),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
