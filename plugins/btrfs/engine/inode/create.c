/* inode: new files, directories, symbolic links, special files. */
#include <config.h>

#include <limits.h>
#include <sys/stat.h>

#include "inode/priv.h"

static int
check_new (struct inode *dir, struct name name, const struct inode_new *new)
{
  const struct format_info *fi = block_cache_format (dir->root->tree->cache);
  int r;

  r = name_check (name);
  if (r < 0)
    return r;
  if (mode_to_ft (new->mode) == BTRFS_FT_UNKNOWN)
    return err_new (ERR_invalid, "mode %o has no file type", new->mode);
  if (S_ISLNK (new->mode)) {
    size_t len = new->symlink == NULL ? 0 : strlen (new->symlink);
    size_t max = MIN (tb_max_item_size (fi->nodesize), fi->sectorsize) -
      BTRFS_FILE_EXTENT_INLINE_HEAD;

    if (len == 0)
      return err_new (ERR_invalid, "a symbolic link needs a target");
    if (len > MIN (max, (size_t) PATH_MAX - 1))
      return err_new (ERR_name_long, "target of %zu bytes", len);
  }
  return 0;
}

static struct btrfs_inode_item
new_item (struct txn *txn, struct inode *dir, const struct inode_new *new)
{
  const uint64_t size = S_ISLNK (new->mode) ? strlen (new->symlink) : 0;
  struct btrfs_inode_item item = inode_item_make (txn, new->mode, size);
  uint64_t flags = new->flags;

  if (S_ISREG (new->mode) || S_ISDIR (new->mode))
    flags |= dir->flags & (BTRFS_INODE_NODATACOW | BTRFS_INODE_NOCOMPRESS |
                           BTRFS_INODE_COMPRESS);
  if (S_ISREG (new->mode) && (flags & BTRFS_INODE_NODATACOW))
    flags |= BTRFS_INODE_NODATASUM;
  if (flags & BTRFS_INODE_NODATACOW)
    flags &= ~BTRFS_INODE_COMPRESS;
  item.nbytes = le64_make (size);
  item.uid = le32_make (new->uid);
  item.gid = le32_make (new->gid);
  item.rdev = le64_make (rdev_to_disk (new->rdev));
  item.flags = le64_make (flags);
  return item;
}

static int
add_target (struct txn *txn, struct root *root, uint64_t ino,
            const char *target)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  const size_t len = strlen (target);
  struct btrfs_file_extent *fe;
  int r;

  r = tree_insert (&txn->tree, root->tree, KEY (ino, BTRFS_EXTENT_DATA, 0),
                   BTRFS_FILE_EXTENT_INLINE_HEAD + len, &cur);
  if (r < 0)
    return r;
  fe = cursor_data_rw (&cur);
  fe->generation = le64_make (txn->tree.transid);
  fe->ram_bytes = le64_make (len);
  fe->type = BTRFS_FILE_EXTENT_INLINE;
  memcpy ((char *) fe + BTRFS_FILE_EXTENT_INLINE_HEAD, target, len);
  return 0;
}

struct creation {
  struct inode *dir;
  struct name name;
  const struct inode_new *new;
  struct btrfs_inode_item item;
  uint64_t ino, index;
};

/* Tree lock held exclusively. */
static int
create_prepare (struct creation *c)
{
  struct inode *dir = c->dir;
  int r;

  r = root_check_writable (dir->root);
  if (r == 0)
    r = dir_room (dir->root, dir->ino, c->name);
  if (r == 0)
    r = inode_next_index (dir, &c->index);
  if (r == 0)
    r = root_next_ino (dir->root, &c->ino);
  return r;
}

static int
create_items (struct txn *txn, struct creation *c)
{
  struct root *root = c->dir->root;
  const struct dirent_loc loc = {
    .location = KEY (c->ino, BTRFS_INODE_ITEM, 0),
    .type = mode_to_ft (c->new->mode),
  };
  int r;

  c->item = new_item (txn, c->dir, c->new);
  r = inode_item_insert_named (txn, root, c->ino, &c->item, c->dir->ino,
                               c->name, c->index);
  if (r == 0 && S_ISLNK (c->new->mode))
    r = add_target (txn, root, c->ino, c->new->symlink);
  if (r == 0)
    r = dir_add (txn, root, c->dir->ino, c->name, c->index, &loc);
  if (r < 0)
    return r;
  inode_note_added (c->dir->inodes, txn, root, c->ino);
  c->dir->priv->next_index = c->index + 1;
  c->dir->size += 2 * c->name.len;
  inode_touch (c->dir, txn);
  return inode_write_locked (txn, c->dir);
}

int
inode_create (struct inode *dir, const char *s, size_t len,
              const struct inode_new *new, struct inode **ret)
{
  struct creation c = { .dir = dir, .name = NAME (s, len), .new = new };
  struct inodes *ii = dir->inodes;
  bool changed = false;
  struct txn *txn;
  int r;

  r = check_new (dir, c.name, new);
  if (r < 0)
    return r;
  {
    SCOPED_LOCK (&dir->lock);
    r = inode_check_dir (dir);
    if (r < 0)
      return r;
    r = txn_begin (ii->env.trans, 6, &txn);
    if (r < 0)
      return r;
    rwlock_wrlock (&dir->root->tree->lock);
    r = create_prepare (&c);
    if (r == 0) {
      changed = true;
      r = create_items (txn, &c);
    }
    rwlock_unlock (&dir->root->tree->lock);
    r = txn_leave (txn, r, changed);
  }
  if (r < 0 || ret == NULL)
    return r;
  return inode_adopt (ii, dir->root, c.ino, &c.item, ret);
}
