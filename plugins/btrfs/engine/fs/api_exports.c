/* The public API: export names and the list of exports.
 *
 * An export is a regular file.  Its name is its path from the top of the
 * pool, except that the file "disk" at the top of a subvolume lends its
 * export to the subvolume: that is a volume, and the subvolume's path is the
 * name of the export.  Symbolic links are never followed, and names that
 * begin with "@" are not the pool's.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/math.h"
#include "fs/api_priv.h"

/* --- names --- */

/* Length of the UTF-8 sequence at S, 0 for a bad one (overlong forms,
 * surrogates and numbers beyond U+10FFFF included).
 */
static unsigned
utf8_len (const unsigned char *s)
{
  unsigned n, i;

  if (s[0] < 0x80)
    return 1;
  n = s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
    : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
  for (i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80)
      return 0;
  if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
      (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
    return 0;
  return n;
}

bool
utf8_ok (const char *s)
{
  const unsigned char *p = (const unsigned char *) s;
  unsigned n;

  for (; *p != '\0'; p += n) {
    n = utf8_len (p);
    if (n == 0)
      return false;
  }
  return true;
}

int
export_name_check (const char *name, const char **ret_path)
{
  const char *p, *end;

  while (*name == '/')
    name++;
  if (*name == '\0')
    return err_new (ERR_name_bad, "the export name is empty");
  if (strlen (name) > EXPORT_NAME_MAX)
    return err_new (ERR_name_long, "export name of %zu bytes",
                    strlen (name));
  if (!utf8_ok (name))
    return err_new (ERR_name_bad, "the export name is not UTF-8");
  if (*name == '@')
    return err_new (ERR_name_bad, NAME_IS_RESERVED);
  for (p = name; *p != '\0'; p = *end == '/' ? end + 1 : end) {
    end = strchrnul (p, '/');
    if ((end - p == 1 && p[0] == '.') ||
        (end - p == 2 && p[0] == '.' && p[1] == '.'))
      return err_new (ERR_name_bad, "\"%.*s\" in an export name",
                      (int) (end - p), p);
  }
  *ret_path = name;
  return 0;
}

/* The volume's file at the top of subvolume DIR, if there is one. */
static int
volume_file (struct inode *dir, struct inode **ret)
{
  struct inode *file = NULL;
  int r;

  r = inode_lookup (dir, VOLUME_FILE, strlen (VOLUME_FILE), &file);
  if (r < 0)
    return r;
  if (api_is_subvol_top (file) || !api_is_file (file)) {
    inode_put (file);
    return err_new (ERR_not_file, "%s", VOLUME_FILE);
  }
  *ret = file;
  return 0;
}

int
export_resolve (struct btrnbd_pool *p, const char *name, struct inode **ret,
                bool *ret_volume)
{
  struct inode *inode = NULL, *file;
  const char *path;
  bool volume = false;
  int r;

  r = export_name_check (name, &path);
  if (r < 0)
    return r;
  r = api_walk (p, path, &inode);
  if (r < 0)
    return r;
  if (api_is_subvol_top (inode)) {
    r = volume_file (inode, &file);
    inode_put (inode);
    if (r < 0)
      return err_note (r, "%s is a subvolume without a file \"%s\"", path,
                       VOLUME_FILE);
    inode = file;
    volume = true;
  }
  else if (!api_is_file (inode)) {
    inode_put (inode);
    return err_new (ERR_not_file, "%s", path);
  }
  *ret = inode;
  *ret_volume = volume;
  return 0;
}

/* NAME, without slashes too many. */
static int
name_to_buf (const char *name, char *buf, size_t size)
{
  const char *path;
  size_t n = 0;
  int r;

  r = export_name_check (name, &path);
  if (r < 0)
    return r;
  for (; *path != '\0' && n + 1 < size; path++)
    if (*path != '/' || buf[n - 1] != '/')
      buf[n++] = *path;
  while (buf[n - 1] == '/')
    n--;
  buf[n] = '\0';
  return *path == '\0' ? 0 : err_new (ERR_name_long, "export name");
}

/* The slash before the last component of NAME, if that is VOLUME_FILE. */
static char *
volume_file_part (char *name)
{
  char *last = strrchr (name, '/');

  return last != NULL && strcmp (last + 1, VOLUME_FILE) == 0 ? last : NULL;
}

int
btrnbd_export_name (struct btrnbd_pool *p, const char *name, char *buf,
                    size_t size)
{
  struct inode *dir = NULL;
  char *last;
  int r;

  if (image_has_name (name))
    return image_export_name (p, name, buf, size);
  r = name_to_buf (name, buf, size);
  if (r < 0)
    return r;
  last = volume_file_part (buf);
  if (last == NULL)
    return 0;
  *last = '\0';
  r = api_walk (p, buf, &dir);
  if (r < 0)
    err_clear ();
  if (r < 0 || !api_is_subvol_top (dir))
    *last = '/';
  inode_put (dir);
  return 0;
}

/* Of x, x/disk, x/disk/disk .. at most one is a regular file, so there is at
 * most one export among them.
 */
int
btrnbd_export_rule_name (const char *name, char *buf, size_t size)
{
  char *last;
  int r;

  while (*name == '/')
    name++;
  if (*name == '@') {
    if (strlen (name) >= size)
      return err_new (ERR_name_long, "export name");
    strcpy (buf, name);
    return 0;
  }
  r = name_to_buf (name, buf, size);
  while (r == 0 && (last = volume_file_part (buf)) != NULL)
    *last = '\0';
  return r;
}

/* --- the name of what is open --- */

/* Does NAME lead to F's inode? */
static bool
leads_to (struct btrnbd_file *f, const char *name)
{
  struct inode *inode = NULL;
  bool volume, same;
  int r;

  r = export_resolve (f->pool, name, &inode, &volume);
  if (r < 0) {
    err_clear ();
    return false;
  }
  same = inode == f->inode;
  inode_put (inode);
  return same;
}

#define NAME_TRIES 3           /* while others rename */

int
btrnbd_file_name (struct btrnbd_file *f, const char *was, char *buf,
                  size_t size)
{
  char path[EXPORT_NAME_MAX + sizeof "/" VOLUME_FILE];
  unsigned i;

  for (i = 0; f->image == NULL && i < NAME_TRIES && !leads_to (f, was); i++)
    if (subvol_inode_path (f->pool->fs->subvols, f->inode->root->id,
                           f->inode->ino, path, sizeof path) == 0 &&
        btrnbd_export_name (f->pool, path, buf, size) == 0 &&
        leads_to (f, buf))
      return 0;
  err_clear ();
  if (strlen (was) >= size)
    return err_new (ERR_name_long, "export name");
  strcpy (buf, was);
  return 0;
}

int
export_description_get (struct btrnbd_pool *p, struct inode *file,
                        bool volume, char **ret)
{
  struct inode *inode = NULL;
  char buf[DESCRIPTION_MAX];
  size_t len;
  int r;

  *ret = NULL;
  if (volume)
    r = inode_get (p->fs->inodes, file->root->id, BTRFS_FIRST_FREE_OBJECTID,
                   &inode);
  else {
    inode = inode_ref (file);
    r = 0;
  }
  if (r < 0)
    return r;
  r = inode_getxattr (inode, DESCRIPTION_XATTR, buf, sizeof buf, &len);
  inode_put (inode);
  if (r == -ERR_xattr_missing || (r == 0 && len > sizeof buf)) {
    err_clear ();
    return 0;
  }
  if (r < 0)
    return r;
  *ret = strndup (buf, len);
  if (*ret == NULL)
    return err_new (ERR_nomem, "description");
  if (!utf8_ok (*ret)) {
    free (*ret);
    *ret = NULL;
  }
  return 0;
}

/* --- the list --- */

/* A directory that is still to be read. */
struct to_visit {
  STAILQ_ENTRY (to_visit) entry;
  uint64_t root_id, ino;
  bool volume;                 /* its "disk" is listed already */
  char path[];                 /* "" for the top */
};

struct found {
  struct btrnbd_export *e;
  size_t n, allocated;
};

struct listing {
  struct btrnbd_pool *pool;
  size_t max;
  uint64_t budget;             /* entries that may still be looked at */
  STAILQ_HEAD (, to_visit) queue;
  const struct to_visit *dir;  /* being read */
  struct found volumes, files;
};

static int
list_visit (struct listing *l, const struct dir_entry *e, const char *path,
            bool volume)
{
  struct to_visit *v = malloc (sizeof *v + strlen (path) + 1);

  if (v == NULL)
    return err_new (ERR_nomem, "list of exports");
  v->root_id = e->root_id;
  v->ino = e->ino;
  v->volume = volume;
  strcpy (v->path, path);
  STAILQ_INSERT_TAIL (&l->queue, v, entry);
  return 0;
}

static int
list_add (struct listing *l, struct found *f, const char *path,
          struct inode *inode)
{
  CLEANUP_FREE char *name = NULL, *text = NULL;
  struct btrnbd_export *bigger;
  struct btrnbd_stat st;
  size_t n;
  int r;

  if (f->n == l->max)
    return 0;
  if (f->n == f->allocated) {
    n = f->allocated == 0 ? 64 : 2 * f->allocated;
    bigger = realloc (f->e, n * sizeof *bigger);
    if (bigger == NULL)
      return err_new (ERR_nomem, "list of exports");
    f->e = bigger;
    f->allocated = n;
  }
  name = strdup (path);
  if (name == NULL)
    return err_new (ERR_nomem, "list of exports");
  r = export_description_get (l->pool, inode, f == &l->volumes, &text);
  if (r < 0)
    return r;
  api_stat_fill (inode, &st);
  f->e[f->n++] = (struct btrnbd_export) {
    .name = take (name), .description = take (text),
    .size = st.size, .nbytes = st.nbytes, .nocow = st.is_nocow,
    .is_volume = f == &l->volumes,
    .alloc_unit = data_unit (l->pool->fs->data, inode),
    /* Whoever only looks was not asked whether a server could write. */
    .read_only = st.is_read_only ||
      (l->pool->fs->read_only && l->pool->fs->read_only_reason[0] != '\0'),
  };
  return 0;
}

/* A subvolume: a volume if it has the file, and a directory in any case. */
static int
list_subvol (struct listing *l, const struct dir_entry *e, const char *path)
{
  struct inode *top = NULL, *file = NULL;
  int r;

  r = inode_get (l->pool->fs->inodes, e->root_id, e->ino, &top);
  if (r < 0)
    return r;
  r = volume_file (top, &file);
  inode_put (top);
  if (r == -ERR_not_found || r == -ERR_not_file) {
    err_clear ();
    return list_visit (l, e, path, false);
  }
  if (r < 0)
    return r;
  r = list_add (l, &l->volumes, path, file);
  inode_put (file);
  return r < 0 ? r : list_visit (l, e, path, true);
}

static int
list_file (struct listing *l, const struct dir_entry *e, const char *path)
{
  struct inode *inode = NULL;
  int r;

  if (l->files.n == l->max)
    return 0;
  r = inode_get (l->pool->fs->inodes, e->root_id, e->ino, &inode);
  if (r < 0)
    return r;
  r = list_add (l, &l->files, path, inode);
  inode_put (inode);
  return r;
}

/* The path of E in the directory that is being read; false when no client
 * could ask for it.
 */
static bool
list_path (const struct listing *l, const struct dir_entry *e,
           char path[EXPORT_NAME_MAX + 1])
{
  size_t dir_len = strlen (l->dir->path);
  char *p = path;

  if (dir_len + 1 + e->name_len > EXPORT_NAME_MAX ||
      memchr (e->name, '\0', e->name_len) != NULL)
    return false;
  if (dir_len > 0) {
    p = mempcpy (p, l->dir->path, dir_len);
    *p++ = '/';
  }
  p = mempcpy (p, e->name, e->name_len);
  *p = '\0';
  return path[0] != '@' && utf8_ok (path);
}

static bool
is_unfinished (const struct dir_entry *e)
{
  const size_t len = strlen (BTRNBD_UNFINISHED);

  return e->name_len >= len && memcmp (e->name, BTRNBD_UNFINISHED, len) == 0;
}

static int
list_entry (void *opaque, const struct dir_entry *e)
{
  struct listing *l = opaque;
  char path[EXPORT_NAME_MAX + 1];
  int r;

  if (l->budget == 0)
    return -ERR_overflow;
  l->budget--;
  if (!list_path (l, e, path))
    return 0;
  if (e->is_subvol)
    r = list_subvol (l, e, path);
  else if (e->type == BTRFS_FT_DIR)
    r = list_visit (l, e, path, false);
  else if (e->type == BTRFS_FT_REG_FILE && !is_unfinished (e) &&
           !(l->dir->volume && e->name_len == strlen (VOLUME_FILE) &&
             memcmp (e->name, VOLUME_FILE, e->name_len) == 0))
    r = list_file (l, e, path);
  else
    return 0;
  if (r < 0 && r != -ERR_nomem) {
    /* One damaged or just removed file does not hide all others. */
    log_warning ("export list: %s: %s", path, err_text (r));
    r = 0;
  }
  return r;
}

static int
list_walk (struct listing *l)
{
  struct to_visit *v;
  struct inode *dir;
  int r = 0;

  while (r == 0 && (v = STAILQ_FIRST (&l->queue)) != NULL) {
    STAILQ_REMOVE_HEAD (&l->queue, entry);
    dir = NULL;
    l->dir = v;
    r = inode_get (l->pool->fs->inodes, v->root_id, v->ino, &dir);
    if (r == 0) {
      r = inode_readdir (dir, 0, list_entry, l);
      inode_put (dir);
    }
    if (r == -ERR_overflow)
      log_warning ("export list: too many files, not all are listed");
    else if (r < 0 && r != -ERR_nomem) {
      log_warning ("export list: %s: %s", v->path, err_text (r));
      r = 0;
    }
    free (v);
  }
  while ((v = STAILQ_FIRST (&l->queue)) != NULL) {
    STAILQ_REMOVE_HEAD (&l->queue, entry);
    free (v);
  }
  return r == -ERR_overflow ? 0 : r;
}

static int
by_name (const void *a, const void *b)
{
  const struct btrnbd_export *x = a, *y = b;

  return strcmp (x->name, y->name);
}

static int
found_report (struct found *f, size_t max, btrnbd_export_fn fn, void *opaque)
{
  size_t i;
  int r = 0;

  if (f->n > 0)
    qsort (f->e, f->n, sizeof f->e[0], by_name);
  for (i = 0; i < f->n && i < max && r == 0; i++)
    r = fn (opaque, &f->e[i]);
  return r;
}

static void
found_free (struct found *f)
{
  size_t i;

  for (i = 0; i < f->n; i++) {
    free ((char *) f->e[i].name);
    free ((char *) f->e[i].description);
  }
  free (f->e);
}

int
btrnbd_exports (struct btrnbd_pool *p, size_t max, btrnbd_export_fn fn,
                void *opaque)
{
  struct listing l = {
    .pool = p, .max = max, .budget = 65536 + UINT64_C (16) * max,
  };
  struct dir_entry top = { 0 };
  struct inode *inode = NULL;
  int r;

  STAILQ_INIT (&l.queue);
  r = inode_top (p->fs->inodes, &inode);
  if (r < 0)
    return r;
  top.root_id = inode->root->id;
  top.ino = inode->ino;
  inode_put (inode);
  r = list_visit (&l, &top, "", false);
  if (r == 0)
    r = list_walk (&l);
  if (r == 0)
    r = found_report (&l.volumes, max, fn, opaque);
  if (r == 0)
    r = found_report (&l.files, max - MIN (max, l.volumes.n), fn, opaque);
  found_free (&l.volumes);
  found_free (&l.files);
  return r;
}
