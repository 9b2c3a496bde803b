/* data: taking writes in.
 *
 * With the range locked, it is first planned what every sector needs, and all
 * of that is reserved before anything changes: a write that does not fit has
 * no effect.  A sector that is dirty may be written out at any moment, so it
 * needs space like a clean one.  If there is not as much, write-out is kept
 * away while just the others get space and those that are dirty are
 * overwritten in their pages.
 *
 * What the caller gave is copied into pages of ours, which nobody can change
 * while they are checksummed and written.
 */
#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

#define CHUNK_PAGES 64         /* taken in at a time */

/* Of a sector, beside DIRTY_CUR and DIRTY_WB. */
enum { PLAN_CREDIT = 4, PLAN_DONE = 8 };

enum place { PLACE_NEW, PLACE_PREALLOC, PLACE_SAME };

struct writer {
  struct file_data *f;
  const uint8_t *buf;          /* of OFFSET; NULL: zeroes */
  uint64_t offset, end;        /* bytes */
  uint64_t first, last;        /* sectors that are touched: [first, last) */
  uint8_t *plan;               /* of each; NULL: all are PLAN_CREDIT */
  uint8_t *tail;               /* the last sector as it was; may be NULL */
  size_t credits;              /* sectors of data space that we hold */
  /* The last answer of nocow_check: [start, end). */
  uint64_t nocow_start, nocow_end;
  enum place place;
  /* When the plan was made, as the gate counts: a snapshot makes it void.
   * While one is made of what came before this write, nothing that comes now
   * is certain to go in place.
   */
  uint64_t switches;
  bool no_place;
};

/* Where will this sector be written? */
static int
find_place (struct writer *w, uint64_t sector, enum place *ret)
{
  struct mapping m;
  bool nocow;
  int r;

  *ret = PLACE_NEW;
  if (!file_may_nocow (w->f) || w->no_place)
    return 0;
  if (sector < w->nocow_start || sector >= w->nocow_end) {
    r = nocow_check (w->f, sector, &m, &nocow);
    if (r < 0)
      return r;
    w->nocow_start = m.offset;
    w->nocow_end = m.offset + m.len;
    w->place = !nocow ? PLACE_NEW
      : m.kind == MAP_PREALLOC ? PLACE_PREALLOC : PLACE_SAME;
  }
  *ret = w->place;
  return 0;
}

static int
reserve (struct writer *w, size_t sectors)
{
  int r;

  if (sectors == 0)
    return 0;
  r = space_data_reserve (w->f->d->env.space, sectors * w->f->d->ps);
  if (r == 0)
    w->credits += sectors;
  return r;
}

/* *ret_need: sectors that get space.  HELD: nothing of the range is or will
 * be under write-out, so dirty sectors need none.  Otherwise a prealloc
 * extent below a dirty sector may not be one any more when our page is
 * written.
 */
static int
make_plan (struct writer *w, bool held, size_t *ret_need)
{
  const uint32_t ps = w->f->d->ps;
  const size_t n = (w->last - w->first) / ps;
  size_t i;

  *ret_need = 0;
  if (w->plan == NULL)
    w->plan = malloc (n);
  if (w->plan == NULL)
    return err_new (ERR_nomem, "write");
  memset (w->plan, 0, n);
  w->nocow_start = w->nocow_end = 0;
  /* Before the mappings: what is clean now stays as the map has it. */
  dirty_states (w->f, w->first, w->last, w->plan);
  for (i = 0; i < n; ++i) {
    enum place place;
    int r = find_place (w, w->first + i * ps, &place);

    if (r < 0)
      return r;
    if ((held && w->plan[i] != 0) || place == PLACE_SAME
        || (place == PLACE_PREALLOC && w->plan[i] == 0))
      continue;
    w->plan[i] |= PLAN_CREDIT;
    ++*ret_need;
  }
  return 0;
}

static int
plan_and_reserve (struct writer *w, bool held)
{
  size_t need;
  int r = make_plan (w, held, &need);

  return r < 0 ? r : reserve (w, need);
}

/* The part of the write that lies in this sector. */
static const uint8_t *
part (const struct writer *w, uint64_t sector, uint64_t *ret_from,
      size_t *ret_len)
{
  *ret_from = MAX (sector, w->offset);
  *ret_len = MIN (sector + w->f->d->ps, w->end) - *ret_from;
  return w->buf == NULL ? NULL : w->buf + (*ret_from - w->offset);
}

/* Held against write-out: what is dirty stays dirty. */
static void
overwrite_dirty (struct writer *w)
{
  const uint32_t ps = w->f->d->ps;
  size_t i, len;

  for (i = 0; i < (w->last - w->first) / ps; ++i)
    if (w->plan[i] & DIRTY_CUR) {
      uint64_t from;
      const uint8_t *buf = part (w, w->first + i * ps, &from, &len);
      bool base;

      if (!dirty_patch (w->f, from, buf, len, NULL, &base))
        assert (!"a dirty sector was written out behind a hold");
      w->plan[i] = PLAN_DONE;
    }
}

/* What has been zeroed in place takes writes after a commit. */
static bool
commit_helps (const struct data *d)
{
  return __atomic_load_n (&d->flipped, __ATOMIC_RELAXED)
    > trans_committed_id (d->env.trans);
}

/* What an image of the pool does not let go in place needs space for a copy:
 * if there is none, the image has to go.
 */
static bool
image_yields (const struct writer *w)
{
  struct space *space = w->f->d->env.space;

  return file_may_nocow (w->f) && space_held_generation (space) != 0
    && space_hold_cancel (space, "there is no room for copies of what is "
                          "written in place");
}

/* One step at the gate: pages that are dirty are changed where they are.  It
 * may wait for write-out that has begun, which waits for no step.
 */
static int
reserve_scarce (struct writer *w)
{
  struct data *d = w->f->d;
  struct gate *g = file_gate (w->f);
  struct dirty_hold hold;
  int r;

  gate_step_begin (g, &w->switches, &w->no_place);
  dirty_hold (w->f, &hold, w->first, w->last);
  r = plan_and_reserve (w, true);
  if (r == -ERR_nospace && image_yields (w)) {
    err_clear ();
    r = plan_and_reserve (w, true);
  }
  if (r == -ERR_nospace && file_may_nocow (w->f) && commit_helps (d)) {
    err_clear ();
    r = trans_commit (d->env.trans, NULL);
    if (r == 0)
      r = plan_and_reserve (w, true);
  }
  if (r == 0)
    overwrite_dirty (w);
  dirty_release (w->f, &hold, 0);
  gate_step_end (g);
  return r;
}

static int
reserve_range (struct writer *w)
{
  int r;

  /* What is not needed is given back: cheaper than to look, as long as there
   * is space.
   */
  if (!file_may_nocow (w->f))
    r = reserve (w, (w->last - w->first) / w->f->d->ps);
  else
    r = plan_and_reserve (w, false);
  if (r != -ERR_nospace)
    return r;
  err_clear ();
  return reserve_scarce (w);
}

static void
release (struct writer *w)
{
  if (w->credits > 0)
    space_data_unreserve (w->f->d->env.space, w->credits * w->f->d->ps);
  free (w->plan);
  free (w->tail);
}

/* A sector of which only the front is written is read before anything
 * changes, if it is not the only one.
 */
static int
read_tail (struct writer *w)
{
  const uint32_t ps = w->f->d->ps;

  if (w->end == w->last || w->end >= file_size (w->f)
      || w->last - w->first == ps)
    return 0;
  w->tail = malloc (ps);
  if (w->tail == NULL)
    return err_new (ERR_nomem, "write");
  return file_read (w->f, w->tail, ps, w->last - ps);
}

/* Pages are short only while all that are not dirty are being read. */
static void
take_pages (struct data *d, uint32_t *page, size_t n)
{
  size_t have = cache_take_pages (d->cache, page, n);

  while (have < n) {
    const struct timespec ts = { .tv_nsec = 200000 };

    nanosleep (&ts, NULL);
    have += cache_take_pages (d->cache, page + have, n - have);
  }
}

static void
fill (const struct writer *w, uint8_t *to, uint64_t from, size_t len)
{
  if (w->buf != NULL)
    memcpy (to, w->buf + (from - w->offset), len);
  else
    memset (to, 0, len);
}

/* Make PAGE the contents of the sector after the write.  *ret_done: the
 * sector was dirty and has been changed in place, PAGE is not needed.
 */
static int
compose (struct writer *w, uint64_t sector, uint8_t *page, bool *ret_done)
{
  struct file_data *f = w->f;
  const uint32_t ps = f->d->ps;
  const uint8_t *buf;
  uint64_t from;
  size_t len;
  bool base;
  int r;

  *ret_done = false;
  buf = part (w, sector, &from, &len);
  if (from == sector && (len == ps || from + len >= file_size (f))) {
    fill (w, page, from, len);
    memset (page + len, 0, ps - len);
    return 0;
  }
  *ret_done = dirty_patch (f, from, buf, len, page, &base);
  if (*ret_done)
    return 0;
  if (!base && w->tail != NULL && sector + ps == w->last)
    memcpy (page, w->tail, ps);
  else if (!base) {
    r = file_read (f, page, ps, sector);
    if (r < 0)
      return r;
  }
  fill (w, page + (from - sector), from, len);
  return 0;
}

/* *ret_used: PAGE went in as one more dirty page. */
static int
one_sector (struct writer *w, uint64_t sector, uint32_t page,
            bool *ret_used)
{
  struct data *d = w->f->d;
  const uint8_t plan = w->plan == NULL ? PLAN_CREDIT
    : w->plan[(sector - w->first) / d->ps];
  bool done = (plan & PLAN_DONE) != 0, replaced;
  int r = 0;

  *ret_used = false;
  if (!done)
    r = compose (w, sector, page_mem (d->pages, page), &done);
  if (r == 0 && !done)
    r = dirty_put (w->f, sector, page, (plan & PLAN_CREDIT) != 0, &replaced);
  if (r < 0 || done) {
    pages_give (d->pages, &page, 1);
    return r;
  }
  *ret_used = !replaced;
  if (!replaced && (plan & PLAN_CREDIT))
    --w->credits;
  return 0;
}

/* Space for every sector from AT on that was to go in place. */
static int
reserve_rest (struct writer *w, uint64_t at)
{
  const size_t n = (w->last - w->first) / w->f->d->ps;
  size_t i, need = 0;
  int r;

  for (i = (at - w->first) / w->f->d->ps; i < n; ++i)
    need += (w->plan[i] & (PLAN_CREDIT | PLAN_DONE)) == 0;
  r = reserve (w, need);
  for (i = (at - w->first) / w->f->d->ps; r == 0 && i < n; ++i)
    if ((w->plan[i] & PLAN_DONE) == 0)
      w->plan[i] |= PLAN_CREDIT;
  return r;
}

/* The pages that are put in from here to gate_step_end are on one side of any
 * snapshot, and that is the side that the plan was made on.
 */
static int
step_begin (struct writer *w, uint64_t at)
{
  struct gate *g = file_gate (w->f);
  uint64_t switches;
  bool switched;
  int r;

  for (;;) {
    gate_step_begin (g, &switches, &switched);
    if (w->plan == NULL || switches == w->switches)
      return 0;
    gate_step_end (g);
    w->switches = switches;
    r = reserve_rest (w, at);
    if (r < 0)
      return r;
  }
}

/* Within a step: all of PAGE go in, or back. */
static int
put_pages (struct writer *w, uint64_t at, const uint32_t *page, size_t n)
{
  struct data *d = w->f->d;
  size_t i, unused = 0;
  bool used;
  int r = 0;

  for (i = 0; i < n && r == 0; ++i) {
    r = one_sector (w, at + i * d->ps, page[i], &used);
    unused += !used;
  }
  pages_give (d->pages, page + i, n - i);
  dirty_unthrottle (d, unused + n - i);
  return r;
}

static int
put_all (struct writer *w)
{
  struct file_data *f = w->f;
  struct data *d = f->d;
  const size_t chunk = MIN ((size_t) CHUNK_PAGES, d->dirty_limit / 8);
  uint64_t at = w->first;
  int r = 0;

  while (at < w->last && r == 0) {
    const size_t n = MIN ((w->last - at) / d->ps, (uint64_t) chunk);
    uint32_t page[CHUNK_PAGES];

    r = dirty_throttle (d, n);
    if (r < 0)
      break;
    take_pages (d, page, n);
    r = step_begin (w, at);
    if (r == 0) {
      r = put_pages (w, at, page, n);
      gate_step_end (file_gate (f));
    }
    else {
      pages_give (d->pages, page, n);
      dirty_unthrottle (d, n);
    }
    at += n * d->ps;
  }
  return r;
}

int
file_write (struct file_data *f, const void *buf, size_t len,
            uint64_t offset, bool range_locked)
{
  const uint32_t ps = f->d->ps;
  struct writer w = { .f = f, .buf = buf, .offset = offset,
                      .end = offset + len, .first = round_down (offset, ps),
                      .last = round_up (offset + len, ps) };
  struct range_lock lock;
  int r;

  if (!range_locked)
    range_lock (&f->ranges, &lock, w.first, w.last);
  r = read_tail (&w);
  gate_peek (file_gate (f), &w.switches, &w.no_place);
  if (r == 0)
    r = reserve_range (&w);
  if (r == 0)
    r = put_all (&w);
  if (!range_locked)
    range_unlock (&f->ranges, &lock);
  release (&w);
  if (r < 0)
    return err_note (r, "write to tree %" PRIu64 " inode %" PRIu64
                     " offset %" PRIu64, f->inode->root->id, f->inode->ino,
                     offset);
  return 0;
}

int
file_zero_bytes (struct file_data *f, uint64_t offset, size_t len)
{
  const uint64_t sector = round_down (offset, f->d->ps);
  uint64_t a, b;

  if (len == 0)
    return 0;
  if (!dirty_next (f, sector, sector + f->d->ps, &a, &b)) {
    struct mapping m;
    int r = map_lookup (f, sector, &m);

    if (r < 0)
      return r;
    if (m.kind == MAP_HOLE || m.kind == MAP_PREALLOC)
      return 0;
  }
  return file_write (f, NULL, len, offset, true);
}

int
data_write (struct data *d, struct inode *inode, const void *buf, size_t len,
            uint64_t offset)
{
  struct file_data *f;
  int r;

  r = file_get_for_change (d, inode, offset, len, &f);
  if (r < 0 || len == 0)
    return r;
  return file_write (f, buf, len, offset, false);
}

/* --- without waiting --- */

/* Whole sectors, each with a promise of space; write-out gives back those of
 * sectors that go in place.
 */
static bool
try_sectors (struct writer *w)
{
  struct data *d = w->f->d;
  const size_t n = (w->last - w->first) / d->ps;
  uint32_t page[CHUNK_PAGES];
  size_t have;
  int r;

  if (n > CHUNK_PAGES || n > d->dirty_limit / 8
      || !space_data_try_reserve (d->env.space, n * d->ps))
    return false;
  w->credits = n;
  if (!dirty_try_throttle (d, n))
    return false;
  have = cache_take_pages (d->cache, page, n);
  if (have < n || !gate_step_try (file_gate (w->f))) {
    pages_give (d->pages, page, have);
    dirty_unthrottle (d, n);
    return false;
  }
  r = put_pages (w, w->first, page, n);
  gate_step_end (file_gate (w->f));
  if (r < 0) /* the blocking call puts in all of them again */
    err_clear ();
  return r == 0;
}

/* A part of a sector that is dirty. */
static bool
try_part (struct writer *w)
{
  bool base, done;

  if (!gate_step_try (file_gate (w->f)))
    return false;
  done = dirty_patch (w->f, w->offset, w->buf, w->end - w->offset, NULL,
                      &base);
  gate_step_end (file_gate (w->f));
  return done;
}

static bool
try_write (struct writer *w)
{
  struct range_lock lock;
  bool done;

  if (!range_trylock (&w->f->ranges, &lock, w->first, w->last))
    return false;
  if (w->first == w->offset
      && (w->last == w->end || w->end == file_size (w->f)))
    done = try_sectors (w);
  else
    done = w->last - w->first == w->f->d->ps && try_part (w);
  range_unlock (&w->f->ranges, &lock);
  release (w);
  return done;
}

bool
data_try_write (struct data *d, struct inode *inode, const void *buf,
                size_t len, uint64_t offset)
{
  struct file_data *f = __atomic_load_n (&inode->data, __ATOMIC_ACQUIRE);

  if (f == NULL || len == 0)
    return false;
  if (file_check_writable (f) < 0 || file_check_range (f, offset, len) < 0) {
    err_clear ();
    return false;
  }
  return try_write (&(struct writer) {
    .f = f, .buf = buf, .offset = offset, .end = offset + len,
    .first = round_down (offset, d->ps),
    .last = round_up (offset + len, d->ps) });
}
