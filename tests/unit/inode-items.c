/* Packed items, extended references, attributes, orphans. */
#include <config.h>

#include <sys/xattr.h>

#include "inode_help.h"

#include "format/names.h"
#include "inode/items.h"
#include "subvol/subvol.h"

/* --- records in an item --- */

static void
test_pack_hostile (void **state)
{
  uint8_t buf[64];
  struct btrfs_dir_item d = { .name_len = le16_make (5) };
  struct pack_rec rec;
  uint32_t size;
  bool found;

  (void) state;
  memset (buf, 'n', sizeof buf);
  memcpy (buf, &d, sizeof d);
  /* Every length that cuts the record is refused, the exact one is not. */
  for (size = 1; size < sizeof d + 5; ++size) {
    rec = (struct pack_rec) { .head = NULL };
    fails (pack_next (PACK_DIR, buf, size, &rec, &found), ERR_item_format);
    assert_false (found);
  }
  rec = (struct pack_rec) { .head = NULL };
  ok (pack_next (PACK_DIR, buf, size, &rec, &found));
  assert_true (found && rec.len == size && rec.name_len == 5);
  ok (pack_next (PACK_DIR, buf, size, &rec, &found));
  assert_false (found);
  d.name_len = le16_make (65535);
  d.data_len = le16_make (65535);
  memcpy (buf, &d, sizeof d);
  rec = (struct pack_rec) { .head = NULL };
  fails (pack_next (PACK_DIR, buf, sizeof buf, &rec, &found),
         ERR_item_format);
}

/* --- many links --- */

static void
long_name (char name[64], unsigned i)
{
  snprintf (name, 64, "a-name-that-takes-room-in-the-item-%08u", i);
}

static void
test_extrefs (void **state)
{
  static const struct {
    const char *opts;
    unsigned links;
  } v[] = { { "-n 4096 -s 4096", 900 }, { "", 1200 },
            { "-n 4096 -s 4096 -O ^extref", 300 } };
  struct image im;
  struct inode *in, *top;
  char name[64];
  unsigned i, k;

  (void) state;
  for (k = 0; k < ARRAY_SIZE (v); ++k) {
    image_make (&im, v[k].opts, 256);
    image_open (&im);
    ok (inode_top (im.fs->inodes, &top));
    ok (make_file (&im, "first"));
    in = walk_to (&im, "first");
    for (i = 0; i < v[k].links; ++i) {
      long_name (name, i);
      ok (inode_link (in, top, name, strlen (name)));
    }
    assert_int_equal (in->nlink, v[k].links + 1);
    inode_put (in);
    inode_put (top);
    image_judge (&im);
    ok (inode_top (im.fs->inodes, &top));
    for (i = 0; i < v[k].links; i += 2) {
      long_name (name, i);
      ok (inode_unlink (top, name, strlen (name)));
    }
    long_name (name, 1);
    ok (inode_rename (top, name, strlen (name), top, "renamed", 7,
                      RENAME_NO_REPLACE));
    inode_put (top);
    image_judge (&im);
    in = walk_to (&im, "first");
    assert_int_equal (in->nlink, v[k].links / 2 + 1);
    inode_put (in);
    ok (inode_top (im.fs->inodes, &top));
    for (i = 3; i < v[k].links; i += 2) {
      long_name (name, i);
      ok (inode_unlink (top, name, strlen (name)));
    }
    ok (inode_unlink (top, "renamed", 7));
    ok (inode_unlink (top, "first", 5));
    inode_put (top);
    image_judge (&im);
    image_close (&im);
    image_remove (&im);
  }
}

/* Extended references whose hashes collide share an item. */
static void
test_extref_collisions (void **state)
{
  const uint32_t seed = TOP_DIR_INO;
  char names[8][48], s[44];
  struct inode *in, *top;
  struct image im;
  unsigned n = 0, i;
  uint64_t hash;
  char name[64];

  (void) state;
  hash = extref_hash (TOP_DIR_INO, "first", 5);
  for (i = 0; n < ARRAY_SIZE (names); ++i) {
    int len = snprintf (s, sizeof s, "collision-number-%u-with-padding-", i);

    memset (names[n], 0, sizeof names[n]);
    if (!collide (s, len, seed, hash, names[n]))
      continue;
    assert_int_equal (extref_hash (TOP_DIR_INO, names[n],
                                   strlen (names[n])), hash);
    ++n;
  }
  image_make (&im, "-n 4096 -s 4096", 256);
  image_open (&im);
  ok (inode_top (im.fs->inodes, &top));
  ok (make_file (&im, "zero"));
  in = walk_to (&im, "zero");
  for (i = 0; i < 100; ++i) {
    long_name (name, i);
    ok (inode_link (in, top, name, strlen (name)));
  }
  ok (inode_link (in, top, "first", 5));
  for (i = 0; i < n; ++i)
    ok (inode_link (in, top, names[i], strlen (names[i])));
  inode_put (in);
  inode_put (top);
  image_judge (&im);
  ok (inode_top (im.fs->inodes, &top));
  ok (inode_unlink (top, "first", 5));
  ok (inode_unlink (top, names[3], strlen (names[3])));
  ok (inode_unlink (top, names[n - 1], strlen (names[n - 1])));
  inode_put (top);
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

/* --- attributes --- */

static void
expect_xattr (struct inode *in, const char *name, const void *value,
              size_t len)
{
  static char buf[70000];
  size_t got = 0;

  ok (inode_getxattr (in, name, buf, sizeof buf, &got));
  assert_int_equal (got, len);
  assert_memory_equal (buf, value, len);
}

static void
test_xattrs (void **state)
{
  static char big[70000], names[100][48];
  const uint32_t seed = (uint32_t) ~1;
  struct image im;
  struct inode *in;
  char *list, s[40];
  size_t len, used;
  unsigned n = 0, i;
  ssize_t got;

  (void) state;
  memset (big, 'v', sizeof big);
  image_make (&im, "-n 4096 -s 4096", 256);
  image_open (&im);
  ok (make_file (&im, "f"));
  in = walk_to (&im, "f");
  ok (inode_setxattr (in, "user.a", "value", 5));
  ok (inode_setxattr (in, "user.empty", "", 0));
  expect_xattr (in, "user.a", "value", 5);
  ok (inode_setxattr (in, "user.a", "another value", 13));
  expect_xattr (in, "user.a", "another value", 13);
  ok (inode_setxattr (in, "user.a", "x", 1));
  expect_xattr (in, "user.a", "x", 1);
  expect_xattr (in, "user.empty", "", 0);
  fails (inode_getxattr (in, "user.b", s, sizeof s, &len),
         ERR_xattr_missing);
  fails (inode_removexattr (in, "user.b"), ERR_xattr_missing);
  /* The largest value, to the byte. */
  len = 4096 - 101 - 25 - sizeof (struct btrfs_dir_item) - 8;
  fails (inode_setxattr (in, "user.big", big, len + 1), ERR_xattr_big);
  fails (inode_setxattr (in, "user.big", big, 66000), ERR_xattr_big);
  ok (inode_setxattr (in, "user.big", big, len));
  expect_xattr (in, "user.big", big, len);
  /* Collisions, until the item is full. */
  for (i = 0; n < ARRAY_SIZE (names); ++i) {
    int l = snprintf (s, sizeof s, "user.collision-%u-", i);

    memset (names[n], 0, sizeof names[n]);
    if (collide (s, l, seed, name_hash ("user.hash", 9), names[n]))
      ++n;
  }
  for (used = 0; used < n; ++used) {
    int r = inode_setxattr (in, names[used], names[used], 20);

    if (r == -ERR_name_hash)
      break;
    ok (r);
  }
  assert_true (used > 20 && used < n);
  for (i = 0; i < used; ++i)
    expect_xattr (in, names[i], names[i], 20);
  for (i = 0; i < used; i += 3)
    ok (inode_removexattr (in, names[i]));
  ok (inode_setxattr (in, names[1], "longer than it was before", 25));
  ok (inode_listxattr (in, &list, &len));
  for (n = 0, i = 0; i < len; i += strlen (list + i) + 1)
    ++n;
  assert_int_equal (n, 3 + used - (used + 2) / 3);
  free (list);
  inode_put (in);
  image_reopen (&im);
  in = walk_to (&im, "f");
  expect_xattr (in, names[1], "longer than it was before", 25);
  expect_xattr (in, names[2], names[2], 20);
  expect_xattr (in, "user.big", big, 4096 - 101 - 25 - 30 - 8);
  inode_put (in);
  image_close (&im);
  if (have_kernel ()) {
    char path[2 * PATH_MAX];

    image_mount (&im, "ro");
    snprintf (path, sizeof path, "%s/f", im.mnt);
    got = getxattr (path, names[2], big, sizeof big);
    assert_int_equal (got, 20);
    assert_memory_equal (big, names[2], 20);
    assert_int_equal (getxattr (path, names[0], big, sizeof big), -1);
    assert_int_equal (getxattr (path, "user.big", big, sizeof big),
                      4096 - 101 - 25 - 30 - 8);
    image_umount (&im);
  }
  image_remove (&im);
}

/* --- orphans --- */

static void
test_open_unlinked (void **state)
{
  struct image im;
  struct inode *in;
  unsigned i;
  char s[32];

  (void) state;
  image_make (&im, "", 256);
  image_open (&im);
  ok (make_file (&im, "f"));
  in = walk_to (&im, "f");
  for (i = 0; i < 300; ++i) {
    snprintf (s, sizeof s, "user.attribute-%u", i);
    ok (inode_setxattr (in, s, s, strlen (s)));
  }
  ok (unlink_path (&im, "f"));
  assert_false (path_exists (&im, "f"));
  expect_xattr (in, "user.attribute-299", "user.attribute-299", 18);
  ok (fs_commit (im.fs));
  ok (make_file (&im, "f"));
  assert_true (ino_of (&im, "f") != in->ino);
  inode_put (in);               /* deleted here */
  fails (inode_get (im.fs->inodes, 5, 257, &in), ERR_inode_missing);
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

/* A crash leaves the orphan; the next open for writing deletes it, the first
 * open for reading does not mind.
 */
static void
test_orphan_after_crash (void **state)
{
  struct inode *file, *dir;
  struct image im;
  uint64_t ino[2];
  unsigned i;

  (void) state;
  image_make (&im, "", 256);
  image_open (&im);
  ok (make_file (&im, "f"));
  ok (make_dir (&im, "d"));
  file = walk_to (&im, "f");
  dir = walk_to (&im, "d");
  ok (inode_setxattr (file, "user.a", "b", 1));
  ok (unlink_path (&im, "f"));
  ok (unlink_path (&im, "d"));
  fails (inode_create (dir, "x", 1, &(struct inode_new) {
        .mode = S_IFREG | 0644 }, NULL), ERR_not_found);
  ok (fs_commit (im.fs));
  ino[0] = file->ino;
  ino[1] = dir->ino;
  /* A crash: what the references would do at their end is not written. */
  trans_fail (im.fs->trans, err_new (ERR_shutdown, "crash"));
  inode_put (file);
  inode_put (dir);
  image_kill (&im);
  ok (image_try_open (&im, true));
  ok (inode_get (im.fs->inodes, 5, ino[0], &file));
  assert_int_equal (file->nlink, 0);
  inode_put (file);
  image_close (&im);
  image_open (&im);
  ok (subvols_clean_orphans (im.fs->subvols, NULL, NULL));
  for (i = 0; i < 2; ++i)
    fails (inode_get (im.fs->inodes, 5, ino[i], &file), ERR_inode_missing);
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

/* --- hostile directories --- */

/* Put raw items into subvolume 5. */
static void
plant (struct image *im, struct key key, const void *data, uint32_t size)
{
  struct root *root;
  struct txn *txn;

  ok (roots_get (im->fs->roots, BTRFS_FS_TREE, &root));
  ok (txn_begin (im->fs->trans, 1, &txn));
  rwlock_wrlock (&root->tree->lock);
  ok (tree_insert_data (&txn->tree, root->tree, key, data, size));
  rwlock_unlock (&root->tree->lock);
  ok (txn_end (txn));
  roots_put (im->fs->roots, root);
}

static void
plant_entry (struct image *im, const char *name, struct key location,
             uint64_t index)
{
  struct {
    struct btrfs_dir_item d;
    char name[32];
  } e = { .d = { .location = key_to_disk (location),
      .name_len = le16_make (strlen (name)), .type = BTRFS_FT_DIR } };

  memcpy (e.name, name, strlen (name));
  plant (im, KEY (TOP_DIR_INO, BTRFS_DIR_ITEM,
                  name_hash (name, strlen (name))), &e,
         sizeof e.d + strlen (name));
  plant (im, KEY (TOP_DIR_INO, BTRFS_DIR_INDEX, index), &e,
         sizeof e.d + strlen (name));
}

static int
lookup_top (struct image *im, const char *name)
{
  struct inode *top, *in = NULL;
  int r;

  ok (inode_top (im->fs->inodes, &top));
  r = inode_lookup (top, name, strlen (name), &in);
  inode_put (in);
  inode_put (top);
  return r;
}

static void
test_hostile_entries (void **state)
{
  struct image im;
  struct inode *top;

  (void) state;
  image_make (&im, "", 256);
  image_open (&im);
  ok (make_dir (&im, "d"));
  ok (make_file (&im, "f"));
  ok (make_dir (&im, "d/e"));
  plant_entry (&im, "no-inode", KEY (7777, BTRFS_INODE_ITEM, 0), 100);
  plant_entry (&im, "no-subvol", KEY (7777, BTRFS_ROOT_ITEM, -1), 101);
  plant_entry (&im, "top", KEY (TOP_DIR_INO, BTRFS_INODE_ITEM, 0), 102);
  plant_entry (&im, "d2", KEY (257, BTRFS_INODE_ITEM, 0), 103);
  plant_entry (&im, "self", KEY (5, BTRFS_ROOT_ITEM, -1), 104);
  /* Not found, not followed, not removed; no end of the pool. */
  fails (lookup_top (&im, "no-inode"), ERR_inode_missing);
  fails (unlink_path (&im, "no-inode"), ERR_inode_missing);
  fails (rename_path (&im, "no-inode", "x", RENAME_NO_REPLACE),
         ERR_inode_missing);
  ok (lookup_top (&im, "no-subvol")); /* an empty stand-in */
  assert_false (path_exists (&im, "no-subvol/x"));
  fails (make_file (&im, "no-subvol/x"), ERR_inode_readonly);
  fails (unlink_path (&im, "no-subvol"), ERR_is_subvol);
  fails (rename_path (&im, "no-subvol", "x", RENAME_NO_REPLACE),
         ERR_dir_format);
  assert_true (path_exists (&im, "top/top/top/top/d"));
  fails (unlink_path (&im, "top"), ERR_dir_format);
  fails (rename_path (&im, "top", "d/e/x", RENAME_NO_REPLACE), ERR_invalid);
  assert_false (path_exists (&im, "self/self"));
  /* A second name of a directory: its reference knows only the first. */
  fails (rename_path (&im, "d2", "x", RENAME_NO_REPLACE), ERR_dir_format);
  fails (unlink_path (&im, "d2"), ERR_not_empty);
  ok (inode_top (im.fs->inodes, &top));
  ok (inode_setxattr (top, "user.still", "writable", 8));
  inode_put (top);
  assert_int_equal (trans_check (im.fs->trans), 0);
  image_close (&im);
  image_remove (&im);
}

/* Parents that go round in a circle. */
static void
test_hostile_parents (void **state)
{
  struct {
    struct btrfs_inode_ref r;
    char name[1];
  } ref = { { le64_make (2), le16_make (1) }, "a" };
  struct image im;
  struct root *root;
  struct txn *txn;

  (void) state;
  image_make (&im, "", 256);
  image_open (&im);
  ok (make_dir (&im, "a"));     /* 257 */
  ok (make_dir (&im, "a/b"));   /* 258 */
  ok (make_dir (&im, "c"));
  ok (roots_get (im.fs->roots, BTRFS_FS_TREE, &root));
  ok (txn_begin (im.fs->trans, 1, &txn));
  rwlock_wrlock (&root->tree->lock);
  ok (tree_delete (&txn->tree, root->tree,
                   KEY (257, BTRFS_INODE_REF, TOP_DIR_INO)));
  rwlock_unlock (&root->tree->lock);
  ok (txn_end (txn));
  roots_put (im.fs->roots, root);
  fails (rename_path (&im, "c", "a/b/c", RENAME_NO_REPLACE), ERR_dir_format);
  plant (&im, KEY (257, BTRFS_INODE_REF, 258), &ref, sizeof ref);
  fails (rename_path (&im, "c", "a/b/c", RENAME_NO_REPLACE), ERR_dir_format);
  assert_int_equal (trans_check (im.fs->trans), 0);
  image_close (&im);
  image_remove (&im);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_pack_hostile),
    cmocka_unit_test (test_extrefs),
    cmocka_unit_test (test_extref_collisions),
    cmocka_unit_test (test_xattrs),
    cmocka_unit_test (test_open_unlinked),
    cmocka_unit_test (test_orphan_after_crash),
    cmocka_unit_test (test_hostile_entries),
    cmocka_unit_test (test_hostile_parents),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
