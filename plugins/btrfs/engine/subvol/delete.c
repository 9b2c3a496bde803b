/* subvol: taking the name from a subvolume.
 *
 * One transaction removes the entry, the references and the uuid entries,
 * sets the root item's references to 0 and adds the ORPHAN item.  From then
 * on the subvolume cannot be found, and dropping it may begin.
 */
#include <config.h>

#include "subvol/priv.h"

int
place_find (struct subvols *ss, const struct place *p, struct entry *ret)
{
  struct inode *dir = p->dir;
  struct dirent_loc loc;
  bool found;
  int r;

  rwlock_rdlock (&dir->root->tree->lock);
  r = dir_find (dir->root, dir->ino, p->name, &loc, &found);
  rwlock_unlock (&dir->root->tree->lock);
  if (r < 0)
    return r;
  if (!found)
    return err_new (ERR_not_found, "\"%.*s\"", (int) p->name.len, p->name.s);
  if (loc.location.type != BTRFS_ROOT_ITEM)
    return err_new (ERR_not_dir, "\"%.*s\" is no subvolume",
                    (int) p->name.len, p->name.s);
  ret->ref = (struct sref) {
    .parent_root = dir->root->id, .subvol = loc.location.objectid,
    .dir = dir->ino, .name = p->name,
  };
  r = sref_find (ss->env.roots, &ret->ref, &ret->index, &found);
  if (r == 0 && !found)
    r = err_new (ERR_not_found, "\"%.*s\" stands for a subvolume elsewhere",
                 (int) p->name.len, p->name.s);
  return r;
}

static int
find_entry (struct deletion *d)
{
  int r = place_find (d->ss, &d->place, &d->entry);

  if (r < 0)
    return r;
  return roots_get (d->ss->env.roots, d->entry.ref.subvol, &d->root);
}

/* Subvolumes inside keep it. */
static int
check_children (struct tree *rt, uint64_t id)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  struct key k;
  int r;

  r = tree_find (rt, KEY (id, BTRFS_ROOT_REF, 0), &cur, NULL);
  if (r < 0 || !cursor_at_item (&cur))
    return r;
  k = cursor_key (&cur);
  if (k.objectid == id && k.type == BTRFS_ROOT_REF)
    return err_new (ERR_not_empty, "subvolume %llu holds subvolume %llu",
                    (unsigned long long) id, (unsigned long long) k.offset);
  return 0;
}

static int
check_deletion (struct deletion *d)
{
  struct tree *rt =
    roots_pool_tree (d->ss->env.roots, BTRFS_ROOT_TREE)->tree;
  uint64_t id;
  int r;

  r = inodes_default_root (d->ss->env.inodes, &id);
  if (r < 0)
    return r;
  if (id == d->root->id)
    return err_new (ERR_busy, "subvolume %llu is the default one",
                    (unsigned long long) id);
  rwlock_rdlock (&rt->lock);
  r = check_children (rt, d->root->id);
  rwlock_unlock (&rt->lock);
  return r;
}

int
place_take (struct subvols *ss, struct txn *txn, const struct place *p,
            const struct entry *e)
{
  struct inode *dir = p->dir;
  int r;

  rwlock_wrlock (&dir->root->tree->lock);
  r = dir_del (txn, dir->root, dir->ino, p->name, e->index);
  if (r == 0)
    r = inode_dir_changed (txn, dir, 0, -(int64_t) p->name.len);
  rwlock_unlock (&dir->root->tree->lock);
  return r < 0 ? r : sref_del (ss->env.roots, txn, &e->ref);
}

/* Root tree locked exclusively.  The commit writes the item again; until then
 * nobody may find the old one.
 */
static int
write_dead (struct txn *txn, struct tree *rt, struct root *root,
            const struct btrfs_root_item *item)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  int r;

  r = tree_find_rw (&txn->tree, rt, root->key, &cur);
  if (r < 0)
    return r;
  memcpy (cursor_data_rw (&cur), item,
          MIN ((size_t) cursor_size (&cur), sizeof *item));
  cursor_done (&cur);
  return tree_insert_data (&txn->tree, rt,
                           KEY (BTRFS_ORPHAN_OBJECTID, BTRFS_ORPHAN_ITEM,
                                root->id), NULL, 0);
}

static int
mark_dead (struct txn *txn, struct deletion *d)
{
  struct roots *roots = d->ss->env.roots;
  struct root *root = d->root;
  struct tree *rt = roots_pool_tree (roots, BTRFS_ROOT_TREE)->tree;
  struct btrfs_root_item item;
  int r;

  rwlock_wrlock (&root->tree->lock);
  root->item.refs = le32_make (0);
  root->item.flags = le64_make (le64_get (root->item.flags) |
                                BTRFS_ROOT_SUBVOL_DEAD);
  root->item.drop_progress = key_to_disk (KEY_MIN);
  root->item.drop_level = 0;
  item = root->item;
  r = roots_tree_dirtied (&txn->tree, root->tree);
  rwlock_unlock (&root->tree->lock);
  if (r < 0)
    return r;
  rwlock_wrlock (&rt->lock);
  r = write_dead (txn, rt, root, &item);
  rwlock_unlock (&rt->lock);
  return r;
}

int
deletion_apply (struct txn *txn, struct deletion *d)
{
  struct roots *roots = d->ss->env.roots;
  struct root *root = d->root;
  int r;

  r = place_take (d->ss, txn, &d->place, &d->entry);
  if (r == 0)
    r = uuid_del (roots, txn, root->item.uuid, BTRFS_UUID_SUBVOL, root->id);
  if (r == 0)
    r = uuid_del (roots, txn, root->item.received_uuid,
                  BTRFS_UUID_RECEIVED_SUBVOL, root->id);
  if (r == 0)
    r = mark_dead (txn, d);
  return r;
}

static int
delete_locked (struct deletion *d)
{
  struct txn *txn;
  int r;

  r = inode_check_dir (d->place.dir);
  if (r < 0)
    return r;
  r = txn_begin_to_free (d->ss->env.trans, 12, &txn);
  if (r < 0)
    return r;
  return txn_leave (txn, deletion_apply (txn, d), true);
}

int
deletion_begin (struct deletion *d)
{
  int r;

  r = find_entry (d);
  if (r == 0)
    r = check_deletion (d);
  if (r == 0)
    r = inodes_root_leave (d->ss->env.inodes, d->root->id);
  return r;
}

void
deletion_end (struct deletion *d)
{
  inodes_root_left (d->ss->env.inodes);
}

static int
run (struct deletion *d)
{
  struct inode *dir = d->place.dir;
  int r;

  r = deletion_begin (d);
  if (r < 0)
    return r;
  mutex_lock (&dir->lock);
  r = delete_locked (d);
  mutex_unlock (&dir->lock);
  deletion_end (d);
  return r;
}

int
subvol_delete (struct subvols *ss, struct inode *dir, const char *s,
               size_t len)
{
  struct deletion d = { .ss = ss, .place = { dir, NAME (s, len) } };
  struct dead *dead;
  int r;

  r = name_check (d.place.name);
  if (r == 0)
    r = dead_new (&dead);
  if (r < 0)
    return r;
  inodes_names_lock (ss->env.inodes);
  r = run (&d);
  inodes_names_unlock (ss->env.inodes);
  if (r == 0)
    subvols_link_dead (ss, dead, d.root->id);
  else
    free (dead);
  roots_put (ss->env.roots, d.root);
  return r;
}
