/* The public API: which subvolumes are the snapshots of a volume.
 *
 * A snapshot is found by its name, NAME@TAG beside the volume NAME, but that
 * is not enough: Linux can remove a volume and leave its snapshots, and then
 * a new volume of that name comes by those of a stranger.  So one of these
 * must be true as well:
 *
 * - the snapshot was taken of this very subvolume, by uuid;
 * - both descend from one that was created once: they share the birth of
 *   their top directory, which snapshots copy and nothing changes.  A
 *   rollback makes a new subvolume with a new uuid, and may be from a
 *   snapshot that is gone since: then only this tells.
 *
 * Two clones of one golden image share a birth.  What Linux leaves of one is
 * taken for the other's when that gets its name; here such a name cannot be
 * made (volume_name_is_free).
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "fs/api_priv.h"

/* --- by name --- */

struct snap_search {
  const char *name;
  size_t len;
  struct snap_names *found;
};

static bool
has_name (const struct snap_search *s, const struct dir_entry *e)
{
  return e->is_subvol && e->name_len > s->len && e->name[s->len] == '@'
    && memcmp (e->name, s->name, s->len) == 0;
}

static int
add_snap_name (void *opaque, const struct dir_entry *e)
{
  struct snap_search *s = opaque;
  struct snap_names *f = s->found;
  struct snap_name *v;

  if (!has_name (s, e))
    return 0;
  if (f->n == SNAP_NAMES_MAX)
    return err_new (ERR_overflow, "more than %u snapshots", SNAP_NAMES_MAX);
  if (f->n == f->room) {
    f->room = f->room == 0 ? 16 : 2 * f->room;
    v = realloc (f->v, f->room * sizeof *v);
    if (v == NULL)
      return err_new (ERR_nomem, "list of snapshots");
    f->v = v;
  }
  f->v[f->n].root_id = e->root_id;
  f->v[f->n].name = strndup (e->name, e->name_len);
  if (f->v[f->n].name == NULL)
    return err_new (ERR_nomem, "list of snapshots");
  ++f->n;
  return 0;
}

static int
refuse_name (void *opaque, const struct dir_entry *e)
{
  if (!has_name (opaque, e))
    return 0;
  return err_new (ERR_exists, "a snapshot of an earlier volume of that name, "
                  "%.*s; remove it, or clone it under another name",
                  (int) e->name_len, e->name);
}

int
volume_name_is_free (struct inode *dir, const char *name, size_t len)
{
  struct snap_search s = { .name = name, .len = len };

  return inode_readdir (dir, 0, refuse_name, &s);
}

/* --- by descent --- */

struct descent {
  struct subvol_info info;
  uint64_t generation;         /* of the top directory's making */
  struct timespec otime;
};

static int
descent_get (struct btrnbd_pool *p, uint64_t root_id, struct descent *ret)
{
  struct inode *top = NULL;
  int r;

  r = subvol_get_info (p->fs->subvols, root_id, &ret->info);
  if (r == 0)
    r = inode_get (p->fs->inodes, root_id, BTRFS_FIRST_FREE_OBJECTID, &top);
  if (r < 0)
    return r;
  mutex_lock (&top->lock);
  ret->generation = top->generation;
  ret->otime = top->otime;
  mutex_unlock (&top->lock);
  inode_put (top);
  return 0;
}

static bool
is_of (const struct descent *snapshot, const struct descent *volume)
{
  if (memcmp (snapshot->info.parent_uuid, volume->info.uuid,
              BTRFS_UUID_SIZE) == 0)
    return true;
  return snapshot->generation == volume->generation
    && snapshot->otime.tv_sec == volume->otime.tv_sec
    && snapshot->otime.tv_nsec == volume->otime.tv_nsec;
}

int
snapshot_is_of (struct btrnbd_pool *p, uint64_t snapshot, uint64_t volume,
                bool *ret)
{
  struct descent s, v;
  int r;

  r = descent_get (p, snapshot, &s);
  if (r == 0)
    r = descent_get (p, volume, &v);
  if (r == 0)
    *ret = is_of (&s, &v);
  return r;
}

/* Those that are not of the volume leave the list; what has been deleted
 * since is left to who wants to do something with it.
 */
static int
drop_foreign (struct btrnbd_pool *p, uint64_t volume, struct snap_names *f)
{
  struct descent s, v;
  size_t i, n = 0;
  int r = f->n > 0 ? descent_get (p, volume, &v) : 0;

  for (i = 0; i < f->n && r == 0; ++i) {
    r = descent_get (p, f->v[i].root_id, &s);
    if (r == -ERR_subvol_missing)
      err_clear ();
    else if (r < 0)
      return r;
    if (r < 0 || is_of (&s, &v)) {
      struct snap_name keep = f->v[i];

      f->v[i] = f->v[n];
      f->v[n++] = keep;
    }
    r = 0;
  }
  if (r < 0)
    return r;
  for (i = n; i < f->n; ++i)
    free (f->v[i].name);
  f->n = n;
  return 0;
}

int
snap_names_find (struct btrnbd_pool *p, struct inode *dir, const char *name,
                 size_t len, uint64_t volume, struct snap_names *ret)
{
  struct snap_search s = { .name = name, .len = len, .found = ret };
  int r;

  *ret = (struct snap_names) { .n = 0 };
  r = inode_readdir (dir, 0, add_snap_name, &s);
  return r < 0 ? r : drop_foreign (p, volume, ret);
}

void
snap_names_done (struct snap_names *f)
{
  size_t i;

  for (i = 0; i < f->n; ++i)
    free (f->v[i].name);
  free (f->v);
  *f = (struct snap_names) { .n = 0 };
}
