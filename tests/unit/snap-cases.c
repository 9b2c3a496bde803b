/* Hard cases of snapshots, by their numbers, and many of them in one
 * transaction.
 */
#include <config.h>

#include "snap_help.h"

#include "subvol/subvol.h"

static void
make_subvol (struct image *im, const char *name)
{
  static const struct subvol_new plain = { .mode = 0755 };
  struct inode *top;

  ok (inode_top (im->fs->inodes, &top));
  ok (subvol_create (im->fs->subvols, top, name, strlen (name), &plain,
                     NULL));
  inode_put (top);
}

static int
snapshot (struct image *im, const char *from, const char *to, bool read_only)
{
  struct subvol_snap s = { .name = to, .len = strlen (to),
                           .read_only = read_only };
  int r;

  ok (inode_top (im->fs->inodes, &s.dir));
  s.source = walk_to (im, from);
  r = subvol_snapshot (im->fs->subvols, &s, 1);
  inode_put (s.source);
  inode_put (s.dir);
  return r;
}

static int
delete_subvol (struct image *im, const char *name)
{
  struct inode *top;
  int r;

  ok (inode_top (im->fs->inodes, &top));
  r = subvol_delete (im->fs->subvols, top, name, strlen (name));
  inode_put (top);
  return r;
}

static void
add_files (struct image *im, const char *dir, unsigned from, unsigned n)
{
  char path[128];
  unsigned i;

  for (i = from; i < from + n; ++i) {
    snprintf (path, sizeof path, "%s/a-file-with-a-name-of-some-length-%u",
              dir, i);
    ok (make_file (im, path));
  }
}

/* Of every pointer and root item that btrfs-progs shows, the generation is
 * that of the block it leads to, which is not always the running one.
 */
static void
generations_agree (struct image *im)
{
  static const char awk[] =
    "/^(leaf|node) [0-9]+ .*generation/ { "
    "  for (i = 1; i < NF; ++i) "
    "    if ($i == \"generation\") gen[$2] = $(i + 1); }"
    "$1 == \"key\" && / block [0-9]+ gen / { "
    "  for (i = 1; i < NF; ++i) "
    "    if ($i == \"block\") want($(i + 1), $(i + 3)) }"
    "$1 == \"generation\" && $5 == \"bytenr\" && $4 != 18446744073709551610 "
    "  { want($6, $2) }"
    "function want(b, g) { n++; told[n] = b; as[n] = g } "
    "END { for (i = 1; i <= n; ++i) { "
    "    if (as[i] != gen[told[i]]) { bad = 1; print told[i], \"has\", "
    "      gen[told[i]] \", not\", as[i] } "
    "    old += as[i] != as[1] } "
    "  print n, \"pointers\"; exit bad || n < 100 || old == 0 }";

  fflush (stdout);
  if (run ("btrfs inspect-internal dump-tree %s 2>/dev/null | awk '%s' "
           ">%s/gens", im->path, awk, im->dir) != 0) {
    run ("tail -20 %s/gens >&2", im->dir);
    fail_msg ("generations of pointers");
  }
}

static void
remove_files (struct image *im, const char *dir, unsigned from, unsigned n)
{
  char path[128];
  unsigned i;

  for (i = from; i < from + n; ++i) {
    snprintf (path, sizeof path, "%s/a-file-with-a-name-of-some-length-%u",
              dir, i);
    ok (unlink_path (im, path));
  }
}

/* 105: nodes are copied, split, merged and get a new root above or lose the
 * one they had, with children that were copied earlier, written early, or are
 * of an earlier transaction and stay.
 */
static void
test_105_child_generation (void **state)
{
  struct image im;

  (void) state;
  image_make (&im, "-n 4096 -s 4096", 256);
  image_open (&im);
  make_subvol (&im, "a");
  add_files (&im, "a", 0, 1500);
  image_reopen (&im);
  generations_agree (&im);
  /* A root of old children, twice in one transaction, and changed. */
  ok (snapshot (&im, "a", "b", false));
  add_files (&im, "a", 20000, 2);
  ok (snapshot (&im, "a", "c", true));
  add_files (&im, "b", 30000, 300);
  ok (fs_commit (im.fs));
  add_files (&im, "b", 31000, 1);
  image_reopen (&im);
  generations_agree (&im);
  /* What is left of the nodes are old leaves; the tree gets lower. */
  remove_files (&im, "b", 31, 1469 - 31);
  image_reopen (&im);
  generations_agree (&im);
  remove_files (&im, "b", 0, 31);
  remove_files (&im, "b", 30000, 300);
  ok (delete_subvol (&im, "a"));
  ok (subvols_drop_dead (im.fs->subvols, NULL, NULL));
  image_judge (&im);
  ok (fs_commit (im.fs));
  generations_agree (&im);
  image_close (&im);
  image_remove (&im);
}

/* 246: of a subvolume that was made in the same transaction; both are changed
 * in it, too, and a snapshot of the snapshot is made.
 */
static void
test_246_same_transaction (void **state)
{
  static const char *const opts[] = { "", "-n 4096 -s 4096",
                                      "-O ^skinny-metadata" };
  unsigned k, files;
  struct image im;

  (void) state;
  for (k = 0; k < ARRAY_SIZE (opts); ++k)
    for (files = 0; files < 400; files += 190) {
      image_make (&im, opts[k], 256);
      image_open (&im);
      make_subvol (&im, "a");
      add_files (&im, "a", 0, files);
      ok (snapshot (&im, "a", "b", false));
      add_files (&im, "b", 1000, files / 2 + 1);
      ok (snapshot (&im, "b", "c", true));
      add_files (&im, "a", 2000, files / 3 + 1);
      add_files (&im, "b", 3000, files / 3 + 1);
      ok (snapshot (&im, "a", "d", false));
      ok (snapshot (&im, "a", "e", false));
      add_files (&im, "e", 4000, 3);
      ok (delete_subvol (&im, "d"));
      ok (subvols_drop_dead (im.fs->subvols, NULL, NULL));
      fails (make_file (&im, "c/no"), ERR_inode_readonly);
      image_judge (&im);
      add_files (&im, "a", 5000, 10);
      ok (delete_subvol (&im, "b"));
      ok (subvols_drop_dead (im.fs->subvols, NULL, NULL));
      image_judge (&im);
      image_close (&im);
      image_remove (&im);
    }
}

static void
disk_put (struct image *im, const char *path, uint32_t seq)
{
  struct inode *in = walk_to (im, path);
  uint8_t buf[BLK];

  blk_fill (buf, seq);
  ok (data_write (im->fs->data, in, buf, BLK, 0));
  ok (data_write_out (im->fs->data, in, 0, BLK));
  inode_put (in);
}

static void
disk_holds (struct image *im, const char *path, uint32_t seq)
{
  struct inode *in = walk_to (im, path);
  uint8_t buf[BLK], want[BLK];

  blk_fill (want, seq);
  ok (data_read (im->fs->data, in, buf, BLK, 0));
  assert_memory_equal (buf, want, BLK);
  inode_put (in);
}

/* A file that is written in place; a snapshot comes and goes, and another one
 * comes, in one transaction.
 */
static void
test_in_place_same_transaction (void **state)
{
  static const struct subvol_new volume = { .mode = 0755, .file = "disk",
    .file_mode = 0600, .file_size = 1 << 20,
    .file_flags = BTRFS_INODE_NODATACOW };
  struct data_stats before, after;
  struct inode *top, *in;
  struct image im;

  (void) state;
  image_make (&im, "", 256);
  image_open (&im);
  ok (inode_top (im.fs->inodes, &top));
  ok (subvol_create (im.fs->subvols, top, "a", 1, &volume, NULL));
  inode_put (top);
  in = walk_to (&im, "a/disk");
  disk_put (&im, "a/disk", 1);
  ok (trans_commit (im.fs->trans, NULL));
  ok (snapshot (&im, "a", "b", true));
  ok (delete_subvol (&im, "b"));
  ok (subvols_drop_dead (im.fs->subvols, NULL, NULL));
  data_get_stats (im.fs->data, &before);
  disk_put (&im, "a/disk", 2);
  disk_put (&im, "a/disk", 3);
  data_get_stats (im.fs->data, &after);
  assert_int_equal (after.nocow_bytes - before.nocow_bytes, 2 * BLK);
  ok (snapshot (&im, "a", "c", true));
  disk_put (&im, "a/disk", 4);
  disk_holds (&im, "a/disk", 4);
  inode_put (in);
  image_close (&im);
  image_open (&im);
  disk_holds (&im, "c/disk", 3);
  disk_holds (&im, "a/disk", 4);
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

/* 248: of a subvolume that has been deleted: an error, and no flag of the dead
 * in a copy.
 */
static void
test_248_deleted (void **state)
{
  struct subvol_snap s = { .name = "b", .len = 1 };
  struct image im;

  (void) state;
  image_make (&im, "", 256);
  image_open (&im);
  make_subvol (&im, "a");
  s.source = walk_to (&im, "a");
  ok (inode_top (im.fs->inodes, &s.dir));
  fails (delete_subvol (&im, "a"), ERR_busy);
  inode_put (s.source);
  ok (delete_subvol (&im, "a"));
  assert_false (path_exists (&im, "a"));
  inode_put (s.dir);
  ok (subvols_drop_dead (im.fs->subvols, NULL, NULL));
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

/* 250: more snapshots of what was received than one item of the uuid tree can
 * name.
 */
static void
test_250_received (void **state)
{
  struct btrnbd_snapshot_opts v[SUBVOL_SNAPS_MAX];
  char name[SUBVOL_SNAPS_MAX][16];
  struct btrnbd_pool *p;
  struct image im;
  unsigned i, k;

  (void) state;
  need_kernel ();
  image_make (&im, "-n 4096", 256);
  image_mount (&im, "subvolid=5");
  assert_int_equal (run ("cd %s && btrfs -q subvolume create s && echo x >s/f "
                         "&& btrfs -q subvolume snapshot -r s r && mkdir d && "
                         "btrfs -q send r | btrfs -q receive d && "
                         "btrfs -q subvolume delete r s >/dev/null", im.mnt),
                    0);
  image_umount (&im);
  p = pool_open_at (im.path, 0);
  for (k = 0; k < 3; ++k) {
    for (i = 0; i < SUBVOL_SNAPS_MAX; ++i) {
      snprintf (name[i], sizeof name[i], "x%u-%u", k, i);
      v[i] = (struct btrnbd_snapshot_opts) { "d/r", name[i], true };
    }
    pool_ok (btrnbd_subvol_snapshot (p, v, SUBVOL_SNAPS_MAX));
  }
  /* A writable one is not what was received. */
  pool_ok (btrnbd_subvol_set_read_only (p, "x0-0", false));
  v[0] = (struct btrnbd_snapshot_opts) { "x0-1", "w", false };
  pool_ok (btrnbd_subvol_snapshot (p, v, 1));
  pool_ok (btrnbd_pool_close (p));
  image_check (&im);
  image_mount (&im, "subvolid=5");
  assert_int_equal (run (
    "cd %s && test $(btrfs subvolume list -R . | grep -c "
    "'received_uuid [0-9a-f]') = 768 && btrfs subvolume show w | "
    "grep -q 'Received UUID:[[:space:]]*-$' && "
    "btrfs subvolume show x0-0 | grep -q 'Received UUID:[[:space:]]*-$' && "
    "btrfs subvolume show x1-1 | grep -q 'Flags:[[:space:]]*readonly' && "
    "btrfs -q subvolume delete x0-0 x1-7 x2-255 w", im.mnt), 0);
  image_umount (&im);
  p = pool_open_at (im.path, 0);
  for (i = 0; i < 40; ++i) {
    snprintf (name[0], sizeof name[0], "x2-%u", i);
    pool_ok (btrnbd_subvol_remove (p, name[0]));
  }
  pool_ok (btrnbd_pool_close (p));
  image_check (&im);
  image_remove (&im);
}

static void
plant_orphan (struct image *im, uint64_t id)
{
  struct tree *rt = roots_pool_tree (im->fs->roots, BTRFS_ROOT_TREE)->tree;
  struct txn *txn;

  ok (txn_begin (im->fs->trans, 1, &txn));
  rwlock_wrlock (&rt->lock);
  ok (tree_insert_data (&txn->tree, rt,
                        KEY (BTRFS_ORPHAN_OBJECTID, BTRFS_ORPHAN_ITEM, id),
                        NULL, 0));
  rwlock_unlock (&rt->lock);
  ok (txn_end (txn));
}

static bool
stop_soon (void *opaque)
{
  return ++*(unsigned *) opaque > 3;
}

/* The pool in PATH has no orphan, in the root tree or elsewhere, and KEPT as
 * it was.
 */
static void
nothing_left (struct image *im)
{
  image_check (im);
  assert_int_equal (run ("btrfs inspect-internal dump-tree %s | "
                         "grep -q ORPHAN", im->path), 1);
  image_mount (im, "ro,subvolid=5");
  assert_int_equal (run ("cd %s && test $(ls | wc -l) = 1 && "
                         "test $(ls kept | wc -l) = 50 && "
                         "test $(btrfs subvolume list . | wc -l) = 1 && "
                         "test $(btrfs subvolume list -d . | wc -l) = 0",
                         im->mnt), 0);
  image_umount (im);
}

/* 252: orphans of the root tree are subvolumes that have been deleted, one of
 * them half dropped, with orphans inside; and one that is not there.  Whoever
 * opens the pool ends what was begun, Linux or we.
 */
static void
test_252_root_orphans (void **state)
{
  static const char *const names[] = { "kept", "x0", "x1", "x2" };
  struct inode *open[ARRAY_SIZE (names)];
  unsigned i, stops = 0;
  char path[128];
  struct image im;

  (void) state;
  need_kernel ();
  image_make (&im, "-n 4096", 256);
  image_open (&im);
  for (i = 0; i < ARRAY_SIZE (names); ++i) {
    make_subvol (&im, names[i]);
    add_files (&im, names[i], 0, i == 0 ? 51 : 400);
    snprintf (path, sizeof path, "%s/a-file-with-a-name-of-some-length-7",
              names[i]);
    open[i] = walk_to (&im, path);
    ok (unlink_path (&im, path));
  }
  ok (fs_commit (im.fs));
  trans_fail (im.fs->trans, err_new (ERR_shutdown, "crash"));
  for (i = 0; i < ARRAY_SIZE (names); ++i)
    inode_put (open[i]);
  image_kill (&im);

  image_open (&im);
  for (i = 1; i < ARRAY_SIZE (names); ++i)
    ok (delete_subvol (&im, names[i]));
  subvols_set_drop_batch (im.fs->subvols, 2);
  ok (subvols_drop_dead (im.fs->subvols, stop_soon, &stops));
  assert_true (stops > 3);
  plant_orphan (&im, 4000);
  ok (fs_commit (im.fs));
  image_kill (&im);

  assert_int_equal (run ("cp --sparse=always %s %s/ours", im.path, im.dir), 0);
  image_mount (&im, "subvolid=5");
  assert_int_equal (run ("btrfs subvolume sync %s >/dev/null && "
                         "ls %s/kept >/dev/null && "
                         "btrfs filesystem sync %s", im.mnt, im.mnt, im.mnt),
                    0);
  image_umount (&im);
  nothing_left (&im);

  assert_int_equal (run ("mv %s/ours %s", im.dir, im.path), 0);
  image_open (&im);
  ok (subvols_drop_dead (im.fs->subvols, NULL, NULL));
  ok (subvols_clean_orphans (im.fs->subvols, NULL, NULL));
  image_close (&im);
  nothing_left (&im);
  image_remove (&im);
}

/* --- many, at random --- */

#define TREES 6

static void
test_random (void **state)
{
  const char *text = getenv ("BTRNBD_SEED");
  uint64_t first = text ? strtoull (text, NULL, 0) : 1, seed;
  unsigned rounds = getenv ("BTRNBD_QUICK") != NULL ? 3 : 8, i, round, next;
  char path[128], a[8], b[8];
  struct image im;

  (void) state;
  for (round = 0; round < rounds; ++round) {
    seed = first + round;
    print_message ("# seed %llu\n", (unsigned long long) seed);
    next = 0;
    image_make (&im, round % 2 ? "-n 4096 -s 4096" : "", 512);
    image_open (&im);
    make_subvol (&im, "s0");
    add_files (&im, "s0", 100000, 300);
    for (i = 0; i < 1200; ++i) {
      snprintf (a, sizeof a, "s%u", (unsigned) snap_rnd (&seed, TREES));
      snprintf (b, sizeof b, "s%u", (unsigned) snap_rnd (&seed, TREES));
      if (!path_exists (&im, a))
        continue;
      switch (snap_rnd (&seed, 40)) {
      case 0:
      case 1:
        if (!path_exists (&im, b))
          ok (snapshot (&im, a, b, false));
        break;
      case 2:
        if (strcmp (a, b) != 0 && path_exists (&im, b)) {
          ok (delete_subvol (&im, b));
          if (snap_rnd (&seed, 2))
            ok (subvols_drop_dead (im.fs->subvols, NULL, NULL));
        }
        break;
      case 3:
        if (snap_rnd (&seed, 6) == 0)
          ok (fs_commit (im.fs));
        break;
      default:
        snprintf (path, sizeof path,
                  "%s/a-file-with-a-name-of-some-length-%u", a,
                  snap_rnd (&seed, 2)
                  ? 100000 + (unsigned) snap_rnd (&seed, 300) : ++next);
        if (path_exists (&im, path))
          ok (unlink_path (&im, path));
        else
          ok (make_file (&im, path));
      }
    }
    ok (subvols_drop_dead (im.fs->subvols, NULL, NULL));
    image_judge (&im);
    image_close (&im);
    image_remove (&im);
  }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_105_child_generation),
    cmocka_unit_test (test_246_same_transaction),
    cmocka_unit_test (test_in_place_same_transaction),
    cmocka_unit_test (test_248_deleted),
    cmocka_unit_test (test_250_received),
    cmocka_unit_test (test_252_root_orphans),
    cmocka_unit_test (test_random),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
