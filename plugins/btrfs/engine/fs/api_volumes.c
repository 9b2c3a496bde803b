/* The public API: volumes, that is, subvolumes with one file "disk". */
#include <config.h>

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/math.h"
#include "fs/api_priv.h"

/* A volume's size is a whole number of sectors: clients count in 512 bytes at
 * least, and Linux cuts off what does not make one.
 */
static int
volume_size (struct btrnbd_pool *p, uint64_t size, uint64_t *ret)
{
  uint32_t sector = volume_format (p->fs->volume)->sectorsize;

  if (size > (uint64_t) INT64_MAX - sector)
    return err_new (ERR_file_big, "size %llu", (unsigned long long) size);
  *ret = round_up (size, sector);
  return 0;
}

int
volume_name_check (const char *name, const char **ret_path)
{
  int r;

  r = export_name_check (name, ret_path);
  if (r < 0)
    return r;
  if (strpbrk (*ret_path, "/@") != NULL)
    return err_new (ERR_name_bad, "\"/\" or \"@\" in the name of a volume");
  if (strlen (*ret_path) > BTRFS_NAME_MAX)
    return err_new (ERR_name_long, "%zu bytes", strlen (*ret_path));
  return 0;
}

int
btrnbd_volume_create (struct btrnbd_pool *p, const char *name,
                      const struct btrnbd_volume_opts *opts)
{
  struct subvol_new sv = {
    .mode = 0755, .file = VOLUME_FILE, .file_mode = 0600,
    .file_flags = opts->nocow
      ? BTRFS_INODE_NODATACOW | BTRFS_INODE_NODATASUM : 0,
  };
  struct inode *top = NULL;
  const char *path;
  char unit[24];
  uint64_t id;
  int r;

  r = pool_check_writable (p);
  if (r == 0)
    r = volume_name_check (name, &path);
  if (r == 0)
    r = volume_size (p, opts->size, &sv.file_size);
  if (r < 0)
    return r;
  if (opts->description != NULL) {
    if (strlen (opts->description) > DESCRIPTION_MAX)
      return err_new (ERR_xattr_big, "description of %zu bytes",
                      strlen (opts->description));
    if (!utf8_ok (opts->description))
      return err_new (ERR_invalid, "the description is not UTF-8");
    sv.top_xattr = (struct subvol_xattr) {
      DESCRIPTION_XATTR, opts->description, strlen (opts->description) };
  }
  if (opts->alloc_unit != 0) {
    if (!data_unit_ok (opts->alloc_unit))
      return err_new (ERR_invalid, "an allocation unit of %" PRIu64 " bytes: "
                      "a power of two from %d to %d is possible",
                      opts->alloc_unit, DATA_UNIT_MIN, DATA_UNIT_MAX);
    snprintf (unit, sizeof unit, "%" PRIu64, opts->alloc_unit);
    sv.file_xattr = (struct subvol_xattr) {
      DATA_UNIT_XATTR, unit, strlen (unit) };
  }
  r = inode_top (p->fs->inodes, &top);
  if (r < 0)
    return r;
  r = volume_name_is_free (top, path, strlen (path));
  if (r == 0)
    r = subvol_create (p->fs->subvols, top, path, strlen (path), &sv, &id);
  inode_put (top);
  return r < 0 ? err_note (r, "volume %s", path) : 0;
}

bool
subvol_is_open (struct btrnbd_pool *p, uint64_t root_id)
{
  struct open_inode *o;

  RB_FOREACH (o, open_inodes, &p->open)
    if (o->inode->root->id == root_id)
      return true;
  return false;
}

int
find_volume (struct btrnbd_pool *p, const char *name, struct inode **ret_dir,
             const char **ret_name, size_t *ret_len, uint64_t *ret_root_id)
{
  struct inode *file = NULL;
  const char *path;
  bool volume;
  int r;

  r = export_name_check (name, &path);
  if (r == 0)
    r = export_resolve (p, name, &file, &volume);
  if (r < 0)
    return r;
  *ret_root_id = file->root->id;
  inode_put (file);
  if (!volume)
    return err_new (ERR_not_file, "%s is not a volume", path);
  return api_walk_parent (p, path, ret_dir, ret_name, ret_len);
}

/* The open_lock is held. */
static int
remove_subvol (struct btrnbd_pool *p, struct inode *dir, const char *name,
               size_t len, uint64_t root_id)
{
  if (subvol_is_open (p, root_id))
    return err_new (ERR_busy, "%.*s is open", (int) len, name);
  return subvol_delete (p->fs->subvols, dir, name, len);
}

/* The name is gone; now the space.  If that fails, or the program ends before,
 * the cleaner or the next open of the pool goes on with it.
 */
static void
free_removed (struct btrnbd_pool *p, const char *name)
{
  const int r = subvols_drop_dead (p->fs->subvols, NULL, NULL);

  if (r == 0)
    return;
  log_warning ("%s is removed, its space is not free yet: %s", name,
               err_text (r));
  err_clear ();
}

static bool
is_snapshot_name (const char *name, size_t len)
{
  return memchr (name, '@', len) != NULL;
}

/* Who has locked a volume does not want it to change, let alone to go. */
static int
check_unlocked (struct btrnbd_pool *p, uint64_t root_id)
{
  struct subvol_info info;
  int r = subvol_get_info (p->fs->subvols, root_id, &info);

  return r < 0 ? r : info.read_only
    ? err_new (ERR_inode_readonly, "unlock it first") : 0;
}

/* -ERR_has_snapshots when the name of subvolume ROOT_ID is that of a volume
 * that has some.
 */
static int
check_no_snapshots (struct btrnbd_pool *p, struct inode *dir,
                    const char *name, size_t len, uint64_t root_id)
{
  struct snap_names snaps = { .n = 0 };
  int r = 0;

  if (!is_snapshot_name (name, len))
    r = snap_names_find (p, dir, name, len, root_id, &snaps);
  if (r == 0 && snaps.n > 0)
    r = err_new (ERR_has_snapshots, "%zu of them", snaps.n);
  snap_names_done (&snaps);
  return r;
}

/* One volume without, or with all, of its snapshots; open_lock held. */
static int
remove_volume (struct btrnbd_pool *p, struct inode *dir, const char *name,
               size_t len, uint64_t root_id, bool all)
{
  struct snap_names snaps = { .n = 0 };
  size_t i;
  int r = 0;

  if (!is_snapshot_name (name, len))
    r = snap_names_find (p, dir, name, len, root_id, &snaps);
  if (r == 0 && snaps.n > 0 && !all)
    r = err_new (ERR_has_snapshots, "%zu of them", snaps.n);
  if (r == 0 && !is_snapshot_name (name, len))
    r = check_unlocked (p, root_id);
  for (i = 0; i < snaps.n && r == 0; ++i)
    if (subvol_is_open (p, snaps.v[i].root_id))
      r = err_new (ERR_busy, "%s is open", snaps.v[i].name);
  if (r == 0 && subvol_is_open (p, root_id))
    r = err_new (ERR_busy, "%.*s is open", (int) len, name);
  for (i = 0; i < snaps.n && r == 0; ++i)
    r = remove_subvol (p, dir, snaps.v[i].name, strlen (snaps.v[i].name),
                       snaps.v[i].root_id);
  if (r == 0)
    r = remove_subvol (p, dir, name, len, root_id);
  snap_names_done (&snaps);
  return r;
}

static int
find_and_remove (struct btrnbd_pool *p, const char *name, bool all)
{
  struct inode *dir = NULL;
  const char *last;
  uint64_t root_id;
  size_t len;
  int r;

  r = pool_check_writable (p);
  if (r == 0)
    r = find_volume (p, name, &dir, &last, &len, &root_id);
  if (r < 0)
    return r;
  mutex_lock (&p->open_lock);
  r = remove_volume (p, dir, last, len, root_id, all);
  mutex_unlock (&p->open_lock);
  inode_put (dir);
  if (r < 0)
    return err_note (r, "volume %s", name);
  free_removed (p, name);
  return 0;
}

int
btrnbd_volume_remove (struct btrnbd_pool *p, const char *name)
{
  return find_and_remove (p, name, false);
}

int
btrnbd_volume_remove_all (struct btrnbd_pool *p, const char *name)
{
  return find_and_remove (p, name, true);
}

int
btrnbd_subvol_remove (struct btrnbd_pool *p, const char *path)
{
  struct inode *dir = NULL, *in = NULL;
  uint64_t root_id = 0;
  const char *last;
  size_t len;
  int r;

  r = pool_check_writable (p);
  if (r == 0)
    r = api_walk_parent (p, path, &dir, &last, &len);
  if (r < 0)
    return r;
  r = inode_lookup (dir, last, len, &in);
  if (r == 0) {
    if (api_is_subvol_top (in))
      root_id = in->root->id;
    else
      r = err_new (ERR_not_dir, "not a subvolume");
    inode_put (in);
  }
  if (r == 0) {
    mutex_lock (&p->open_lock);
    r = check_no_snapshots (p, dir, last, len, root_id);
    if (r == 0)
      r = remove_subvol (p, dir, last, len, root_id);
    mutex_unlock (&p->open_lock);
  }
  inode_put (dir);
  if (r < 0)
    return err_note (r, "%s", path);
  free_removed (p, path);
  return 0;
}

/* The open_lock is held. */
static int
set_size (struct btrnbd_pool *p, struct inode *file, uint64_t size,
          bool may_shrink)
{
  uint64_t old;

  mutex_lock (&file->lock);
  old = file->size;
  mutex_unlock (&file->lock);
  if (size < old && !may_shrink)
    return err_new (ERR_invalid, "it has %llu bytes; --shrink cuts off what "
                    "is behind %llu", (unsigned long long) old,
                    (unsigned long long) size);
  /* The size of an export is told to a client once. */
  if (size < old && open_handles (p, file) > 0)
    return err_new (ERR_busy, "it is open and cannot shrink");
  return data_set_size (p->fs->data, file, size);
}

static int
resize (struct btrnbd_pool *p, const char *name, uint64_t size,
        bool may_shrink)
{
  struct inode *file = NULL;
  bool volume;
  int r;

  r = pool_check_writable (p);
  if (r == 0)
    r = export_resolve (p, name, &file, &volume);
  if (r < 0)
    return r;
  if (api_root_read_only (file->root))
    r = err_new (ERR_inode_readonly, "it cannot change");
  else if (volume && size == 0)
    r = err_new (ERR_invalid, "a volume of no bytes");
  else if (volume)
    r = volume_size (p, size, &size);
  if (r == 0) {
    mutex_lock (&p->open_lock);
    r = set_size (p, file, size, may_shrink);
    mutex_unlock (&p->open_lock);
  }
  inode_put (file);
  return r < 0 ? err_note (r, "%s", name) : 0;
}

int
btrnbd_volume_resize (struct btrnbd_pool *p, const char *name, uint64_t size)
{
  return resize (p, name, size, true);
}

int
btrnbd_volume_grow (struct btrnbd_pool *p, const char *name, uint64_t size)
{
  return resize (p, name, size, false);
}

/* A new name for each snapshot: what stands before the "@" is replaced. */
static int
rename_list (const struct snap_names *snaps, size_t old_len, const char *to,
             struct subvol_rename *v)
{
  size_t i;

  for (i = 0; i < snaps->n; ++i) {
    char *s;

    if (asprintf (&s, "%s%s", to, snaps->v[i].name + old_len) < 0)
      return err_new (ERR_nomem, "names");
    v[i + 1] = (struct subvol_rename) { snaps->v[i].name, s };
  }
  return 0;
}

static int
rename_with_snapshots (struct btrnbd_pool *p, struct inode *dir,
                       const char *name, size_t len, uint64_t root_id,
                       const char *to)
{
  CLEANUP_FREE char *from = strndup (name, len);
  struct snap_names snaps = { .n = 0 };
  struct subvol_rename *v = NULL;
  size_t i;
  int r = 0;

  if (from == NULL)
    return err_new (ERR_nomem, "names");
  if (!is_snapshot_name (name, len))
    r = snap_names_find (p, dir, name, len, root_id, &snaps);
  if (r == 0) {
    v = calloc (snaps.n + 1, sizeof *v);
    r = v == NULL ? err_new (ERR_nomem, "names")
      : rename_list (&snaps, len, to, v);
  }
  if (r == 0) {
    v[0] = (struct subvol_rename) { from, to };
    r = subvols_rename (p->fs->subvols, dir, v, snaps.n + 1);
  }
  for (i = 0; v != NULL && i < snaps.n; ++i)
    free ((char *) v[i + 1].to);
  free (v);
  snap_names_done (&snaps);
  return r;
}

/* A snapshot gets another tag, and stays one of its volume. */
static int
new_name_check (const char *name, size_t len, const char *to,
                const char **ret_name)
{
  const char *at = memchr (name, '@', len);
  size_t stem;
  int r;

  if (at == NULL)
    return volume_name_check (to, ret_name);
  stem = at + 1 - name;
  r = export_name_check (to, ret_name);
  if (r == 0 && strncmp (*ret_name, name, stem) != 0)
    r = err_new (ERR_name_bad, "the name of a snapshot begins with %.*s; a "
                 "clone makes a volume of it", (int) stem, name);
  if (r == 0)
    r = snapshot_tag_check (*ret_name + stem);
  if (r == 0 && strlen (*ret_name) > BTRFS_NAME_MAX)
    r = err_new (ERR_name_long, "%zu bytes", strlen (*ret_name));
  return r;
}

int
btrnbd_volume_rename (struct btrnbd_pool *p, const char *from, const char *to)
{
  struct inode *dir = NULL;
  const char *name, *new_name;
  uint64_t root_id;
  size_t len;
  int r;

  r = pool_check_writable (p);
  if (r == 0)
    r = find_volume (p, from, &dir, &name, &len, &root_id);
  if (r < 0)
    return r;
  r = new_name_check (name, len, to, &new_name);
  if (r == 0 && strlen (new_name) == len && memcmp (new_name, name, len) == 0)
    r = err_new (ERR_invalid, "that is its name");
  if (r == 0 && !is_snapshot_name (name, len))
    r = volume_name_is_free (dir, new_name, strlen (new_name));
  if (r == 0)
    r = rename_with_snapshots (p, dir, name, len, root_id, new_name);
  inode_put (dir);
  return r < 0 ? err_note (r, "%s to %s", from, to) : 0;
}
