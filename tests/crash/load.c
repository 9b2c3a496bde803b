/* A random load on a pool, see load.h.
 *
 * Names are made, moved and removed by the main thread only; the other
 * threads write to files that keep their names.  That keeps the journal's
 * rules simple and the engine's locks busy.
 */
#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/math.h"
#include "crash/load_priv.h"
#include "lib/early.h"

#define WRITE_MAX (128 * 1024)
#define NAMES_MAX 60
#define THREADS_MAX 8
#define SECTOR_FS 4096

uint64_t
load_rand (uint64_t *state)
{
  uint64_t z = *state += UINT64_C (0x9e3779b97f4a7c15);

  z = (z ^ (z >> 30)) * UINT64_C (0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C (0x94d049bb133111eb);
  return z ^ (z >> 31);
}

uint64_t
below (struct worker *w, uint64_t n)
{
  return load_rand (&w->rng) % n;
}

bool
check (struct worker *w, uint32_t seq, int r, const char *what,
       const char *path)
{
  if (seq != 0)
    journal_end (w->l->j, seq);
  if (w->l->verbose)
    fprintf (stderr, "%s %s: %s\n", what, path,
             r < 0 ? btrnbd_last_error (r) : "ok");
  if (r >= 0)
    return true;
  if (w->l->full_allowed && btrnbd_error_errno (r) == ENOSPC) {
    __atomic_fetch_add (&w->l->full, 1, __ATOMIC_RELAXED);
    return false;
  }
  if (!w->l->errors_allowed) {
    fprintf (stderr, "%s %s: %s\n", what, path, btrnbd_last_error (r));
    w->failed = true;
  }
  return false;
}

/* --- data --- */

/* A random range of whole sectors, not empty; false in an empty file. */
static bool
pick_range (struct worker *w, uint64_t size, uint64_t *ret_first,
            size_t *ret_count)
{
  uint64_t sectors = size / JSECTOR, most = WRITE_MAX / JSECTOR;

  if (sectors == 0)
    return false;
  if (below (w, 3) > 0 && !w->l->full_allowed)
    most = 32; /* mostly small */
  *ret_first = below (w, sectors);
  if (below (w, 2) == 0)
    *ret_first = round_down (*ret_first, SECTOR_FS / JSECTOR);
  *ret_count = 1 + below (w, MIN (most, sectors - *ret_first));
  if (below (w, 2) == 0 && sectors - *ret_first >= SECTOR_FS / JSECTOR)
    *ret_count = MIN (round_up (*ret_count, SECTOR_FS / JSECTOR),
                      sectors - *ret_first);
  *ret_count = MIN (*ret_count, (size_t) WRITE_MAX / JSECTOR);
  return true;
}

/* TRIM spares what is not a whole sector of the pool. */
static void
shrink_to_fs (uint64_t size, uint64_t *first, size_t *count)
{
  uint64_t start = round_up (*first * JSECTOR, SECTOR_FS);
  uint64_t end = (*first + *count) * JSECTOR;

  if (end != size)
    end = round_down (end, SECTOR_FS);
  *first = start / JSECTOR;
  *count = start < end ? (end - start) / JSECTOR : 0;
}

static void
do_data (struct worker *w, struct btrnbd_file *f, unsigned id,
         const char *path)
{
  static const char *const names[] = { "write", "zero", "trim" };
  struct journal *j = w->l->j;
  uint64_t first;
  size_t count;
  unsigned flags = below (w, 8) == 0 ? BTRNBD_FUA : 0;
  unsigned kind = below (w, 8);
  uint32_t seq;
  int r;

  kind = kind < 6 ? 0 : kind - 5;
  if (!pick_range (w, btrnbd_file_size (f), &first, &count))
    return;
  if (kind == 2)
    shrink_to_fs (btrnbd_file_size (f), &first, &count);
  if (count == 0)
    return;
  seq = journal_begin (j);
  journal_data (j, id, first, count, seq, kind != 0);
  if (kind == 0) {
    journal_fill (w->buf, id, first, count, seq);
    r = btrnbd_pwrite (f, w->buf, count * JSECTOR, first * JSECTOR, flags);
  }
  else if (kind == 1)
    r = btrnbd_zero (f, first * JSECTOR, count * JSECTOR,
                     flags | (below (w, 2) ? BTRNBD_MAY_TRIM : 0));
  else
    r = btrnbd_trim (f, first * JSECTOR, count * JSECTOR, flags);
  if (w->l->verbose)
    fprintf (stderr, "%u: file %u sectors %llu + %zu: ", seq, id,
             (unsigned long long) first, count);
  if (check (w, seq, r, names[kind], path)) {
    if (flags & BTRNBD_FUA)
      journal_ack_op (j, id, seq);
  }
  else {
    journal_op_failed (j, seq);
    if (flags & BTRNBD_FUA)
      journal_fail (j, id, seq);
  }
}

static void
do_flush (struct worker *w, struct btrnbd_file *f, unsigned id,
          const char *path)
{
  uint32_t seq = journal_begin (w->l->j);

  if (check (w, seq, btrnbd_flush (f), "flush", path))
    journal_ack_file (w->l->j, id, seq);
  else
    journal_fail (w->l->j, id, seq);
}

static void
do_truncate (struct worker *w, struct btrnbd_file *f, unsigned id,
             const char *path)
{
  uint64_t size = below (w, w->l->file_max / JSECTOR + 1) * JSECTOR;
  uint32_t seq = journal_begin (w->l->j);

  journal_size (w->l->j, id, size, seq);
  if (w->l->verbose)
    fprintf (stderr, "%u: file %u to %llu sectors: ", seq, id,
             (unsigned long long) size / JSECTOR);
  if (!check (w, seq, btrnbd_truncate (f, size), "truncate", path))
    journal_op_failed (w->l->j, seq);
}

/* Fragments and dead space go; what the file holds does not change, so the
 * journal hears nothing of it.
 */
static void
do_regroup (struct worker *w, const char *path)
{
  uint64_t moved;
  const int r = btrnbd_regroup (w->l->pool, path, NULL, NULL, &moved);

  if (r != -ERR_busy) /* write-out goes on there */
    check (w, 0, r, "regroup", path);
  __atomic_fetch_add (&w->l->regrouped, moved, __ATOMIC_RELAXED);
}

/* A few operations on one open file. */
static void
visit (struct worker *w, unsigned id, const char *path, bool may_truncate)
{
  struct btrnbd_file *f;
  unsigned n = 1 + below (w, 6);

  if (!check (w, 0, btrnbd_file_open (w->l->pool, path, 0, &f), "open", path))
    return;
  for (unsigned i = 0; i < n && !w->failed; ++i) {
    unsigned roll = below (w, w->l->log ? 8 : 16);

    if (roll == 0 && may_truncate)
      do_truncate (w, f, id, path);
    else if (roll <= 2)
      do_flush (w, f, id, path);
    else
      do_data (w, f, id, path);
  }
  if (below (w, 6) == 0)
    do_regroup (w, path);
  btrnbd_file_close (f);
}

/* --- names --- */

/* "t..." belongs to the threads, volumes and what is theirs to operations of
 * their own.
 */
static bool
is_free (const struct jname *name)
{
  const char *slash = strrchr (name->path, '/');
  const char *leaf = slash ? slash + 1 : name->path;

  return leaf[0] != 't' && name->subvol == 0 && strcmp (leaf, "disk") != 0;
}

const struct jname *
any_of (struct worker *w, unsigned kinds, uint64_t root_id)
{
  const struct jnames *n = journal_names (w->l->j);
  unsigned start = n->count ? below (w, n->count) : 0;

  for (unsigned i = 0; i < n->count; ++i) {
    const struct jname *name = &n->names[(start + i) % n->count];

    if (kinds & 1 << name->kind && is_free (name) &&
        (root_id == ANY_ROOT || name->root_id == root_id))
      return name;
  }
  return NULL;
}

/* A directory that names can be in, NULL for the top. */
static const struct jname *
any_dir (struct worker *w, uint64_t root_id)
{
  const struct jnames *n = journal_names (w->l->j);
  unsigned start = n->count ? below (w, n->count) : 0;

  if (root_id == ANY_ROOT && below (w, 2) == 0)
    root_id = JTOP;
  if (root_id == JTOP && below (w, 2) == 0)
    return NULL;
  for (unsigned i = 0; i < n->count; ++i) {
    const struct jname *name = &n->names[(start + i) % n->count];
    const uint64_t in = name->subvol ? name->subvol : name->root_id;

    if (name->kind == JDIR && (root_id == ANY_ROOT || in == root_id) &&
        (w->l->log || in == JTOP) && strlen (name->path) < 40)
      return name;
  }
  return NULL;
}

/* A path that is not taken, in the top or in some directory. */
static void
new_path (struct worker *w, char path[JPATH_MAX], char letter,
          uint64_t root_id)
{
  const struct jname *dir = any_dir (w, root_id);

  do
    snprintf (path, JPATH_MAX, "%.40s%s%c%llu", dir ? dir->path : "",
              dir ? "/" : "", letter,
              (unsigned long long) below (w, 100000));
  while (jnames_find (journal_names (w->l->j), path) != NULL);
}

static bool
room_for (struct worker *w, unsigned more)
{
  return journal_names (w->l->j)->count + more + 4 < NAMES_MAX &&
    w->l->j->nfiles + more + 4 < JFILES_MAX;
}

/* Identity of a file that was just made; its size is what it was made with.
 */
static unsigned
enter_file (struct worker *w, const char *path, uint32_t seq)
{
  struct jfile *f = journal_file (w->l->j, seq);
  struct btrnbd_stat st;
  int r = btrnbd_stat (w->l->pool, path, &st);

  if (r == 0) {
    f->root_id = st.root_id;
    f->ino = st.ino;
    if (st.size > 0)
      journal_size (w->l->j, f->id, st.size, seq);
  }
  else
    check (w, 0, r, "stat", path);
  return f->id;
}

static void
commit_names (struct worker *w, const struct jnames *next, uint32_t seq)
{
  journal_names_set (w->l->j, next, seq);
}

static void
make_file (struct worker *w, const char *path, bool nocow)
{
  struct jnames next = *journal_names (w->l->j);
  uint32_t seq = journal_begin (w->l->j);

  if (!check (w, seq, btrnbd_create (w->l->pool, path, 0600, nocow), "create",
              path))
    return;
  jnames_add (&next, path, JFILE, enter_file (w, path, seq));
  w->l->j->files[w->l->j->nfiles - 1]->nocow = nocow;
  commit_names (w, &next, seq);
}

static void
do_create (struct worker *w)
{
  char path[JPATH_MAX];

  if (!room_for (w, 1))
    return;
  new_path (w, path, 'f', ANY_ROOT);
  make_file (w, path, below (w, 4) == 0);
}

static void
do_mkdir (struct worker *w)
{
  struct jnames next = *journal_names (w->l->j);
  char path[JPATH_MAX];
  uint32_t seq;

  if (!room_for (w, 1) || below (w, 3) > 0)
    return;
  new_path (w, path, 'd', w->l->log ? ANY_ROOT : JTOP);
  seq = journal_begin (w->l->j);
  if (!check (w, seq, btrnbd_mkdir (w->l->pool, path, 0700), "mkdir", path))
    return;
  jnames_add (&next, path, JDIR, seq);
  commit_names (w, &next, seq);
}

static void
do_symlink (struct worker *w)
{
  struct jnames next = *journal_names (w->l->j);
  char path[JPATH_MAX];
  uint32_t seq;

  if (!room_for (w, 1) || below (w, 2) > 0)
    return;
  new_path (w, path, 's', ANY_ROOT);
  seq = journal_begin (w->l->j);
  if (!check (w, seq, btrnbd_symlink (w->l->pool, "somewhere/else", path),
              "symlink", path))
    return;
  jnames_add (&next, path, JSYMLINK, seq);
  commit_names (w, &next, seq);
}

static void
do_link (struct worker *w)
{
  struct jnames next = *journal_names (w->l->j);
  char path[JPATH_MAX];
  const struct jname *from = any_of (w, FILES, ANY_ROOT);
  uint32_t seq;

  if (from == NULL || !room_for (w, 1))
    return;
  new_path (w, path, 'l', from->root_id);
  seq = journal_begin (w->l->j);
  if (!check (w, seq, btrnbd_link (w->l->pool, from->path, path), "link",
              path))
    return;
  jnames_add (&next, path, JFILE, from->file);
  commit_names (w, &next, seq);
}

static bool
is_below (const char *path, const char *dir)
{
  const size_t len = strlen (dir);

  return strncmp (path, dir, len) == 0 && path[len] == '/';
}

static bool
has_entries (const struct jnames *n, const struct jname *dir)
{
  for (unsigned i = 0; i < n->count; ++i)
    if (is_below (n->names[i].path, dir->path))
      return true;
  return false;
}

static void
do_unlink (struct worker *w)
{
  struct jnames next = *journal_names (w->l->j);
  const struct jname *name = any_of (w, below (w, 6) ? FILES
                                     : SYMLINKS | DIRS, ANY_ROOT);
  char copy[JPATH_MAX];
  uint32_t seq;

  if (name == NULL || has_entries (&next, name))
    return;
  strcpy (copy, name->path);
  seq = journal_begin (w->l->j);
  if (!check (w, seq, btrnbd_unlink (w->l->pool, copy), "unlink", copy))
    return;
  jnames_del (&next, copy);
  commit_names (w, &next, seq);
}

/* A name that A can be renamed to, or exchanged with. */
static const struct jname *
pick_target (struct worker *w, const struct jnames *n, const struct jname *a,
             bool exchange)
{
  const struct jname *b = any_of (w, FILES | DIRS | SYMLINKS, a->root_id);

  if (b == NULL || (a->kind == b->kind && a->file == b->file) ||
      is_below (a->path, b->path) || is_below (b->path, a->path))
    return NULL;
  if (!exchange && ((a->kind == JDIR) != (b->kind == JDIR) ||
                    has_entries (n, b)))
    return NULL;
  return b;
}

/* Onto nothing, onto another file, or both at once. */
static void
do_rename (struct worker *w)
{
  struct jnames next = *journal_names (w->l->j);
  char from[JPATH_MAX], to[JPATH_MAX];
  unsigned how = below (w, 4), flags = 0;
  const struct jname *a = any_of (w, w->l->log && below (w, 3) == 0
                                  ? DIRS | SYMLINKS : FILES, ANY_ROOT), *b;
  uint32_t seq;

  if (a == NULL)
    return;
  strcpy (from, a->path);
  if (how <= 1) {
    new_path (w, to, 'r', a->root_id);
    if (is_below (to, from))
      return;
    flags = how ? BTRNBD_RENAME_NOREPLACE : 0;
  }
  else {
    b = pick_target (w, &next, a, how == 3);
    if (b == NULL)
      return;
    strcpy (to, b->path);
    flags = how == 3 ? BTRNBD_RENAME_EXCHANGE : 0;
  }
  seq = journal_begin (w->l->j);
  if (!check (w, seq, btrnbd_rename (w->l->pool, from, to, flags), "rename",
              to))
    return;
  if (how == 3) {
    jnames_move (&next, from, "?");
    jnames_move (&next, to, from);
    jnames_move (&next, "?", to);
  }
  else {
    if (how == 2)
      jnames_del (&next, to);
    jnames_move (&next, from, to);
  }
  commit_names (w, &next, seq);
}

static void
do_rename_dir (struct worker *w)
{
  struct jnames next = *journal_names (w->l->j);
  const struct jname *dir = any_of (w, DIRS, JTOP);
  char from[JPATH_MAX], to[JPATH_MAX];
  uint32_t seq;

  if (dir == NULL)
    return;
  strcpy (from, dir->path);
  snprintf (to, sizeof to, "d%llu", (unsigned long long) below (w, 100000));
  if (jnames_find (&next, to) != NULL)
    return;
  seq = journal_begin (w->l->j);
  if (!check (w, seq, btrnbd_rename (w->l->pool, from, to, 0), "rename", to))
    return;
  jnames_move (&next, from, to);
  commit_names (w, &next, seq);
}

static void
make_volume (struct worker *w, const char *name, uint64_t size, bool nocow)
{
  struct btrnbd_volume_opts opts = { .size = size, .nocow = nocow,
                                     .description = "a crash test's" };
  struct jnames next = *journal_names (w->l->j);
  char disk[JPATH_MAX];
  uint32_t seq = journal_begin (w->l->j);
  unsigned id;

  if (!check (w, seq, btrnbd_volume_create (w->l->pool, name, &opts), "volume",
              name))
    return;
  snprintf (disk, sizeof disk, "%.60s/disk", name);
  id = enter_file (w, disk, seq);
  jnames_add (&next, name, JDIR, seq)->subvol =
    w->l->j->files[id - 1]->root_id;
  jnames_add (&next, disk, JFILE, id);
  commit_names (w, &next, seq);
}

static void
remove_volume (struct worker *w, const char *name)
{
  struct jnames next = *journal_names (w->l->j);
  uint32_t seq = journal_begin (w->l->j);

  if (!check (w, seq, btrnbd_volume_remove (w->l->pool, name), "remove", name))
    return;
  for (unsigned i = next.count; i-- > 0;)
    if (is_below (next.names[i].path, name))
      jnames_del (&next, next.names[i].path);
  jnames_del (&next, name);
  commit_names (w, &next, seq);
}

/* Is the file of a thread in this volume? */
static bool
has_thread (const struct jnames *n, const char *name)
{
  for (unsigned i = 0; i < n->count; ++i)
    if (is_below (n->names[i].path, name) &&
        n->names[i].path[strlen (name) + 1] == 't')
      return true;
  return false;
}

/* --- snapshots --- */

/* Volume TO is a copy of FROM now; names of TO are not there, or go. */
static void
enter_copy (struct worker *w, const char *from, const char *to, uint32_t seq)
{
  struct jnames next = *journal_names (w->l->j);
  char disk[JPATH_MAX], copy[JPATH_MAX];
  struct btrnbd_stat st;
  struct jfile *f;
  uint32_t ack;

  snprintf (disk, sizeof disk, "%.60s/disk", from);
  snprintf (copy, sizeof copy, "%.60s/disk", to);
  f = journal_copy (w->l->j, jnames_find (&next, disk)->file, seq);
  /* It is durable: the journal must have it, whatever fails once. */
  if (btrnbd_stat (w->l->pool, copy, &st) < 0 &&
      !check (w, 0, btrnbd_stat (w->l->pool, copy, &st), "stat", copy))
    return;
  f->root_id = st.root_id;
  f->ino = st.ino;
  if (jnames_find (&next, to) != NULL) {
    jnames_del (&next, copy);
    jnames_del (&next, to);
  }
  jnames_add (&next, to, JDIR, seq)->subvol = f->root_id;
  jnames_add (&next, copy, JFILE, f->id);
  commit_names (w, &next, seq);
  /* It is durable when the call returns, and with it the names above. */
  ack = journal_begin (w->l->j);
  journal_end (w->l->j, ack);
  journal_ack_dir (w->l->j, "", ack);
}

static void
take_snapshot (struct worker *w, const char *name, const char *tag)
{
  char to[JPATH_MAX];
  uint32_t seq = journal_begin (w->l->j);

  snprintf (to, sizeof to, "%.40s@%.20s", name, tag);
  if (check (w, seq, btrnbd_volume_snapshot (w->l->pool, &name, 1, tag),
             "snapshot", to))
    enter_copy (w, name, to, seq);
}

static void
use_snapshot (struct worker *w, const char *name, const char *tag)
{
  char from[JPATH_MAX], to[JPATH_MAX];
  uint32_t seq;

  snprintf (from, sizeof from, "%.40s@%.20s", name, tag);
  snprintf (to, sizeof to, "v%llu", (unsigned long long) below (w, 4));
  if (below (w, 2) == 0) {
    remove_volume (w, from);
    return;
  }
  seq = journal_begin (w->l->j);
  if (jnames_find (journal_names (w->l->j), to) == NULL) {
    if (check (w, seq, btrnbd_volume_clone (w->l->pool, from, to), "clone",
               to))
      enter_copy (w, from, to, seq);
  }
  else if (check (w, seq, btrnbd_volume_rollback (w->l->pool, name, tag),
                  "rollback", name))
    enter_copy (w, from, name, seq);
}

static void
do_snapshot (struct worker *w)
{
  const struct jnames *n = journal_names (w->l->j);
  char name[JPATH_MAX], tag[8], full[JPATH_MAX];

  snprintf (name, sizeof name, "v%llu", (unsigned long long) below (w, 4));
  snprintf (tag, sizeof tag, "%llu", (unsigned long long) below (w, 3));
  snprintf (full, sizeof full, "%.40s@%.4s", name, tag);
  if (jnames_find (n, name) == NULL || !room_for (w, 3))
    return;
  if (jnames_find (n, full) != NULL)
    use_snapshot (w, name, tag);
  else
    take_snapshot (w, name, tag);
}

static bool
has_snapshots (const struct jnames *n, const char *name)
{
  const size_t len = strlen (name);

  for (unsigned i = 0; i < n->count; ++i)
    if (strncmp (n->names[i].path, name, len) == 0 &&
        n->names[i].path[len] == '@')
      return true;
  return false;
}

static void
do_volume (struct worker *w)
{
  const struct jnames *n = journal_names (w->l->j);
  char name[JPATH_MAX], disk[JPATH_MAX];
  const struct jname *d;

  snprintf (name, sizeof name, "v%llu", (unsigned long long) below (w, 4));
  snprintf (disk, sizeof disk, "%.60s/disk", name);
  d = jnames_find (n, disk);
  if (d == NULL && room_for (w, 2))
    make_volume (w, name, w->l->file_max, below (w, 2));
  else if (d != NULL && below (w, 5) == 0 && !has_thread (n, name) &&
           !has_snapshots (n, name))
    remove_volume (w, name);
  else if (d != NULL)
    visit (w, d->file, disk, false);
}

static void
do_sync (struct worker *w)
{
  uint32_t seq = journal_begin (w->l->j);

  if (check (w, seq, btrnbd_pool_sync (w->l->pool), "sync", "pool"))
    journal_ack_all (w->l->j, seq);
  else
    journal_fail (w->l->j, 0, seq);
}

/* By path, of a file, or of a directory, which may be a subvolume's. */
static void
do_fsync (struct worker *w)
{
  const struct jnames *n = journal_names (w->l->j);
  const struct jname *name = n->count
    ? &n->names[below (w, n->count)] : NULL;
  char path[JPATH_MAX] = "";
  bool dir = true;
  unsigned file = 0;
  uint32_t seq;

  if (name != NULL && name->kind == JSYMLINK)
    return;
  if (name != NULL && below (w, 5) > 0) {
    strcpy (path, name->path);
    file = name->file;
    dir = name->kind == JDIR;
  }
  seq = journal_begin (w->l->j);
  if (!check (w, seq, btrnbd_fsync (w->l->pool, path), "fsync", path)) {
    if (!dir)
      journal_fail (w->l->j, file, seq);
  }
  else if (dir)
    journal_ack_dir (w->l->j, path, seq);
  else
    journal_ack_file (w->l->j, file, seq);
}

typedef void (*step_fn) (struct worker *);

static step_fn
rare_step (struct worker *w)
{
  static const step_fn steps[] = {
    do_create, do_create, do_mkdir, do_symlink, do_link, do_unlink,
    do_rename, do_rename, do_rename_dir, do_volume, do_volume, do_volume,
    do_sync,
  };
  static const step_fn log[] = {
    do_create, do_create, do_create, do_mkdir, do_mkdir, do_symlink,
    do_link, do_link, do_unlink, do_unlink, do_rename, do_rename, do_rename,
    do_rename, do_rename_dir, do_fsync, do_fsync, do_fsync, do_fsync,
    do_fsync, do_fsync,
  };

  if (below (w, 8) == 0)
    return below (w, 2) ? load_attr : load_reflink;
  if (w->l->snapshots && below (w, 3) == 0)
    return below (w, 2) ? do_snapshot : do_volume;
  if (!w->l->log)
    return steps[below (w, ARRAY_SIZE (steps))];
  if (below (w, 24) == 0)
    return below (w, 2) ? do_volume : do_sync;
  return log[below (w, ARRAY_SIZE (log))];
}

static void
step (struct worker *w)
{
  const struct jname *name;
  char copy[JPATH_MAX];

  if (below (w, w->l->log ? 4 : 2) != 1) {
    rare_step (w) (w);
    return;
  }
  name = any_of (w, FILES, ANY_ROOT);
  if (name == NULL) {
    do_create (w);
    return;
  }
  strcpy (copy, name->path);
  visit (w, name->file, copy, true);
}

/* --- threads --- */

static void *
thread_main (void *opaque)
{
  struct worker *w = opaque;

  for (unsigned i = 0; i < w->l->ops / 4 && !w->failed; ++i)
    visit (w, w->file, w->path, false);
  return NULL;
}

static void
worker_init (struct worker *w, struct load *l, unsigned number)
{
  *w = (struct worker) { .l = l, .rng = l->seed * 1000003 + number };
  w->buf = malloc (WRITE_MAX);
  if (w->buf == NULL)
    abort ();
}

/* The files of the threads: one in two is NOCOW. */
static void
thread_file (struct worker *main_w, struct worker *w, unsigned number)
{
  const struct jname *name;
  struct btrnbd_file *f;
  char volume[16];

  snprintf (w->path, sizeof w->path, "t%u", number);
  if (w->l->subvols > 0) {
    snprintf (volume, sizeof volume, "v%u", number % w->l->subvols);
    if (number < w->l->subvols)
      make_volume (main_w, volume, w->l->file_max, false);
    snprintf (w->path, sizeof w->path, "%s/t%u", volume, number);
  }
  make_file (main_w, w->path, number % 2);
  name = jnames_find (journal_names (w->l->j), w->path);
  if (name == NULL)
    return;
  w->file = name->file;
  if (btrnbd_file_open (w->l->pool, w->path, 0, &f) == 0) {
    uint32_t seq = journal_begin (w->l->j);

    journal_size (w->l->j, w->file, w->l->file_max, seq);
    if (!check (main_w, seq, btrnbd_truncate (f, w->l->file_max), "truncate",
                w->path))
      journal_op_failed (w->l->j, seq);
    btrnbd_file_close (f);
  }
}

/* One big file takes what there is, and gives a little back. */
static void
fill_pool (struct worker *w)
{
  const uint64_t size = UINT64_C (256) << 20, back = 6 << 20;
  struct journal *j = w->l->j;
  struct btrnbd_file *f;
  uint64_t off = 0;
  uint32_t seq;
  unsigned id;

  make_file (w, "t9", false);
  id = j->nfiles;
  if (!check (w, 0, btrnbd_file_open (w->l->pool, "t9", 0, &f), "open", "t9"))
    return;
  seq = journal_begin (j);
  journal_size (j, id, size, seq);
  check (w, seq, btrnbd_truncate (f, size), "truncate", "t9");
  for (bool more = true; more && off < size; off += WRITE_MAX) {
    seq = journal_begin (j);
    journal_data (j, id, off / JSECTOR, WRITE_MAX / JSECTOR, seq, false);
    journal_fill (w->buf, id, off / JSECTOR, WRITE_MAX / JSECTOR, seq);
    more = check (w, seq, btrnbd_pwrite (f, w->buf, WRITE_MAX, off, 0),
                  "fill", "t9");
    if (!more)
      journal_op_failed (j, seq);
    if (off % (16 * WRITE_MAX) == 0)
      do_flush (w, f, id, "t9");
  }
  seq = journal_begin (j);
  journal_data (j, id, 0, back / JSECTOR, seq, true);
  if (!check (w, seq, btrnbd_trim (f, 0, back, 0), "trim", "t9"))
    journal_op_failed (j, seq);
  btrnbd_file_close (f);
}

bool
load_run (struct load *l)
{
  struct worker w, ws[THREADS_MAX];
  pthread_t ids[THREADS_MAX];
  struct early early;
  bool ok;

  assert (l->threads <= THREADS_MAX);
  worker_init (&w, l, 0);
  for (unsigned i = 0; i < l->threads; ++i) {
    worker_init (&ws[i], l, i + 1);
    thread_file (&w, &ws[i], i);
  }
  if (l->full_allowed)
    fill_pool (&w);
  if (l->early)
    early_start (&early, l->pool);
  for (unsigned i = 0; i < l->threads; ++i)
    if (pthread_create (&ids[i], NULL, thread_main, &ws[i]) != 0)
      abort ();
  for (unsigned i = 0; i < l->ops && !w.failed; ++i)
    step (&w);
  ok = !w.failed;
  for (unsigned i = 0; i < l->threads; ++i) {
    pthread_join (ids[i], NULL);
    ok = ok && !ws[i].failed;
    free (ws[i].buf);
  }
  if (l->early)
    early_stop (&early);
  free (w.buf);
  return ok;
}

bool
load_scenario (struct load *l)
{
  struct worker w;
  const struct jname *n;
  unsigned file = 0;

  worker_init (&w, l, 0);
  make_file (&w, "fa", false);
  make_file (&w, "fb", true);
  do_mkdir (&w);
  for (unsigned i = 0; i < 3; ++i) {
    const char *path = i == 2 ? "v0/disk" : i ? "fb" : "fa";

    if (i == 2)
      make_volume (&w, "v0", l->file_max, false);
    n = jnames_find (journal_names (l->j), path);
    if (n == NULL)
      continue;
    file = n->file;

    struct btrnbd_file *f;

    if (!check (&w, 0, btrnbd_file_open (l->pool, path, 0, &f), "open", path))
      continue;
    do_truncate (&w, f, file, path);
    for (unsigned k = 0; k < 4; ++k)
      do_data (&w, f, file, path);
    do_flush (&w, f, file, path);
    for (unsigned k = 0; k < 3; ++k)
      do_data (&w, f, file, path);
    do_regroup (&w, path);
    btrnbd_file_close (f);
  }
  if (l->snapshots && jnames_find (journal_names (l->j), "v0") != NULL)
    take_snapshot (&w, "v0", "0");
  load_attr (&w);
  load_reflink (&w);
  do_rename (&w);
  do_link (&w);
  do_sync (&w);
  do_unlink (&w);
  do_rename (&w);
  if (jnames_find (journal_names (l->j), "v0@0") != NULL)
    remove_volume (&w, "v0@0");
  if (jnames_find (journal_names (l->j), "v0") != NULL)
    remove_volume (&w, "v0");
  do_sync (&w);
  free (w.buf);
  return !w.failed;
}
