/* inode: inode items, and what every change of an inode needs. */
#include <config.h>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "inode/priv.h"

struct timespec
time_now (void)
{
  struct timespec t;

  clock_gettime (CLOCK_REALTIME, &t);
  return t;
}

static struct timespec
time_from_disk (const struct btrfs_timespec *t)
{
  uint32_t nsec = le32_get (t->nsec);

  return (struct timespec) { .tv_sec = (int64_t) le64_get (t->sec),
    .tv_nsec = MIN (nsec, UINT32_C (999999999)) };
}

/* On disk a device number is what Linux has inside: 20 bits of minor. */
#define MINOR_BITS 20

static uint64_t
rdev_from_disk (uint64_t v)
{
  return makedev (v >> MINOR_BITS, v & ((UINT64_C (1) << MINOR_BITS) - 1));
}

uint64_t
rdev_to_disk (uint64_t dev)
{
  return (uint64_t) major (dev) << MINOR_BITS | minor (dev);
}

void
inode_decode (struct inode *in, const struct btrfs_inode_item *item)
{
  in->mode = le32_get (item->mode);
  in->nlink = le32_get (item->nlink);
  in->uid = le32_get (item->uid);
  in->gid = le32_get (item->gid);
  in->size = in->disk_size = le64_get (item->size);
  in->nbytes = le64_get (item->nbytes);
  in->flags = le64_get (item->flags);
  in->rdev = rdev_from_disk (le64_get (item->rdev));
  in->generation = le64_get (item->generation);
  in->transid = le64_get (item->transid);
  in->names_transid = in->transid;
  in->sequence = le64_get (item->sequence);
  in->atime = time_from_disk (&item->atime);
  in->ctime = time_from_disk (&item->ctime);
  in->mtime = time_from_disk (&item->mtime);
  in->otime = time_from_disk (&item->otime);
}

/* Fields that we do not know keep their value. */
static void
encode (const struct inode *in, struct btrfs_inode_item *item)
{
  item->mode = le32_make (in->mode);
  item->nlink = le32_make (in->nlink);
  item->uid = le32_make (in->uid);
  item->gid = le32_make (in->gid);
  item->size = le64_make (S_ISREG (in->mode) ? in->disk_size : in->size);
  item->nbytes = le64_make (in->nbytes);
  item->flags = le64_make (in->flags);
  item->rdev = le64_make (rdev_to_disk (in->rdev));
  item->generation = le64_make (in->generation);
  item->transid = le64_make (in->transid);
  item->sequence = le64_make (in->sequence);
  item->atime = time_to_disk (in->atime);
  item->ctime = time_to_disk (in->ctime);
  item->mtime = time_to_disk (in->mtime);
  item->otime = time_to_disk (in->otime);
}

/* The subvolume's own change time and transaction. */
static void
touch_root (struct txn *txn, struct root *root, struct timespec now)
{
  root->item.ctransid = le64_make (txn->tree.transid);
  root->item.ctime = time_to_disk (now);
}

int
inode_write_locked (struct txn *txn, struct inode *in)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  struct tree *tree = in->root->tree;
  int r;

  r = tree_find_rw (&txn->tree, tree, KEY (in->ino, BTRFS_INODE_ITEM, 0),
                    &cur);
  if (r < 0)
    return err_note (r, "inode %llu of subvolume %llu",
                     (unsigned long long) in->ino,
                     (unsigned long long) in->root->id);
  if (cursor_size (&cur) < sizeof (struct btrfs_inode_item))
    return err_new (ERR_item_format, "inode item of %u bytes",
                    cursor_size (&cur));
  encode (in, cursor_data_rw (&cur));
  touch_root (txn, in->root, in->ctime);
  return 0;
}

int
inode_write_item (struct txn *txn, struct inode *in)
{
  int r;

  rwlock_wrlock (&in->root->tree->lock);
  r = inode_write_locked (txn, in);
  rwlock_unlock (&in->root->tree->lock);
  return r;
}

void
inode_touch_ctime (struct inode *in, struct txn *txn)
{
  in->ctime = time_now ();
  __atomic_store_n (&in->transid, txn->tree.transid, __ATOMIC_RELAXED);
  ++in->sequence;
}

void
inode_touch_names (struct inode *in, struct txn *txn)
{
  inode_touch_ctime (in, txn);
  in->names_transid = txn->tree.transid;
}

void
inode_touch (struct inode *in, struct txn *txn)
{
  inode_touch_ctime (in, txn);
  in->mtime = in->ctime;
}

struct btrfs_inode_item
inode_item_make (const struct txn *txn, uint32_t mode, uint64_t size)
{
  struct btrfs_timespec now = time_to_disk (time_now ());

  return (struct btrfs_inode_item) {
    .generation = le64_make (txn->tree.transid),
    .transid = le64_make (txn->tree.transid),
    .size = le64_make (size),
    .nlink = le32_make (1),
    .mode = le32_make (mode),
    .atime = now, .ctime = now, .mtime = now, .otime = now,
  };
}

int
inode_item_insert (struct txn *txn, struct root *root, uint64_t ino,
                   const struct btrfs_inode_item *item)
{
  touch_root (txn, root, time_now ());
  return tree_insert_data (&txn->tree, root->tree,
                           KEY (ino, BTRFS_INODE_ITEM, 0), item,
                           sizeof *item);
}

int
inode_item_insert_named (struct txn *txn, struct root *root, uint64_t ino,
                         const struct btrfs_inode_item *item, uint64_t parent,
                         struct name n, uint64_t index)
{
  struct {
    struct btrfs_inode_ref head;
    char name[BTRFS_NAME_MAX];
  } ref = { .head = { le64_make (index), le16_make (n.len) } };
  const struct tree_item items[] = {
    { KEY (ino, BTRFS_INODE_ITEM, 0), item, sizeof *item },
    { KEY (ino, BTRFS_INODE_REF, parent), &ref, sizeof ref.head + n.len },
  };

  assert (n.len <= sizeof ref.name);
  memcpy (ref.name, n.s, n.len);
  touch_root (txn, root, time_now ());
  return tree_insert_many (&txn->tree, root->tree, items, 2);
}

int
root_check_writable (struct root *root)
{
  if (le32_get (root->item.refs) == 0)
    return err_new (ERR_subvol_missing, "subvolume %llu has been deleted",
                    (unsigned long long) root->id);
  if (le64_get (root->item.flags) & BTRFS_ROOT_SUBVOL_RDONLY)
    return err_new (ERR_inode_readonly, "subvolume %llu",
                    (unsigned long long) root->id);
  return 0;
}

int
root_learn_next_ino (struct root *root)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  uint64_t last = BTRFS_FIRST_FREE_OBJECTID;
  int r;

  if (root->free_objectid != 0)
    return 0;
  r = tree_find_le (root->tree,
                    KEY (BTRFS_LAST_FREE_OBJECTID, UINT8_MAX, UINT64_MAX),
                    &cur, NULL);
  if (r < 0)
    return r;
  if (cursor_at_item (&cur))
    last = MAX (last, cursor_key (&cur).objectid);
  root->free_objectid = last + 1;
  return 0;
}

int
root_next_ino (struct root *root, uint64_t *ret_ino)
{
  int r = root_learn_next_ino (root);

  if (r < 0)
    return r;
  if (root->free_objectid > BTRFS_LAST_FREE_OBJECTID)
    return err_new (ERR_overflow, "subvolume %llu: no inode number left",
                    (unsigned long long) root->id);
  *ret_ino = root->free_objectid++;
  return 0;
}

int
inode_check_write (struct inode *in)
{
  struct root *root = in->root;
  int r;

  if (in->inodes->env.read_only)
    return err_new (ERR_readonly, "no changes are possible");
  if (in->priv->empty_dir)
    return err_new (ERR_inode_readonly, "stand-in of a subvolume");
  rwlock_rdlock (&root->tree->lock);
  r = root_check_writable (root);
  rwlock_unlock (&root->tree->lock);
  return r;
}

int
inode_check_dir (struct inode *dir)
{
  if (!S_ISDIR (dir->mode))
    return err_new (ERR_not_dir, "inode %llu",
                    (unsigned long long) dir->ino);
  if (dir->nlink == 0)
    return err_new (ERR_not_found, "directory %llu has been removed",
                    (unsigned long long) dir->ino);
  return inode_check_write (dir);
}

int
inode_next_index (struct inode *dir, uint64_t *ret_index)
{
  int r;

  if (dir->priv->next_index == 0) {
    r = dir_next_index (dir->root, dir->ino, &dir->priv->next_index);
    if (r < 0)
      return r;
  }
  *ret_index = dir->priv->next_index;
  return 0;
}

int
inode_dir_changed (struct txn *txn, struct inode *dir, uint64_t used_index,
                   int64_t name_bytes)
{
  if (name_bytes < 0)
    dir->size -= MIN (dir->size, (uint64_t) (-2 * name_bytes));
  else {
    dir->size += 2 * name_bytes;
    dir->priv->next_index = MAX (dir->priv->next_index, used_index + 1);
  }
  inode_note_beyond_log (dir->inodes, txn, dir->root);
  inode_touch (dir, txn);
  return inode_write_locked (txn, dir);
}

int
inode_set_mode (struct inode *in, uint32_t mode, uint32_t uid, uint32_t gid)
{
  struct txn *txn;
  int r;

  if ((mode & S_IFMT) != 0 && (mode & S_IFMT) != (in->mode & S_IFMT))
    return err_new (ERR_invalid, "the file type cannot be changed");
  SCOPED_LOCK (&in->lock);
  r = inode_check_write (in);
  if (r < 0)
    return r;
  r = txn_begin (in->inodes->env.trans, 2, &txn);
  if (r < 0)
    return r;
  in->mode = (in->mode & S_IFMT) | (mode & 07777);
  in->uid = uid;
  in->gid = gid;
  inode_touch_ctime (in, txn);
  r = inode_write_item (txn, in);
  return txn_leave (txn, r, true);
}
