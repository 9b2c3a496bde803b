/* The public API: a file that takes another one's place when it is complete.
 *
 * It is written under a name of its own in the same directory.  What it is to
 * replace is looked at first, so that nobody copies for an hour to be refused,
 * and once more by the rename.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "fs/api_priv.h"

struct btrnbd_replace {
  struct btrnbd_pool *pool;
  struct btrnbd_file *file;    /* the new one */
  char *target, *temp;         /* paths */
  struct btrnbd_stat old;      /* when there is one */
  bool exists, volume;
};

static void
replace_free (struct btrnbd_replace *rep)
{
  if (rep->file)
    btrnbd_file_close (rep->file);
  free (rep->target);
  free (rep->temp);
  free (rep);
}

/* --- the old file --- */

/* What PATH means, and that it may be replaced. */
static int
look_at_target (struct btrnbd_replace *rep, const char *path)
{
  struct btrnbd_pool *p = rep->pool;
  struct inode *in = NULL;
  int r = api_walk (p, path, &in);

  if (r == 0 && api_is_subvol_top (in)) {
    inode_put (in);
    in = NULL;
    rep->volume = true;
    r = asprintf (&rep->target, "%s/" VOLUME_FILE, path) < 0
      ? err_new (ERR_nomem, "name") : api_walk (p, rep->target, &in);
  }
  else {
    rep->target = strdup (path);
    if (rep->target == NULL)
      r = err_new (ERR_nomem, "name");
  }
  if (r == -ERR_not_found && !rep->volume) {
    err_clear ();
    return 0;
  }
  if (r == 0) {
    rep->exists = true;
    api_stat_fill (in, &rep->old);
    mutex_lock (&p->open_lock);
    if (!api_is_file (in))
      r = err_new (ERR_not_file, "%s", path);
    else if (rep->old.nlink > 1)
      r = err_new (ERR_busy, "%s has %u names, only one would be replaced",
                   path, rep->old.nlink);
    else if (open_handles (p, in) > 0)
      r = err_new (ERR_busy, "%s is open", path);
    mutex_unlock (&p->open_lock);
  }
  if (in != NULL)
    inode_put (in);
  return r;
}

/* --- the new one --- */

static int
name_temp (struct btrnbd_replace *rep)
{
  struct inode *dir = NULL;
  const char *name;
  size_t len;
  int r = api_walk_new (rep->pool, rep->target, &dir, &name, &len);

  if (r < 0)
    return r;
  inode_put (dir);
  /* The same name for the same target: a second one finds the first, and
   * what a crash has left.
   */
  if (asprintf (&rep->temp, "%.*s" BTRNBD_UNFINISHED "%.*s",
                (int) (name - rep->target), rep->target,
                (int) MIN (len, BTRFS_NAME_MAX - strlen (BTRNBD_UNFINISHED)),
                name) < 0) {
    rep->temp = NULL;
    return err_new (ERR_nomem, "name");
  }
  return 0;
}

static int
create_temp (struct btrnbd_replace *rep, bool nocow)
{
  struct btrnbd_pool *p = rep->pool;
  const uint32_t mode = rep->exists ? rep->old.mode & 07777 : 0644;
  int r;

  nocow = rep->exists ? rep->old.is_nocow : nocow;
  r = btrnbd_create (p, rep->temp, mode, nocow);
  if (r == -ERR_exists) {
    r = btrnbd_unlink (p, rep->temp);
    if (r == -ERR_busy)
      return err_new (ERR_busy, "%s is being replaced by somebody else",
                      rep->target);
    if (r == 0)
      r = btrnbd_create (p, rep->temp, mode, nocow);
  }
  return r;
}

static int
copy_xattrs (struct btrnbd_replace *rep)
{
  CLEANUP_FREE char *names = NULL;
  CLEANUP_FREE char *value = malloc (UINT16_MAX);
  size_t size = 0, len;
  const char *n;
  int r;

  if (value == NULL)
    return err_new (ERR_nomem, "attributes");
  r = btrnbd_listxattr (rep->pool, rep->target, &names, &size);
  for (n = names; r == 0 && n < names + size; n += strlen (n) + 1) {
    r = btrnbd_getxattr (rep->pool, rep->target, n, value, UINT16_MAX, &len);
    if (r == 0)
      r = btrnbd_setxattr (rep->pool, rep->temp, n, value, len);
  }
  return r;
}

static int
prepare_temp (struct btrnbd_replace *rep)
{
  const struct btrnbd_stat *old = &rep->old;
  int r = 0;

  if (rep->exists) {
    r = btrnbd_chmod (rep->pool, rep->temp, old->mode & 07777, old->uid,
                      old->gid);
    if (r == 0)
      r = copy_xattrs (rep);
  }
  if (r == 0)
    r = btrnbd_file_open (rep->pool, rep->temp, 0, &rep->file);
  if (r == 0 && rep->volume)
    r = btrnbd_truncate (rep->file, old->size);
  return r;
}

/* The error that is being told stays. */
static void
remove_temp (struct btrnbd_replace *rep)
{
  char *notes = err_take ();

  if (rep->file)
    btrnbd_file_close (rep->file);
  rep->file = NULL;
  btrnbd_unlink (rep->pool, rep->temp);
  err_put (notes);
}

int
btrnbd_replace_begin (struct btrnbd_pool *p, const char *path, bool nocow,
                      struct btrnbd_replace **ret)
{
  struct btrnbd_replace *rep;
  int r = pool_check_writable (p);

  if (r < 0)
    return r;
  rep = calloc (1, sizeof *rep);
  if (rep == NULL)
    return err_new (ERR_nomem, "%s", path);
  rep->pool = p;
  r = look_at_target (rep, path);
  if (r == 0)
    r = name_temp (rep);
  if (r == 0)
    r = create_temp (rep, nocow);
  if (r == 0) {
    r = prepare_temp (rep);
    if (r < 0)
      remove_temp (rep);
  }
  if (r < 0)
    replace_free (rep);
  else
    *ret = rep;
  return r;
}

struct btrnbd_file *
btrnbd_replace_file (struct btrnbd_replace *rep)
{
  return rep->file;
}

bool
btrnbd_replace_is_volume (const struct btrnbd_replace *rep)
{
  return rep->volume;
}

/* What is durable before the name is: contents, then the rename. */
int
btrnbd_replace_commit (struct btrnbd_replace *rep)
{
  int r = btrnbd_flush (rep->file);

  btrnbd_file_close (rep->file);
  rep->file = NULL;
  if (r == 0)
    r = btrnbd_rename (rep->pool, rep->temp, rep->target,
                       rep->exists ? 0 : BTRNBD_RENAME_NOREPLACE);
  if (r < 0)
    remove_temp (rep);
  else
    r = btrnbd_fsync (rep->pool, rep->target);
  replace_free (rep);
  return r;
}

void
btrnbd_replace_abort (struct btrnbd_replace *rep)
{
  remove_temp (rep);
  replace_free (rep);
}
