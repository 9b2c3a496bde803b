/* inode: references of subvolumes, a pair of items in the root tree.
 *
 *   (parent root, ROOT_REF, subvolume)      found from above
 *   (subvolume, ROOT_BACKREF, parent root)  found from below
 *
 * Both hold the directory, the index of the entry in it and the name.  A
 * directory entry that leads to a subvolume without such a reference is the
 * copy that a snapshot made of its source's entry.
 */
#include <config.h>

#include "inode/items.h"

static int
root_tree (struct roots *roots, struct tree **ret)
{
  struct root *root = roots_pool_tree (roots, BTRFS_ROOT_TREE);

  if (root == NULL)
    return err_new (ERR_invalid, "the root tree is not open");
  *ret = root->tree;
  return 0;
}

static bool
matches (const struct sref *ref, const uint8_t *buf, uint32_t size)
{
  struct btrfs_root_ref head;

  if (size < sizeof head)
    return false;
  memcpy (&head, buf, sizeof head);
  return le16_get (head.name_len) == ref->name.len &&
    size == sizeof head + ref->name.len &&
    le64_get (head.dirid) == ref->dir &&
    memcmp (buf + sizeof head, ref->name.s, ref->name.len) == 0;
}

int
sref_find (struct roots *roots, const struct sref *ref, uint64_t *ret_index,
           bool *ret_found)
{
  uint8_t buf[sizeof (struct btrfs_root_ref) + BTRFS_NAME_MAX];
  struct btrfs_root_ref head;
  struct tree *tree = NULL;
  uint32_t size = 0;
  int r;

  *ret_found = false;
  r = root_tree (roots, &tree);
  if (r < 0)
    return r;
  rwlock_rdlock (&tree->lock);
  r = tree_get (tree, KEY (ref->parent_root, BTRFS_ROOT_REF, ref->subvol),
                buf, sizeof buf, &size, ret_found);
  rwlock_unlock (&tree->lock);
  if (r < 0 || !*ret_found)
    return r;
  if (size > sizeof buf || !matches (ref, buf, size)) {
    *ret_found = false;
    return 0;
  }
  memcpy (&head, buf, sizeof head);
  *ret_index = le64_get (head.sequence);
  return 0;
}

int
sref_add (struct roots *roots, struct txn *txn, const struct sref *ref,
          uint64_t index)
{
  uint8_t buf[sizeof (struct btrfs_root_ref) + BTRFS_NAME_MAX];
  struct btrfs_root_ref head = {
    .dirid = le64_make (ref->dir),
    .sequence = le64_make (index),
    .name_len = le16_make (ref->name.len),
  };
  struct tree *tree = NULL;
  int r;

  r = root_tree (roots, &tree);
  if (r < 0)
    return r;
  memcpy (buf, &head, sizeof head);
  memcpy (buf + sizeof head, ref->name.s, ref->name.len);
  rwlock_wrlock (&tree->lock);
  r = tree_insert_data (&txn->tree, tree,
                        KEY (ref->subvol, BTRFS_ROOT_BACKREF,
                             ref->parent_root),
                        buf, sizeof head + ref->name.len);
  if (r == 0)
    r = tree_insert_data (&txn->tree, tree,
                          KEY (ref->parent_root, BTRFS_ROOT_REF, ref->subvol),
                          buf, sizeof head + ref->name.len);
  rwlock_unlock (&tree->lock);
  return r;
}

int
sref_del (struct roots *roots, struct txn *txn, const struct sref *ref)
{
  struct tree *tree = NULL;
  int r;

  r = root_tree (roots, &tree);
  if (r < 0)
    return r;
  rwlock_wrlock (&tree->lock);
  r = tree_delete (&txn->tree, tree, KEY (ref->subvol, BTRFS_ROOT_BACKREF,
                                          ref->parent_root));
  if (r == 0)
    r = tree_delete (&txn->tree, tree, KEY (ref->parent_root, BTRFS_ROOT_REF,
                                            ref->subvol));
  rwlock_unlock (&tree->lock);
  return r;
}
