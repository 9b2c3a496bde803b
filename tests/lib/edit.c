/* Changes to a pool that nobody makes on purpose, for the judges to look at.
 *
 *   edit IMAGE short-root ID      root item as of old kernels: 239 bytes
 *   edit IMAGE odd-root ID        root item that an old kernel has written to
 *                                 since: generation_v2 lags behind
 *   edit IMAGE show-root ID       its size, and whether the two are equal
 *   edit IMAGE rescan             of quotas, half way
 *   edit IMAGE show-quota         flags and progress
 *   edit IMAGE replace STATE      device replacement
 *   edit IMAGE reloc ID           a relocation tree of subvolume ID
 *   edit IMAGE system-chunk       one more chunk for the chunk tree
 *   edit IMAGE fst-count          the free space tree miscounts its extents
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fs/core.h"
#include "space/space_priv.h"

static struct fs *fs;

static void
must (int r, const char *what)
{
  if (r == 0)
    return;
  fprintf (stderr, "edit: %s: %s\n", what, err_text (r));
  _Exit (1);
}

static struct tree *
tree_of (uint64_t id)
{
  struct root *root = roots_pool_tree (fs->roots, id);

  if (root == NULL && roots_get (fs->roots, id, &root) < 0) {
    fprintf (stderr, "edit: there is no tree %" PRIu64 "\n", id);
    _Exit (1);
  }
  return root->tree;
}

/* The item KEY, or the first with the object and type of KEY: writable. */
static void
find (struct txn *txn, struct tree *t, struct key key, struct cursor *c)
{
  must (tree_find (t, key, c, NULL), "find");
  if (!cursor_at_item (c) || cursor_key (c).objectid != key.objectid
      || cursor_key (c).type != key.type) {
    fprintf (stderr, "edit: no such item\n");
    _Exit (1);
  }
  if (txn != NULL)
    must (cursor_make_writable (&txn->tree, c), "copy");
}

static void
edit_root (struct txn *txn, uint64_t id, bool shorten)
{
  struct tree *t = tree_of (BTRFS_ROOT_TREE);
  struct cursor c = CURSOR_INIT;
  struct btrfs_root_item *it;

  rwlock_wrlock (&t->lock);
  find (txn, t, KEY (id, BTRFS_ROOT_ITEM, 0), &c);
  it = cursor_data_rw (&c);
  if (shorten)
    must (cursor_resize (&txn->tree, &c, BTRFS_ROOT_ITEM_SIZE_V0), "resize");
  else
    it->generation_v2 = le64_make (le64_get (it->generation) - 1);
  cursor_done (&c);
  rwlock_unlock (&t->lock);
}

static void
show_root (uint64_t id)
{
  struct tree *t = tree_of (BTRFS_ROOT_TREE);
  struct cursor c = CURSOR_INIT;
  const struct btrfs_root_item *it;
  uint32_t size;

  rwlock_rdlock (&t->lock);
  find (NULL, t, KEY (id, BTRFS_ROOT_ITEM, 0), &c);
  size = cursor_size (&c);
  it = cursor_data (&c);
  printf ("%u %s\n", size, size < sizeof *it ? "short"
          : le64_get (it->generation) == le64_get (it->generation_v2)
          ? "equal" : "odd");
  cursor_done (&c);
  rwlock_unlock (&t->lock);
}

static void
edit_rescan (struct txn *txn)
{
  struct tree *t = tree_of (BTRFS_QUOTA_TREE);
  struct cursor c = CURSOR_INIT;
  struct btrfs_qgroup_status *st;

  rwlock_wrlock (&t->lock);
  find (txn, t, KEY (0, BTRFS_QGROUP_STATUS, 0), &c);
  st = cursor_data_rw (&c);
  st->flags = le64_make (le64_get (st->flags) | BTRFS_QGROUP_STATUS_RESCAN);
  st->rescan = le64_make (4096);
  cursor_done (&c);
  rwlock_unlock (&t->lock);
}

static void
show_quota (void)
{
  struct tree *t = tree_of (BTRFS_QUOTA_TREE);
  struct cursor c = CURSOR_INIT;
  const struct btrfs_qgroup_status *st;

  rwlock_rdlock (&t->lock);
  find (NULL, t, KEY (0, BTRFS_QGROUP_STATUS, 0), &c);
  st = cursor_data (&c);
  printf ("flags %" PRIu64 " rescan %" PRIu64 "\n", le64_get (st->flags),
          le64_get (st->rescan));
  cursor_done (&c);
  rwlock_unlock (&t->lock);
}

static void
edit_replace (struct txn *txn, uint64_t state)
{
  struct btrfs_dev_replace item = { .src_devid = le64_make (1),
                                    .state = le64_make (state) };
  struct tree *t = tree_of (BTRFS_DEV_TREE);

  rwlock_wrlock (&t->lock);
  must (tree_insert_data (&txn->tree, t, KEY (0, BTRFS_DEV_REPLACE, 0), &item,
                          sizeof item), "insert");
  rwlock_unlock (&t->lock);
}

static void
edit_reloc (struct txn *txn, uint64_t id)
{
  struct tree *t = tree_of (BTRFS_ROOT_TREE);
  struct cursor c = CURSOR_INIT;
  struct btrfs_root_item item;

  rwlock_wrlock (&t->lock);
  find (NULL, t, KEY (id, BTRFS_ROOT_ITEM, 0), &c);
  memcpy (&item, cursor_data (&c), sizeof item);
  cursor_done (&c);
  must (tree_insert_data (&txn->tree, t, KEY (BTRFS_TREE_RELOC,
                                              BTRFS_ROOT_ITEM, id),
                          &item, sizeof item), "insert");
  rwlock_unlock (&t->lock);
}

static void
edit_system_chunk (struct txn *txn)
{
  bool made = false;

  must (space_chunk_alloc (fs->space, txn, SPACE_SYSTEM, &made), "chunk");
  if (!made) {
    fprintf (stderr, "edit: no room for a chunk\n");
    _Exit (1);
  }
}

/* In every block group. */
static void
edit_fst_count (struct txn *txn)
{
  struct tree *t = tree_of (BTRFS_FREE_SPACE_TREE);
  struct cursor c = CURSOR_INIT;
  struct key key;

  rwlock_wrlock (&t->lock);
  must (tree_find (t, KEY_MIN, &c, NULL), "find");
  for (; cursor_at_item (&c); must (cursor_next (&c), "next")) {
    struct btrfs_free_space_info *info;

    key = cursor_key (&c);
    if (key.type != BTRFS_FREE_SPACE_INFO)
      continue;
    must (cursor_make_writable (&txn->tree, &c), "copy");
    info = cursor_data_rw (&c);
    info->extent_count = le32_make (le32_get (info->extent_count) + 1);
  }
  cursor_done (&c);
  rwlock_unlock (&t->lock);
}

static void
edit (const char *what, uint64_t n)
{
  struct txn *txn;

  must (space_load_groups (fs->space), "block groups");
  must (txn_join (fs->trans, &txn), "join");
  if (strcmp (what, "short-root") == 0 || strcmp (what, "odd-root") == 0)
    edit_root (txn, n, *what == 's');
  else if (strcmp (what, "rescan") == 0)
    edit_rescan (txn);
  else if (strcmp (what, "replace") == 0)
    edit_replace (txn, n);
  else if (strcmp (what, "reloc") == 0)
    edit_reloc (txn, n);
  else if (strcmp (what, "system-chunk") == 0)
    edit_system_chunk (txn);
  else if (strcmp (what, "fst-count") == 0)
    edit_fst_count (txn);
  else
    exit (2);
  must (txn_end (txn), "end");
}

int
main (int argc, char *argv[])
{
  const struct device_open_opts dev_opts = { .read_only = false };
  struct fs_opts opts = { .commit_interval = 3600 };
  const uint64_t n = argc > 3 ? strtoull (argv[3], NULL, 0) : 0;
  struct device *dev;
  bool show;

  if (argc < 3)
    return 2;
  show = strncmp (argv[2], "show-", 5) == 0;
  opts.read_only = show;
  must (device_open (argv[1], &dev_opts, &dev), "device");
  must (fs_open (&dev, 1, &opts, &fs), "open");
  if (!show && fs->read_only) {
    fprintf (stderr, "edit: %s\n", fs->read_only_reason);
    return 1;
  }
  if (strcmp (argv[2], "show-root") == 0)
    show_root (n);
  else if (show)
    show_quota ();
  else
    edit (argv[2], n);
  /* Nothing else is to change any more. */
  if (!show)
    must (trans_commit (fs->trans, NULL), "commit");
  fs_kill (fs);
  return 0;
}
