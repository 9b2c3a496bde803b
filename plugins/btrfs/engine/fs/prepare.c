/* fs: steps of opening that look at what others have left behind, and what has
 * to be in order before anything is written.
 */
#include <config.h>

#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "fs/prepare.h"

/* A balance that was cut short leaves relocation trees, which share blocks
 * with subvolumes by rules of their own; Linux finishes them first.
 */
int
prepare_relocation (struct fs *fs)
{
  struct tree *tree = roots_pool_tree (fs->roots, BTRFS_ROOT_TREE)->tree;
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct key key = KEY_MIN;
  int r;

  rwlock_rdlock (&tree->lock);
  r = tree_find (tree, KEY (BTRFS_TREE_RELOC, BTRFS_ROOT_ITEM, 0), &c, NULL);
  if (r == 0 && cursor_at_item (&c))
    key = cursor_key (&c);
  cursor_done (&c);
  rwlock_unlock (&tree->lock);
  if (r == 0 && key.objectid == BTRFS_TREE_RELOC &&
      key.type == BTRFS_ROOT_ITEM)
    fs_make_read_only (fs, "a balance was interrupted: mount the pool with "
                       "Linux once, so that it is finished");
  return r;
}

/* While a device is being replaced, everything is written to the new one,
 * too; only Linux knows how far that is.
 */
int
prepare_replace (struct fs *fs)
{
  struct root *root = roots_pool_tree (fs->roots, BTRFS_DEV_TREE);
  struct btrfs_dev_replace item = { .state = le64_make (0) };
  uint64_t state;
  uint32_t size;
  bool found;
  int r;

  if (root == NULL)
    return 0;
  rwlock_rdlock (&root->tree->lock);
  r = tree_get (root->tree, KEY (0, BTRFS_DEV_REPLACE, 0), &item,
                sizeof item, &size, &found);
  rwlock_unlock (&root->tree->lock);
  state = le64_get (item.state);
  if (r == 0 && found && (size < sizeof item
                          || (state != BTRFS_DEV_REPLACE_NEVER_STARTED
                              && state != BTRFS_DEV_REPLACE_FINISHED
                              && state != BTRFS_DEV_REPLACE_CANCELED)))
    fs_make_read_only (fs, "a device is being replaced: mount the pool with "
                       "Linux, until that is finished or cancelled");
  return r;
}

int
prepare_dev_stats (struct fs *fs)
{
  struct root *root = roots_pool_tree (fs->roots, BTRFS_DEV_TREE);
  struct btrfs_dev_stats item;
  uint32_t size;
  unsigned i, j;
  bool found;
  int r = 0;

  for (i = 0; root && i < volume_num_devices (fs->volume) && r == 0; i++) {
    memset (&item, 0, sizeof item);
    rwlock_rdlock (&root->tree->lock);
    r = tree_get (root->tree,
                  KEY (BTRFS_DEV_STATS_OBJECTID, BTRFS_PERSISTENT_ITEM,
                       volume_device (fs->volume, i)->devid),
                  &item, sizeof item, &size, &found);
    rwlock_unlock (&root->tree->lock);
    for (j = 0; r == 0 && found && j < DEV_STATS; j++)
      volume_dev_stat_set (fs->volume, i, j, le64_get (item.values[j]));
  }
  return r;
}

static int
commit_hook (void *opaque)
{
  struct fs *fs = opaque;

  return trans_commit (fs->trans, NULL);
}

static void
super_fst_building (void *opaque, struct btrfs_super *sb)
{
  uint64_t ro = le64_get (sb->compat_ro_flags);

  (void) opaque;
  ro |= BTRFS_COMPAT_RO_FREE_SPACE_TREE;
  ro &= ~BTRFS_COMPAT_RO_FREE_SPACE_TREE_VALID;
  sb->compat_ro_flags = le64_make (ro);
  /* Free space files of the old kind are void from now on. */
  sb->cache_generation = le64_make (0);
}

static void
super_fst_valid (void *opaque, struct btrfs_super *sb)
{
  uint64_t ro = le64_get (sb->compat_ro_flags);

  (void) opaque;
  sb->compat_ro_flags =
    le64_make (ro | BTRFS_COMPAT_RO_FREE_SPACE_TREE_VALID);
}

/* A commit that changes nothing but the superblock. */
static int
commit_super_edit (struct fs *fs, void (*fn) (void *, struct btrfs_super *))
{
  struct txn *txn;
  int r;

  commit_edit_super (fs, fn, NULL);
  r = txn_join (fs->trans, &txn);
  if (r < 0)
    return r;
  r = txn_end (txn);
  return r < 0 ? r : trans_commit (fs->trans, NULL);
}

static bool
fst_is_valid (const struct fs *fs)
{
  const uint64_t both = BTRFS_COMPAT_RO_FREE_SPACE_TREE |
    BTRFS_COMPAT_RO_FREE_SPACE_TREE_VALID;
  const struct btrfs_super *sb = volume_super (fs->volume);

  return (le64_get (sb->compat_ro_flags) & both) == both &&
    roots_pool_tree (fs->roots, BTRFS_FREE_SPACE_TREE) != NULL;
}

static void
super_fst_void (void *opaque, struct btrfs_super *sb)
{
  uint64_t ro = le64_get (sb->compat_ro_flags);

  (void) opaque;
  sb->compat_ro_flags =
    le64_make (ro & ~BTRFS_COMPAT_RO_FREE_SPACE_TREE_VALID);
}

/* A tree that is not kept up to date must not be trusted by who comes next,
 * whatever is committed before a new one is made: the replay of a log.
 */
int
prepare_fst (struct fs *fs)
{
  if (fs->read_only)
    return 0;
  if (fst_is_valid (fs))
    space_fst_enable (fs->space);
  else
    commit_edit_super (fs, super_fst_void, NULL);
  return 0;
}

/* A tree that is not known to be right is built anew: the flag says so until
 * it is complete, whatever happens in between.
 */
int
prepare_fst_build (struct fs *fs)
{
  int r;

  if (fs->read_only || fst_is_valid (fs))
    return 0;
  log_info ("building the free space tree");
  commit_edit_super (fs, super_fst_building, NULL);
  r = space_fst_build (fs->space, commit_hook, fs);
  if (r == 0)
    r = commit_super_edit (fs, super_fst_valid);
  if (r < 0)
    return r;
  space_fst_enable (fs->space);
  return 0;
}

/* We change what quotas count, but do not count: Linux shall rescan. */
int
prepare_quota (struct fs *fs)
{
  struct key key = KEY (0, BTRFS_QGROUP_STATUS, 0);
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct btrfs_qgroup_status st = { 0 };
  struct root *root;
  struct txn *txn;
  uint32_t size;
  bool found;
  int r;

  if (fs->read_only)
    return 0;
  r = roots_get (fs->roots, BTRFS_QUOTA_TREE, &root);
  if (r == -ERR_nomem)
    return r;
  if (r < 0) {
    err_clear ();
    return 0;
  }
  rwlock_rdlock (&root->tree->lock);
  r = tree_get (root->tree, key, &st, sizeof st, &size, &found);
  rwlock_unlock (&root->tree->lock);
  if (r < 0 || !found || !(le64_get (st.flags) & BTRFS_QGROUP_STATUS_ON) ||
      (le64_get (st.flags) & BTRFS_QGROUP_STATUS_INCONSISTENT))
    return r;
  r = txn_begin_to_free (fs->trans, 1, &txn);
  if (r < 0)
    return r;
  rwlock_wrlock (&root->tree->lock);
  r = tree_find_rw (&txn->tree, root->tree, key, &c);
  if (r == 0) {
    struct btrfs_qgroup_status *p = cursor_data_rw (&c);
    p->flags = le64_make (le64_get (p->flags) |
                          BTRFS_QGROUP_STATUS_INCONSISTENT);
  }
  cursor_done (&c);
  rwlock_unlock (&root->tree->lock);
  return txn_leave (txn, r, true);
}
