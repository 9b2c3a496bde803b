/* subvol: a subvolume's read-only flag, and which one is the default. */
#include <config.h>

#include "format/names.h"
#include "subvol/priv.h"

/* What was received from elsewhere is not that any more when it may change. */
static int
forget_received (struct txn *txn, struct subvols *ss, struct root *root,
                 const uint8_t uuid[BTRFS_UUID_SIZE])
{
  return uuid_del (ss->env.roots, txn, uuid, BTRFS_UUID_RECEIVED_SUBVOL,
                   root->id);
}

static int
set_flag (struct txn *txn, struct subvols *ss, struct root *root,
          bool read_only)
{
  struct btrfs_root_item *it = &root->item;
  uint8_t received[BTRFS_UUID_SIZE];
  uint64_t flags;
  int r;

  rwlock_wrlock (&root->tree->lock);
  memcpy (received, it->received_uuid, sizeof received);
  flags = le64_get (it->flags);
  if (read_only)
    it->flags = le64_make (flags | BTRFS_ROOT_SUBVOL_RDONLY);
  else {
    it->flags = le64_make (flags & ~BTRFS_ROOT_SUBVOL_RDONLY);
    memset (it->received_uuid, 0, sizeof it->received_uuid);
  }
  r = roots_tree_dirtied (&txn->tree, root->tree);
  rwlock_unlock (&root->tree->lock);
  if (r == 0 && !read_only)
    r = forget_received (txn, ss, root, received);
  return r;
}

int
subvol_set_read_only (struct subvols *ss, struct inode *top, bool read_only)
{
  struct root *root = top->root;
  struct txn *txn;
  int r;

  r = data_freeze (ss->env.data, &root, 1);
  if (r < 0)
    return r;
  r = txn_begin_alone (ss->env.trans, 4, &txn);
  if (r == 0)
    r = txn_leave (txn, set_flag (txn, ss, root, read_only), true);
  data_thaw (ss->env.data, &root, 1);
  return r;
}

/* --- default --- */

/* Root tree locked exclusively. */
static int
point_default (struct txn *txn, struct tree *rt, uint64_t id)
{
  static const char name[] = "default";
  const size_t len = sizeof name - 1;
  const struct key key = KEY (BTRFS_ROOT_TREE_DIR, BTRFS_DIR_ITEM,
                              name_hash (name, len));
  struct pack_rec rec = { .head = NULL };
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  struct btrfs_dir_item *d;
  bool more = true;
  int r;

  r = tree_find_rw (&txn->tree, rt, key, &cur);
  while (r == 0 && more) {
    r = pack_next (PACK_DIR, cursor_data (&cur), cursor_size (&cur), &rec,
                   &more);
    if (r == 0 && more && rec.name_len == len
        && memcmp (rec.name, name, len) == 0) {
      d = (struct btrfs_dir_item *)
        ((uint8_t *) cursor_data_rw (&cur) + rec.offset);
      d->location = key_to_disk (KEY (id, BTRFS_ROOT_ITEM, UINT64_MAX));
      return 0;
    }
  }
  return r < 0 ? r : err_new (ERR_key_missing, "the entry \"default\"");
}

int
subvol_set_default (struct subvols *ss, struct inode *top)
{
  struct root *rt = roots_pool_tree (ss->env.roots, BTRFS_ROOT_TREE);
  uint64_t now;
  struct txn *txn;
  int r;

  r = inodes_default_root (ss->env.inodes, &now);
  if (r == 0)
    r = txn_begin (ss->env.trans, 2, &txn);
  if (r < 0)
    return r;
  rwlock_wrlock (&rt->tree->lock);
  r = point_default (txn, rt->tree, top->root->id);
  rwlock_unlock (&rt->tree->lock);
  return txn_leave (txn, r, r != -ERR_key_missing);
}
