/* data: readers of the same data on the same way keep together.
 *
 * Clones of one image that boot at once read the same extents in the same
 * order.  As long as all of them are within what the cache holds, each extent
 * is read from disk once; those who fall further behind read it again, and
 * since that costs them no more than it cost the first, they never catch up.
 * So a sequential reader that would go to the disk waits for a moment while
 * others are too far behind on their way through what it has passed.
 *
 * Nobody is made slower than half by that: it is done only while those behind
 * get on, together, at half the pace or more that the one in front has when
 * it is not held.  A request waits for HOLD_MS at most.
 */
#include <config.h>

#include <string.h>
#include <time.h>

#include "base/math.h"
#include "data/data_priv.h"

#define AWAY_MS 1000           /* who has read nothing for that long is gone */
#define HOLD_MS 100            /* most that a request waits, about */
#define STEP_MS 5              /* until it looks again */
#define WINDOW_MS 200          /* that a pace is measured over, at least */

void
convoy_init (struct convoy *c)
{
  memset (c, 0, sizeof *c);
  mutex_init (&c->lock, RANK_CONVOY);
}

void
convoy_done (struct convoy *c)
{
  mutex_done (&c->lock);
}

/* --- who is there --- */

static void
set_slot (struct convoy *c, unsigned i, struct file_data *f, uint64_t pos,
          uint64_t now)
{
  struct stream *s = &c->stream[i];

  if (s->f)
    __atomic_store_n (&s->f->convoy, 0, __ATOMIC_RELAXED);
  if ((s->f != NULL) != (f != NULL))
    __atomic_fetch_add (&c->n, f ? 1 : -1, __ATOMIC_RELAXED);
  s->f = f;
  s->mark_pos = pos;
  s->pace = s->free_pace = 0;
  s->measured = s->held = false;
  __atomic_store_n (&s->pos, pos, __ATOMIC_RELAXED);
  __atomic_store_n (&s->seen, now, __ATOMIC_RELAXED);
  __atomic_store_n (&s->mark, now, __ATOMIC_RELAXED);
  if (f)
    __atomic_store_n (&f->convoy, i + 1, __ATOMIC_RELEASE);
}

/* A slot that nobody has, or that of the reader who is away for longest. */
static void
join (struct file_data *f, uint64_t pos, uint64_t now)
{
  struct convoy *c = &f->d->convoy;
  uint64_t oldest = UINT64_MAX, seen;
  unsigned i, best = 0;

  SCOPED_LOCK (&c->lock);
  if (f->convoy != 0)
    return;
  for (i = 0; i < CONVOY_MAX; ++i) {
    seen = __atomic_load_n (&c->stream[i].seen, __ATOMIC_RELAXED);
    if (seen < oldest) {
      oldest = seen;
      best = i;
    }
  }
  if (now >= oldest + AWAY_MS)  /* else they are more than we care for */
    set_slot (c, best, f, pos, now);
}

/* Bytes in a second. */
static uint64_t
pace_since_mark (const struct stream *s, uint64_t pos, uint64_t now)
{
  return pos > s->mark_pos ? (pos - s->mark_pos) * 1000 / (now - s->mark) : 0;
}

static void
measure (struct convoy *c, unsigned i, uint64_t pos, uint64_t now)
{
  struct stream *s = &c->stream[i];

  SCOPED_LOCK (&c->lock);
  if (now < s->mark + WINDOW_MS)
    return;
  s->pace = pace_since_mark (s, pos, now);
  if (!s->held)
    s->free_pace = s->pace;
  s->held = false;
  s->measured = true;
  s->mark_pos = pos;
  __atomic_store_n (&s->mark, now, __ATOMIC_RELAXED);
}

void
convoy_note (struct file_data *f, uint64_t pos)
{
  const unsigned i = __atomic_load_n (&f->convoy, __ATOMIC_ACQUIRE);
  struct convoy *c = &f->d->convoy;
  const uint64_t now = now_ms ();

  if (i == 0) {
    join (f, pos, now);
    return;
  }
  /* If the slot is another's by now he is seen in a wrong place for once. */
  __atomic_store_n (&c->stream[i - 1].pos, pos, __ATOMIC_RELAXED);
  __atomic_store_n (&c->stream[i - 1].seen, now, __ATOMIC_RELAXED);
  if (now >= __atomic_load_n (&c->stream[i - 1].mark, __ATOMIC_RELAXED)
      + WINDOW_MS)
    measure (c, i - 1, pos, now);
}

void
convoy_leave (struct file_data *f)
{
  struct convoy *c = &f->d->convoy;

  SCOPED_LOCK (&c->lock);
  if (f->convoy != 0)
    set_slot (c, f->convoy - 1, NULL, 0, 0);
}

/* --- who waits --- */

/* Do both files have the same data at OFFSET, as far as is known? */
static bool
same_there (struct file_data *a, struct file_data *b, uint64_t offset)
{
  struct mapping m, n;
  bool found;

  map_peek (a, offset, &m, &found);
  if (!found || m.kind != MAP_REGULAR)
    return false;
  map_peek (b, offset, &n, &found);
  return found && n.kind == MAP_REGULAR && m.disk == n.disk
    && m.ext_offset + (offset - m.offset) == n.ext_offset
       + (offset - n.offset);
}

/* The pace of S, behind; that of one who has just begun is not known. */
static uint64_t
pace_of (const struct stream *s, uint64_t pos, uint64_t now, uint64_t unknown)
{
  if (now >= s->mark + 2 * WINDOW_MS)
    return pace_since_mark (s, pos, now);
  return s->measured ? s->pace : unknown;
}

static bool
is_ahead (struct file_data *f, uint64_t offset)
{
  struct convoy *c = &f->d->convoy;
  /* What one reader alone has seen stays for a tenth of the cache. */
  const uint64_t room = (uint64_t) f->d->pages->count * f->d->ps / 12;
  const uint64_t now = now_ms ();
  uint64_t behind = 0, least;
  struct stream *me;
  unsigned i;

  SCOPED_LOCK (&c->lock);
  if (f->convoy == 0)
    return false;
  me = &c->stream[f->convoy - 1];
  least = me->free_pace / 2;
  if (least == 0)
    return false;               /* what it would lose is not known yet */
  for (i = 0; i < CONVOY_MAX && behind < least; ++i) {
    struct stream *s = &c->stream[i];
    const uint64_t pos = __atomic_load_n (&s->pos, __ATOMIC_RELAXED);
    const uint64_t seen = __atomic_load_n (&s->seen, __ATOMIC_RELAXED);

    if (s->f != NULL && s != me && pos + room < offset
        && now < seen + AWAY_MS && same_there (f, s->f, pos))
      behind += pace_of (s, pos, now, least);
  }
  me->held |= behind >= least;
  return behind >= least;
}

bool
convoy_is_ahead (struct file_data *f, uint64_t offset)
{
  return __atomic_load_n (&f->convoy, __ATOMIC_RELAXED) != 0
    && __atomic_load_n (&f->d->convoy.n, __ATOMIC_RELAXED) > 1
    && is_ahead (f, offset);
}

void
convoy_wait (struct file_data *f, uint64_t offset)
{
  const struct timespec step = { .tv_nsec = STEP_MS * 1000000 };
  unsigned i;

  for (i = 0; i < HOLD_MS / STEP_MS && convoy_is_ahead (f, offset); ++i)
    nanosleep (&step, NULL);
}
