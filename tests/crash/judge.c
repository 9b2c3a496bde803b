/* The journal of a crash test: judging a pool after a crash, see journal.h.
 */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/math.h"
#include "crash/journal.h"

#define CHUNK (256 * 1024)
#define DEPTH_MAX 16

struct found {
  char path[JPATH_MAX];
  uint64_t root_id;            /* the subvolume that holds the name */
  struct btrnbd_stat st;
};

struct judge {
  struct journal *j;
  size_t at;
  struct btrnbd_pool *pool;
  char *why;
  uint32_t durable_all;        /* seq acknowledged by syncs */
  struct jnames names;         /* what the names turned out to be */
  unsigned count;
  struct found found[JNAMES_MAX];
};

#define WRONG(g, ...) (snprintf ((g)->why, JWHY_MAX, __VA_ARGS__), false)

static uint32_t
newest_ack (const struct jack *acks, unsigned n, size_t at)
{
  uint32_t seq = 0;

  for (unsigned i = 0; i < n; ++i)
    if (acks[i].at < at)
      seq = MAX (seq, acks[i].seq);
  return seq;
}

static bool
had_begun (const struct judge *g, uint32_t seq)
{
  return seq == 0 || g->j->recorder == NULL ||
    g->j->ops[seq - 1].start < g->at;
}

static bool
was_acked (const struct judge *g, uint32_t seq)
{
  return seq > 0 && g->j->ops[seq - 1].acked < g->at;
}

/* --- walking the pool --- */

struct walk {
  struct judge *g;
  const char *dir;
  uint64_t root_id;
  bool overflow;
};

static int
walk_entry (void *opaque, const char *name, const struct btrnbd_stat *st)
{
  struct walk *w = opaque;
  struct judge *g = w->g;
  struct found *f;

  if (g->count == JNAMES_MAX ||
      strlen (w->dir) + 1 + strlen (name) >= JPATH_MAX) {
    w->overflow = true;
    return 0;
  }
  f = &g->found[g->count++];
  memset (f, 0, sizeof *f);
  snprintf (f->path, sizeof f->path, "%s%s%s", w->dir, w->dir[0] ? "/" : "",
            name);
  f->root_id = w->root_id;
  f->st = *st;
  return 0;
}

static bool
walk (struct judge *g)
{
  unsigned next = 0;
  struct walk w = { .g = g, .dir = "", .root_id = JTOP };
  int r = btrnbd_readdir (g->pool, "", walk_entry, &w);

  while (r == 0 && !w.overflow && next < g->count) {
    struct found *f = &g->found[next++];

    r = btrnbd_stat (g->pool, f->path, &f->st);
    if (r == 0 && S_ISDIR (f->st.mode)) {
      w.dir = f->path;
      w.root_id = f->st.root_id;
      r = btrnbd_readdir (g->pool, f->path, walk_entry, &w);
    }
    if (r < 0)
      return WRONG (g, "%s: %s", f->path, btrnbd_last_error (r));
  }
  if (r < 0)
    return WRONG (g, "top: %s", btrnbd_last_error (r));
  return !w.overflow || WRONG (g, "more names than ever were made");
}

/* --- names --- */

static const struct found *
found_at (const struct judge *g, const char *path)
{
  for (unsigned i = 0; i < g->count; ++i)
    if (strcmp (g->found[i].path, path) == 0)
      return &g->found[i];
  return NULL;
}

static bool
same_thing (const struct judge *g, const struct jname *n,
            const struct found *f)
{
  const struct jfile *file;

  switch (n->kind) {
  case JDIR:
    return S_ISDIR (f->st.mode) &&
      f->st.root_id == (n->subvol ? n->subvol : n->root_id);
  case JSYMLINK:
    return S_ISLNK (f->st.mode);
  case JFILE:
    file = g->j->files[n->file - 1];
    return S_ISREG (f->st.mode) && f->st.ino == file->ino &&
      f->st.root_id == file->root_id;
  }
  return false;
}

/* Does subvolume ROOT_ID hold exactly the names that it has in STATE?  What
 * differs first is told in WHY.
 */
static bool
state_matches (struct judge *g, uint64_t root_id, const struct jnames *state,
               char *why, size_t max)
{
  for (unsigned i = 0; i < state->count; ++i) {
    const struct found *f = found_at (g, state->names[i].path);

    if (state->names[i].root_id != root_id)
      continue;
    if (f == NULL || !same_thing (g, &state->names[i], f)) {
      snprintf (why, max, "%s is %s", state->names[i].path,
                f ? "something else" : "missing");
      return false;
    }
  }
  for (unsigned i = 0; i < g->count; ++i)
    if (g->found[i].root_id == root_id &&
        jnames_find (state, g->found[i].path) == NULL) {
      snprintf (why, max, "%s is there", g->found[i].path);
      return false;
    }
  return true;
}

/* The last naming operation that subvolume ROOT_ID, made by CREATED, must
 * know.
 */
static uint32_t
names_durable (const struct judge *g, uint64_t root_id, uint32_t created)
{
  uint32_t seq = MAX (g->durable_all, created);

  for (unsigned i = 0; i < g->j->nnacks; ++i) {
    const struct jnack *a = &g->j->nacks[i];

    if (a->root_id == root_id && a->at < g->at)
      seq = MAX (seq, a->named);
  }
  return seq;
}

static void
accept_names (struct judge *g, uint64_t root_id, const struct jnames *state)
{
  for (unsigned i = 0; i < state->count; ++i)
    if (state->names[i].root_id == root_id)
      g->names.names[g->names.count++] = state->names[i];
}

static bool
names_of_root_allowed (struct judge *g, uint64_t root_id, uint32_t created)
{
  uint32_t durable = names_durable (g, root_id, created);
  char first[200] = "", last[200] = "";
  unsigned low = 0, high = 0;

  for (unsigned i = 0; i < g->j->nstates; ++i) {
    if (g->j->states[i]->seq <= durable)
      low = i;
    if (had_begun (g, g->j->states[i]->seq))
      high = i;
  }
  high = MAX (low, high);
  for (unsigned i = low; i <= high; ++i)
    if (state_matches (g, root_id, g->j->states[i], i == low ? first : last,
                       sizeof first)) {
      accept_names (g, root_id, g->j->states[i]);
      return true;
    }
  return WRONG (g, "names of subvolume %llu fit none of the states %u-%u "
                "(operations %u-%u): oldest: %s; newest: %s",
                (unsigned long long) root_id, low, high,
                g->j->states[low]->seq, g->j->states[high]->seq, first, last);
}

/* Those of the top, and of the subvolumes that it then has. */
static bool
names_allowed (struct judge *g)
{
  bool ok = names_of_root_allowed (g, JTOP, 0);

  for (unsigned i = 0; ok && i < g->names.count; ++i) {
    const struct jname *n = &g->names.names[i];

    if (n->kind == JDIR && n->subvol != 0)
      ok = names_of_root_allowed (g, n->subvol, n->file);
  }
  return ok;
}

/* --- contents --- */

/* Clock of the newest acknowledgement of all that ended before it. */
static uint32_t
newest_clock (const struct jack *acks, unsigned n, size_t at)
{
  uint32_t clock = 0;

  for (unsigned i = 0; i < n; ++i)
    if (acks[i].at < at)
      clock = MAX (clock, acks[i].clock);
  return clock;
}

/* Has version SEQ of F been acknowledged, with no failure in between that
 * told that it may be lost?
 */
static bool
acked_by (const struct judge *g, const struct jfile *f,
          const struct jack *acks, unsigned n, uint32_t seq)
{
  for (unsigned i = 0; i < n; ++i) {
    bool lost = false;

    if (acks[i].at >= g->at || acks[i].clock <= g->j->ops[seq - 1].end)
      continue;
    for (unsigned k = 0; k < f->nfails && !lost; ++k)
      lost = f->fails[k] >= seq && f->fails[k] <= acks[i].seq;
    if (!lost)
      return true;
  }
  return false;
}

/* CLOCK: see newest_clock, of F and everything. */
static bool
is_durable (const struct judge *g, const struct jfile *f, uint32_t clock,
            uint32_t seq)
{
  const struct jop *op = &g->j->ops[seq - 1];

  if (op->failed)
    return false;
  if (was_acked (g, seq))
    return true;
  if (op->end == 0 || op->end >= clock)
    return false;
  return f->nfails == 0 ||
    acked_by (g, f, f->acks, f->nacks, seq) ||
    acked_by (g, f, g->j->syncs, g->j->nsyncs, seq);
}

static bool
is_zero (const uint8_t *p)
{
  static const uint8_t zero[JSECTOR];

  return memcmp (p, zero, JSECTOR) == 0;
}

/* V: NULL is what was before everything. */
static bool
version_fits (const struct jversion *v, const uint8_t *p)
{
  uint8_t want[JSECTOR];

  if (v == NULL || v->zero)
    return is_zero (p);
  journal_fill (want, v->file, v->sector, 1, v->wrote);
  return memcmp (p, want, JSECTOR) == 0;
}

static bool
sector_allowed (struct judge *g, const struct jfile *f, uint64_t sector,
                uint32_t durable, const uint8_t *p)
{
  static const struct jsector none;
  const struct jsector *s = sector < f->nsectors ? &f->sectors[sector]
    : &none;
  uint32_t stamp[6], base = 0;
  unsigned first = 0; /* index + 1 of the oldest that is allowed */

  for (unsigned i = 0; i < s->count; ++i)
    if (is_durable (g, f, durable, s->v[i].seq)) {
      first = i + 1;
      base = s->v[i].seq;
    }
  for (unsigned i = first; i <= s->count; ++i) {
    uint32_t seq = i == 0 ? 0 : s->v[i - 1].seq;

    if ((i == first || had_begun (g, seq)) &&
        version_fits (i == 0 ? NULL : &s->v[i - 1], p))
      return true;
  }
  memcpy (stamp, p, sizeof stamp);
  return WRONG (g, "file %u (inode %llu of %llu) sector %llu: %s %u of file "
                "%u, acknowledged was %u, the newest is %u (clock %u)",
                f->id,
                (unsigned long long) f->ino, (unsigned long long) f->root_id,
                (unsigned long long) sector,
                is_zero (p) ? "zeroes, not" : "version", stamp[5], stamp[4],
                base, s->count ? s->v[s->count - 1].seq : 0, durable);
}

static bool
size_allowed (struct judge *g, const struct jfile *f, uint32_t durable,
              uint64_t size)
{
  unsigned first = 0;

  for (unsigned i = 0; i < f->nsizes; ++i)
    if (is_durable (g, f, durable, f->sizes[i].seq))
      first = i + 1;
  for (unsigned i = first; i <= f->nsizes; ++i) {
    uint32_t seq = i == 0 ? 0 : f->sizes[i - 1].seq;

    if ((i == first || had_begun (g, seq)) &&
        size == (i == 0 ? 0 : f->sizes[i - 1].size))
      return true;
  }
  return WRONG (g, "file %u: size %llu, acknowledged was %llu", f->id,
                (unsigned long long) size,
                (unsigned long long) (first ? f->sizes[first - 1].size : 0));
}

/* Does the attribute that was found (LEN 0: none) come from A (NULL: there was
 * none)?
 */
static bool
attr_fits (const struct jfile *f, const struct jattr *a, const char *value,
           size_t len)
{
  char want[JATTR_MAX];

  if (a == NULL || !a->there)
    return len == 0;
  return len == journal_attr_value (want, f->id, a->seq) &&
    memcmp (value, want, len) == 0;
}

static bool
attr_allowed (struct judge *g, const struct jfile *f, const char *path,
              uint32_t durable)
{
  char value[JATTR_MAX];
  unsigned first = 0;
  size_t len = 0;
  int r = btrnbd_getxattr (g->pool, path, JATTR, value, sizeof value, &len);

  if (r == -ERR_xattr_missing)
    len = 0;
  else if (r < 0)
    return WRONG (g, "%s: attribute: %s", path, btrnbd_last_error (r));
  for (unsigned i = 0; i < f->nattrs; ++i)
    if (is_durable (g, f, durable, f->attrs[i].seq))
      first = i + 1;
  for (unsigned i = first; i <= f->nattrs; ++i)
    if ((i == first || had_begun (g, f->attrs[i - 1].seq)) &&
        attr_fits (f, i == 0 ? NULL : &f->attrs[i - 1], value, len))
      return true;
  return WRONG (g, "file %u: attribute of %zu bytes, acknowledged was that of "
                "%u", f->id, len, first ? f->attrs[first - 1].seq : 0);
}

static bool
contents_allowed (struct judge *g, const struct jfile *f,
                  struct btrnbd_file *file, uint32_t durable, uint8_t *buf)
{
  uint64_t size = btrnbd_file_size (file);

  if (!size_allowed (g, f, durable, size))
    return false;
  for (uint64_t off = 0; off < size; off += CHUNK) {
    size_t len = MIN (size - off, (uint64_t) CHUNK);
    int r = btrnbd_pread (file, buf, len, off);

    if (r < 0)
      return WRONG (g, "file %u at %llu: %s", f->id,
                    (unsigned long long) off, btrnbd_last_error (r));
    for (size_t in = 0; in < len; in += JSECTOR)
      if (!sector_allowed (g, f, (off + in) / JSECTOR, durable, buf + in))
        return false;
  }
  return true;
}

static bool
file_allowed (struct judge *g, const struct jname *name, uint8_t *buf)
{
  const struct jfile *f = g->j->files[name->file - 1];
  uint32_t durable = MAX (newest_clock (f->acks, f->nacks, g->at),
                          newest_clock (g->j->syncs, g->j->nsyncs, g->at));
  struct btrnbd_file *file;
  bool ok;
  int r = btrnbd_file_open (g->pool, name->path, BTRNBD_OPEN_RDONLY, &file);

  durable = MAX (durable, f->inherited);
  if (r < 0)
    return WRONG (g, "%s: open: %s", name->path, btrnbd_last_error (r));
  ok = contents_allowed (g, f, file, durable, buf) &&
    attr_allowed (g, f, name->path, durable);
  btrnbd_file_close (file);
  return ok;
}

static bool
links_allowed (struct judge *g, const struct jnames *state,
               const struct jname *name)
{
  const struct found *f = found_at (g, name->path);
  unsigned links = 0;

  for (unsigned i = 0; i < state->count; ++i)
    links += state->names[i].kind == JFILE &&
      state->names[i].file == name->file;
  return f->st.nlink == links ||
    WRONG (g, "%s: %u links, not %u", name->path, f->st.nlink, links);
}

bool
journal_allows (struct journal *j, size_t at, struct btrnbd_pool *pool,
                char why[JWHY_MAX])
{
  struct judge *g = calloc (1, sizeof *g);
  uint8_t *buf = malloc (CHUNK);
  const struct jnames *state;
  bool ok;

  if (g == NULL || buf == NULL)
    abort ();
  g->j = j;
  g->at = at;
  g->pool = pool;
  g->why = why;
  g->durable_all = newest_ack (j->syncs, j->nsyncs, at);
  state = &g->names;
  ok = walk (g) && names_allowed (g);
  for (unsigned i = 0; ok && i < state->count; ++i)
    if (state->names[i].kind == JFILE)
      ok = links_allowed (g, state, &state->names[i]) &&
        file_allowed (g, &state->names[i], buf);
  free (buf);
  free (g);
  return ok;
}
