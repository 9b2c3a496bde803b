/* subvol: making one, with what a volume needs in it. */
#include <config.h>

#include <sys/stat.h>

#include "subvol/priv.h"

#define TOP BTRFS_FIRST_FREE_OBJECTID
/* Items in the new tree (7), the parent (4), the root tree (3), uuid. */
#define CREATE_ITEMS 19

struct creation {
  struct subvols *ss;
  struct place place;
  const struct subvol_new *new;
  uint64_t id;
  struct root *root;           /* the new one, referenced */
};

static int
check_xattr (const struct format_info *fi, const struct subvol_xattr *x)
{
  if (x->name != NULL
      && (x->len > UINT16_MAX || strlen (x->name) > BTRFS_NAME_MAX
          || sizeof (struct btrfs_dir_item) + strlen (x->name) + x->len
             > tb_max_item_size (fi->nodesize)))
    return err_new (ERR_xattr_big, "%zu bytes", x->len);
  return 0;
}

static int
put_xattr (struct txn *txn, struct creation *c, uint64_t ino,
           const struct subvol_xattr *x)
{
  if (x->name == NULL)
    return 0;
  return xattr_put (txn, c->root, ino, NAME (x->name, strlen (x->name)),
                    x->value, x->len);
}

static int
check_new (struct creation *c)
{
  const struct format_info *fi = block_cache_format (c->ss->env.cache);
  const struct subvol_new *new = c->new;
  int r;

  r = name_check (c->place.name);
  if (r == 0 && new->file != NULL)
    r = name_check (NAME (new->file, strlen (new->file)));
  if (r < 0)
    return r;
  if (new->file_size > INT64_MAX - fi->sectorsize)
    return err_new (ERR_file_big, "%llu bytes",
                    (unsigned long long) new->file_size);
  r = check_xattr (fi, &new->top_xattr);
  return r < 0 ? r : check_xattr (fi, &new->file_xattr);
}

/* The top directory of the new tree. */
static int
add_top (struct txn *txn, struct creation *c)
{
  const struct subvol_new *new = c->new;
  const size_t len = new->file == NULL ? 0 : strlen (new->file);
  struct btrfs_inode_item item =
    inode_item_make (txn, S_IFDIR | (new->mode & 07777), 2 * len);
  int r;

  item.uid = le32_make (new->uid);
  item.gid = le32_make (new->gid);
  r = inode_item_insert (txn, c->root, TOP, &item);
  if (r == 0)
    r = iref_add (txn, c->root, TOP, TOP, NAME ("..", 2), 0, IREF_ITEM);
  return r < 0 ? r : put_xattr (txn, c, TOP, &new->top_xattr);
}

/* Without NO_HOLES every byte below the size needs an item. */
static int
add_hole (struct txn *txn, struct creation *c, uint64_t ino)
{
  const struct format_info *fi = block_cache_format (c->ss->env.cache);
  const uint64_t len = round_up (c->new->file_size, fi->sectorsize);
  const struct btrfs_file_extent fe = {
    .generation = le64_make (txn->tree.transid),
    .ram_bytes = le64_make (len),
    .type = BTRFS_FILE_EXTENT_REG,
    .num_bytes = le64_make (len),
  };

  if (len == 0 || (fi->incompat & BTRFS_INCOMPAT_NO_HOLES))
    return 0;
  return tree_insert_data (&txn->tree, c->root->tree,
                           KEY (ino, BTRFS_EXTENT_DATA, 0), &fe, sizeof fe);
}

static int
add_file (struct txn *txn, struct creation *c)
{
  const struct subvol_new *new = c->new;
  const struct name name = NAME (new->file, strlen (new->file));
  const uint64_t ino = TOP + 1;
  const struct dirent_loc loc = {
    .location = KEY (ino, BTRFS_INODE_ITEM, 0), .type = BTRFS_FT_REG_FILE,
  };
  struct btrfs_inode_item item =
    inode_item_make (txn, S_IFREG | (new->file_mode & 07777),
                     new->file_size);
  uint64_t flags = new->file_flags;
  int r;

  if (flags & BTRFS_INODE_NODATACOW)
    flags |= BTRFS_INODE_NODATASUM;
  item.flags = le64_make (flags);
  item.uid = le32_make (new->uid);
  item.gid = le32_make (new->gid);
  r = inode_item_insert (txn, c->root, ino, &item);
  if (r == 0)
    r = iref_add (txn, c->root, ino, TOP, name, 2, IREF_ITEM);
  if (r == 0)
    r = put_xattr (txn, c, ino, &new->file_xattr);
  if (r == 0)
    r = add_hole (txn, c, ino);
  if (r == 0)
    r = dir_add (txn, c->root, TOP, name, 2, &loc);
  return r;
}

static int
fill_tree (struct txn *txn, struct creation *c)
{
  int r;

  rwlock_wrlock (&c->root->tree->lock);
  r = add_top (txn, c);
  if (r == 0 && c->new->file != NULL)
    r = add_file (txn, c);
  rwlock_unlock (&c->root->tree->lock);
  return r;
}

int
place_add (struct subvols *ss, struct txn *txn, const struct place *p,
           uint64_t id)
{
  struct inode *dir = p->dir;
  const struct dirent_loc loc = {
    .location = KEY (id, BTRFS_ROOT_ITEM, UINT64_MAX),
    .type = BTRFS_FT_DIR,
  };
  const struct sref ref = {
    .parent_root = dir->root->id, .subvol = id, .dir = dir->ino,
    .name = p->name,
  };
  uint64_t index;
  int r;

  rwlock_wrlock (&dir->root->tree->lock);
  r = inode_next_index (dir, &index);
  if (r == 0)
    r = dir_add (txn, dir->root, dir->ino, p->name, index, &loc);
  if (r == 0)
    r = inode_dir_changed (txn, dir, index, p->name.len);
  rwlock_unlock (&dir->root->tree->lock);
  return r < 0 ? r : sref_add (ss->env.roots, txn, &ref, index);
}

int
place_check (const struct place *p)
{
  struct inode *dir = p->dir;
  uint64_t index;
  int r;

  r = inode_check_dir (dir);
  if (r < 0)
    return r;
  rwlock_rdlock (&dir->root->tree->lock);
  r = dir_room (dir->root, dir->ino, p->name);
  if (r == 0)
    r = inode_next_index (dir, &index); /* so that it need not be read */
  rwlock_unlock (&dir->root->tree->lock);
  return r;
}

static int
create_locked (struct creation *c)
{
  struct roots *roots = c->ss->env.roots;
  struct txn *txn;
  int r;

  r = place_check (&c->place);
  if (r < 0)
    return r;
  r = txn_begin (c->ss->env.trans, CREATE_ITEMS, &txn);
  if (r < 0)
    return r;
  r = roots_new_id (roots, txn, &c->id);
  if (r == 0)
    r = roots_create (roots, txn, c->id, true, &c->root);
  if (r == 0)
    r = fill_tree (txn, c);
  if (r == 0)
    r = place_add (c->ss, txn, &c->place, c->id);
  return txn_leave (txn, r, true);
}

int
subvol_create (struct subvols *ss, struct inode *dir, const char *s,
               size_t len, const struct subvol_new *new, uint64_t *ret_id)
{
  struct creation c = {
    .ss = ss, .place = { dir, NAME (s, len) }, .new = new,
  };
  int r;

  r = check_new (&c);
  if (r < 0)
    return r;
  SCOPED_LOCK (&dir->lock);
  r = create_locked (&c);
  roots_put (ss->env.roots, c.root);
  if (r == 0 && ret_id != NULL)
    *ret_id = c.id;
  return r;
}
