/* data: the dirty pages of a file.
 *
 * A page's way:  put (cur) -> collect (wb, contents frozen) -> finish (clean
 * cache), or return (cur again, when it could not be written).  A sector that
 * is written again while it is under write-out has both a `wb` and a newer
 * `cur` page; readers see `cur`.
 */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

static int
dirty_frame_cmp (const struct dirty_frame *a, const struct dirty_frame *b)
{
  return a->offset < b->offset ? -1 : a->offset > b->offset;
}

RB_GENERATE (dirty_tree, dirty_frame, link, dirty_frame_cmp)

static inline unsigned
index_of (const struct file_data *f, uint64_t offset)
{
  return (offset & (CACHE_FRAME - 1)) / f->d->ps;
}

static struct dirty_frame *
find (struct file_data *f, uint64_t offset)
{
  struct dirty_frame key = { .offset = cache_key (offset) };

  return RB_FIND (dirty_tree, &f->dirty, &key);
}

static struct dirty_frame *
find_from (struct file_data *f, uint64_t offset)
{
  struct dirty_frame key = { .offset = cache_key (offset) };

  return RB_NFIND (dirty_tree, &f->dirty, &key);
}

static void
frame_drop_if_empty (struct file_data *f, struct dirty_frame *fr)
{
  if ((fr->cur | fr->wb) != 0)
    return;
  RB_REMOVE (dirty_tree, &f->dirty, fr);
  free (fr);
}

/* Pages of FR inside [start, end), as a mask. */
static unsigned
frame_mask (const struct file_data *f, const struct dirty_frame *fr,
            uint64_t start, uint64_t end)
{
  const uint64_t fend = fr->offset + CACHE_FRAME;
  unsigned first, last;

  if (start >= fend || end <= fr->offset)
    return 0;
  first = start <= fr->offset ? 0 : index_of (f, start);
  last = end >= fend ? f->d->ppf - 1 : index_of (f, end - 1);
  return ((2u << last) - 1) & ~((1u << first) - 1);
}

static void
count (struct file_data *f, long n)
{
  __atomic_fetch_add (&f->num_dirty, n, __ATOMIC_RELEASE);
}

/* --- gaps --- */

void
gaps_init (struct gaps *g)
{
  g->v = g->few;
  g->n = 0;
  g->max = ARRAY_SIZE (g->few);
}

void
gaps_done (struct gaps *g)
{
  if (g->v != g->few)
    free (g->v);
}

static int
gap_add (struct gaps *g, uint64_t offset, size_t len)
{
  if (g->n > 0 && g->v[g->n - 1].offset + g->v[g->n - 1].len == offset) {
    g->v[g->n - 1].len += len;
    return 0;
  }
  if (g->n == g->max) {
    struct gap *v = malloc (2 * g->max * sizeof *v);

    if (v == NULL)
      return err_new (ERR_nomem, "ranges of a read");
    memcpy (v, g->v, g->n * sizeof *v);
    if (g->v != g->few)
      free (g->v);
    g->v = v;
    g->max *= 2;
  }
  g->v[g->n++] = (struct gap) { .offset = offset, .len = len };
  return 0;
}

int
dirty_copy (struct file_data *f, uint8_t *buf, size_t len, uint64_t offset,
            struct gaps *gaps)
{
  const uint64_t end = offset + len;
  const uint32_t ps = f->d->ps;
  uint64_t at = offset;
  struct dirty_frame *fr;
  int r = 0;

  /* Pages leave the dirty ranges after the map knows them: zero here means
   * that the map knows everything acknowledged before.
   */
  if (__atomic_load_n (&f->num_dirty, __ATOMIC_ACQUIRE) == 0)
    return gap_add (gaps, offset, len);

  SCOPED_LOCK (&f->dirty_lock);
  fr = find_from (f, offset);
  while (at < end && r == 0) {
    uint64_t page_end = MIN (end, round_down (at, ps) + ps);
    unsigned i = index_of (f, at);

    if (fr == NULL || fr->offset >= end)
      return gap_add (gaps, at, end - at);
    if (at < fr->offset) {
      r = gap_add (gaps, at, fr->offset - at);
      at = fr->offset;
      continue;
    }
    if ((fr->cur | fr->wb) & (1u << i)) {
      uint32_t page = fr->cur & (1u << i) ? fr->page[i] : fr->wb_page[i];

      memcpy (buf + (at - offset), page_mem (f->d->pages, page) + at % ps,
              page_end - at);
    }
    else
      r = gap_add (gaps, at, page_end - at);
    at = page_end;
    if (at == fr->offset + CACHE_FRAME)
      fr = RB_NEXT (dirty_tree, &f->dirty, fr);
  }
  return r;
}

void
dirty_states (struct file_data *f, uint64_t start, uint64_t end,
              uint8_t *state)
{
  const uint32_t ps = f->d->ps;
  struct dirty_frame *fr;

  if (__atomic_load_n (&f->num_dirty, __ATOMIC_ACQUIRE) == 0)
    return;
  SCOPED_LOCK (&f->dirty_lock);
  for (fr = find_from (f, start); fr != NULL && fr->offset < end;
       fr = RB_NEXT (dirty_tree, &f->dirty, fr)) {
    unsigned bits = (fr->cur | fr->wb) & frame_mask (f, fr, start, end);

    for (; bits != 0; bits &= bits - 1) {
      const unsigned i = __builtin_ctz (bits), bit = 1u << i;

      state[(fr->offset + (uint64_t) i * ps - start) / ps]
        |= (fr->cur & bit ? DIRTY_CUR : 0) | (fr->wb & bit ? DIRTY_WB : 0);
    }
  }
}

bool
dirty_next (struct file_data *f, uint64_t start, uint64_t end,
            uint64_t *ret_start, uint64_t *ret_end)
{
  const uint32_t ps = f->d->ps;
  struct dirty_frame *fr;
  bool found = false;

  if (__atomic_load_n (&f->num_dirty, __ATOMIC_ACQUIRE) == 0)
    return false;
  SCOPED_LOCK (&f->dirty_lock);
  for (fr = find_from (f, start); fr != NULL && fr->offset < end;
       fr = RB_NEXT (dirty_tree, &f->dirty, fr)) {
    unsigned bits = (fr->cur | fr->wb) & frame_mask (f, fr, start, end);

    while (bits != 0) {
      unsigned i = __builtin_ctz (bits);
      uint64_t at = fr->offset + (uint64_t) i * ps;

      if (!found)
        *ret_start = *ret_end = at;
      else if (at != *ret_end)
        return true;
      found = true;
      *ret_end = at + ps;
      bits &= bits - 1;
    }
  }
  return found;
}

/* --- the bound --- */

uint64_t
now_ms (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return (uint64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void
wait_for_room (struct data *d, size_t n)
{
  SCOPED_LOCK (&d->lock);
  __atomic_add_fetch (&d->waiters, 1, __ATOMIC_RELAXED);
  if (__atomic_load_n (&d->dirty_pages, __ATOMIC_RELAXED) + n
      > d->dirty_limit) {
    cond_broadcast (&d->work);
    cond_timedwait (&d->progress, &d->lock, 100);
  }
  __atomic_sub_fetch (&d->waiters, 1, __ATOMIC_RELAXED);
}

/* While pages wait that cannot be written, some writer would wait for ever:
 * nothing was written since *WRITTEN, but write-out failed more than once.
 */
static int
check_progress (struct data *d, uint64_t *written, uint64_t *failed)
{
  const uint64_t now = __atomic_load_n (&d->written_pages, __ATOMIC_RELAXED);
  const uint64_t bad = __atomic_load_n (&d->failures, __ATOMIC_RELAXED);

  if (now != *written) {
    *written = now;
    *failed = bad;
  }
  if (bad - *failed > 1)
    return err_new (ERR_write_lost, "no room for more dirty data");
  return trans_check (d->env.trans);
}

/* What is counted is never more than the limit, half of all pages: who has
 * been let in finds pages, because nobody else keeps some while it waits.
 */
static void
wake_flushers_above (struct data *d, size_t before, size_t n)
{
  if (before <= d->dirty_background && before + n > d->dirty_background) {
    SCOPED_LOCK (&d->lock);
    cond_broadcast (&d->work);
  }
}

int
dirty_throttle (struct data *d, size_t n)
{
  uint64_t written = __atomic_load_n (&d->written_pages, __ATOMIC_RELAXED);
  uint64_t failed = __atomic_load_n (&d->failures, __ATOMIC_RELAXED);
  size_t now = __atomic_load_n (&d->dirty_pages, __ATOMIC_RELAXED);

  for (;;) {
    if (now + n > d->dirty_limit) {
      const int r = check_progress (d, &written, &failed);

      if (r < 0)
        return r;
      wait_for_room (d, n);
      now = __atomic_load_n (&d->dirty_pages, __ATOMIC_RELAXED);
    }
    else if (__atomic_compare_exchange_n (&d->dirty_pages, &now, now + n,
                                          false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED))
      break;
  }
  __atomic_fetch_add (&d->taken_pages, n, __ATOMIC_RELAXED);
  wake_flushers_above (d, now, n);
  return 0;
}

bool
dirty_try_throttle (struct data *d, size_t n)
{
  size_t now = __atomic_load_n (&d->dirty_pages, __ATOMIC_RELAXED);

  do
    if (now + n > d->dirty_limit
        || __atomic_load_n (&d->waiters, __ATOMIC_RELAXED) > 0)
      return false;
  while (!__atomic_compare_exchange_n (&d->dirty_pages, &now, now + n, false,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  __atomic_fetch_add (&d->taken_pages, n, __ATOMIC_RELAXED);
  wake_flushers_above (d, now, n);
  return true;
}

void
dirty_unthrottle (struct data *d, size_t n)
{
  size_t left;

  if (n == 0)
    return;
  left = __atomic_sub_fetch (&d->dirty_pages, n, __ATOMIC_RELAXED);
  /* Writers are woken when there is room for all of them to do something. */
  if (left <= d->dirty_limit - d->dirty_limit / 8
      && __atomic_load_n (&d->waiters, __ATOMIC_RELAXED) > 0) {
    SCOPED_LOCK (&d->lock);
    cond_broadcast (&d->progress);
  }
}

/* --- in --- */

static void
list_file (struct file_data *f)
{
  struct data *d = f->d;

  SCOPED_LOCK (&d->lock);
  if (f->on_list)
    return;
  f->on_list = true;
  f->dirty_since = now_ms ();
  TAILQ_INSERT_TAIL (&d->dirty_files, f, dirty_link);
}

int
dirty_put (struct file_data *f, uint64_t sector, uint32_t page,
           bool reserved, bool *ret_replaced)
{
  const unsigned i = index_of (f, sector), bit = 1u << i;
  struct dirty_frame *fr;
  uint32_t old = PAGE_NONE;

  mutex_lock (&f->dirty_lock);
  fr = find (f, sector);
  if (fr == NULL) {
    fr = calloc (1, sizeof *fr);
    if (fr == NULL) {
      mutex_unlock (&f->dirty_lock);
      return err_new (ERR_nomem, "dirty data");
    }
    fr->offset = cache_key (sector);
    RB_INSERT (dirty_tree, &f->dirty, fr);
  }
  *ret_replaced = (fr->cur & bit) != 0;
  if (*ret_replaced)
    old = fr->page[i];
  else {
    if (fr->cur == 0)
      fr->seq = ++f->seq;
    fr->cur |= bit;
    if (reserved)
      fr->reserved |= bit;
    else
      fr->reserved &= ~bit;
    count (f, 1);
  }
  fr->page[i] = page;
  /* Inside the lock: a page that can be found has its file on the list. */
  if (!__atomic_load_n (&f->on_list, __ATOMIC_RELAXED))
    list_file (f);
  mutex_unlock (&f->dirty_lock);
  if (old != PAGE_NONE)
    pages_give (f->d->pages, &old, 1);
  return 0;
}

bool
dirty_patch (struct file_data *f, uint64_t offset, const uint8_t *buf,
             size_t len, uint8_t *base, bool *ret_base)
{
  const unsigned i = index_of (f, offset), bit = 1u << i;
  const uint32_t ps = f->d->ps;
  struct dirty_frame *fr;

  assert (len <= ps - offset % ps);
  *ret_base = false;
  if (__atomic_load_n (&f->num_dirty, __ATOMIC_ACQUIRE) == 0)
    return false;
  SCOPED_LOCK (&f->dirty_lock);
  fr = find (f, offset);
  if (fr == NULL)
    return false;
  if (fr->cur & bit) {
    uint8_t *to = page_mem (f->d->pages, fr->page[i]) + offset % ps;

    if (buf != NULL)
      memcpy (to, buf, len);
    else
      memset (to, 0, len);
    return true;
  }
  if ((fr->wb & bit) && base != NULL) {
    memcpy (base, page_mem (f->d->pages, fr->wb_page[i]), ps);
    *ret_base = true;
  }
  return false;
}

/* --- out --- */

static void
unlist_if_clean (struct file_data *f)
{
  struct data *d = f->d;

  if (f->num_dirty != 0)
    return;
  SCOPED_LOCK (&d->lock);
  if (f->on_list) {
    TAILQ_REMOVE (&d->dirty_files, f, dirty_link);
    __atomic_store_n (&f->on_list, false, __ATOMIC_RELAXED);
  }
}

/* Free `cur` pages in the range; the number of sectors of space that they
 * held.  Lock held.
 */
static size_t
discard_cur (struct file_data *f, uint64_t start, uint64_t end,
             size_t *ret_pages)
{
  struct dirty_frame *fr, *next;
  size_t space = 0;

  *ret_pages = 0;
  for (fr = find_from (f, start); fr != NULL && fr->offset < end; fr = next) {
    unsigned bits = fr->cur & frame_mask (f, fr, start, end);
    uint32_t back[CACHE_PAGES];
    unsigned n = 0;

    next = RB_NEXT (dirty_tree, &f->dirty, fr);
    space += __builtin_popcount (fr->reserved & bits);
    fr->cur &= ~bits;
    fr->reserved &= ~bits;
    for (; bits != 0; bits &= bits - 1)
      back[n++] = fr->page[__builtin_ctz (bits)];
    pages_give (f->d->pages, back, n);
    count (f, -(long) n);
    *ret_pages += n;
    frame_drop_if_empty (f, fr);
  }
  return space;
}

static bool
any_wb (struct file_data *f, uint64_t start, uint64_t end)
{
  struct dirty_frame *fr;

  if (f->num_wb == 0)
    return false;
  for (fr = find_from (f, start); fr != NULL && fr->offset < end;
       fr = RB_NEXT (dirty_tree, &f->dirty, fr))
    if (fr->wb & frame_mask (f, fr, start, end))
      return true;
  return false;
}

void
dirty_drop_all (struct file_data *f)
{
  struct dirty_hold h;

  dirty_hold (f, &h, 0, DATA_FILE_END);
  dirty_release (f, &h, DATA_FILE_END);
}

size_t
dirty_collect (struct file_data *f, uint64_t start, uint64_t end,
               uint64_t seq, struct dirty_page *out, size_t max,
               struct dirty_batch *batch)
{
  const uint32_t ps = f->d->ps;
  struct dirty_frame *fr;
  size_t n = 0;

  batch->seq = UINT64_MAX;
  SCOPED_LOCK (&f->dirty_lock);
  for (fr = find_from (f, start);
       fr != NULL && fr->offset < end && n < max;
       fr = RB_NEXT (dirty_tree, &f->dirty, fr)) {
    unsigned bits = fr->cur & ~fr->wb & frame_mask (f, fr, start, end);
    const struct dirty_hold *h;

    if (fr->seq > seq)
      continue;
    TAILQ_FOREACH (h, &f->holds, link)
      bits &= ~frame_mask (f, fr, h->start, h->end);
    if (bits != 0)
      batch->seq = MIN (batch->seq, fr->seq);
    for (; bits != 0 && n < max; bits &= bits - 1) {
      const unsigned i = __builtin_ctz (bits), bit = 1u << i;

      out[n++] = (struct dirty_page) {
        .offset = fr->offset + (uint64_t) i * ps, .page = fr->page[i],
        .reserved = (fr->reserved & bit) != 0 };
      fr->wb_page[i] = fr->page[i];
      fr->cur &= ~bit;
      fr->reserved &= ~bit;
      fr->wb |= bit;
    }
  }
  f->num_wb += n;
  if (n > 0)
    dirty_batch_add (f, batch);
  return n;
}

void
dirty_batch_add (struct file_data *f, struct dirty_batch *batch)
{
  assert (mutex_is_mine (&f->dirty_lock));
  batch->id = ++f->batch_id;
  TAILQ_INSERT_TAIL (&f->batches, batch, link);
}

void
dirty_batch_end (struct file_data *f, struct dirty_batch *batch)
{
  SCOPED_LOCK (&f->dirty_lock);
  TAILQ_REMOVE (&f->batches, batch, link);
  cond_broadcast (&f->dirty_cond);
}

void
dirty_wait_written (struct file_data *f, uint64_t start, uint64_t end)
{
  struct dirty_batch *first;
  struct dirty_hold *h;
  uint64_t last;

  lock_assert_below (RANK_INODE);
  SCOPED_LOCK (&f->dirty_lock);
  last = f->batch_id;
  while ((first = TAILQ_FIRST (&f->batches)) != NULL && first->id <= last)
    cond_wait (&f->dirty_cond, &f->dirty_lock);
  do {
    TAILQ_FOREACH (h, &f->holds, link)
      if (h->start < end && start < h->end)
        break;
    if (h != NULL)
      cond_wait (&f->dirty_cond, &f->dirty_lock);
  } while (h != NULL);
}

void
dirty_hold (struct file_data *f, struct dirty_hold *h, uint64_t start,
            uint64_t end)
{
  h->start = start;
  h->end = end;
  lock_assert_below (RANK_INODE);
  SCOPED_LOCK (&f->dirty_lock);
  TAILQ_INSERT_TAIL (&f->holds, h, link);
  while (any_wb (f, start, end))
    cond_wait (&f->dirty_cond, &f->dirty_lock);
}

void
dirty_release (struct file_data *f, struct dirty_hold *h, uint64_t discard)
{
  size_t space = 0, pages = 0;

  mutex_lock (&f->dirty_lock);
  if (discard > h->start && f->num_dirty > 0) {
    space = discard_cur (f, h->start, discard, &pages);
    unlist_if_clean (f);
  }
  TAILQ_REMOVE (&f->holds, h, link);
  cond_broadcast (&f->dirty_cond);
  mutex_unlock (&f->dirty_lock);
  if (space > 0)
    space_data_unreserve (f->d->env.space, space * f->d->ps);
  dirty_unthrottle (f->d, pages);
}

/* Frames at a time, so that readers get in between. */
#define FINISH_STEP 128

void
dirty_finish (struct file_data *f, const struct dirty_page *p,
              const uint64_t *disk, size_t n)
{
  struct data *d = f->d;
  size_t done = 0, i;

  while (done < n) {
    const size_t step = MIN (n - done, (size_t) FINISH_STEP);
    struct dirty_frame *fr = NULL;

    mutex_lock (&f->dirty_lock);
    for (i = done; i < done + step; ++i) {
      const unsigned k = index_of (f, p[i].offset);

      if (fr == NULL || fr->offset != cache_key (p[i].offset))
        fr = find (f, p[i].offset);
      assert (fr != NULL && (fr->wb & (1u << k)) != 0
              && fr->wb_page[k] == p[i].page);
      fr->wb &= ~(1u << k);
      cache_put (d->cache, disk[i], p[i].page);
      if ((fr->cur | fr->wb) == 0) {
        frame_drop_if_empty (f, fr);
        fr = NULL;
      }
    }
    count (f, -(long) step);
    f->num_wb -= step;
    unlist_if_clean (f);
    cond_broadcast (&f->dirty_cond);
    mutex_unlock (&f->dirty_lock);
    __atomic_fetch_add (&d->written_pages, step, __ATOMIC_RELAXED);
    dirty_unthrottle (d, step);
    done += step;
  }
}

size_t
dirty_return (struct file_data *f, const struct dirty_page *p, size_t n,
              const struct dirty_batch *batch)
{
  struct data *d = f->d;
  size_t i, gone = 0, space = 0;

  mutex_lock (&f->dirty_lock);
  for (i = 0; i < n; ++i) {
    const unsigned k = index_of (f, p[i].offset), bit = 1u << k;
    struct dirty_frame *fr = find (f, p[i].offset);

    assert (fr != NULL && (fr->wb & bit) != 0
            && fr->wb_page[k] == p[i].page);
    fr->wb &= ~bit;
    if (fr->cur & bit) {        /* a newer one is there */
      pages_give (d->pages, &p[i].page, 1);
      space += p[i].reserved;
      ++gone;
      continue;
    }
    fr->seq = fr->cur != 0 ? MIN (fr->seq, batch->seq) : batch->seq;
    fr->cur |= bit;
    fr->page[k] = p[i].page;
    if (p[i].reserved)
      fr->reserved |= bit;
    else
      fr->reserved &= ~bit;
  }
  count (f, -(long) gone);
  f->num_wb -= n;
  cond_broadcast (&f->dirty_cond);
  mutex_unlock (&f->dirty_lock);
  dirty_unthrottle (d, gone);
  return space;
}

static bool
any_but (struct file_data *f, const struct dirty_batch *but, uint64_t start,
         uint64_t end, uint64_t seq)
{
  struct dirty_frame *fr;
  struct dirty_batch *b;

  SCOPED_LOCK (&f->dirty_lock);
  /* Somebody else may have begun to write such a page since the wait. */
  TAILQ_FOREACH (b, &f->batches, link)
    if (b != but && b->seq <= seq)
      return true;
  for (fr = find_from (f, start); fr != NULL && fr->offset < end;
       fr = RB_NEXT (dirty_tree, &f->dirty, fr)) {
    const unsigned mask = frame_mask (f, fr, start, end);

    /* Frozen pages are in no batch yet, and older than any SEQ. */
    if (fr->frozen & mask || ((fr->cur & mask) && fr->seq <= seq))
      return true;
  }
  return false;
}

bool
dirty_any (struct file_data *f, uint64_t start, uint64_t end, uint64_t seq)
{
  return any_but (f, NULL, start, end, seq);
}

bool
dirty_any_but (struct file_data *f, const struct dirty_batch *batch,
               uint64_t start, uint64_t end, uint64_t seq)
{
  return any_but (f, batch, start, end, seq);
}

uint64_t
dirty_now (struct file_data *f)
{
  SCOPED_LOCK (&f->dirty_lock);
  return f->seq;
}
