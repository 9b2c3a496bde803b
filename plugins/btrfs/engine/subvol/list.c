/* subvol: all subvolumes of the pool, and paths. */
#include <config.h>

#include "subvol/priv.h"

/* Longer paths, and deeper ones, are not told (they may be loops). */
#define PATH_BYTES 16384
#define PATH_STEPS 1024

struct listing {
  struct subvols *ss;
  struct tree *rt;
  char path[PATH_BYTES];
  size_t start;                /* the path is built from its end */
};

/* The first root item of a subvolume with an id >= *ID; the newest of those
 * with the same id.
 */
static int
next_root (struct tree *rt, uint64_t *id, struct btrfs_root_item *item,
           bool *ret_found)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  struct key k;
  uint32_t size;
  int r;

  *ret_found = false;
  r = tree_find (rt, KEY (*id, BTRFS_ROOT_ITEM, 0), &cur, NULL);
  while (r == 0 && cursor_at_item (&cur)) {
    k = cursor_key (&cur);
    if (k.objectid > BTRFS_LAST_FREE_OBJECTID ||
        (*ret_found && (k.objectid != *id || k.type != BTRFS_ROOT_ITEM)))
      break;
    if (k.type == BTRFS_ROOT_ITEM) {
      size = cursor_size (&cur);
      *id = k.objectid;
      *ret_found = true;
      memset (item, 0, sizeof *item);
      memcpy (item, cursor_data (&cur), MIN (size, (uint32_t) sizeof *item));
    }
    r = cursor_next (&cur);
  }
  return r;
}

/* The directory entry that leads to subvolume ID. */
static int
back_ref (struct tree *rt, uint64_t id, uint64_t *ret_parent,
          uint64_t *ret_dir, char name[BTRFS_NAME_MAX], size_t *ret_len,
          bool *ret_found)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  struct btrfs_root_ref head;
  uint32_t size;
  struct key k;
  int r;

  *ret_found = false;
  r = tree_find (rt, KEY (id, BTRFS_ROOT_BACKREF, 0), &cur, NULL);
  if (r < 0 || !cursor_at_item (&cur))
    return r;
  k = cursor_key (&cur);
  if (k.objectid != id || k.type != BTRFS_ROOT_BACKREF)
    return 0;
  size = cursor_size (&cur);
  if (size < sizeof head)
    return 0;
  memcpy (&head, cursor_data (&cur), sizeof head);
  *ret_len = le16_get (head.name_len);
  if (*ret_len == 0 || *ret_len > BTRFS_NAME_MAX ||
      size - sizeof head < *ret_len)
    return 0;
  memcpy (name, (const char *) cursor_data (&cur) + sizeof head, *ret_len);
  *ret_parent = k.offset;
  *ret_dir = le64_get (head.dirid);
  *ret_found = true;
  return 0;
}

static bool
prepend (struct listing *l, const char *name, size_t len)
{
  if (l->start < len + 1)
    return false;
  if (l->path[l->start] != '\0')
    l->path[--l->start] = '/';
  l->start -= len;
  memcpy (l->path + l->start, name, len);
  return true;
}

/* Directory *DIR's own name goes before the path, *DIR becomes its parent. */
static int
prepend_dir (struct listing *l, struct root *root, uint64_t *dir,
             bool *ret_ok)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  struct pack_rec rec = { .head = NULL };
  struct key k;
  bool found;
  int r;

  *ret_ok = false;
  r = tree_find (root->tree, KEY (*dir, BTRFS_INODE_REF, 0), &cur, NULL);
  if (r < 0 || !cursor_at_item (&cur))
    return r;
  k = cursor_key (&cur);
  if (k.objectid != *dir || k.type != BTRFS_INODE_REF)
    return 0;
  r = pack_next (PACK_REF, cursor_data (&cur), cursor_size (&cur), &rec,
                 &found);
  if (r < 0 || !found)
    return r;
  *dir = k.offset;
  *ret_ok = prepend (l, rec.name, rec.name_len);
  return 0;
}

/* Directory DIR of subvolume ID goes before the path. */
static int
prepend_dirs (struct listing *l, uint64_t id, uint64_t dir, unsigned *steps,
              bool *ret_ok)
{
  struct root *root;
  int r;

  *ret_ok = dir == BTRFS_FIRST_FREE_OBJECTID;
  if (*ret_ok)
    return 0;
  r = roots_get (l->ss->env.roots, id, &root);
  if (r < 0)
    return r;
  rwlock_rdlock (&root->tree->lock);
  do {
    r = prepend_dir (l, root, &dir, ret_ok);
  } while (r == 0 && *ret_ok && dir != BTRFS_FIRST_FREE_OBJECTID &&
           --*steps > 0);
  rwlock_unlock (&root->tree->lock);
  roots_put (l->ss->env.roots, root);
  if (*steps == 0)
    *ret_ok = false;
  return r;
}

static void
begin_path (struct listing *l)
{
  l->start = PATH_BYTES - 1;
  l->path[l->start] = '\0';
}

/* The path of subvolume ID goes before what is there; *RET NULL: it has
 * none.
 */
static int
find_path (struct listing *l, uint64_t id, uint64_t *ret_parent,
           const char **ret)
{
  char name[BTRFS_NAME_MAX];
  unsigned steps = PATH_STEPS;
  uint64_t parent, dir;
  bool ok = false;
  size_t len;
  int r;

  *ret = NULL;
  *ret_parent = 0;
  while (id != BTRFS_FS_TREE) {
    rwlock_rdlock (&l->rt->lock);
    r = back_ref (l->rt, id, &parent, &dir, name, &len, &ok);
    rwlock_unlock (&l->rt->lock);
    if (r < 0)
      return r;
    if (!ok)
      return 0;
    if (*ret_parent == 0)
      *ret_parent = parent;
    if (!prepend (l, name, len) || --steps == 0)
      return 0;
    r = prepend_dirs (l, parent, dir, &steps, &ok);
    if (r < 0 && r != -ERR_subvol_missing)
      return r;
    if (r < 0)
      err_clear ();
    if (r < 0 || !ok)
      return 0;
    id = parent;
  }
  *ret = l->path + l->start;
  return 0;
}

static void
fill_info (struct subvol_info *info, const struct btrfs_root_item *item)
{
  info->generation = le64_get (item->generation);
  info->read_only = le64_get (item->flags) & BTRFS_ROOT_SUBVOL_RDONLY;
  if (le64_get (item->generation_v2) != info->generation)
    return;
  info->otransid = le64_get (item->otransid);
  info->otime.tv_sec = (int64_t) le64_get (item->otime.sec);
  info->otime.tv_nsec = le32_get (item->otime.nsec);
  memcpy (info->uuid, item->uuid, sizeof info->uuid);
  memcpy (info->parent_uuid, item->parent_uuid, sizeof info->parent_uuid);
}

int
subvol_get_info (struct subvols *ss, uint64_t id, struct subvol_info *ret)
{
  struct root *root;
  int r = roots_get (ss->env.roots, id, &root);

  if (r < 0)
    return r;
  *ret = (struct subvol_info) { .id = id };
  rwlock_rdlock (&root->tree->lock);
  fill_info (ret, &root->item);
  rwlock_unlock (&root->tree->lock);
  roots_put (ss->env.roots, root);
  return 0;
}

static int
list (struct listing *l, subvol_fn fn, void *opaque)
{
  uint64_t id = BTRFS_FIRST_FREE_OBJECTID;
  struct btrfs_root_item item;
  struct subvol_info info;
  bool found;
  int r;

  for (;; ++id) {
    rwlock_rdlock (&l->rt->lock);
    r = next_root (l->rt, &id, &item, &found);
    rwlock_unlock (&l->rt->lock);
    if (r < 0 || !found)
      return r;
    if (le32_get (item.refs) == 0)
      continue;
    info = (struct subvol_info) { .id = id };
    fill_info (&info, &item);
    begin_path (l);
    r = find_path (l, id, &info.parent, &info.path);
    if (r == 0)
      r = fn (opaque, &info);
    if (r != 0)
      return r;
  }
}

static int
listing_new (struct subvols *ss, struct listing **ret)
{
  struct root *root = roots_pool_tree (ss->env.roots, BTRFS_ROOT_TREE);

  if (root == NULL)
    return err_new (ERR_invalid, "the root tree is not open");
  *ret = malloc (sizeof **ret);
  if (*ret == NULL)
    return err_new (ERR_nomem, "paths of subvolumes");
  (*ret)->ss = ss;
  (*ret)->rt = root->tree;
  return 0;
}

int
subvols_list (struct subvols *ss, subvol_fn fn, void *opaque)
{
  CLEANUP_FREE struct listing *l = NULL;
  int r = listing_new (ss, &l);

  return r < 0 ? r : list (l, fn, opaque);
}

int
subvol_inode_path (struct subvols *ss, uint64_t id, uint64_t ino,
                   char *buf, size_t size)
{
  CLEANUP_FREE struct listing *l = NULL;
  unsigned steps = PATH_STEPS;
  const char *path = NULL;
  uint64_t parent;
  bool ok = false;
  int r = listing_new (ss, &l);

  if (r < 0)
    return r;
  begin_path (l);
  r = prepend_dirs (l, id, ino, &steps, &ok);
  if (r == 0 && ok)
    r = find_path (l, id, &parent, &path);
  if (r < 0)
    return r;
  if (path == NULL || strlen (path) >= size)
    return err_new (ERR_not_found, "a path of inode %llu of subvolume %llu",
                    (unsigned long long) ino, (unsigned long long) id);
  strcpy (buf, path);
  return 0;
}

static int
clean_root (struct subvols *ss, uint64_t id)
{
  struct root *root;
  bool writable;
  int r;

  r = roots_get (ss->env.roots, id, &root);
  if (r == -ERR_subvol_missing) {
    err_clear ();               /* deleted meanwhile */
    return 0;
  }
  if (r < 0)
    return r;
  rwlock_rdlock (&root->tree->lock);
  writable = root_check_writable (root) == 0;
  rwlock_unlock (&root->tree->lock);
  if (writable)
    r = inodes_clean_orphans (ss->env.inodes, root);
  else
    err_clear ();
  roots_put (ss->env.roots, root);
  return r;
}

int
subvols_clean_orphans (struct subvols *ss, bool (*stop) (void *opaque),
                       void *opaque)
{
  struct root *rt = roots_pool_tree (ss->env.roots, BTRFS_ROOT_TREE);
  uint64_t id = BTRFS_FIRST_FREE_OBJECTID;
  struct btrfs_root_item item;
  bool found = true;
  int r;

  if (ss->env.trans == NULL)
    return 0;
  r = clean_root (ss, BTRFS_FS_TREE);
  for (; r == 0; ++id) {
    if (stop != NULL && stop (opaque))
      break;
    rwlock_rdlock (&rt->tree->lock);
    r = next_root (rt->tree, &id, &item, &found);
    rwlock_unlock (&rt->tree->lock);
    if (r < 0 || !found)
      break;
    if (le32_get (item.refs) > 0)
      r = clean_root (ss, id);
  }
  return r;
}
