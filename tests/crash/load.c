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
#include "crash/load.h"

#define WRITE_MAX (128 * 1024)
#define THREADS_MAX 8
#define SECTOR_FS 4096

struct worker {
  struct load *l;
  uint64_t rng;
  unsigned file;               /* id, of a thread that writes */
  const char *path;
  uint8_t *buf;                /* WRITE_MAX bytes */
  bool failed;
};

uint64_t
load_rand (uint64_t *state)
{
  uint64_t z = *state += UINT64_C (0x9e3779b97f4a7c15);

  z = (z ^ (z >> 30)) * UINT64_C (0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C (0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static uint64_t
below (struct worker *w, uint64_t n)
{
  return load_rand (&w->rng) % n;
}

/* The end of operation SEQ (0: none) with R; true when it was a success. */
static bool
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
      journal_ack_op (j, seq);
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

/* A few operations on one open file. */
static void
visit (struct worker *w, unsigned id, const char *path, bool may_truncate)
{
  struct btrnbd_file *f;
  unsigned n = 1 + below (w, 6);

  if (!check (w, 0, btrnbd_file_open (w->l->pool, path, 0, &f), "open", path))
    return;
  for (unsigned i = 0; i < n && !w->failed; ++i) {
    unsigned roll = below (w, 16);

    if (roll == 0 && may_truncate)
      do_truncate (w, f, id, path);
    else if (roll <= 2)
      do_flush (w, f, id, path);
    else
      do_data (w, f, id, path);
  }
  btrnbd_file_close (f);
}

/* --- names --- */

static const char *
any_name (struct worker *w, enum jkind kind, unsigned *ret_file)
{
  const struct jnames *n = journal_names (w->l->j);
  unsigned start = n->count ? below (w, n->count) : 0;

  for (unsigned i = 0; i < n->count; ++i) {
    const struct jname *name = &n->names[(start + i) % n->count];

    /* "t..." belongs to the threads, volumes to their own operations. */
    if (name->kind != kind || name->path[0] == 't' || name->path[0] == 'v')
      continue;
    if (ret_file != NULL)
      *ret_file = name->file;
    return name->path;
  }
  return NULL;
}

/* A path that is not taken, in the top or in some directory. */
static void
new_path (struct worker *w, char path[JPATH_MAX], char letter)
{
  const char *dir = below (w, 2) ? any_name (w, JDIR, NULL) : NULL;

  do
    snprintf (path, JPATH_MAX, "%.40s%s%c%llu", dir ? dir : "",
              dir ? "/" : "", letter,
              (unsigned long long) below (w, 100000));
  while (jnames_find (journal_names (w->l->j), path) != NULL);
}

static bool
room_for (struct worker *w, unsigned more)
{
  return journal_names (w->l->j)->count + more + 4 < JNAMES_MAX &&
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
  commit_names (w, &next, seq);
}

static void
do_create (struct worker *w)
{
  char path[JPATH_MAX];

  if (!room_for (w, 1))
    return;
  new_path (w, path, 'f');
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
  snprintf (path, sizeof path, "d%llu",
            (unsigned long long) below (w, 100000));
  if (jnames_find (&next, path) != NULL)
    return;
  seq = journal_begin (w->l->j);
  if (!check (w, seq, btrnbd_mkdir (w->l->pool, path, 0700), "mkdir", path))
    return;
  jnames_add (&next, path, JDIR, 0);
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
  new_path (w, path, 's');
  seq = journal_begin (w->l->j);
  if (!check (w, seq, btrnbd_symlink (w->l->pool, "somewhere/else", path),
              "symlink", path))
    return;
  jnames_add (&next, path, JSYMLINK, 0);
  commit_names (w, &next, seq);
}

static void
do_link (struct worker *w)
{
  struct jnames next = *journal_names (w->l->j);
  char path[JPATH_MAX];
  unsigned file;
  const char *from = any_name (w, JFILE, &file);
  uint32_t seq;

  if (from == NULL || !room_for (w, 1))
    return;
  new_path (w, path, 'l');
  seq = journal_begin (w->l->j);
  if (!check (w, seq, btrnbd_link (w->l->pool, from, path), "link", path))
    return;
  jnames_add (&next, path, JFILE, file);
  commit_names (w, &next, seq);
}

static void
do_unlink (struct worker *w)
{
  struct jnames next = *journal_names (w->l->j);
  const char *path = any_name (w, below (w, 6) ? JFILE : JSYMLINK, NULL);
  char copy[JPATH_MAX];
  uint32_t seq;

  if (path == NULL)
    return;
  strcpy (copy, path);
  seq = journal_begin (w->l->j);
  if (!check (w, seq, btrnbd_unlink (w->l->pool, copy), "unlink", copy))
    return;
  jnames_del (&next, copy);
  commit_names (w, &next, seq);
}

/* Onto nothing, onto another file, or both at once. */
static void
do_rename (struct worker *w)
{
  struct jnames next = *journal_names (w->l->j);
  char from[JPATH_MAX], to[JPATH_MAX];
  unsigned a, b = 0, how = below (w, 4), flags = 0;
  const char *p = any_name (w, JFILE, &a);
  uint32_t seq;

  if (p == NULL)
    return;
  strcpy (from, p);
  if (how <= 1) {
    new_path (w, to, 'r');
    flags = how ? BTRNBD_RENAME_NOREPLACE : 0;
  }
  else {
    p = any_name (w, JFILE, &b);
    if (p == NULL || a == b || strcmp (p, from) == 0)
      return;
    strcpy (to, p);
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
  const char *p = any_name (w, JDIR, NULL);
  char from[JPATH_MAX], to[JPATH_MAX];
  uint32_t seq;

  if (p == NULL)
    return;
  strcpy (from, p);
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

  if (!check (w, seq, btrnbd_volume_create (w->l->pool, name, &opts), "volume",
              name))
    return;
  snprintf (disk, sizeof disk, "%.60s/disk", name);
  jnames_add (&next, name, JDIR, 0);
  jnames_add (&next, disk, JFILE, enter_file (w, disk, seq));
  commit_names (w, &next, seq);
}

static void
remove_volume (struct worker *w, const char *name)
{
  struct jnames next = *journal_names (w->l->j);
  char disk[JPATH_MAX];
  uint32_t seq = journal_begin (w->l->j);

  if (!check (w, seq, btrnbd_volume_remove (w->l->pool, name), "remove", name))
    return;
  snprintf (disk, sizeof disk, "%.60s/disk", name);
  jnames_del (&next, disk);
  jnames_del (&next, name);
  commit_names (w, &next, seq);
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
  else if (d != NULL && below (w, 5) == 0)
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

static void
step (struct worker *w)
{
  static void (*const rare[]) (struct worker *) = {
    do_create, do_create, do_mkdir, do_symlink, do_link, do_unlink,
    do_rename, do_rename, do_rename_dir, do_volume, do_volume, do_volume,
    do_sync,
  };
  const char *path;
  char copy[JPATH_MAX];
  unsigned file;

  if (below (w, 2) == 0) {
    rare[below (w, ARRAY_SIZE (rare))] (w);
    return;
  }
  path = any_name (w, JFILE, &file);
  if (path == NULL) {
    do_create (w);
    return;
  }
  strcpy (copy, path);
  visit (w, file, copy, true);
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
  static const char *const paths[THREADS_MAX] = {
    "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7" };
  const struct jname *name;
  struct btrnbd_file *f;

  w->path = paths[number];
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
  bool ok;

  assert (l->threads <= THREADS_MAX);
  worker_init (&w, l, 0);
  for (unsigned i = 0; i < l->threads; ++i) {
    worker_init (&ws[i], l, i + 1);
    thread_file (&w, &ws[i], i);
  }
  if (l->full_allowed)
    fill_pool (&w);
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
    btrnbd_file_close (f);
  }
  do_rename (&w);
  do_link (&w);
  do_sync (&w);
  do_unlink (&w);
  do_rename (&w);
  if (jnames_find (journal_names (l->j), "v0") != NULL)
    remove_volume (&w, "v0");
  do_sync (&w);
  free (w.buf);
  return !w.failed;
}
