/* data: taking writes in.
 *
 * Space is reserved before anything changes, so a write that does not fit has
 * no effect; what the caller gave is copied into pages of ours, which nobody
 * can change while they are checksummed and written.
 */
#include <config.h>

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

#define CHUNK_PAGES 64         /* taken in at a time */

struct writer {
  struct file_data *f;
  const uint8_t *buf;          /* of OFFSET; NULL: zeroes */
  uint64_t offset, end;        /* bytes */
  size_t credits;              /* sectors of data space that we hold */
  /* The last answer of nocow_check: [start, end). */
  uint64_t nocow_start, nocow_end;
  bool nocow;
};

/* Will this sector be written in place? */
static int
in_place (struct writer *w, uint64_t sector, bool *ret_nocow)
{
  struct mapping m;
  int r;

  *ret_nocow = false;
  if (!file_may_nocow (w->f))
    return 0;
  if (sector < w->nocow_start || sector >= w->nocow_end) {
    r = nocow_check (w->f, sector, &m, &w->nocow);
    if (r < 0)
      return r;
    w->nocow_start = m.offset;
    w->nocow_end = m.offset + m.len;
  }
  *ret_nocow = w->nocow;
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

/* Sectors of the range that need space: not those that are dirty already, nor
 * those that are written in place.
 */
static int
count_sectors (struct writer *w, uint64_t start, uint64_t end, size_t *ret)
{
  *ret = 0;
  while (start < end) {
    uint64_t stop;
    bool nocow;
    int r = in_place (w, start, &nocow);

    if (r < 0)
      return r;
    stop = MIN (end, w->nocow_end);
    if (!nocow)
      *ret += dirty_count_missing (w->f, start, stop);
    start = stop;
  }
  return 0;
}

static int
reserve_range (struct writer *w, uint64_t start, uint64_t end)
{
  const size_t all = (end - start) / w->f->d->ps;
  size_t need;
  int r;

  /* What is not needed is given back: cheaper than to look, as long as there
   * is space.
   */
  if (!file_may_nocow (w->f)) {
    r = reserve (w, all);
    if (r != -ERR_nospace)
      return r;
    need = dirty_count_missing (w->f, start, end);
    if (need == all)
      return r;
    err_clear ();
    return reserve (w, need);
  }
  r = count_sectors (w, start, end, &need);
  if (r == 0)
    r = reserve (w, need);
  if (r != -ERR_nospace
      || __atomic_load_n (&w->f->d->flipped, __ATOMIC_RELAXED)
      <= trans_committed_id (w->f->d->env.trans))
    return r;
  /* What has been zeroed in place takes writes after a commit. */
  err_clear ();
  r = trans_commit (w->f->d->env.trans, NULL);
  w->nocow_start = w->nocow_end = 0;
  if (r == 0)
    r = count_sectors (w, start, end, &need);
  return r < 0 ? r : reserve (w, need);
}

static void
release (struct writer *w)
{
  if (w->credits > 0)
    space_data_unreserve (w->f->d->env.space, w->credits * w->f->d->ps);
  w->credits = 0;
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
  const uint64_t from = MAX (sector, w->offset);
  const uint64_t to = MIN (sector + ps, w->end);
  bool base;
  int r;

  *ret_done = false;
  if (from == sector && (to == sector + ps || to >= file_size (f))) {
    fill (w, page, from, to - from);
    memset (page + (to - from), 0, sector + ps - to);
    return 0;
  }
  *ret_done = dirty_patch (f, from,
                           w->buf == NULL ? NULL
                           : w->buf + (from - w->offset),
                           to - from, page, &base);
  if (*ret_done)
    return 0;
  if (!base) {
    r = file_read (f, page, ps, sector);
    if (r < 0)
      return r;
  }
  fill (w, page + (from - sector), from, to - from);
  return 0;
}

/* *ret_used: PAGE went in as one more dirty page. */
static int
one_sector (struct writer *w, uint64_t sector, uint32_t page,
            bool *ret_used)
{
  struct data *d = w->f->d;
  bool done, nocow, replaced;
  int r;

  *ret_used = false;
  r = compose (w, sector, page_mem (d->pages, page), &done);
  if (r < 0 || done) {
    pages_give (d->pages, &page, 1);
    return r;
  }
  r = in_place (w, sector, &nocow);
  /* Short only if the sector was dirty when counted, and is not any more. */
  if (r == 0 && !nocow && w->credits == 0
      && dirty_count_missing (w->f, sector, sector + d->ps) > 0)
    r = reserve (w, 1);
  if (r == 0)
    r = dirty_put (w->f, sector, page, !nocow && w->credits > 0, &replaced);
  if (r < 0) {
    pages_give (d->pages, &page, 1);
    return r;
  }
  *ret_used = !replaced;
  if (!replaced && !nocow && w->credits > 0)
    --w->credits;
  return 0;
}

static int
put_all (struct writer *w, uint64_t start, uint64_t end)
{
  struct data *d = w->f->d;
  const size_t chunk = MIN ((size_t) CHUNK_PAGES, d->dirty_limit / 8);
  int r = 0;

  while (start < end && r == 0) {
    const size_t n = MIN ((end - start) / d->ps, (uint64_t) chunk);
    uint32_t page[CHUNK_PAGES];
    size_t i, unused = 0;
    bool used;

    dirty_throttle (d, n);
    take_pages (d, page, n);
    for (i = 0; i < n && r == 0; ++i) {
      r = one_sector (w, start + i * d->ps, page[i], &used);
      unused += !used;
    }
    pages_give (d->pages, page + i, n - i);
    dirty_unthrottle (d, unused + n - i);
    start += n * d->ps;
  }
  return r;
}

int
file_write (struct file_data *f, const void *buf, size_t len,
            uint64_t offset, bool range_locked)
{
  const uint32_t ps = f->d->ps;
  const uint64_t start = round_down (offset, ps);
  const uint64_t end = round_up (offset + len, ps);
  struct writer w = { .f = f, .buf = buf, .offset = offset,
                      .end = offset + len };
  struct range_lock lock;
  int r;

  r = reserve_range (&w, start, end);
  if (r == 0) {
    if (!range_locked)
      range_lock (&f->ranges, &lock, start, end);
    r = put_all (&w, start, end);
    if (!range_locked)
      range_unlock (&f->ranges, &lock);
  }
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

  r = file_get (d, inode, &f);
  if (r == 0)
    r = file_check_writable (f);
  if (r == 0)
    r = file_check_range (f, offset, len);
  if (r < 0 || len == 0)
    return r;
  return file_write (f, buf, len, offset, false);
}
