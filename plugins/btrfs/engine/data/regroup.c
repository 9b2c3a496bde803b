/* data: giving dead space back, and putting fragments together.
 *
 * A partly overwritten extent keeps all of its disk space until the last
 * piece of it is gone.  Where an extent is the file's alone and a fifth of it
 * or more is dead, what is left of it is written anew; then it is free.  And
 * neighbours in the file that are the file's alone are put together where, on
 * the average, the places on disk that they are in are smaller than FRAGMENT,
 * or the extents smaller than half of the file's unit.  What anybody shares
 * stays as it is, so are in-place (NODATACOW) files for the sake of fragments.
 *
 * The file is looked at window by window.  First without locks, which says for
 * nearly all of them that there is nothing to do.  Then the range of the
 * window is locked against writers; if nothing is dirty in it nothing will be,
 * so no write-out comes either; and as a batch at the gate we are on one side
 * of any snapshot.
 * Contents are read as by any reader, checksums and all, and go to new places
 * as write-out does it: data, then checksums and items in one transaction.
 */
#include <config.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/math.h"
#include "data/regroup_priv.h"
#include "data/writeout.h"

#define FRAGMENT (64 * 1024)
#define DEAD_SHARE 5           /* an extent gets 1/DEAD_SHARE of it dead */
#define ROUND_WINDOWS 64       /* looked at by one call */
#define ROUND_BYTES (1024 * 1024) /* moved by one call */
/* Extents of others (Linux: 128 MiB) that are larger than ours are looked at
 * once for many windows.
 */
#define LARGE_KNOWN 16

/* A part of a mapping that lies in the window. */
struct piece {
  struct mapping m;            /* cut to the window */
  bool part;                   /* of an extent that has other or dead parts */
  bool dead;                   /* the rest of its extent is, enough of it */
  bool alone;
};

struct large {
  uint64_t disk;
  bool dead;
};

struct look {
  struct file_data *f;
  uint64_t start, end;         /* of the window */
  size_t n;
  bool wanted;                 /* there may be something to do */
  bool locked;
  struct large large[LARGE_KNOWN];
  struct piece v[DATA_WINDOW / 4096];
  uint8_t *buf;                /* of a window */
  struct data_regrouped *ret;
};

/* --- what is there --- */

static bool
is_plain (const struct mapping *m)
{
  return m->kind == MAP_REGULAR && m->compression == 0 && m->disk != 0;
}

static void
cut (struct mapping *m, uint64_t start, uint64_t end)
{
  if (m->offset < start) {
    m->ext_offset += start - m->offset;
    m->len -= start - m->offset;
    m->offset = start;
  }
  m->len = MIN (m->len, end - m->offset);
}

static int
gather (struct look *l)
{
  uint64_t pos = l->start;

  l->n = 0;
  while (pos < l->end) {
    struct piece *p = &l->v[l->n++];
    int r = map_lookup (l->f, pos, &p->m);

    if (r < 0)
      return r;
    p->part = is_plain (&p->m) && p->m.len < p->m.disk_len;
    p->dead = p->alone = false;
    cut (&p->m, l->start, l->end);
    pos = p->m.offset + p->m.len;
  }
  return 0;
}

/* Where in the file parts of the extent of M may be. */
static void
range_of (const struct mapping *m, uint64_t *ret_start, uint64_t *ret_end)
{
  *ret_end = m->offset - m->ext_offset + m->disk_len;
  *ret_start = m->offset < m->ext_offset ? 0 : m->offset - m->ext_offset;
}

/* Enough of the extent of M is dead.  Of one that has been cloned within the
 * file only the parts near M are seen; but then it is not moved, as it has
 * several references.  Preallocated parts are not moved, so they keep it.
 */
static int
find_dead (struct look *l, const struct mapping *m, bool *ret_dead)
{
  uint64_t pos, end, live = 0;

  *ret_dead = false;
  range_of (m, &pos, &end);
  if (end > DATA_FILE_END)
    return 0;
  while (pos < end) {
    struct mapping o;
    int r = map_lookup (l->f, pos, &o);

    if (r < 0)
      return r;
    cut (&o, pos, end);
    if (o.disk == m->disk && o.kind != MAP_HOLE)
      live += o.kind == MAP_REGULAR ? o.len : m->disk_len;
    pos = o.offset + o.len;
  }
  *ret_dead = live < m->disk_len
    && m->disk_len - live >= m->disk_len / DEAD_SHARE;
  return 0;
}

static int
is_dead (struct look *l, const struct mapping *m, bool *ret_dead)
{
  struct large *known = &l->large[m->disk / l->f->d->ps % LARGE_KNOWN];
  int r;

  if (m->disk_len <= DATA_WINDOW)
    return find_dead (l, m, ret_dead);
  if (known->disk != m->disk) {
    r = find_dead (l, m, &known->dead);
    if (r < 0)
      return r;
    known->disk = m->disk;
  }
  *ret_dead = known->dead;
  return 0;
}

/* Neighbours that are of one extent have one answer. */
static int
judge_dead (struct look *l)
{
  size_t i, j;

  for (i = 0; i < l->n; ++i) {
    struct piece *p = &l->v[i];
    int r;

    if (!p->part)
      continue;
    for (j = i; j-- > 0 && i - j < 8;)
      if (l->v[j].part && l->v[j].m.disk == p->m.disk)
        break;
    if (j < i && i - j < 8 && l->v[j].m.disk == p->m.disk) {
      p->dead = l->v[j].dead;
      continue;
    }
    r = is_dead (l, &p->m, &p->dead);
    if (r < 0)
      return r;
  }
  return 0;
}

/* --- what to do --- */

/* What neighbours are made of. */
struct shape {
  uint64_t len;
  size_t extents;
  size_t places;               /* on disk; one goes on where the other ends */
};

static void
add_piece (struct shape *s, const struct piece *p)
{
  const struct mapping *m = &p->m, *before = &p[-1].m;

  if (s->extents == 0
      || mapping_disk (before, before->offset) + before->len
         != mapping_disk (m, m->offset))
    ++s->places;
  ++s->extents;
  s->len += m->len;
}

/* The run of pieces from I on of which all or none are put together. */
static size_t
plain_run (const struct look *l, size_t i, struct shape *ret)
{
  *ret = (struct shape) { .len = 0 };
  for (; i < l->n && is_plain (&l->v[i].m)
         && (!l->locked || l->v[i].alone); ++i)
    add_piece (ret, &l->v[i]);
  return i;
}

static bool
is_scattered (const struct shape *s)
{
  return s->places > 1 && s->len < s->places * FRAGMENT;
}

static bool
is_fragmented (const struct look *l, const struct shape *s)
{
  const uint64_t small = MIN (file_unit (l->f), (uint64_t) FRAGMENT) / 2;

  return (is_scattered (s) || (s->extents > 1 && s->len < s->extents * small))
    && (file_flags (l->f) & BTRFS_INODE_NODATACOW) == 0;
}

static int
first_look (struct look *l)
{
  struct shape shape;
  size_t i, to;
  int r;

  l->wanted = false;
  r = gather (l);
  if (r == 0)
    r = judge_dead (l);
  for (i = 0; i < l->n && r == 0 && !l->wanted; i = MAX (to, i + 1)) {
    to = plain_run (l, i, &shape);
    l->wanted = is_fragmented (l, &shape) || l->v[i].dead;
    for (; i < to && !l->wanted; ++i)
      l->wanted = l->v[i].dead;
  }
  return r;
}

/* Whose are they?  What is certainly another's too is said without a look at
 * the extent tree.
 */
static int
find_alone (struct look *l)
{
  size_t i;

  for (i = 0; i < l->n; ++i) {
    struct piece *p = &l->v[i];
    int r;

    if (!is_plain (&p->m))
      continue;
    if (i > 0 && p->part && l->v[i - 1].part
        && l->v[i - 1].m.disk == p->m.disk) {
      p->alone = l->v[i - 1].alone;
      continue;
    }
    r = nocow_is_alone (l->f, &p->m, &p->alone);
    if (r < 0)
      return r;
  }
  return 0;
}

/* --- doing it --- */

/* Pages of W with what the file holds at START; all or none. */
static int
fill_pages (struct look *l, struct writeout *w, uint64_t start, size_t n)
{
  struct data *d = l->f->d;
  uint32_t page[DATA_WINDOW / 4096];
  size_t have, i;
  int r;

  r = file_read (l->f, l->buf, n * d->ps, start);
  if (r < 0)
    return r;
  have = cache_take_pages (d->cache, page, n);
  if (have < n) {
    pages_give (d->pages, page, have);
    l->ret->busy = true;
    return 0;
  }
  for (i = 0; i < n; ++i) {
    memcpy (page_mem (d->pages, page[i]), l->buf + i * d->ps, d->ps);
    w->page[i] = (struct dirty_page) { .offset = start + i * d->ps,
      .page = page[i], .reserved = true };
  }
  w->n = n;
  return 0;
}

/* N sectors at START go to new extents, no more than MOST says. */
static int
move_sectors (struct look *l, struct writeout *w, uint64_t start, size_t n,
              const struct wo_most *most)
{
  struct space *space = l->f->d->env.space;
  const uint64_t len = (uint64_t) n * l->f->d->ps;
  int r = space_data_reserve (space, len);

  if (r < 0)
    return r;
  r = fill_pages (l, w, start, n);
  if (r < 0 || w->n == 0) {
    space_data_unreserve (space, len);
    return r;
  }
  r = writeout_move (w, most);
  if (r == 0 && w->run[0].inserted)
    l->ret->moved += len;
  return r;
}

/* What is worth it.  Dead space is freed in any case. */
static struct wo_most
most_for (const struct shape *s, bool dead)
{
  if (dead)
    return (struct wo_most) { .extents = SIZE_MAX, .places = SIZE_MAX };
  if (is_scattered (s))
    return (struct wo_most) { .extents = SIZE_MAX, .places = s->places / 2 };
  return (struct wo_most) { .extents = s->extents / 2, .places = s->places };
}

/* Pieces [FROM, TO), of that SHAPE, are written anew, side by side if there is
 * room for it.
 */
static int
move (struct look *l, size_t from, size_t to, const struct shape *shape,
      bool dead)
{
  const struct wo_most most = most_for (shape, dead);
  const struct mapping *last = &l->v[to - 1].m;
  const uint64_t start = l->v[from].m.offset;
  const size_t n = (last->offset + last->len - start) / l->f->d->ps;
  struct writeout w;
  int r = writeout_init (&w, l->f, n);

  if (r == 0)
    r = move_sectors (l, &w, start, n, &most);
  writeout_done (&w);
  return r;
}

/* In a run that is not put together: the dead ones alone. */
static int
move_dead (struct look *l, size_t from, size_t to)
{
  int r = 0;

  while (from < to && r == 0) {
    size_t i = from;

    while (i < to && l->v[i].dead)
      ++i;
    if (i > from)
      r = move (l, from, i, NULL, true);
    from = MAX (i, from + 1);
  }
  return r;
}

static bool
any_dead (const struct look *l, size_t from, size_t to)
{
  for (; from < to; ++from)
    if (l->v[from].dead)
      return true;
  return false;
}

/* The window is ours. */
static int
second_look (struct look *l)
{
  struct shape shape;
  size_t i, to;
  int r = gather (l);

  if (r == 0)
    r = judge_dead (l);
  if (r == 0)
    r = find_alone (l);
  for (i = 0; i < l->n && r == 0; i = MAX (to, i + 1)) {
    to = plain_run (l, i, &shape);
    if (is_fragmented (l, &shape))
      r = move (l, i, to, &shape, any_dead (l, i, to));
    else
      r = move_dead (l, i, to);
  }
  return r;
}

/* A subvolume that is read-only stays as it was sent, or received. */
static bool
is_read_only (const struct file_data *f)
{
  struct tree *t = file_tree (f);
  bool yes;

  rwlock_rdlock (&t->lock);
  yes = (le64_get (f->inode->root->item.flags) & BTRFS_ROOT_SUBVOL_RDONLY)
    != 0;
  rwlock_unlock (&t->lock);
  return yes;
}

static int
lock_and_work (struct look *l)
{
  struct file_data *f = l->f;
  struct range_lock lock;
  uint64_t a, b;
  int r = 0;

  range_lock (&f->ranges, &lock, l->start, l->end);
  l->locked = true;
  if (!gate_batch_try (file_gate (f)))
    l->ret->busy = true;
  else {
    if (dirty_next (f, l->start, l->end, &a, &b))
      l->ret->busy = true;
    else if (!is_read_only (f))
      r = second_look (l);
    gate_batch_end (file_gate (f));
  }
  l->locked = false;
  range_unlock (&f->ranges, &lock);
  return r;
}

/* What was moved out of extents that reach into other windows has left more
 * dead there.
 */
static void
note_around (struct look *l)
{
  struct inode *in = l->f->inode;
  uint64_t start = l->start, end = l->end;
  size_t i;

  for (i = 0; i < l->n; ++i)
    if (l->v[i].part && l->v[i].alone
        && l->v[i].m.disk_len <= DATA_WINDOW) {
      uint64_t a, b;

      range_of (&l->v[i].m, &a, &b);
      start = MIN (start, a);
      end = MAX (end, b);
    }
  SCOPED_LOCK (&in->lock);
  if (start < l->start)
    regroup_note (l->f, start, l->start);
  if (end > l->end)
    regroup_note (l->f, l->end, end);
}

/* A large hole is passed over at once: *POS moves. */
static int
skip_hole (struct look *l, uint64_t *pos, uint64_t end)
{
  struct mapping m;
  int r = map_lookup (l->f, *pos, &m);

  if (r == 0 && m.kind == MAP_HOLE)
    *pos = MIN (m.offset + m.len, end);
  return r;
}

static int
one_window (struct look *l)
{
  const uint64_t before = l->ret->moved;
  int r = first_look (l);

  if (r < 0 || !l->wanted)
    return r;
  r = lock_and_work (l);
  if (l->ret->moved > before)
    note_around (l);
  return r;
}

int
data_regroup (struct data *d, struct inode *inode, uint64_t *pos,
              uint64_t end, struct data_regrouped *ret)
{
  CLEANUP_FREE struct look *l = calloc (1, sizeof *l);
  CLEANUP_FREE uint8_t *buf = malloc (DATA_WINDOW);
  struct file_data *f;
  unsigned i;
  int r;

  *ret = (struct data_regrouped) { .moved = 0 };
  if (l == NULL || buf == NULL)
    return err_new (ERR_nomem, "regrouping");
  r = file_get (d, inode, &f);
  if (r == 0)
    r = file_check_writable (f);
  if (r < 0)
    return r;
  l->f = f;
  l->buf = buf;
  l->ret = ret;
  end = MIN (end, round_up (file_size (f), d->ps));
  for (i = 0; i < ROUND_WINDOWS && *pos < end && r == 0 && !ret->busy
         && ret->moved < ROUND_BYTES; ++i) {
    r = skip_hole (l, pos, end);
    l->start = *pos;
    l->end = MIN (round_up (*pos + 1, DATA_WINDOW), end);
    if (r == 0 && *pos < end)
      r = one_window (l);
    if (r < 0)
      __atomic_fetch_add (&d->regroup->failed, 1, __ATOMIC_RELAXED);
    if (!ret->busy)
      *pos = l->end;
  }
  __atomic_fetch_add (&d->regroup->moved, ret->moved, __ATOMIC_RELAXED);
  return r < 0 ? err_note (r, "regrouping tree %" PRIu64 " inode %" PRIu64
                           " offset %" PRIu64, inode->root->id, inode->ino,
                           l->start) : 0;
}
