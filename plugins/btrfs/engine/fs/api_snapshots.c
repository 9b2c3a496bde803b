/* The public API: snapshots, clones, and the state of subvolumes. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

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

int
btrnbd_subvol_snapshot (struct btrnbd_pool *p,
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
      r = api_walk_parent (p, opts[i].to, &v[i].dir, &v[i].name, &v[i].len);
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

/* --- volumes --- */

static int
tag_check (const char *tag)
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
    r = tag_check (tag);
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
    r = btrnbd_subvol_snapshot (p, v, n);
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
