/* inode: finding by name. */
#include <config.h>

#include <sys/stat.h>

#include "inode/priv.h"

int
inode_top (struct inodes *ii, struct inode **ret)
{
  return inode_get (ii, BTRFS_FS_TREE, BTRFS_FIRST_FREE_OBJECTID, ret);
}

int
inodes_default_root (struct inodes *ii, uint64_t *ret_id)
{
  struct root *root = roots_pool_tree (ii->env.roots, BTRFS_ROOT_TREE);
  struct dirent_loc loc;
  bool found;
  int r;

  *ret_id = BTRFS_FS_TREE;
  if (root == NULL)
    return err_new (ERR_invalid, "the root tree is not open");
  rwlock_rdlock (&root->tree->lock);
  r = dir_find (root, BTRFS_ROOT_TREE_DIR, NAME ("default", 7), &loc, &found);
  rwlock_unlock (&root->tree->lock);
  if (r < 0)
    return err_note (r, "default subvolume");
  if (!found)
    return 0;
  if (loc.location.type != BTRFS_ROOT_ITEM)
    return err_new (ERR_dir_format, "the default subvolume is no subvolume");
  *ret_id = loc.location.objectid;
  return 0;
}

int
inode_default_top (struct inodes *ii, struct inode **ret)
{
  uint64_t id;
  int r;

  r = inodes_default_root (ii, &id);
  if (r < 0)
    return r;
  return inode_get (ii, id, BTRFS_FIRST_FREE_OBJECTID, ret);
}

int
inode_follow (struct inode *dir, struct name name,
              const struct dirent_loc *loc, struct inode **ret)
{
  struct inodes *ii = dir->inodes;
  const struct sref ref = {
    .parent_root = dir->root->id, .subvol = loc->location.objectid,
    .dir = dir->ino, .name = name,
  };
  uint64_t index;
  bool found;
  int r;

  if (loc->location.type == BTRFS_INODE_ITEM)
    return inode_get (ii, dir->root->id, loc->location.objectid, ret);
  if (loc->location.type != BTRFS_ROOT_ITEM)
    return err_new (ERR_dir_format,
                    "\"%.*s\" in directory %llu leads to a key of type %u",
                    (int) name.len, name.s, (unsigned long long) dir->ino,
                    loc->location.type);
  r = sref_find (ii->env.roots, &ref, &index, &found);
  if (r < 0)
    return r;
  if (!found)
    return inode_get (ii, dir->root->id, INODE_EMPTY_DIR_INO, ret);
  return inode_get (ii, loc->location.objectid, BTRFS_FIRST_FREE_OBJECTID,
                    ret);
}

static int
find_entry (struct inode *dir, struct name name, struct dirent_loc *ret,
            bool *ret_found)
{
  int r;

  *ret_found = false;
  if (dir->priv->empty_dir)
    return 0;
  rwlock_rdlock (&dir->root->tree->lock);
  r = dir_find (dir->root, dir->ino, name, ret, ret_found);
  rwlock_unlock (&dir->root->tree->lock);
  return r;
}

static bool
is_missing (int r)
{
  return r == -ERR_inode_missing || r == -ERR_subvol_missing;
}

int
inode_lookup (struct inode *dir, const char *s, size_t len,
              struct inode **ret)
{
  const struct name name = NAME (s, len);
  struct dirent_loc loc, seen = { .type = 0 };
  bool found, again = false;
  int r, missing = 0;

  r = name_check (name);
  if (r < 0)
    return r;
  if (!S_ISDIR (dir->mode))
    return err_new (ERR_not_dir, "above \"%.*s\"", (int) len, s);
  /* What an entry leads to may be deleted before we get there: then the entry
   * has changed, too.
   */
  for (;;) {
    r = find_entry (dir, name, &loc, &found);
    if (r < 0)
      return r;
    if (!found)
      return err_new (ERR_not_found, "\"%.*s\"", (int) len, s);
    if (again && key_cmp (loc.location, seen.location) == 0)
      return err_new (-missing, "where \"%.*s\" in directory %llu leads to",
                      (int) len, s, (unsigned long long) dir->ino);
    r = inode_follow (dir, name, &loc, ret);
    if (!is_missing (r))
      return r;
    missing = r;
    seen = loc;
    again = true;
  }
}

/* The next component of *PATH: its length, 0 at the end. */
static size_t
component (const char **path)
{
  while (**path == '/')
    ++*path;
  return strcspn (*path, "/");
}

/* Walk to the end of PATH or, if STOP is not NULL, to there. */
static int
walk (struct inode *dir, const char *path, const char *stop,
      struct inode **ret)
{
  struct inode *at = inode_ref (dir), *next;
  size_t len;
  int r;

  while ((len = component (&path)) > 0 && path != stop) {
    r = inode_lookup (at, path, len, &next);
    inode_put (at);
    if (r < 0)
      return r;
    at = next;
    path += len;
  }
  *ret = at;
  return 0;
}

int
inode_walk (struct inode *dir, const char *path, struct inode **ret)
{
  return walk (dir, path, NULL, ret);
}

int
inode_walk_parent (struct inode *dir, const char *path,
                   struct inode **ret_dir, const char **ret_name,
                   size_t *ret_len)
{
  const char *last = NULL, *p = path;
  size_t len, last_len = 0;
  struct inode *parent;
  int r;

  while ((len = component (&p)) > 0) {
    last = p;
    last_len = len;
    p += len;
  }
  if (last == NULL)
    return err_new (ERR_name_bad, "the path \"%s\" has no last component",
                    path);
  r = name_check (NAME (last, last_len));
  if (r < 0)
    return r;
  r = walk (dir, path, last, &parent);
  if (r < 0)
    return r;
  if (!S_ISDIR (parent->mode)) {
    inode_put (parent);
    return err_new (ERR_not_dir, "above \"%.*s\"", (int) last_len, last);
  }
  *ret_dir = parent;
  *ret_name = last;
  *ret_len = last_len;
  return 0;
}
