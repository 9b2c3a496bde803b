/* inode: renaming within one subvolume: to a free name, over a name, and the
 * exchange of two.  The entry of a subvolume can be moved as well; its pair
 * of references in the root tree moves with it.
 *
 * The pool's `names` lock makes directories' ancestors stand still, and with
 * them what names lead to, but for names that `create` adds: those are looked
 * at again once everything is locked.
 */
#include <config.h>

#include <sys/stat.h>

#include "inode/priv.h"

/* Deeper directories than this are taken for a loop. */
#define MAX_DEPTH 65536

struct side {
  struct inode *dir;
  struct name name;
  bool found;
  struct dirent_loc loc;
  struct inode *in;            /* NULL: a subvolume */
  bool is_dir;                 /* a directory or a subvolume */
  uint64_t index;              /* of the entry as it is */
  uint64_t new_index;          /* of the entry that this name will be */
  enum iref_place new_place;   /* of the reference to it */
};

struct renaming {
  struct inodes *ii;
  struct root *root;
  struct side a, b;            /* from, to */
  bool swap;
};

static int
find (struct side *s, struct dirent_loc *loc, bool *ret_found)
{
  return dir_find (s->dir->root, s->dir->ino, s->name, loc, ret_found);
}

static int
resolve (struct side *s)
{
  int r;

  s->in = NULL;
  s->is_dir = false;
  rwlock_rdlock (&s->dir->root->tree->lock);
  r = find (s, &s->loc, &s->found);
  rwlock_unlock (&s->dir->root->tree->lock);
  if (r < 0 || !s->found)
    return r;
  s->is_dir = true;
  if (s->loc.location.type == BTRFS_ROOT_ITEM)
    return 0;
  r = inode_follow (s->dir, s->name, &s->loc, &s->in);
  if (r == 0)
    s->is_dir = S_ISDIR (s->in->mode);
  return r;
}

/* Tree lock held: does the name still lead where it did? */
static int
unchanged (struct side *s, bool *ret_same)
{
  struct dirent_loc loc;
  bool found;
  int r;

  r = find (s, &loc, &found);
  *ret_same = r == 0 && found == s->found &&
    (!found || key_cmp (loc.location, s->loc.location) == 0);
  return r;
}

/* DIR must not be IN or below it. */
static int
check_not_below (struct inode *dir, struct inode *in)
{
  struct root *root = dir->root;
  uint64_t ino = dir->ino;
  unsigned depth;
  int r = 0;

  rwlock_rdlock (&root->tree->lock);
  for (depth = 0; ino != BTRFS_FIRST_FREE_OBJECTID || ino == in->ino;
       ++depth) {
    if (ino == in->ino)
      r = err_new (ERR_invalid, "directory %llu would be inside itself",
                   (unsigned long long) ino);
    else if (depth == MAX_DEPTH)
      r = err_new (ERR_dir_format, "directory %llu has no end of parents",
                   (unsigned long long) dir->ino);
    else
      r = iref_parent (root, ino, &ino);
    if (r < 0)
      break;
  }
  rwlock_unlock (&root->tree->lock);
  return r;
}

static int
check_target (const struct side *a, const struct side *b)
{
  if (b->in == NULL)
    return err_new (ERR_is_subvol, "\"%.*s\"", (int) b->name.len, b->name.s);
  if (a->is_dir && !b->is_dir)
    return err_new (ERR_not_dir, "\"%.*s\"", (int) b->name.len, b->name.s);
  if (!a->is_dir && b->is_dir)
    return err_new (ERR_is_dir, "\"%.*s\"", (int) b->name.len, b->name.s);
  return 0;
}

/* Rules that need no lock but `names`.  *ret_nothing: both names lead to one
 * inode.
 */
static int
check_rules (const struct side *a, const struct side *b, enum rename_mode mode,
             bool *ret_nothing)
{
  int r = 0;

  *ret_nothing = false;
  if (!a->found)
    return err_new (ERR_not_found, "\"%.*s\"", (int) a->name.len, a->name.s);
  if (b->found && mode == RENAME_NO_REPLACE)
    return err_new (ERR_exists, "\"%.*s\"", (int) b->name.len, b->name.s);
  if (!b->found && mode == RENAME_SWAP)
    return err_new (ERR_not_found, "\"%.*s\"", (int) b->name.len, b->name.s);
  if (b->found && key_cmp (a->loc.location, b->loc.location) == 0) {
    *ret_nothing = true;
    return 0;
  }
  if (b->found && mode == RENAME_REPLACE_OK)
    r = check_target (a, b);
  if (r == 0 && a->dir != b->dir && a->in != NULL && a->is_dir)
    r = check_not_below (b->dir, a->in);
  if (r == 0 && a->dir != b->dir && mode == RENAME_SWAP && b->in != NULL &&
      b->is_dir)
    r = check_not_below (a->dir, b->in);
  return r;
}

static struct sref
sref_of (const struct side *target, const struct side *place)
{
  return (struct sref) {
    .parent_root = place->dir->root->id,
    .subvol = target->loc.location.objectid,
    .dir = place->dir->ino,
    .name = place->name,
  };
}

static int
find_index (struct renaming *rn, struct side *s)
{
  struct sref ref = sref_of (s, s);
  bool found;
  int r;

  if (s->in == NULL)
    r = sref_find (rn->ii->env.roots, &ref, &s->index, &found);
  else
    r = iref_find (rn->root, s->in->ino, s->dir->ino, s->name, &s->index,
                   &found);
  if (r == 0 && !found)
    r = err_new (ERR_dir_format, "what \"%.*s\" leads to does not know it",
                 (int) s->name.len, s->name.s);
  return r;
}

/* The entry named by PLACE will lead to TARGET. */
static int
plan_entry (struct renaming *rn, const struct side *target,
            struct side *place)
{
  struct inode *dir = place->dir;
  int r;

  r = inode_next_index (dir, &place->new_index);
  if (r < 0)
    return r;
  if (rn->swap && place == &rn->a && rn->a.dir == rn->b.dir)
    ++place->new_index;         /* behind the one of the other side */
  if (target->in == NULL)
    return 0;
  return iref_room (rn->root, target->in->ino, dir->ino, place->name,
                    inode_extref_ok (rn->ii, rn->root), &place->new_place);
}

static int
plan (struct renaming *rn)
{
  struct side *a = &rn->a, *b = &rn->b;
  int r;

  r = root_check_writable (rn->root);
  if (r == 0)
    r = find_index (rn, a);
  if (r == 0 && b->found)
    r = find_index (rn, b);
  if (r == 0 && b->found && !rn->swap)
    r = unlink_check (b->dir, b->in);
  if (r == 0 && !b->found)
    r = dir_room (rn->root, b->dir->ino, b->name);
  if (r == 0)
    r = plan_entry (rn, a, b);
  if (r == 0 && rn->swap)
    r = plan_entry (rn, b, a);
  return r;
}

static int
take_entry (struct renaming *rn, struct txn *txn, struct side *s)
{
  struct sref ref = sref_of (s, s);
  int r;

  r = dir_del (txn, rn->root, s->dir->ino, s->name, s->index);
  if (r < 0)
    return r;
  s->dir->size -= MIN (s->dir->size, (uint64_t) 2 * s->name.len);
  if (s->in == NULL) {
    inode_note_beyond_log (rn->ii, txn, rn->root);
    return sref_del (rn->ii->env.roots, txn, &ref);
  }
  inode_note_removed (rn->ii, txn, rn->root, s->in->ino,
                      (struct name_place) { s->dir->ino, s->index });
  return iref_del (txn, rn->root, s->in->ino, s->dir->ino, s->name);
}

static int
put_entry (struct renaming *rn, struct txn *txn, const struct side *target,
           struct side *place)
{
  struct sref ref = sref_of (target, place);
  struct inode *dir = place->dir;
  int r;

  r = dir_add (txn, rn->root, dir->ino, place->name, place->new_index,
               &target->loc);
  if (r < 0)
    return r;
  dir->priv->next_index = MAX (dir->priv->next_index, place->new_index + 1);
  dir->size += 2 * place->name.len;
  if (target->in == NULL)
    return sref_add (rn->ii->env.roots, txn, &ref, place->new_index);
  inode_note_added (rn->ii, txn, rn->root, target->in->ino);
  if (place->new_place == IREF_EXTREF)
    inode_extref_use (rn->ii, txn, rn->root);
  return iref_add (txn, rn->root, target->in->ino, dir->ino, place->name,
                   place->new_index, place->new_place);
}

static int
write_inodes (struct renaming *rn, struct txn *txn)
{
  struct side *a = &rn->a, *b = &rn->b;
  int r = 0;

  if (a->in != NULL) {
    inode_touch_names (a->in, txn);
    r = inode_write_locked (txn, a->in);
  }
  if (r == 0 && rn->swap && b->in != NULL) {
    inode_touch_names (b->in, txn);
    r = inode_write_locked (txn, b->in);
  }
  if (r < 0)
    return r;
  inode_touch (a->dir, txn);
  r = inode_write_locked (txn, a->dir);
  if (r < 0 || a->dir == b->dir)
    return r;
  inode_touch (b->dir, txn);
  return inode_write_locked (txn, b->dir);
}

static int
apply (struct renaming *rn, struct txn *txn)
{
  struct side *a = &rn->a, *b = &rn->b;
  int r;

  r = take_entry (rn, txn, a);
  if (r == 0 && rn->swap)
    r = take_entry (rn, txn, b);
  else if (r == 0 && b->found)
    r = unlink_items (txn, b->dir, b->name, b->index, b->in);
  if (r == 0)
    r = put_entry (rn, txn, a, b);
  if (r == 0 && rn->swap)
    r = put_entry (rn, txn, b, a);
  return r < 0 ? r : write_inodes (rn, txn);
}

/* inode.locks held.  *RETRY: a name changed since it was resolved. */
static int
change (struct renaming *rn, bool *retry)
{
  bool changed = false, same = false;
  struct txn *txn;
  int r;

  *retry = false;
  r = txn_begin (rn->ii->env.trans, 24, &txn);
  if (r < 0)
    return r;
  rwlock_wrlock (&rn->root->tree->lock);
  r = unchanged (&rn->a, &same);
  if (r == 0 && same)
    r = unchanged (&rn->b, &same);
  *retry = r == 0 && !same;
  if (r == 0 && same)
    r = plan (rn);
  if (r == 0 && same) {
    changed = true;
    r = apply (rn, txn);
  }
  rwlock_unlock (&rn->root->tree->lock);
  r = txn_leave (txn, r, changed);
  if (r == 0 && changed && !rn->swap && rn->b.found &&
      rn->b.in->nlink == 0)
    inode_set_unlinked (rn->b.in);
  return r;
}

static int
attempt (struct renaming *rn, enum rename_mode mode, bool *retry)
{
  struct inode *locked[4];
  bool nothing = false;
  int r;

  *retry = false;
  r = resolve (&rn->a);
  if (r == 0)
    r = resolve (&rn->b);
  if (r == 0)
    r = check_rules (&rn->a, &rn->b, mode, &nothing);
  if (r < 0 || nothing)
    return r;
  locked[0] = rn->a.dir;
  locked[1] = rn->b.dir;
  locked[2] = rn->a.in;
  locked[3] = rn->b.in;
  inode_lock_all (locked, 4);
  r = inode_check_dir (rn->a.dir);
  if (r == 0)
    r = inode_check_dir (rn->b.dir);
  if (r == 0)
    r = change (rn, retry);
  inode_unlock_all (locked, 4);
  return r;
}

static int
check_args (struct renaming *rn)
{
  int r;

  r = name_check (rn->a.name);
  if (r == 0)
    r = name_check (rn->b.name);
  if (r < 0)
    return r;
  if (!S_ISDIR (rn->a.dir->mode) || !S_ISDIR (rn->b.dir->mode))
    return err_new (ERR_not_dir, "rename");
  if (rn->a.dir->root != rn->b.dir->root)
    return err_new (ERR_cross_subvol, "subvolumes %llu and %llu",
                    (unsigned long long) rn->a.dir->root->id,
                    (unsigned long long) rn->b.dir->root->id);
  return inode_check_write (rn->a.dir);
}

int
inode_rename (struct inode *from, const char *from_name, size_t from_len,
              struct inode *to, const char *to_name, size_t to_len,
              enum rename_mode mode)
{
  struct renaming rn = {
    .ii = from->inodes, .root = from->root,
    .a = { .dir = from, .name = NAME (from_name, from_len) },
    .b = { .dir = to, .name = NAME (to_name, to_len) },
    .swap = mode == RENAME_SWAP,
  };
  bool retry;
  int r;

  r = check_args (&rn);
  if (r < 0)
    return r;
  do {
    mutex_lock (&rn.ii->names);
    rn.a.in = rn.b.in = NULL;
    r = attempt (&rn, mode, &retry);
    mutex_unlock (&rn.ii->names);
    inode_put (rn.a.in);
    inode_put (rn.b.in);
  } while (r == 0 && retry);
  return r;
}
