/* Model test: random operations through the public API on a memory device,
 * each answer compared with a model.
 *
 *   model [-n OPS] [-f FEATURES] [-c CSUM] [-N NODESIZE] [-S MIB] [-m]
 *         [-F] [-d DUMP-FILE] [-v] SEED
 *
 * -F: the pool may be full.  Then what needs space may fail without effect;
 * removing, trimming, shrinking and committing may not.
 *
 * Exits with 0 when the engine agreed with the model all the way, and leaves
 * the device's contents in DUMP-FILE for `btrfs check`.  -v prints every
 * operation.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <btrnbd/engine.h>

#include "base/math.h"
#include "io/device_impl.h"
#include "model/model.h"

/* --- a device that outlives the pools on it --- */

struct kept {
  struct device dev;
  struct device *inner;
};

static void
kept_run (struct device *d, struct io_op *ops, size_t n)
{
  struct kept *k = (struct kept *) d;

  device_run (k->inner, ops, n);
}

static void
kept_close (struct device *d)
{
  free (d);
}

static const struct device_ops kept_ops = {
  .run = kept_run, .close = kept_close,
};

static struct device *
kept_new (struct device *inner)
{
  struct kept *k = calloc (1, sizeof *k);

  if (k == NULL)
    abort ();
  k->dev.ops = &kept_ops;
  k->dev.info = *device_get_info (inner);
  k->inner = inner;
  return &k->dev;
}

/* --- the test --- */

struct test {
  struct model m;
  struct device *disk;
  struct btrnbd_pool *pool;
  bool verbose, may_be_full;
  unsigned long op, refused;   /* refused: for want of space */
  uint8_t *buf, *buf2;         /* MODEL_FILE_MAX bytes each */
};

static void
die (const struct test *t, const char *fmt, ...)
  __attribute__ ((noreturn, format (printf, 2, 3)));

static void
die (const struct test *t, const char *fmt, ...)
{
  va_list ap;

  fprintf (stderr, "model: operation %lu: ", t->op);
  va_start (ap, fmt);
  vfprintf (stderr, fmt, ap);
  va_end (ap);
  fputc ('\n', stderr);
  exit (1);
}

static void
trace (const struct test *t, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3)));

static void
trace (const struct test *t, const char *fmt, ...)
{
  va_list ap;

  if (!t->verbose)
    return;
  fprintf (stderr, "%lu ", t->op);
  va_start (ap, fmt);
  vfprintf (stderr, fmt, ap);
  va_end (ap);
  fputc ('\n', stderr);
}

/* R is what the engine said, WANT what the model says: 0 or some error. */
static void
agree (const struct test *t, int r, bool want_ok, const char *what)
{
  if (r < 0 && want_ok)
    die (t, "%s: %s", what, btrnbd_last_error (r));
  if (r == 0 && !want_ok)
    die (t, "%s: should have failed", what);
  if (r > 0)
    die (t, "%s: returned %d", what, r);
}

/* As agree for what needs space; true when it was done. */
static bool
agree_or_full (struct test *t, int r, bool want_ok, const char *what)
{
  if (t->may_be_full && (r == -ERR_nospace || r == -ERR_nospace_meta)) {
    trace (t, "no space");
    t->refused++;
    return false;
  }
  agree (t, r, want_ok, what);
  return r == 0;
}

static void
pool_open (struct test *t)
{
  struct btrnbd_open_opts opts = {
    .cache_size = 4 << 20, .commit_interval = UINT_MAX, .workers = 2,
  };
  struct device *dev = kept_new (t->disk);

  agree (t, btrnbd_pool_open_devices (&dev, 1, &opts, &t->pool), true,
         "open");
}

static struct btrnbd_file *
file_open (struct test *t, const char *path)
{
  struct btrnbd_file *f = NULL;

  agree (t, btrnbd_file_open (t->pool, path, 0, &f), true, path);
  return f;
}

static void
new_name (struct test *t, const char *dir, char *name, char *path)
{
  static const unsigned lens[] = { 1, 2, 3, 8, 8, 8, 8, 20, 60, 255 };
  unsigned len = lens[model_random (&t->m, ARRAY_SIZE (lens))], i;

  if (strlen (dir) > MODEL_PATH_MAX - 600)
    len = 1;
  for (i = 0; i < len; i++)
    name[i] = "abcdefgh"[model_random (&t->m, 8)];
  name[len] = '\0';
  snprintf (path, MODEL_PATH_MAX, "%s%s%s", dir, dir[0] != '\0' ? "/" : "",
            name);
}

/* --- checking --- */

static void
check_file (struct test *t, const char *path, const struct node *n)
{
  struct btrnbd_file *f = file_open (t, path);
  uint64_t i;

  if (btrnbd_file_size (f) != n->size)
    die (t, "%s: size %llu, not %llu", path,
         (unsigned long long) btrnbd_file_size (f),
         (unsigned long long) n->size);
  agree (t, btrnbd_pread (f, t->buf, n->size, 0), true, path);
  if (n->size > 0 && memcmp (t->buf, n->data, n->size) != 0) {
    for (i = 0; t->buf[i] == n->data[i]; i++)
      ;
    die (t, "%s: wrong byte at %llu: %02x, not %02x", path,
         (unsigned long long) i, t->buf[i], n->data[i]);
  }
  btrnbd_file_close (f);
}

static void
check_item (struct test *t, const struct item *it)
{
  const struct node *n = it->node;
  struct btrnbd_stat st;
  char xattr[512], *target;
  size_t len;
  int r;

  agree (t, btrnbd_stat (t->pool, it->path, &st), true, it->path);
  if (S_ISREG (st.mode) != (n->kind == NODE_FILE) ||
      S_ISDIR (st.mode) != (n->kind == NODE_DIR) ||
      S_ISLNK (st.mode) != (n->kind == NODE_SYMLINK))
    die (t, "%s: mode %o", it->path, st.mode);
  if (n->kind != NODE_DIR && st.nlink != n->nlink)
    die (t, "%s: %u links, not %u", it->path, st.nlink, n->nlink);
  r = btrnbd_getxattr (t->pool, it->path, "user.model", xattr, sizeof xattr,
                       &len);
  if (n->xattr == NULL ? r != -ERR_xattr_missing
      : r != 0 || len != strlen (n->xattr) ||
      memcmp (xattr, n->xattr, len) != 0)
    die (t, "%s: xattr: %s", it->path, r < 0 ? btrnbd_last_error (r)
         : "wrong value");
  if (n->kind == NODE_FILE)
    check_file (t, it->path, n);
  if (n->kind == NODE_SYMLINK) {
    agree (t, btrnbd_readlink (t->pool, it->path, &target), true, it->path);
    if (strlen (target) != n->size || memcmp (target, n->data, n->size) != 0)
      die (t, "%s: leads to %s", it->path, target);
    free (target);
  }
}

struct listing {
  struct test *t;
  const struct node *dir;
  size_t seen;
};

static int
check_entry (void *opaque, const char *name, const struct btrnbd_stat *st)
{
  struct listing *l = opaque;

  (void) st;
  if (node_find (l->dir, name) < 0)
    die (l->t, "directory entry %s should not be there", name);
  l->seen++;
  return 0;
}

static void
check_dir (struct test *t, const char *path, const struct node *dir)
{
  struct listing l = { .t = t, .dir = dir };

  agree (t, btrnbd_readdir (t->pool, path, check_entry, &l), true, path);
  if (l.seen != dir->num_entries)
    die (t, "directory %s: %zu entries, not %zu", path, l.seen,
         dir->num_entries);
}

static void
check_all (struct test *t)
{
  size_t i;

  trace (t, "check all");
  model_walk (&t->m);
  check_dir (t, "", t->m.top);
  for (i = 0; i < t->m.num_items; i++) {
    check_item (t, &t->m.items[i]);
    if (t->m.items[i].node->kind == NODE_DIR)
      check_dir (t, t->m.items[i].path, t->m.items[i].node);
  }
}

/* Full pools get full: most of what would free space is left out. */
static bool
rather_grow (struct test *t)
{
  return t->may_be_full && model_random (&t->m, 8) != 0;
}

/* --- operations on names --- */

static void
op_create (struct test *t, enum node_kind kind)
{
  char name[256], path[MODEL_PATH_MAX], target[300];
  bool nocow = model_random (&t->m, 4) == 0, want;
  const char *dir_path;
  struct node *dir = model_pick_dir (&t->m, &dir_path), *n;
  size_t len;
  int r;

  new_name (t, dir_path, name, path);
  want = node_find (dir, name) < 0;
  if (t->m.num_items >= MODEL_NAMES_MAX - 2)
    return;
  trace (t, "create %d %s%s", kind, path, nocow ? " nocow" : "");
  len = 1 + model_random (&t->m, sizeof target - 2);
  memset (target, 'x', len);
  target[len] = '\0';
  r = kind == NODE_FILE ? btrnbd_create (t->pool, path, 0644, nocow)
    : kind == NODE_DIR ? btrnbd_mkdir (t->pool, path, 0755)
    : btrnbd_symlink (t->pool, target, path);
  if (!agree_or_full (t, r, want, "create"))
    return;
  n = node_new (kind);
  n->nocow = nocow;
  if (kind == NODE_SYMLINK) {
    node_resize (n, len);
    memcpy (n->data, target, len);
  }
  node_add (dir, name, n);
}

static void
op_file (struct test *t)
{
  op_create (t, NODE_FILE);
}

static void
op_mkdir (struct test *t)
{
  op_create (t, NODE_DIR);
}

static void
op_symlink (struct test *t)
{
  op_create (t, NODE_SYMLINK);
}

static void
op_link (struct test *t)
{
  char name[256], path[MODEL_PATH_MAX];
  struct item *it = model_pick (&t->m, -1);
  const char *dir_path;
  struct node *dir;
  bool want;

  if (it == NULL || t->m.num_items >= MODEL_NAMES_MAX - 2)
    return;
  dir = model_pick_dir (&t->m, &dir_path);
  new_name (t, dir_path, name, path);
  want = node_find (dir, name) < 0 && it->node->kind != NODE_DIR;
  trace (t, "link %s %s", it->path, path);
  if (agree_or_full (t, btrnbd_link (t->pool, it->path, path), want, "link"))
    node_add (dir, name, it->node);
}

static void
op_unlink (struct test *t)
{
  struct item *it = model_pick (&t->m, -1);
  bool want;

  if (it == NULL || rather_grow (t))
    return;
  want = it->node->kind != NODE_DIR || it->node->num_entries == 0;
  trace (t, "unlink %s", it->path);
  agree (t, btrnbd_unlink (t->pool, it->path), want, "unlink");
  if (want)
    node_remove (it->dir, it->index);
}

/* What a rename of F to NAME in DIR has to do; true when it must succeed. */
static bool
rename_allowed (const struct item *f, const struct node *dir,
                const char *name, unsigned flags)
{
  long at = node_find (dir, name);
  const struct node *target = at < 0 ? NULL : dir->entries[at].node;

  if (node_contains (f->node, dir))
    return false;
  if (flags & BTRNBD_RENAME_EXCHANGE)
    return target != NULL && !node_contains (target, f->dir);
  if (target == NULL)
    return true;
  if (flags & BTRNBD_RENAME_NOREPLACE)
    return false;
  if (target == f->node)
    return true;
  if ((target->kind == NODE_DIR) != (f->node->kind == NODE_DIR))
    return false;
  return target->num_entries == 0;
}

static void
rename_model (struct item *f, struct node *dir, const char *name,
              unsigned flags)
{
  long at = node_find (dir, name);
  struct node *n = f->node;
  char *own;

  if (at >= 0 && dir->entries[at].node == n)
    return; /* two names of one inode: nothing happens */
  if (flags & BTRNBD_RENAME_EXCHANGE) {
    f->dir->entries[f->index].node = dir->entries[at].node;
    dir->entries[at].node = n;
    return;
  }
  own = strdup (name);
  n->nlink++;
  if (at >= 0)
    node_remove (dir, at);
  node_remove (f->dir, node_find (f->dir, strrchr (f->path, '/') == NULL
                                ? f->path : strrchr (f->path, '/') + 1));
  node_add (dir, own, n);
  n->nlink--;
  free (own);
}

static void
op_rename (struct test *t)
{
  static const unsigned modes[] = { 0, 0, 0, BTRNBD_RENAME_NOREPLACE,
                                    BTRNBD_RENAME_EXCHANGE };
  unsigned flags = modes[model_random (&t->m, ARRAY_SIZE (modes))];
  struct item *f = model_pick (&t->m, -1), *to;
  char name[256], path[MODEL_PATH_MAX];
  const char *dir_path;
  struct node *dir;
  bool want;

  if (f == NULL)
    return;
  to = model_random (&t->m, 2) == 0 ? model_pick (&t->m, -1) : NULL;
  if (to != NULL) {
    dir = to->dir;
    strcpy (name, to->dir->entries[to->index].name);
    strcpy (path, to->path);
  }
  else {
    dir = model_pick_dir (&t->m, &dir_path);
    new_name (t, dir_path, name, path);
  }
  want = rename_allowed (f, dir, name, flags);
  trace (t, "rename %s %s flags %u", f->path, path, flags);
  if (agree_or_full (t, btrnbd_rename (t->pool, f->path, path, flags), want,
                     "rename"))
    rename_model (f, dir, name, flags);
}

static void
op_xattr (struct test *t)
{
  struct item *it = model_pick (&t->m, -1);
  char value[400];
  size_t len;

  if (it == NULL)
    return;
  if (it->node->xattr != NULL && model_random (&t->m, 3) == 0) {
    trace (t, "removexattr %s", it->path);
    if (!agree_or_full (t, btrnbd_removexattr (t->pool, it->path,
                                               "user.model"), true,
                        "removexattr"))
      return;
    free (it->node->xattr);
    it->node->xattr = NULL;
    return;
  }
  len = model_random (&t->m, sizeof value - 1);
  memset (value, 'v', len);
  value[len] = '\0';
  trace (t, "setxattr %s %zu", it->path, len);
  if (!agree_or_full (t, btrnbd_setxattr (t->pool, it->path, "user.model",
                                          value, len), true, "setxattr"))
    return;
  free (it->node->xattr);
  it->node->xattr = strdup (value);
}

/* --- operations on data --- */

/* A range inside a file of SIZE > 0, sometimes aligned. */
static void
pick_range (struct test *t, uint64_t size, uint64_t *ret_offset,
            uint64_t *ret_len)
{
  static const uint32_t maxima[] = { 512, 4096, 20000, 70000, 300000,
                                     2000000 };
  uint64_t max = maxima[model_random (&t->m, ARRAY_SIZE (maxima))];
  uint64_t offset = model_random (&t->m, size);
  uint64_t len = rather_grow (t) ? size : 1 + model_random (&t->m, max);

  if (model_random (&t->m, 2) == 0) {
    offset = round_down (offset, 4096);
    len = round_up (len, 4096);
  }
  *ret_offset = offset;
  len = MIN (len, UINT64_C (2000000));
  *ret_len = MIN (len, size - offset);
}

static unsigned
pick_fua (struct test *t)
{
  return model_random (&t->m, 30) == 0 ? BTRNBD_FUA : 0;
}

static void
op_write (struct test *t)
{
  struct item *it = model_pick (&t->m, NODE_FILE);
  struct btrnbd_file *f;
  uint64_t offset, len;
  unsigned fua;

  if (it == NULL || it->node->size == 0)
    return;
  pick_range (t, it->node->size, &offset, &len);
  model_random_bytes (&t->m, t->buf, len);
  trace (t, "write %s %llu+%llu", it->path, (unsigned long long) offset,
         (unsigned long long) len);
  f = file_open (t, it->path);
  fua = pick_fua (t);
  if ((fua == 0 && len % 2 == 0 && btrnbd_try_pwrite (f, t->buf, len, offset))
      || agree_or_full (t, btrnbd_pwrite (f, t->buf, len, offset, fua), true,
                        "write"))
    memcpy (it->node->data + offset, t->buf, len);
  btrnbd_file_close (f);
}

/* Afterwards every byte of the range is what it was, or zero. */
static void
adopt_zeroes (struct test *t, struct btrnbd_file *f, struct node *n,
              uint64_t offset, uint64_t len)
{
  uint64_t i;

  agree (t, btrnbd_pread (f, t->buf, len, offset), true, "read after it");
  for (i = 0; i < len; i++)
    if (t->buf[i] != 0 && t->buf[i] != n->data[offset + i])
      die (t, "strange byte at %llu", (unsigned long long) (offset + i));
  memcpy (n->data + offset, t->buf, len);
}

static void
op_zero (struct test *t)
{
  struct item *it = model_pick (&t->m, NODE_FILE);
  unsigned flags = model_random (&t->m, 2) ? BTRNBD_MAY_TRIM : 0;
  struct btrnbd_file *f;
  uint64_t offset, len;

  if (it == NULL || it->node->size == 0)
    return;
  pick_range (t, it->node->size, &offset, &len);
  trace (t, "zero %s %llu+%llu %u", it->path, (unsigned long long) offset,
         (unsigned long long) len, flags);
  f = file_open (t, it->path);
  if (agree_or_full (t, btrnbd_zero (f, offset, len, flags | pick_fua (t)),
                     true, "zero"))
    memset (it->node->data + offset, 0, len);
  else
    adopt_zeroes (t, f, it->node, offset, len);
  btrnbd_file_close (f);
}

/* Whole sectors inside the range become zero, nothing else changes. */
static void
op_trim (struct test *t)
{
  struct item *it = model_pick (&t->m, NODE_FILE);
  struct btrnbd_file *f;
  uint64_t offset, len;

  if (it == NULL || it->node->size == 0)
    return;
  pick_range (t, it->node->size, &offset, &len);
  trace (t, "trim %s %llu+%llu", it->path, (unsigned long long) offset,
         (unsigned long long) len);
  f = file_open (t, it->path);
  agree (t, btrnbd_trim (f, offset, len, pick_fua (t)), true, "trim");
  adopt_zeroes (t, f, it->node, offset, len);
  btrnbd_file_close (f);
}

static void
op_truncate (struct test *t)
{
  struct item *it = model_pick (&t->m, NODE_FILE);
  struct btrnbd_file *f;
  uint64_t size, old;

  if (it == NULL)
    return;
  old = it->node->size;
  switch (rather_grow (t) ? 5 : model_random (&t->m, 6)) {
  case 0: size = model_random (&t->m, old + 1); break;
  case 1: size = model_random (&t->m, 3000); break;
  case 2: size = 0; break;
  default: size = old + model_random (&t->m, 400000); break;
  }
  size = MIN (size, MODEL_FILE_MAX);
  trace (t, "truncate %s %llu", it->path, (unsigned long long) size);
  f = file_open (t, it->path);
  if (size <= old)
    agree (t, btrnbd_truncate (f, size), true, "truncate");
  else if (!agree_or_full (t, btrnbd_truncate (f, size), true, "grow"))
    size = old;
  node_resize (it->node, size);
  btrnbd_file_close (f);
}

static void
op_read (struct test *t)
{
  struct item *it = model_pick (&t->m, NODE_FILE);
  struct btrnbd_file *f;
  uint64_t offset, len;

  if (it == NULL || it->node->size == 0)
    return;
  pick_range (t, it->node->size, &offset, &len);
  trace (t, "read %s %llu+%llu", it->path, (unsigned long long) offset,
         (unsigned long long) len);
  f = file_open (t, it->path);
  agree (t, btrnbd_pread (f, t->buf, len, offset), true, "read");
  if (memcmp (t->buf, it->node->data + offset, len) != 0)
    die (t, "read: %s: wrong bytes", it->path);
  if (btrnbd_try_pread (f, t->buf2, len, offset) &&
      memcmp (t->buf2, it->node->data + offset, len) != 0)
    die (t, "try_read: %s: wrong bytes", it->path);
  btrnbd_file_close (f);
}

struct extents {
  struct test *t;
  const struct node *node;
  uint64_t next;
};

static int
check_extent (void *opaque, uint64_t offset, uint64_t len, unsigned type)
{
  struct extents *x = opaque;
  uint64_t i;

  if (offset != x->next || len == 0 || len > x->node->size - offset)
    die (x->t, "extents: %llu+%llu, expected at %llu",
         (unsigned long long) offset, (unsigned long long) len,
         (unsigned long long) x->next);
  x->next += len;
  for (i = offset; (type & BTRNBD_EXTENT_ZERO) && i < offset + len; i++)
    if (x->node->data[i] != 0)
      die (x->t, "extents: %llu is told to be zero", (unsigned long long) i);
  return 0;
}

static void
op_extents (struct test *t)
{
  struct item *it = model_pick (&t->m, NODE_FILE);
  struct extents x = { .t = t };
  struct btrnbd_file *f;
  uint64_t offset, len;

  if (it == NULL || it->node->size == 0)
    return;
  pick_range (t, it->node->size, &offset, &len);
  trace (t, "extents %s %llu+%llu", it->path, (unsigned long long) offset,
         (unsigned long long) len);
  x.node = it->node;
  x.next = offset;
  f = file_open (t, it->path);
  agree (t, btrnbd_extents (f, offset, len, check_extent, &x), true,
         "extents");
  if (x.next != offset + len)
    die (t, "extents: end at %llu", (unsigned long long) x.next);
  btrnbd_file_close (f);
}

static void
op_flush (struct test *t)
{
  struct item *it = model_pick (&t->m, NODE_FILE);
  struct btrnbd_file *f;

  if (it == NULL)
    return;
  trace (t, "flush %s", it->path);
  f = file_open (t, it->path);
  agree (t, btrnbd_flush (f), true, "flush");
  btrnbd_file_close (f);
}

/* --- the pool as a whole --- */

static void
op_sync (struct test *t)
{
  trace (t, "sync");
  agree (t, btrnbd_pool_sync (t->pool), true, "sync");
}

/* Half of the times without a clean close, right after a sync. */
static void
op_reopen (struct test *t)
{
  if (model_random (&t->m, 2) == 0) {
    trace (t, "sync, kill, open");
    agree (t, btrnbd_pool_sync (t->pool), true, "sync");
    btrnbd_pool_kill (t->pool);
  }
  else {
    trace (t, "close, open");
    agree (t, btrnbd_pool_close (t->pool), true, "close");
  }
  pool_open (t);
  check_all (t);
}

static const struct { unsigned weight; void (*run) (struct test *); } ops[] = {
  { 60, op_file }, { 25, op_mkdir }, { 15, op_symlink }, { 30, op_link },
  { 50, op_unlink }, { 60, op_rename }, { 20, op_xattr },
  { 300, op_write }, { 60, op_zero }, { 40, op_trim }, { 80, op_truncate },
  { 150, op_read }, { 40, op_extents }, { 20, op_flush }, { 6, op_sync },
  { 4, op_reopen },
};

static void
run (struct test *t, unsigned long n)
{
  unsigned total = 0, k;
  size_t i;

  for (i = 0; i < ARRAY_SIZE (ops); i++)
    total += ops[i].weight;
  for (t->op = 1; t->op <= n; t->op++) {
    model_walk (&t->m);
    k = model_random (&t->m, total);
    for (i = 0; k >= ops[i].weight; i++)
      k -= ops[i].weight;
    ops[i].run (t);
  }
}

/* Sparse: zero blocks are holes. */
static void
dump (struct test *t, const char *path)
{
  uint64_t size = device_get_info (t->disk)->size, at;
  size_t step = MIN (MODEL_FILE_MAX, UINT64_C (1) << 20), i;
  int fd = open (path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

  if (fd < 0 || ftruncate (fd, size) < 0)
    die (t, "%s: %s", path, strerror (errno));
  for (at = 0; at < size; at += step) {
    if (device_read (t->disk, at, t->buf, MIN (step, size - at)) < 0)
      die (t, "cannot read the device at %llu", (unsigned long long) at);
    for (i = 0; i < step && t->buf[i] == 0; i++)
      ;
    if (i < step && pwrite (fd, t->buf, MIN (step, size - at), at) < 0)
      die (t, "%s: %s", path, strerror (errno));
  }
  close (fd);
}

int
main (int argc, char **argv)
{
  struct btrnbd_mkfs_opts mkfs = { .label = "model" };
  struct test t = { .verbose = false };
  uint64_t size = UINT64_C (1) << 30;
  unsigned long n = 2000;
  const char *dump_path = NULL;
  int c;

  while ((c = getopt (argc, argv, "n:f:c:N:S:d:mFv")) != -1)
    switch (c) {
    case 'n': n = strtoul (optarg, NULL, 0); break;
    case 'f': mkfs.features = optarg; break;
    case 'c': mkfs.csum = optarg; break;
    case 'N': mkfs.nodesize = strtoul (optarg, NULL, 0); break;
    case 'S': size = strtoull (optarg, NULL, 0) << 20; break;
    case 'd': dump_path = optarg; break;
    case 'F': t.may_be_full = true; break;
    case 'm': mkfs.mixed = true; break;
    case 'v': t.verbose = true; break;
    default: return 2;
    }
  if (optind + 1 != argc) {
    fprintf (stderr, "usage: model [OPTION...] SEED\n");
    return 2;
  }
  model_init (&t.m, strtoull (argv[optind], NULL, 0));
  t.buf = malloc (MODEL_FILE_MAX);
  t.buf2 = malloc (MODEL_FILE_MAX);
  if (t.buf == NULL || t.buf2 == NULL)
    abort ();
  agree (&t, device_mem_new ("model", size, &t.disk), true, "memory device");
  agree (&t, btrnbd_mkfs_device (t.disk, &mkfs), true, "mkfs");
  pool_open (&t);
  run (&t, n);
  check_all (&t);
  agree (&t, btrnbd_pool_close (t.pool), true, "close");
  pool_open (&t);
  check_all (&t);
  agree (&t, btrnbd_pool_close (t.pool), true, "close");
  if (dump_path != NULL)
    dump (&t, dump_path);
  if (t.may_be_full)
    fprintf (stderr, "model: %lu operations found no space\n", t.refused);
  model_done (&t.m);
  device_close (t.disk);
  free (t.buf);
  free (t.buf2);
  return 0;
}
