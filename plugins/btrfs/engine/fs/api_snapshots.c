/* The public API: snapshots, clones, and the state of subvolumes. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include <uuid/uuid.h>

#include "fs/api_priv.h"

/* --- finding --- */

/* The top directory of the subvolume at PATH. */
static int
walk_to_subvol (struct btrnbd_pool *p, const char *path, struct inode **ret)
{
  struct inode *in = NULL;
  int r = api_walk (p, path, &in);

  if (r < 0)
    return r;
  if (in->ino != BTRFS_FIRST_FREE_OBJECTID) {
    inode_put (in);
    return err_new (ERR_not_dir, "%s is no subvolume", path);
  }
  *ret = in;
  return 0;
}

static void
snaps_done (struct subvol_snap *v, size_t n)
{
  size_t i;

  for (i = 0; v != NULL && i < n; ++i) {
    inode_put (v[i].source);
    inode_put (v[i].dir);
  }
  free (v);
}

static int
make_durable (struct btrnbd_pool *p)
{
  return trans_commit (p->fs->trans, NULL);
}

typedef int walk_fn (struct btrnbd_pool *, const char *path,
                     struct inode **ret_dir, const char **ret_name,
                     size_t *ret_len);

/* WALK finds where the new name goes, and knows which may be made. */
static int
make_snapshots (struct btrnbd_pool *p, walk_fn *walk,
                const struct btrnbd_snapshot_opts *opts, size_t n)
{
  struct subvol_snap *v;
  size_t i;
  int r;

  r = pool_check_writable (p);
  if (r < 0 || n == 0)
    return r;
  if (n > SUBVOL_SNAPS_MAX)
    return err_new (ERR_overflow, "%zu snapshots at once", n);
  v = calloc (n, sizeof *v);
  if (v == NULL)
    return err_new (ERR_nomem, "snapshots");
  for (i = 0; i < n && r == 0; ++i) {
    v[i].read_only = opts[i].read_only;
    r = walk_to_subvol (p, opts[i].from, &v[i].source);
    if (r == 0)
      r = walk (p, opts[i].to, &v[i].dir, &v[i].name, &v[i].len);
  }
  if (r == 0)
    r = subvol_snapshot (p->fs->subvols, v, n);
  snaps_done (v, n);
  if (r == 0)
    r = make_durable (p);
  if (r < 0 && n == 1)
    return err_note (r, "%s to %s", opts->from, opts->to);
  return r;
}

/* A new volume does not come by the snapshots of one that is gone. */
static int
walk_to_new_subvol (struct btrnbd_pool *p, const char *path,
                    struct inode **ret_dir, const char **ret_name,
                    size_t *ret_len)
{
  int r = api_walk_new (p, path, ret_dir, ret_name, ret_len);

  if (r < 0)
    return r;
  r = volume_name_is_free (*ret_dir, *ret_name, *ret_len);
  if (r < 0)
    inode_put (take (*ret_dir));
  return r;
}

int
btrnbd_subvol_snapshot (struct btrnbd_pool *p,
                        const struct btrnbd_snapshot_opts *opts, size_t n)
{
  return make_snapshots (p, walk_to_new_subvol, opts, n);
}

/* --- volumes --- */

int
snapshot_tag_check (const char *tag)
{
  if (tag[0] == '\0')
    return err_new (ERR_name_bad, "the tag is empty");
  if (strpbrk (tag, "/@") != NULL)
    return err_new (ERR_name_bad, "\"/\" or \"@\" in a tag");
  return 0;
}

/* NAME, which must be a volume, and with "@TAG" behind it. */
static int
volume_with_tag (struct btrnbd_pool *p, const char *name, const char *tag,
                 char **ret)
{
  struct inode *dir = NULL;
  const char *path, *last;
  uint64_t root_id;
  size_t len;
  int r;

  r = find_volume (p, name, &dir, &last, &len, &root_id);
  if (r < 0)
    return r;
  inode_put (dir);
  if (memchr (last, '@', len) != NULL)
    return err_new (ERR_name_bad, "%s is a snapshot", name);
  r = export_name_check (name, &path);
  if (r == 0 && asprintf (ret, "%.*s@%s", (int) (last + len - path), path,
                          tag) < 0) {
    *ret = NULL;
    r = err_new (ERR_nomem, "name of a snapshot");
  }
  return r == 0 ? export_name_check (*ret, &path) : r;
}

int
btrnbd_volume_snapshot (struct btrnbd_pool *p, const char *const *names,
                        size_t n, const char *tag)
{
  struct btrnbd_snapshot_opts *v;
  size_t i;
  int r;

  r = pool_check_writable (p);
  if (r == 0)
    r = snapshot_tag_check (tag);
  if (r < 0 || n == 0)
    return r;
  v = n > SUBVOL_SNAPS_MAX ? NULL : calloc (n, sizeof *v);
  if (v == NULL)
    return err_new (ERR_overflow, "%zu snapshots at once", n);
  for (i = 0; i < n && r == 0; ++i) {
    v[i] = (struct btrnbd_snapshot_opts) { .from = names[i],
      .read_only = true };
    r = volume_with_tag (p, names[i], tag, (char **) &v[i].to);
  }
  if (r == 0)
    r = make_snapshots (p, api_walk_parent, v, n);
  for (i = 0; i < n; ++i)
    free ((char *) v[i].to);
  free (v);
  return r;
}

int
btrnbd_volume_clone (struct btrnbd_pool *p, const char *from, const char *to)
{
  struct btrnbd_snapshot_opts opts = { .read_only = false };
  struct inode *dir = NULL;
  const char *name;
  uint64_t root_id;
  size_t len;
  int r;

  r = volume_name_check (to, &opts.to);
  if (r == 0)
    r = find_volume (p, from, &dir, &name, &len, &root_id);
  if (r < 0)
    return r;
  inode_put (dir);
  r = export_name_check (from, &opts.from);
  return r < 0 ? r : btrnbd_subvol_snapshot (p, &opts, 1);
}

/* --- a volume's snapshots --- */

struct snap_list {
  struct btrnbd_volume_snapshot_info *v;
  size_t n;
};

static int
by_making (const void *a, const void *b)
{
  const struct btrnbd_volume_snapshot_info *x = a, *y = b;

  if (x->generation != y->generation)
    return x->generation < y->generation ? -1 : 1;
  return x->root_id < y->root_id ? -1 : x->root_id > y->root_id;
}

/* *ret_gone: deleted just now. */
static int
describe (struct btrnbd_pool *p, const struct snap_name *s, const char *prefix,
          struct btrnbd_volume_snapshot_info *ret, bool *ret_gone)
{
  CLEANUP_FREE char *path = NULL;
  struct subvol_info info;
  struct btrnbd_stat st = { 0 };
  int r;

  *ret_gone = false;
  if (asprintf (&path, "%s%s", prefix, s->name) < 0)
    return err_new (ERR_nomem, "list of snapshots");
  r = subvol_get_info (p->fs->subvols, s->root_id, &info);
  if (r == -ERR_subvol_missing) {
    err_clear ();
    *ret_gone = true;
    return 0;
  }
  if (r < 0)
    return r;
  *ret = (struct btrnbd_volume_snapshot_info) {
    .root_id = s->root_id, .generation = info.otransid,
    .created = info.otime, .read_only = info.read_only,
  };
  uuid_unparse (info.uuid, ret->uuid);
  uuid_unparse (info.parent_uuid, ret->parent_uuid);
  ret->name = take (path);
  ret->tag = strchr (ret->name + strlen (prefix), '@') + 1;
  {
    CLEANUP_FREE char *disk = NULL;

    if (asprintf (&disk, "%s/%s", ret->name, VOLUME_FILE) >= 0
        && btrnbd_stat (p, disk, &st) == 0) {
      ret->size = st.size;
      ret->nbytes = st.nbytes;
    }
    else
      err_clear ();             /* a subvolume without a disk */
  }
  return 0;
}

static int
describe_all (struct btrnbd_pool *p, const struct snap_names *names,
              const char *prefix, struct snap_list *l)
{
  size_t i;
  int r = 0;

  l->v = calloc (names->n + 1, sizeof *l->v);
  if (l->v == NULL)
    return err_new (ERR_nomem, "list of snapshots");
  for (i = 0; i < names->n && r == 0; ++i) {
    bool gone;

    r = describe (p, &names->v[i], prefix, &l->v[l->n], &gone);
    l->n += r == 0 && !gone;
  }
  qsort (l->v, l->n, sizeof *l->v, by_making);
  return r;
}

int
btrnbd_volume_snapshots (struct btrnbd_pool *p, const char *name,
                         btrnbd_snapshot_fn fn, void *opaque)
{
  struct snap_names names = { .n = 0 };
  struct snap_list l = { .n = 0 };
  CLEANUP_FREE char *prefix = NULL;
  struct inode *dir = NULL;
  const char *path, *last;
  uint64_t root_id;
  size_t len, i;
  int r;

  r = find_volume (p, name, &dir, &last, &len, &root_id);
  if (r < 0)
    return r;
  r = export_name_check (name, &path);
  if (r == 0) {
    prefix = strndup (path, last - path);
    r = prefix == NULL ? err_new (ERR_nomem, "list of snapshots")
      : snap_names_find (p, dir, last, len, root_id, &names);
  }
  inode_put (dir);
  if (r == 0)
    r = describe_all (p, &names, prefix, &l);
  snap_names_done (&names);
  for (i = 0; i < l.n && r == 0; ++i)
    r = fn (opaque, &l.v[i]);
  for (i = 0; i < l.n; ++i)
    free ((char *) l.v[i].name);
  free (l.v);
  return r;
}

/* The subvolume of snapshot TAG of NAME. */
static int
find_snapshot (struct btrnbd_pool *p, const char *name, const char *tag,
               struct inode **ret)
{
  CLEANUP_FREE char *full = NULL;
  int r = snapshot_tag_check (tag);

  if (r == 0)
    r = volume_with_tag (p, name, tag, &full);
  return r < 0 ? r : walk_to_subvol (p, full, ret);
}

/* Another machine's data would be taken for older data of this one. */
static int
check_own (struct btrnbd_pool *p, uint64_t volume, struct inode *snapshot,
           const char *tag)
{
  bool own;
  int r = snapshot_is_of (p, snapshot->root->id, volume, &own);

  return r < 0 ? r : own ? 0
    : err_new (ERR_invalid, "\"%s\" was taken of another volume, which had "
               "the same name; a clone of it is one", tag);
}

int
btrnbd_volume_rollback (struct btrnbd_pool *p, const char *name,
                        const char *tag)
{
  struct inode *dir = NULL, *source = NULL;
  const char *last;
  uint64_t root_id;
  size_t len;
  int r;

  r = pool_check_writable (p);
  if (r == 0)
    r = find_snapshot (p, name, tag, &source);
  if (r < 0)
    return r;
  r = find_volume (p, name, &dir, &last, &len, &root_id);
  if (r == 0) {
    mutex_lock (&p->open_lock);
    r = subvol_is_open (p, root_id) ? err_new (ERR_busy, "it is open")
      : check_own (p, root_id, source, tag);
    if (r == 0)
      r = subvol_replace (p->fs->subvols, dir, last, len, source);
    mutex_unlock (&p->open_lock);
    inode_put (dir);
  }
  inode_put (source);
  if (r == 0)
    r = make_durable (p);
  return r < 0 ? err_note (r, "volume %s", name) : 0;
}

/* --- differences --- */

struct diff {
  btrnbd_diff_fn fn;
  void *opaque;
};

static int
pass_diff (void *opaque, uint64_t offset, uint64_t len)
{
  const struct diff *d = opaque;

  return d->fn (d->opaque, offset, len);
}

int
btrnbd_diff (struct btrnbd_pool *p, const char *a, const char *b,
             btrnbd_diff_fn fn, void *opaque)
{
  struct diff d = { .fn = fn, .opaque = opaque };
  struct inode *x = NULL, *y = NULL;
  bool volume;
  int r;

  r = export_resolve (p, a, &x, &volume);
  if (r == 0)
    r = export_resolve (p, b, &y, &volume);
  if (r == 0)
    r = data_compare (p->fs->data, x, y, pass_diff, &d);
  inode_put (x);
  inode_put (y);
  return r;
}

/* --- state --- */

int
btrnbd_subvol_set_read_only (struct btrnbd_pool *p, const char *path,
                             bool read_only)
{
  struct inode *top = NULL;
  int r;

  r = pool_check_writable (p);
  if (r == 0)
    r = walk_to_subvol (p, path, &top);
  if (r < 0)
    return r;
  if (top->root->id == BTRFS_FS_TREE)
    r = err_new (ERR_invalid, "the pool's top stays writable");
  else if (api_root_read_only (top->root) != read_only) {
    mutex_lock (&p->open_lock);
    if (subvol_is_open (p, top->root->id))
      r = err_new (ERR_busy, "a file in it is open");
    else
      r = subvol_set_read_only (p->fs->subvols, top, read_only);
    mutex_unlock (&p->open_lock);
  }
  inode_put (top);
  if (r == 0)
    r = make_durable (p);
  return r < 0 ? err_note (r, "%s", path) : 0;
}

static void
use_default_subvol (void *opaque, struct btrfs_super *super)
{
  (void) opaque;
  super->incompat_flags = le64_make (le64_get (super->incompat_flags)
                                     | BTRFS_INCOMPAT_DEFAULT_SUBVOL);
}

int
btrnbd_subvol_set_default (struct btrnbd_pool *p, const char *path)
{
  struct inode *top = NULL;
  int r;

  r = pool_check_writable (p);
  if (r == 0)
    r = walk_to_subvol (p, path, &top);
  if (r < 0)
    return r;
  commit_edit_super (p->fs, use_default_subvol, NULL);
  r = subvol_set_default (p->fs->subvols, top);
  inode_put (top);
  if (r == 0)
    r = make_durable (p);
  return r < 0 ? err_note (r, "%s", path) : 0;
}
