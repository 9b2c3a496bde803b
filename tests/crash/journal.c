/* The journal of a crash test: recording what was done, see journal.h. */
#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "crash/journal.h"
#include "io/record.h"

/* Tests have memory, or end. */
static void *
grow (void *p, unsigned count, unsigned *max, size_t size)
{
  if (count < *max)
    return p;
  *max = *max ? 2 * *max : 8;
  p = reallocarray (p, *max, size);
  if (p == NULL)
    abort ();
  return p;
}

struct journal *
journal_new (struct device *recorder)
{
  struct journal *j = calloc (1, sizeof *j);
  static const struct jnames empty;

  if (j == NULL)
    abort ();
  pthread_mutex_init (&j->lock, NULL);
  j->recorder = recorder;
  journal_names_set (j, &empty, 0);
  return j;
}

void
journal_free (struct journal *j)
{
  for (unsigned i = 0; i < j->nfiles; ++i) {
    struct jfile *f = j->files[i];

    for (size_t s = 0; s < f->nsectors; ++s)
      free (f->sectors[s].v);
    free (f->sectors);
    free (f->sizes);
    free (f->attrs);
    free (f->acks);
    free (f->fails);
    free (f);
  }
  for (unsigned i = 0; i < j->nstates; ++i)
    free (j->states[i]);
  free (j->states);
  free (j->syncs);
  free (j->nacks);
  free (j->ops);
  pthread_mutex_destroy (&j->lock);
  free (j);
}

static void *
dup_mem (const void *p, size_t n, size_t size)
{
  void *q = calloc (MAX (n, (size_t) 1), size);

  if (q == NULL)
    abort ();
  if (n > 0)
    memcpy (q, p, n * size);
  return q;
}

static struct jfile *
clone_file (const struct jfile *f)
{
  struct jfile *c = dup_mem (f, 1, sizeof *f);

  c->sectors = dup_mem (f->sectors, f->nsectors, sizeof *f->sectors);
  for (size_t i = 0; i < f->nsectors; ++i) {
    struct jsector *s = &c->sectors[i];

    s->v = dup_mem (s->v, s->count, sizeof *s->v);
    s->max = MAX (s->count, 1u);
  }
  c->sizes = dup_mem (f->sizes, f->nsizes, sizeof *f->sizes);
  c->max_sizes = MAX (f->nsizes, 1u);
  c->attrs = dup_mem (f->attrs, f->nattrs, sizeof *f->attrs);
  c->max_attrs = MAX (f->nattrs, 1u);
  c->acks = dup_mem (f->acks, f->nacks, sizeof *f->acks);
  c->max_acks = MAX (f->nacks, 1u);
  c->fails = dup_mem (f->fails, f->nfails, sizeof *f->fails);
  c->max_fails = MAX (f->nfails, 1u);
  return c;
}

struct journal *
journal_clone (const struct journal *j)
{
  struct journal *c = dup_mem (j, 1, sizeof *j);

  pthread_mutex_init (&c->lock, NULL);
  c->ops = dup_mem (j->ops, j->nops, sizeof *j->ops);
  c->max_ops = MAX (j->nops, 1u);
  for (unsigned i = 0; i < j->nfiles; ++i)
    c->files[i] = clone_file (j->files[i]);
  c->states = dup_mem (j->states, j->nstates, sizeof *j->states);
  c->max_states = MAX (j->nstates, 1u);
  for (unsigned i = 0; i < j->nstates; ++i)
    c->states[i] = dup_mem (j->states[i], 1, sizeof *j->states[i]);
  c->syncs = dup_mem (j->syncs, j->nsyncs, sizeof *j->syncs);
  c->max_syncs = MAX (j->nsyncs, 1u);
  c->nacks = dup_mem (j->nacks, j->nnacks, sizeof *j->nacks);
  c->max_nacks = MAX (j->nnacks, 1u);
  return c;
}

static size_t
now (const struct journal *j)
{
  return j->recorder ? record_count (j->recorder) : 0;
}

uint32_t
journal_begin (struct journal *j)
{
  uint32_t seq;

  pthread_mutex_lock (&j->lock);
  j->ops = grow (j->ops, j->nops, &j->max_ops, sizeof *j->ops);
  j->ops[j->nops] = (struct jop) { .start = now (j), .acked = SIZE_MAX,
                                   .begin = ++j->clock };
  seq = ++j->nops;
  pthread_mutex_unlock (&j->lock);
  return seq;
}

void
journal_end (struct journal *j, uint32_t seq)
{
  pthread_mutex_lock (&j->lock);
  j->ops[seq - 1].end = ++j->clock;
  pthread_mutex_unlock (&j->lock);
}

/* --- contents --- */

struct stamp {
  uint64_t magic, sector;
  uint32_t file, seq;
};
#define STAMP_MAGIC UINT64_C (0x6e72756f6a646e62)

void
journal_fill (void *buf, unsigned file, uint64_t first, size_t count,
              uint32_t seq)
{
  uint8_t *p = buf;

  for (size_t i = 0; i < count; ++i, p += JSECTOR) {
    struct stamp s = { STAMP_MAGIC, first + i, file, seq };
    uint64_t x = s.sector * 0x9e3779b97f4a7c15 + file * 7919ull + seq;

    memcpy (p, &s, sizeof s);
    for (size_t at = sizeof s; at < JSECTOR; at += 8) {
      x ^= x << 13;
      x ^= x >> 7;
      x ^= x << 17;
      memcpy (p + at, &x, 8);
    }
  }
}

static void
sectors_reach (struct jfile *f, size_t count)
{
  if (count <= f->nsectors)
    return;
  f->sectors = reallocarray (f->sectors, count, sizeof *f->sectors);
  if (f->sectors == NULL)
    abort ();
  memset (f->sectors + f->nsectors, 0,
          (count - f->nsectors) * sizeof *f->sectors);
  f->nsectors = count;
}

static void
add_version (struct jfile *f, uint64_t sector, const struct jversion *v)
{
  struct jsector *s = &f->sectors[sector];

  s->v = grow (s->v, s->count, &s->max, sizeof *s->v);
  s->v[s->count++] = *v;
}

static void
add_versions (struct jfile *f, uint64_t first, size_t count, uint32_t seq,
              bool zero)
{
  sectors_reach (f, first + count);
  for (size_t i = first; i < first + count; ++i) {
    const struct jversion v = { .seq = seq, .zero = zero, .file = f->id,
                                .sector = i, .wrote = seq };

    add_version (f, i, &v);
  }
}

void
journal_data (struct journal *j, unsigned file, uint64_t first, size_t count,
              uint32_t seq, bool zero)
{
  pthread_mutex_lock (&j->lock);
  add_versions (j->files[file - 1], first, count, seq, zero);
  pthread_mutex_unlock (&j->lock);
}

void
journal_clone_range (struct journal *j, unsigned from, uint64_t a,
                     size_t count, unsigned to, uint64_t b, uint32_t seq)
{
  struct jfile *f, *t;

  pthread_mutex_lock (&j->lock);
  f = j->files[from - 1];
  t = j->files[to - 1];
  sectors_reach (t, b + count);
  for (size_t i = 0; i < count; ++i) {
    struct jversion v = { .zero = true };

    if (a + i < f->nsectors && f->sectors[a + i].count > 0)
      v = f->sectors[a + i].v[f->sectors[a + i].count - 1];
    v.seq = seq;
    add_version (t, b + i, &v);
  }
  pthread_mutex_unlock (&j->lock);
}

/* Of different lengths. */
size_t
journal_attr_value (char value[JATTR_MAX], unsigned file, uint32_t seq)
{
  const size_t len = 16 + seq * 7 % (JATTR_MAX - 16);

  memset (value, 'a' + seq % 26, JATTR_MAX);
  memcpy (value, &file, sizeof file);
  memcpy (value + sizeof file, &seq, sizeof seq);
  return len;
}

void
journal_attr (struct journal *j, unsigned file, bool there, uint32_t seq)
{
  struct jfile *f;

  pthread_mutex_lock (&j->lock);
  f = j->files[file - 1];
  f->attrs = grow (f->attrs, f->nattrs, &f->max_attrs, sizeof *f->attrs);
  f->attrs[f->nattrs++] = (struct jattr) { seq, there };
  pthread_mutex_unlock (&j->lock);
}

void
journal_size (struct journal *j, unsigned file, uint64_t size, uint32_t seq)
{
  struct jfile *f;

  assert (size % JSECTOR == 0);
  pthread_mutex_lock (&j->lock);
  f = j->files[file - 1];
  f->sizes = grow (f->sizes, f->nsizes, &f->max_sizes, sizeof *f->sizes);
  f->sizes[f->nsizes++] = (struct jsize) { seq, size };
  if (size < f->size && f->nsectors > size / JSECTOR)
    add_versions (f, size / JSECTOR, f->nsectors - size / JSECTOR, seq, true);
  f->size = size;
  pthread_mutex_unlock (&j->lock);
}

struct jfile *
journal_file (struct journal *j, uint32_t seq)
{
  struct jfile *f = calloc (1, sizeof *f);

  if (f == NULL)
    abort ();
  pthread_mutex_lock (&j->lock);
  assert (j->nfiles < JFILES_MAX);
  j->files[j->nfiles++] = f;
  f->id = j->nfiles;
  f->created = seq;
  pthread_mutex_unlock (&j->lock);
  return f;
}

struct jfile *
journal_copy (struct journal *j, unsigned file, uint32_t seq)
{
  struct jfile *f = clone_file (j->files[file - 1]);

  f->nacks = f->nfails = 0;
  f->created = seq;
  pthread_mutex_lock (&j->lock);
  f->inherited = ++j->clock;
  assert (j->nfiles < JFILES_MAX);
  j->files[j->nfiles++] = f;
  f->id = j->nfiles;
  pthread_mutex_unlock (&j->lock);
  return f;
}

/* --- names --- */

const struct jnames *
journal_names (struct journal *j)
{
  const struct jnames *n;

  pthread_mutex_lock (&j->lock);
  n = j->states[j->nstates - 1];
  pthread_mutex_unlock (&j->lock);
  return n;
}

static int
name_cmp (const void *a, const void *b)
{
  const struct jname *x = a, *y = b;

  return strcmp (x->path, y->path);
}

/* The directory that holds NAME, NULL for the top. */
static struct jname *
parent_of (struct jnames *n, const struct jname *name)
{
  const char *slash = strrchr (name->path, '/');
  const size_t len = slash ? slash - name->path : 0;

  for (unsigned i = 0; slash != NULL && i < n->count; ++i)
    if (strlen (n->names[i].path) == len &&
        memcmp (n->names[i].path, name->path, len) == 0)
      return &n->names[i];
  return NULL;
}

static bool
same_thing (const struct jname *a, const struct jname *b)
{
  return a == NULL || b == NULL ? a == b
    : a->kind == b->kind && a->file == b->file;
}

/* Is NAME of N also in M: the same leaf of the same directory, leading to the
 * same thing?
 */
static bool
is_in (struct jnames *n, const struct jname *name, struct jnames *m)
{
  const char *slash = strrchr (name->path, '/');
  const char *leaf = slash ? slash + 1 : name->path;

  for (unsigned i = 0; i < m->count; ++i) {
    const char *other = strrchr (m->names[i].path, '/');

    other = other ? other + 1 : m->names[i].path;
    if (strcmp (leaf, other) == 0 && same_thing (name, &m->names[i]) &&
        same_thing (parent_of (n, name), parent_of (m, &m->names[i])))
      return true;
  }
  return false;
}

static void
touch (struct jnames *n, const struct jname *what)
{
  if (what == NULL)
    n->named = n->seq;
  for (unsigned i = 0; what != NULL && i < n->count; ++i)
    if (same_thing (&n->names[i], what))
      n->names[i].named = n->seq;
}

/* What N does not have in common with BEFORE was changed by it. */
static void
touch_changed (struct jnames *n, struct jnames *before)
{
  for (unsigned i = 0; i < n->count; ++i)
    if (!is_in (n, &n->names[i], before)) {
      touch (n, &n->names[i]);
      touch (n, parent_of (n, &n->names[i]));
    }
  for (unsigned i = 0; i < before->count; ++i)
    if (!is_in (before, &before->names[i], n)) {
      touch (n, &before->names[i]);
      touch (n, parent_of (before, &before->names[i]));
    }
}

/* Names lie in the subvolume of their directory. */
static void
find_roots (struct jnames *n)
{
  for (unsigned i = 0; i < n->count; ++i) {
    const struct jname *dir = parent_of (n, &n->names[i]);

    while (dir != NULL && dir->subvol == 0)
      dir = parent_of (n, dir);
    n->names[i].root_id = dir ? dir->subvol : JTOP;
  }
}

void
journal_names_set (struct journal *j, const struct jnames *names,
                   uint32_t seq)
{
  struct jnames *n = malloc (sizeof *n);

  if (n == NULL)
    abort ();
  *n = *names;
  n->seq = seq;
  find_roots (n);
  if (j->nstates > 0)
    touch_changed (n, j->states[j->nstates - 1]);
  qsort (n->names, n->count, sizeof n->names[0], name_cmp);
  pthread_mutex_lock (&j->lock);
  j->states = grow (j->states, j->nstates, &j->max_states,
                    sizeof *j->states);
  j->states[j->nstates++] = n;
  pthread_mutex_unlock (&j->lock);
}

const struct jname *
jnames_find (const struct jnames *n, const char *path)
{
  for (unsigned i = 0; i < n->count; ++i)
    if (strcmp (n->names[i].path, path) == 0)
      return &n->names[i];
  return NULL;
}

struct jname *
jnames_add (struct jnames *n, const char *path, enum jkind kind,
            unsigned file)
{
  struct jname *name;

  assert (n->count < JNAMES_MAX && strlen (path) < JPATH_MAX);
  name = &n->names[n->count++];
  memset (name, 0, sizeof *name);
  strcpy (name->path, path);
  name->kind = kind;
  name->file = file;
  return name;
}

void
jnames_del (struct jnames *n, const char *path)
{
  const struct jname *name = jnames_find (n, path);

  assert (name != NULL);
  n->names[name - n->names] = n->names[--n->count];
}

void
jnames_move (struct jnames *n, const char *from, const char *to)
{
  size_t len = strlen (from);

  for (unsigned i = 0; i < n->count; ++i) {
    char *path = n->names[i].path, rest[JPATH_MAX];

    if (strncmp (path, from, len) != 0 ||
        (path[len] != '\0' && path[len] != '/'))
      continue;
    strcpy (rest, path + len);
    assert (strlen (to) + strlen (rest) < JPATH_MAX);
    strcpy (path, to);
    strcat (path, rest);
  }
}

/* --- acknowledgements --- */

static size_t
mark (struct journal *j, uint32_t seq)
{
  if (j->recorder == NULL)
    return 0;
  if (record_mark (j->recorder, seq) < 0)
    abort ();
  return record_count (j->recorder) - 1;
}

/* The names when operation SEQ began. */
static const struct jnames *
names_before (const struct journal *j, uint32_t seq)
{
  const uint32_t begin = j->ops[seq - 1].begin;
  unsigned i = j->nstates;

  while (--i > 0) {
    const struct jop *op = &j->ops[j->states[i]->seq - 1];

    if (op->end != 0 && op->end < begin)
      break;
  }
  return j->states[i];
}

static void
ack_names (struct journal *j, size_t at, uint64_t root_id, uint32_t named)
{
  j->nacks = grow (j->nacks, j->nnacks, &j->max_nacks, sizeof *j->nacks);
  j->nacks[j->nnacks++] = (struct jnack) { at, root_id, named };
}

static void
ack_names_of (struct journal *j, size_t at, unsigned file, uint32_t seq)
{
  const struct jnames *n = names_before (j, seq);

  for (unsigned i = 0; i < n->count; ++i)
    if (n->names[i].kind == JFILE && n->names[i].file == file)
      ack_names (j, at, n->names[i].root_id, n->names[i].named);
}

void
journal_ack_file (struct journal *j, unsigned file, uint32_t seq)
{
  struct jfile *f;
  size_t at;

  pthread_mutex_lock (&j->lock);
  f = j->files[file - 1];
  at = mark (j, seq);
  f->acks = grow (f->acks, f->nacks, &f->max_acks, sizeof *f->acks);
  f->acks[f->nacks++] = (struct jack) { at, seq, j->ops[seq - 1].begin };
  ack_names_of (j, at, file, seq);
  pthread_mutex_unlock (&j->lock);
}

void
journal_ack_op (struct journal *j, unsigned file, uint32_t seq)
{
  pthread_mutex_lock (&j->lock);
  j->ops[seq - 1].acked = mark (j, seq);
  ack_names_of (j, j->ops[seq - 1].acked, file, seq);
  pthread_mutex_unlock (&j->lock);
}

void
journal_ack_dir (struct journal *j, const char *dir, uint32_t seq)
{
  const struct jnames *n;
  const struct jname *name;
  size_t at;

  pthread_mutex_lock (&j->lock);
  at = mark (j, seq);
  n = names_before (j, seq);
  name = jnames_find (n, dir);
  if (dir[0] == '\0')
    ack_names (j, at, JTOP, n->named);
  else if (name != NULL)
    ack_names (j, at, name->subvol ? name->subvol : name->root_id,
               name->named);
  pthread_mutex_unlock (&j->lock);
}

void
journal_ack_all (struct journal *j, uint32_t seq)
{
  pthread_mutex_lock (&j->lock);
  j->syncs = grow (j->syncs, j->nsyncs, &j->max_syncs, sizeof *j->syncs);
  j->syncs[j->nsyncs++] = (struct jack) { mark (j, seq), seq,
                                           j->ops[seq - 1].begin };
  pthread_mutex_unlock (&j->lock);
}

void
journal_op_failed (struct journal *j, uint32_t seq)
{
  pthread_mutex_lock (&j->lock);
  j->ops[seq - 1].failed = true;
  pthread_mutex_unlock (&j->lock);
}

void
journal_fail (struct journal *j, unsigned file, uint32_t seq)
{
  pthread_mutex_lock (&j->lock);
  for (unsigned i = 0; i < j->nfiles; ++i) {
    struct jfile *f = j->files[i];

    if (file != 0 && file != f->id)
      continue;
    f->fails = grow (f->fails, f->nfails, &f->max_fails, sizeof *f->fails);
    f->fails[f->nfails++] = seq;
  }
  pthread_mutex_unlock (&j->lock);
}
