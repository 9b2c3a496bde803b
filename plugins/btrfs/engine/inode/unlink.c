/* inode: removing names. */
#include <config.h>

#include <sys/stat.h>

#include "inode/priv.h"

int
unlink_check (struct inode *dir, struct inode *in)
{
  bool empty;
  int r;

  if (!S_ISDIR (in->mode))
    return 0;
  if (in == dir || in->ino == BTRFS_FIRST_FREE_OBJECTID)
    return err_new (ERR_dir_format, "directory %llu holds a top directory",
                    (unsigned long long) dir->ino);
  r = dir_is_empty (in->root, in->ino, &empty);
  if (r < 0)
    return r;
  return empty ? 0 : err_new (ERR_not_empty, "directory %llu",
                              (unsigned long long) in->ino);
}

int
unlink_items (struct txn *txn, struct inode *dir, struct name name,
              uint64_t index, struct inode *in)
{
  struct root *root = dir->root;
  int r;

  r = dir_del (txn, root, dir->ino, name, index);
  if (r == 0)
    r = iref_del (txn, root, in->ino, dir->ino, name);
  if (r < 0)
    return r;
  inode_note_removed (dir->inodes, txn, root, in->ino,
                      (struct name_place) { dir->ino, index });
  dir->size -= MIN (dir->size, (uint64_t) 2 * name.len);
  in->nlink = S_ISDIR (in->mode) ? 0 : in->nlink - 1;
  inode_touch_names (in, txn);
  if (in->nlink == 0) {
    r = orphan_add (txn, root, in->ino);
    if (r < 0)
      return r;
  }
  return inode_write_locked (txn, in);
}

/* Tree lock held exclusively. */
static int
do_unlink (struct txn *txn, struct inode *dir, struct name name,
           struct inode *in, bool *changed)
{
  struct root *root = dir->root;
  uint64_t index;
  bool found;
  int r;

  r = root_check_writable (root);
  if (r == 0)
    r = unlink_check (dir, in);
  if (r == 0)
    r = iref_find (root, in->ino, dir->ino, name, &index, &found);
  if (r < 0)
    return r;
  if (!found || in->nlink == 0)
    return err_new (ERR_dir_format,
                    "inode %llu does not know \"%.*s\" in directory %llu",
                    (unsigned long long) in->ino, (int) name.len, name.s,
                    (unsigned long long) dir->ino);
  *changed = true;
  r = unlink_items (txn, dir, name, index, in);
  if (r < 0)
    return r;
  inode_touch (dir, txn);
  return inode_write_locked (txn, dir);
}

/* `names` held: nobody else removes or moves names. */
static int
find_target (struct inode *dir, struct name name, struct inode **ret)
{
  struct dirent_loc loc;
  bool found;
  int r;

  rwlock_rdlock (&dir->root->tree->lock);
  r = dir_find (dir->root, dir->ino, name, &loc, &found);
  rwlock_unlock (&dir->root->tree->lock);
  if (r < 0)
    return r;
  if (!found)
    return err_new (ERR_not_found, "\"%.*s\"", (int) name.len, name.s);
  if (loc.location.type != BTRFS_INODE_ITEM)
    return err_new (ERR_is_subvol, "\"%.*s\"", (int) name.len, name.s);
  return inode_follow (dir, name, &loc, ret);
}

static int
unlink_locked (struct inode *dir, struct name name, struct inode *in)
{
  struct inode *locked[] = { dir, in };
  bool changed = false;
  struct txn *txn;
  int r;

  inode_lock_all (locked, 2);
  r = inode_check_dir (dir);
  if (r == 0)
    r = txn_begin_to_free (dir->inodes->env.trans, 6, &txn);
  if (r == 0) {
    rwlock_wrlock (&dir->root->tree->lock);
    r = do_unlink (txn, dir, name, in, &changed);
    rwlock_unlock (&dir->root->tree->lock);
    r = txn_leave (txn, r, changed);
  }
  if (r == 0 && in->nlink == 0)
    inode_set_unlinked (in);
  inode_unlock_all (locked, 2);
  return r;
}

int
inode_unlink (struct inode *dir, const char *s, size_t len)
{
  const struct name name = NAME (s, len);
  struct inode *in = NULL;
  int r;

  r = name_check (name);
  if (r < 0)
    return r;
  if (!S_ISDIR (dir->mode))
    return err_new (ERR_not_dir, "above \"%.*s\"", (int) len, s);
  {
    SCOPED_LOCK (&dir->inodes->names);
    r = inode_check_write (dir);
    if (r == 0)
      r = find_target (dir, name, &in);
    if (r == 0)
      r = unlink_locked (dir, name, in);
  }
  inode_put (in);
  return r;
}
