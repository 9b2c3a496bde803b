/* subvol: snapshots.
 *
 * Files stand still first (data_freeze): what the snapshots are to hold is in
 * the trees, and what comes later is not.  Then the roots are copied and the
 * names added with nobody else in the transaction.
 */
#include <config.h>

#include "format/names.h"
#include "subvol/priv.h"

struct snapping {
  struct subvols *ss;
  struct subvol_snap *v;
  size_t n;
  struct root **roots;         /* sources, ascending by id, each once */
  size_t num_roots;
  struct inode **dirs;         /* of all, in the order of their locks */
};

static struct place
place_of (const struct subvol_snap *s)
{
  return (struct place) { s->dir, NAME (s->name, s->len) };
}

static int
by_id (const void *a, const void *b)
{
  const struct root *x = *(struct root *const *) a;
  const struct root *y = *(struct root *const *) b;

  return x->id < y->id ? -1 : x->id > y->id;
}

static int
sort_sources (struct snapping *s)
{
  size_t i, k = 0;

  s->roots = calloc (s->n, sizeof *s->roots);
  s->dirs = calloc (s->n, sizeof *s->dirs);
  if (s->roots == NULL || s->dirs == NULL)
    return err_new (ERR_nomem, "snapshots");
  for (i = 0; i < s->n; ++i) {
    s->roots[i] = s->v[i].source->root;
    s->dirs[i] = s->v[i].dir;
  }
  qsort (s->roots, s->n, sizeof *s->roots, by_id);
  for (i = 0; i < s->n; ++i)
    if (k == 0 || s->roots[k - 1] != s->roots[i])
      s->roots[k++] = s->roots[i];
  s->num_roots = k;
  return 0;
}

struct hashed {
  uint32_t hash;
  const struct place *place;
};

static int
by_hash (const void *a, const void *b)
{
  const struct hashed *x = a, *y = b;

  if (x->place->dir != y->place->dir)
    return x->place->dir < y->place->dir ? -1 : 1;
  return x->hash < y->hash ? -1 : x->hash > y->hash;
}

int
places_check (const struct place *v, size_t n)
{
  CLEANUP_FREE struct hashed *h = calloc (n, sizeof *h);
  size_t i;

  if (h == NULL)
    return err_new (ERR_nomem, "names");
  for (i = 0; i < n; ++i)
    h[i] = (struct hashed) { name_hash (v[i].name.s, v[i].name.len), &v[i] };
  qsort (h, n, sizeof *h, by_hash);
  for (i = 1; i < n; ++i) {
    const struct name *a = &h[i - 1].place->name, *b = &h[i].place->name;

    if (by_hash (&h[i - 1], &h[i]) != 0)
      continue;
    if (a->len == b->len && memcmp (a->s, b->s, a->len) == 0)
      return err_new (ERR_exists, "\"%.*s\", twice", (int) a->len, a->s);
    return err_new (ERR_name_hash, "\"%.*s\" and \"%.*s\" at once",
                    (int) a->len, a->s, (int) b->len, b->s);
  }
  return 0;
}

static int
check_names (const struct snapping *s)
{
  struct place place[SUBVOL_SNAPS_MAX];
  size_t i;
  int r = 0;

  if (s->n > SUBVOL_SNAPS_MAX)
    return err_new (ERR_overflow, "%zu snapshots at once", s->n);
  for (i = 0; i < s->n && r == 0; ++i) {
    place[i] = place_of (&s->v[i]);
    r = name_check (place[i].name);
  }
  return r < 0 ? r : places_check (place, s->n);
}

/* Directories are locked. */
static int
check (const struct snapping *s)
{
  size_t i;
  int r = 0;

  for (i = 0; i < s->n && r == 0; ++i) {
    const struct place place = place_of (&s->v[i]);
    struct root *root = s->v[i].source->root;

    rwlock_rdlock (&root->tree->lock);
    if (le32_get (root->item.refs) == 0)
      r = err_new (ERR_subvol_missing, "subvolume %llu has been deleted",
                   (unsigned long long) root->id);
    rwlock_unlock (&root->tree->lock);
    if (r == 0)
      r = place_check (&place);
  }
  return r;
}

int
snapshot_make (struct subvols *ss, struct txn *txn, struct root *source,
               bool read_only, uint64_t *ret_id)
{
  struct roots *roots = ss->env.roots;
  struct root *root = NULL;
  int r;

  r = roots_new_id (roots, txn, ret_id);
  if (r == 0)
    r = roots_snapshot (roots, txn, source, *ret_id, read_only, &root);
  if (r == 0)
    r = uuid_add (roots, txn, root->item.uuid, BTRFS_UUID_SUBVOL, root->id);
  if (r == 0)
    r = uuid_add (roots, txn, root->item.received_uuid,
                  BTRFS_UUID_RECEIVED_SUBVOL, root->id);
  roots_put (roots, root);
  return r;
}

/* All trees before any name, so that none shows the name of another. */
static int
make_all (const struct snapping *s, struct txn *txn)
{
  size_t i;
  int r = 0;

  for (i = 0; i < s->n && r == 0; ++i)
    r = snapshot_make (s->ss, txn, s->v[i].source->root, s->v[i].read_only,
                       &s->v[i].id);
  for (i = 0; i < s->n && r == 0; ++i) {
    const struct place place = place_of (&s->v[i]);

    r = place_add (s->ss, txn, &place, s->v[i].id);
  }
  return r;
}

static int
run (struct snapping *s)
{
  struct txn *txn;
  int r;

  inode_lock_all (s->dirs, s->n);
  r = check (s);
  if (r == 0)
    r = txn_begin_alone (s->ss->env.trans, 8 + 4 * s->n, &txn);
  if (r == 0)
    r = txn_leave (txn, make_all (s, txn), true);
  inode_unlock_all (s->dirs, s->n);
  return r;
}

int
subvol_snapshot (struct subvols *ss, struct subvol_snap *v, size_t n)
{
  struct snapping s = { .ss = ss, .v = v, .n = n };
  int r;

  r = check_names (&s);
  if (r == 0)
    r = sort_sources (&s);
  if (r == 0) {
    r = data_freeze (ss->env.data, s.roots, s.num_roots);
    if (r == 0) {
      r = run (&s);
      data_thaw (ss->env.data, s.roots, s.num_roots);
    }
  }
  free (s.roots);
  free (s.dirs);
  return r;
}
