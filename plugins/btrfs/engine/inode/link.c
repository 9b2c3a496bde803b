/* inode: hard links. */
#include <config.h>

#include <sys/stat.h>

#include "inode/priv.h"

static bool
extref_set (const struct inodes *ii, const struct root *root)
{
  const struct format_info *fi = block_cache_format (root->tree->cache);

  return ii->extref || (fi->incompat & BTRFS_INCOMPAT_EXTENDED_IREF);
}

bool
inode_extref_ok (struct inodes *ii, const struct root *root)
{
  return extref_set (ii, root) || ii->env.use_incompat != NULL;
}

void
inode_extref_use (struct inodes *ii, const struct txn *txn, struct root *root)
{
  if (extref_set (ii, root))
    return;
  /* The superblock that a log gets is that of the last commit. */
  inode_note_beyond_log (ii, txn, root);
  ii->env.use_incompat (ii->env.pool, BTRFS_INCOMPAT_EXTENDED_IREF);
  ii->extref = true;
}

static int
link_check (struct inode *in, struct inode *dir)
{
  if (in->root != dir->root)
    return err_new (ERR_cross_subvol, "subvolumes %llu and %llu",
                    (unsigned long long) in->root->id,
                    (unsigned long long) dir->root->id);
  if (S_ISDIR (in->mode))
    return err_new (ERR_is_dir, "directories have one name");
  if (in->nlink == 0)
    return err_new (ERR_not_found, "inode %llu has been removed",
                    (unsigned long long) in->ino);
  if (in->nlink >= INODE_LINK_MAX)
    return err_new (ERR_links, "inode %llu has %u",
                    (unsigned long long) in->ino, in->nlink);
  return inode_check_dir (dir);
}

/* Tree lock held exclusively; *CHANGED: errors cannot be taken back. */
static int
link_items (struct txn *txn, struct inode *in, struct inode *dir,
            struct name name, bool *changed)
{
  struct inodes *ii = in->inodes;
  struct root *root = in->root;
  const struct dirent_loc loc = {
    .location = KEY (in->ino, BTRFS_INODE_ITEM, 0),
    .type = mode_to_ft (in->mode),
  };
  enum iref_place place;
  uint64_t index;
  int r;

  r = root_check_writable (root);
  if (r == 0)
    r = dir_room (root, dir->ino, name);
  if (r == 0)
    r = iref_room (root, in->ino, dir->ino, name, inode_extref_ok (ii, root),
                   &place);
  if (r == 0)
    r = inode_next_index (dir, &index);
  if (r < 0)
    return r;
  *changed = true;
  if (place == IREF_EXTREF)
    inode_extref_use (ii, txn, root);
  r = iref_add (txn, root, in->ino, dir->ino, name, index, place);
  if (r == 0)
    r = dir_add (txn, root, dir->ino, name, index, &loc);
  if (r < 0)
    return r;
  inode_note_added (ii, txn, root, in->ino);
  dir->priv->next_index = index + 1;
  dir->size += 2 * name.len;
  ++in->nlink;
  inode_touch_names (in, txn);
  inode_touch (dir, txn);
  r = inode_write_locked (txn, in);
  return r < 0 ? r : inode_write_locked (txn, dir);
}

int
inode_link (struct inode *in, struct inode *dir, const char *s, size_t len)
{
  const struct name name = NAME (s, len);
  struct inode *locked[] = { in, dir };
  struct inodes *ii = in->inodes;
  bool changed = false;
  struct txn *txn;
  int r;

  r = name_check (name);
  if (r < 0)
    return r;
  SCOPED_LOCK (&ii->names);
  inode_lock_all (locked, 2);
  r = link_check (in, dir);
  if (r == 0)
    r = txn_begin (ii->env.trans, 7, &txn);
  if (r == 0) {
    rwlock_wrlock (&in->root->tree->lock);
    r = link_items (txn, in, dir, name, &changed);
    rwlock_unlock (&in->root->tree->lock);
    r = txn_leave (txn, r, changed);
  }
  inode_unlock_all (locked, 2);
  return r;
}
