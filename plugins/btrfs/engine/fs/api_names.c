/* The public API: paths, and everything that is done to a name. */
#include <config.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/api_priv.h"

/* --- finding --- */

int
api_walk (struct btrnbd_pool *p, const char *path, struct inode **ret)
{
  struct inode *top = NULL;
  int r;

  r = inode_top (p->fs->inodes, &top);
  if (r < 0)
    return r;
  r = inode_walk (top, path, ret);
  inode_put (top);
  return r < 0 ? err_note (r, "%s", path) : 0;
}

int
api_walk_parent (struct btrnbd_pool *p, const char *path,
                 struct inode **ret_dir, const char **ret_name,
                 size_t *ret_len)
{
  struct inode *top = NULL;
  int r;

  r = inode_top (p->fs->inodes, &top);
  if (r < 0)
    return r;
  r = inode_walk_parent (top, path, ret_dir, ret_name, ret_len);
  inode_put (top);
  return r < 0 ? err_note (r, "%s", path) : 0;
}

/* At the top of the pool "@" is for the exports of the engine and for the
 * snapshots of volumes, which only those who make snapshots name.
 */
static int
check_new_name (struct btrnbd_pool *p, struct inode *dir, const char *name,
                size_t len)
{
  struct inode *top = NULL;
  bool at_top;
  int r;

  if (memchr (name, '@', len) == NULL)
    return 0;
  r = inode_top (p->fs->inodes, &top);
  if (r < 0)
    return r;
  at_top = dir->root == top->root && dir->ino == top->ino;
  inode_put (top);
  if (at_top && name[0] == '@')
    return err_new (ERR_name_bad, NAME_IS_RESERVED);
  if (at_top)
    return err_new (ERR_name_bad, "\"%.*s\": names with @ are those of "
                    "snapshots", (int) len, name);
  return 0;
}

int
api_walk_new (struct btrnbd_pool *p, const char *path,
              struct inode **ret_dir, const char **ret_name, size_t *ret_len)
{
  struct inode *dir = NULL;
  int r;

  r = api_walk_parent (p, path, &dir, ret_name, ret_len);
  if (r < 0)
    return r;
  r = check_new_name (p, dir, *ret_name, *ret_len);
  if (r < 0)
    inode_put (dir);
  else
    *ret_dir = dir;
  return r;
}

bool
api_is_file (struct inode *inode)
{
  SCOPED_LOCK (&inode->lock);
  return S_ISREG (inode->mode);
}

bool
api_is_subvol_top (const struct inode *inode)
{
  return inode->ino == BTRFS_FIRST_FREE_OBJECTID &&
    inode->root->id != BTRFS_FS_TREE;
}

bool
api_root_read_only (struct root *root)
{
  bool b;

  rwlock_rdlock (&root->tree->lock);
  b = le64_get (root->item.flags) & BTRFS_ROOT_SUBVOL_RDONLY;
  rwlock_unlock (&root->tree->lock);
  return b;
}

void
api_stat_fill (struct inode *inode, struct btrnbd_stat *ret)
{
  *ret = (struct btrnbd_stat) {
    .root_id = inode->root->id,
    .ino = inode->ino,
    .is_subvol = api_is_subvol_top (inode),
    .is_read_only = api_root_read_only (inode->root),
  };
  SCOPED_LOCK (&inode->lock);
  ret->mode = inode->mode;
  ret->nlink = inode->nlink;
  ret->uid = inode->uid;
  ret->gid = inode->gid;
  ret->size = inode->size;
  ret->nbytes = inode->nbytes;
  ret->flags = inode->flags;
  ret->generation = inode->generation;
  ret->atime = inode->atime;
  ret->mtime = inode->mtime;
  ret->ctime = inode->ctime;
  ret->otime = inode->otime;
  ret->is_nocow = inode->flags & BTRFS_INODE_NODATACOW;
}

int
btrnbd_stat (struct btrnbd_pool *p, const char *path, struct btrnbd_stat *ret)
{
  struct inode *inode = NULL;
  int r;

  r = api_walk (p, path, &inode);
  if (r < 0)
    return r;
  api_stat_fill (inode, ret);
  inode_put (inode);
  return 0;
}

struct readdir {
  struct btrnbd_pool *pool;
  btrnbd_dir_fn fn;
  void *opaque;
};

static int
readdir_entry (void *opaque, const struct dir_entry *e)
{
  struct readdir *rd = opaque;
  struct inode *inode = NULL;
  struct btrnbd_stat st;
  char name[BTRFS_NAME_MAX + 1];
  int r;

  if (e->name_len > BTRFS_NAME_MAX)
    return err_new (ERR_dir_format, "name of %zu bytes", e->name_len);
  memcpy (name, e->name, e->name_len);
  name[e->name_len] = '\0';
  r = inode_get (rd->pool->fs->inodes, e->root_id, e->ino, &inode);
  if (r < 0)
    return err_note (r, "%s", name);
  api_stat_fill (inode, &st);
  inode_put (inode);
  return rd->fn (rd->opaque, name, &st);
}

int
btrnbd_readdir (struct btrnbd_pool *p, const char *path, btrnbd_dir_fn fn,
                void *opaque)
{
  struct readdir rd = { .pool = p, .fn = fn, .opaque = opaque };
  struct inode *dir = NULL;
  int r;

  r = api_walk (p, path, &dir);
  if (r < 0)
    return r;
  r = inode_readdir (dir, 0, readdir_entry, &rd);
  inode_put (dir);
  return r;
}

int
btrnbd_readlink (struct btrnbd_pool *p, const char *path, char **ret)
{
  struct inode *inode = NULL;
  int r;

  r = api_walk (p, path, &inode);
  if (r < 0)
    return r;
  r = inode_readlink (inode, ret);
  inode_put (inode);
  return r < 0 ? err_note (r, "%s", path) : 0;
}

/* --- making --- */

static int
create (struct btrnbd_pool *p, const char *path, const struct inode_new *in)
{
  struct inode *dir = NULL, *inode = NULL;
  const char *name;
  size_t len;
  int r;

  r = pool_check_writable (p);
  if (r < 0)
    return r;
  r = api_walk_new (p, path, &dir, &name, &len);
  if (r < 0)
    return r;
  r = inode_create (dir, name, len, in, &inode);
  inode_put (dir);
  if (r < 0)
    return err_note (r, "%s", path);
  inode_put (inode);
  return 0;
}

int
btrnbd_create (struct btrnbd_pool *p, const char *path, uint32_t mode,
               bool nocow)
{
  struct inode_new in = {
    .mode = S_IFREG | (mode & 07777),
    .flags = nocow ? BTRFS_INODE_NODATACOW | BTRFS_INODE_NODATASUM : 0,
  };

  return create (p, path, &in);
}

int
btrnbd_mkdir (struct btrnbd_pool *p, const char *path, uint32_t mode)
{
  struct inode_new in = { .mode = S_IFDIR | (mode & 07777) };

  return create (p, path, &in);
}

int
btrnbd_symlink (struct btrnbd_pool *p, const char *target, const char *path)
{
  struct inode_new in = { .mode = S_IFLNK | 0777, .symlink = target };

  return create (p, path, &in);
}

int
btrnbd_link (struct btrnbd_pool *p, const char *from, const char *to)
{
  struct inode *inode = NULL, *dir = NULL;
  const char *name;
  size_t len;
  int r;

  r = pool_check_writable (p);
  if (r < 0)
    return r;
  r = api_walk (p, from, &inode);
  if (r < 0)
    return r;
  r = api_walk_new (p, to, &dir, &name, &len);
  if (r == 0) {
    r = inode_link (inode, dir, name, len);
    if (r < 0)
      err_note (r, "%s", to);
    inode_put (dir);
  }
  inode_put (inode);
  return r;
}

/* --- removing and moving --- */

/* May the last name of what is at NAME in DIR go?  The open_lock is held;
 * *ret_inode (to be put without it) when there is something.
 */
static int
check_removable (struct btrnbd_pool *p, struct inode *dir, const char *name,
                 size_t len, struct inode **ret_inode)
{
  bool last;
  int r;

  r = inode_lookup (dir, name, len, ret_inode);
  if (r < 0)
    return r;
  mutex_lock (&(*ret_inode)->lock);
  last = (*ret_inode)->nlink <= 1;
  mutex_unlock (&(*ret_inode)->lock);
  if (last && open_handles (p, *ret_inode) > 0)
    return err_new (ERR_busy, "%.*s is open", (int) len, name);
  return 0;
}

int
btrnbd_unlink (struct btrnbd_pool *p, const char *path)
{
  struct inode *dir = NULL, *inode = NULL;
  const char *name;
  size_t len;
  int r;

  r = pool_check_writable (p);
  if (r < 0)
    return r;
  r = api_walk_parent (p, path, &dir, &name, &len);
  if (r < 0)
    return r;
  mutex_lock (&p->open_lock);
  r = check_removable (p, dir, name, len, &inode);
  if (r == 0)
    r = inode_unlink (dir, name, len);
  mutex_unlock (&p->open_lock);
  if (inode != NULL)
    inode_put (inode);
  inode_put (dir);
  return r < 0 ? err_note (r, "%s", path) : 0;
}

/* One name of a rename. */
struct place {
  struct inode *dir;
  const char *name;
  size_t len;
};

static int
rename_places (struct btrnbd_pool *p, struct place *f, struct place *t,
               unsigned flags, struct inode **ret_target)
{
  enum rename_mode mode = flags & BTRNBD_RENAME_EXCHANGE ? RENAME_SWAP
    : flags & BTRNBD_RENAME_NOREPLACE ? RENAME_NO_REPLACE : RENAME_REPLACE_OK;
  int r;

  if (mode == RENAME_REPLACE_OK) {
    r = check_removable (p, t->dir, t->name, t->len, ret_target);
    if (r == -ERR_not_found)
      err_clear ();
    else if (r < 0)
      return r;
  }
  return inode_rename (f->dir, f->name, f->len, t->dir, t->name, t->len,
                       mode);
}

int
btrnbd_rename (struct btrnbd_pool *p, const char *from, const char *to,
               unsigned flags)
{
  struct place f = { NULL }, t = { NULL };
  struct inode *target = NULL;
  int r;

  r = pool_check_writable (p);
  if (r < 0)
    return r;
  r = flags & BTRNBD_RENAME_EXCHANGE
    ? api_walk_new (p, from, &f.dir, &f.name, &f.len)
    : api_walk_parent (p, from, &f.dir, &f.name, &f.len);
  if (r < 0)
    return r;
  r = api_walk_new (p, to, &t.dir, &t.name, &t.len);
  if (r == 0) {
    mutex_lock (&p->open_lock);
    r = rename_places (p, &f, &t, flags, &target);
    mutex_unlock (&p->open_lock);
    if (r < 0)
      err_note (r, "%s to %s", from, to);
    if (target != NULL)
      inode_put (target);
    inode_put (t.dir);
  }
  inode_put (f.dir);
  return r;
}

/* --- attributes --- */

static int
walk_to_change (struct btrnbd_pool *p, const char *path, struct inode **ret)
{
  int r = pool_check_writable (p);

  return r < 0 ? r : api_walk (p, path, ret);
}

int
btrnbd_chmod (struct btrnbd_pool *p, const char *path, uint32_t mode,
              uint32_t uid, uint32_t gid)
{
  struct inode *inode = NULL;
  int r;

  r = walk_to_change (p, path, &inode);
  if (r < 0)
    return r;
  r = inode_set_mode (inode, mode, uid, gid);
  inode_put (inode);
  return r < 0 ? err_note (r, "%s", path) : 0;
}

int
btrnbd_getxattr (struct btrnbd_pool *p, const char *path, const char *name,
                 void *buf, size_t max, size_t *ret_len)
{
  struct inode *inode = NULL;
  int r;

  r = api_walk (p, path, &inode);
  if (r < 0)
    return r;
  r = inode_getxattr (inode, name, buf, max, ret_len);
  inode_put (inode);
  return r < 0 ? err_note (r, "%s", path) : 0;
}

int
btrnbd_setxattr (struct btrnbd_pool *p, const char *path, const char *name,
                 const void *value, size_t len)
{
  struct inode *inode = NULL;
  int r;

  r = walk_to_change (p, path, &inode);
  if (r < 0)
    return r;
  r = inode_setxattr (inode, name, value, len);
  inode_put (inode);
  return r < 0 ? err_note (r, "%s", path) : 0;
}

int
btrnbd_removexattr (struct btrnbd_pool *p, const char *path,
                    const char *name)
{
  struct inode *inode = NULL;
  int r;

  r = walk_to_change (p, path, &inode);
  if (r < 0)
    return r;
  r = inode_removexattr (inode, name);
  inode_put (inode);
  return r < 0 ? err_note (r, "%s", path) : 0;
}

int
btrnbd_listxattr (struct btrnbd_pool *p, const char *path, char **ret_names,
                  size_t *ret_len)
{
  struct inode *inode = NULL;
  int r;

  r = api_walk (p, path, &inode);
  if (r < 0)
    return r;
  r = inode_listxattr (inode, ret_names, ret_len);
  inode_put (inode);
  return r < 0 ? err_note (r, "%s", path) : 0;
}
