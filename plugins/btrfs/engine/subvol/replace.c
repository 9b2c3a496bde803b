/* subvol: what changes several names of subvolumes in one transaction. */
#include <config.h>

#include "subvol/priv.h"

/* --- a copy in the place of another --- */

struct replacing {
  struct deletion old;
  struct root *source;
};

static int
replace_locked (struct replacing *x)
{
  struct subvols *ss = x->old.ss;
  struct txn *txn;
  uint64_t id;
  int r;

  r = inode_check_dir (x->old.place.dir);
  if (r == 0)
    r = txn_begin_alone (ss->env.trans, 24, &txn);
  if (r < 0)
    return r;
  r = snapshot_make (ss, txn, x->source, false, &id);
  if (r == 0)
    r = deletion_apply (txn, &x->old);
  if (r == 0)
    r = place_add (ss, txn, &x->old.place, id);
  return txn_leave (txn, r, true);
}

/* `names` held. */
static int
run_replace (struct replacing *x)
{
  struct subvols *ss = x->old.ss;
  struct inode *dir = x->old.place.dir;
  int r;

  r = deletion_begin (&x->old);
  if (r < 0)
    return r;
  r = x->old.root == x->source
    ? err_new (ERR_invalid, "a subvolume in its own place")
    : data_freeze (ss->env.data, &x->source, 1);
  if (r == 0) {
    mutex_lock (&dir->lock);
    r = replace_locked (x);
    mutex_unlock (&dir->lock);
    data_thaw (ss->env.data, &x->source, 1);
  }
  deletion_end (&x->old);
  return r;
}

int
subvol_replace (struct subvols *ss, struct inode *dir, const char *s,
                size_t len, struct inode *source)
{
  struct replacing x = {
    .old = { .ss = ss, .place = { dir, NAME (s, len) } },
    .source = source->root,
  };
  struct dead *dead;
  int r;

  r = name_check (x.old.place.name);
  if (r == 0)
    r = dead_new (&dead);
  if (r < 0)
    return r;
  inodes_names_lock (ss->env.inodes);
  r = run_replace (&x);
  inodes_names_unlock (ss->env.inodes);
  if (r == 0)
    subvols_link_dead (ss, dead, x.old.root->id);
  else
    free (dead);
  roots_put (ss->env.roots, x.old.root);
  return r;
}

/* --- new names --- */

struct renaming {
  struct subvols *ss;
  size_t n;
  struct place *from, *to;
  struct entry *entry;
};

/* DIR's lock held. */
static int
check_renames (struct renaming *x)
{
  size_t i;
  int r = 0;

  for (i = 0; i < x->n && r == 0; ++i) {
    r = place_find (x->ss, &x->from[i], &x->entry[i]);
    if (r == 0)
      r = place_check (&x->to[i]);
  }
  return r;
}

static int
rename_locked (struct renaming *x)
{
  struct txn *txn;
  size_t i;
  int r;

  r = check_renames (x);
  if (r == 0)
    r = txn_begin (x->ss->env.trans, 8 + x->n / 2, &txn);
  if (r < 0)
    return r;
  for (i = 0; i < x->n && r == 0; ++i) {
    r = place_take (x->ss, txn, &x->from[i], &x->entry[i]);
    if (r == 0)
      r = place_add (x->ss, txn, &x->to[i], x->entry[i].ref.subvol);
  }
  return txn_leave (txn, r, true);
}

static int
run_rename (struct renaming *x, struct inode *dir,
            const struct subvol_rename *v)
{
  size_t i;
  int r = 0;

  for (i = 0; i < x->n && r == 0; ++i) {
    x->from[i] = (struct place) { dir, NAME (v[i].from, strlen (v[i].from)) };
    x->to[i] = (struct place) { dir, NAME (v[i].to, strlen (v[i].to)) };
    r = name_check (x->from[i].name);
    if (r == 0)
      r = name_check (x->to[i].name);
  }
  if (r == 0)
    r = places_check (x->from, x->n);
  if (r == 0)
    r = places_check (x->to, x->n);
  if (r < 0)
    return r;
  inodes_names_lock (x->ss->env.inodes);
  mutex_lock (&dir->lock);
  r = rename_locked (x);
  mutex_unlock (&dir->lock);
  inodes_names_unlock (x->ss->env.inodes);
  return r;
}

int
subvols_rename (struct subvols *ss, struct inode *dir,
                const struct subvol_rename *v, size_t n)
{
  struct renaming x = {
    .ss = ss, .n = n,
    .from = calloc (n, sizeof *x.from), .to = calloc (n, sizeof *x.to),
    .entry = calloc (n, sizeof *x.entry),
  };
  int r;

  if (x.from == NULL || x.to == NULL || x.entry == NULL)
    r = err_new (ERR_nomem, "names");
  else
    r = run_rename (&x, dir, v);
  free (x.from);
  free (x.to);
  free (x.entry);
  return r;
}
