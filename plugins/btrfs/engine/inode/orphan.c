/* inode: inodes without a name.
 *
 * The transaction that takes the last name of an inode adds an ORPHAN item.
 * The items of the inode go later, in transactions of their own: first all
 * but the inode item, from then on it and the ORPHAN item together.  A crash
 * in between leaves the ORPHAN item, and the next open for writing goes on.
 */
#include <config.h>

#include <sys/stat.h>

#include "inode/priv.h"

/* Items deleted in one transaction. */
#define DELETE_BATCH 64

static struct key
orphan_key (uint64_t ino)
{
  return KEY (BTRFS_ORPHAN_OBJECTID, BTRFS_ORPHAN_ITEM, ino);
}

int
orphan_add (struct txn *txn, struct root *root, uint64_t ino)
{
  return tree_insert_data (&txn->tree, root->tree, orphan_key (ino), NULL, 0);
}

/* Tree lock exclusive.  Without an ORPHAN item there is nothing to do:
 * somebody else was faster.
 */
static int
delete_some (struct txn *txn, struct root *root, uint64_t ino, bool *ret_done)
{
  uint32_t size;
  uint64_t n;
  bool found;
  int r;

  r = tree_get (root->tree, orphan_key (ino), NULL, 0, &size, &found);
  *ret_done = r == 0 && !found;
  if (r < 0 || !found)
    return r;
  r = root_learn_next_ino (root);
  if (r < 0)
    return r;
  r = tree_delete_range (&txn->tree, root->tree,
                         KEY (ino, BTRFS_INODE_ITEM + 1, 0),
                         KEY (ino, UINT8_MAX, UINT64_MAX), DELETE_BATCH, &n);
  if (r < 0 || n == DELETE_BATCH)
    return r;
  *ret_done = true;
  r = tree_delete_range (&txn->tree, root->tree,
                         KEY (ino, BTRFS_INODE_ITEM, 0),
                         KEY (ino, BTRFS_INODE_ITEM, UINT64_MAX), 0, NULL);
  if (r < 0)
    return r;
  return tree_delete (&txn->tree, root->tree, orphan_key (ino));
}

static int
delete_items (struct inodes *ii, struct root *root, uint64_t ino)
{
  bool done = false;
  struct txn *txn;
  int r;

  do {
    r = txn_begin_to_free (ii->env.trans, 4, &txn);
    if (r < 0)
      return r;
    rwlock_wrlock (&root->tree->lock);
    r = delete_some (txn, root, ino, &done);
    rwlock_unlock (&root->tree->lock);
    r = txn_leave (txn, r, true);
  } while (r == 0 && !done);
  return r;
}

static int
has_orphan (struct root *root, uint64_t ino, bool *ret)
{
  uint32_t size;
  int r;

  rwlock_rdlock (&root->tree->lock);
  r = tree_get (root->tree, orphan_key (ino), NULL, 0, &size, ret);
  if (r == 0 && le32_get (root->item.refs) == 0)
    *ret = false;               /* the whole subvolume is being dropped */
  rwlock_unlock (&root->tree->lock);
  return r;
}

int
orphan_delete (struct inode *in)
{
  const struct inodes_env *env = &in->inodes->env;
  bool orphan;
  int r;

  r = has_orphan (in->root, in->ino, &orphan);
  if (r < 0 || !orphan)
    return r;
  if (S_ISREG (in->mode)) {
    if (env->truncate_items == NULL)
      return err_new (ERR_unsupported, "no hook to free file extents");
    r = env->truncate_items (env->opaque, in, 0);
    if (r < 0)
      return r;
  }
  return delete_items (in->inodes, in->root, in->ino);
}

/* The first orphan from *INO on. */
static int
next_orphan (struct root *root, uint64_t *ino, bool *ret_found)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  struct key k;
  int r;

  *ret_found = false;
  rwlock_rdlock (&root->tree->lock);
  r = tree_find (root->tree, orphan_key (*ino), &cur, NULL);
  if (r == 0 && cursor_at_item (&cur)) {
    k = cursor_key (&cur);
    *ret_found = k.objectid == BTRFS_ORPHAN_OBJECTID &&
      k.type == BTRFS_ORPHAN_ITEM;
    *ino = k.offset;
  }
  cursor_done (&cur);
  rwlock_unlock (&root->tree->lock);
  return r;
}

/* The ORPHAN item of an inode that has links again. */
static int
drop_item (struct inodes *ii, struct root *root, uint64_t ino)
{
  struct txn *txn;
  uint32_t size;
  bool found;
  int r;

  r = txn_begin_to_free (ii->env.trans, 1, &txn);
  if (r < 0)
    return r;
  rwlock_wrlock (&root->tree->lock);
  r = tree_get (root->tree, orphan_key (ino), NULL, 0, &size, &found);
  if (r == 0 && found)
    r = tree_delete (&txn->tree, root->tree, orphan_key (ino));
  rwlock_unlock (&root->tree->lock);
  return txn_leave (txn, r, true);
}

static int
clean_one (struct inodes *ii, struct root *root, uint64_t ino)
{
  struct inode *in;
  int r;

  r = inode_get (ii, root->id, ino, &in);
  if (r == -ERR_inode_missing) {
    err_clear ();
    return delete_items (ii, root, ino);
  }
  if (r < 0)
    return r;
  if (in->nlink > 0)
    r = drop_item (ii, root, ino);
  inode_put (in);               /* deletes it, unless it is in use again */
  return r;
}

int
inodes_clean_orphans (struct inodes *ii, struct root *root)
{
  uint64_t ino = 0;
  bool found;
  int r;

  for (;;) {
    r = next_orphan (root, &ino, &found);
    if (r < 0 || !found)
      return r;
    r = clean_one (ii, root, ino);
    if (r < 0)
      return err_note (r, "cleaning orphan inode %llu of subvolume %llu",
                       (unsigned long long) ino,
                       (unsigned long long) root->id);
    if (ino++ == UINT64_MAX)
      return 0;
  }
}
