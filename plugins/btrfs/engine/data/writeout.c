/* data: from dirty pages to extents.
 *
 * A batch: collect pages; decide for each whether it goes in place; allocate
 * for the others, as contiguous as there is room, so that many small dirty
 * ranges make one large write; checksum our private pages; write everything
 * in one go; forget what the cache holds of these addresses; then change the
 * trees, many ranges to a transaction (writeout_meta.c); at last the pages
 * become clean cache.
 *
 * What could not be written never gets an extent: the pages are dirty again,
 * with their promise of space, readers go on to see them, and each flush tries
 * once more and fails until they are written.  New extents are laid elsewhere
 * then, so one bad place of a disk does no harm.
 */
#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/csum.h"
#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "data/writeout.h"

#define OP_PAGES 256           /* most pages of one device operation */
#define RETRY_MS 500           /* until flushers try a file again */

int
writeout_init (struct writeout *w, struct file_data *f, size_t max)
{
  memset (w, 0, sizeof *w);
  w->f = f;
  w->d = f->d;
  w->page = malloc (max * sizeof *w->page);
  w->disk = malloc (max * sizeof *w->disk);
  w->run = malloc (max * sizeof *w->run);
  w->sums = malloc (max * w->d->fmt->csum_size);
  if (w->page != NULL && w->disk != NULL && w->run != NULL
      && w->sums != NULL)
    return 0;
  return err_new (ERR_nomem, "write-out");
}

void
writeout_done (struct writeout *w)
{
  free (w->page);
  free (w->disk);
  free (w->run);
  free (w->sums);
}

static struct wo_run *
add_run (struct writeout *w, size_t first, enum wo_mode mode)
{
  struct wo_run *r = &w->run[w->runs++];

  *r = (struct wo_run) { .first = first, .n = 1, .mode = mode };
  return r;
}

/* Does page I, with mapping M, go on where the last run ends? */
static bool
extends (const struct writeout *w, const struct wo_run *r, size_t i,
         enum wo_mode mode, const struct mapping *m)
{
  if (r == NULL || r->mode != mode || r->first + r->n != i
      || w->page[i].offset != w->page[i - 1].offset + w->d->ps)
    return false;
  return mode == WO_COW || (r->map.disk == m->disk
                            && r->map.offset == m->offset);
}

/* --- decide --- */

/* In place runs hold their block group until the end of the batch. */
static int
decide_one (struct writeout *w, size_t i, struct mapping *m, bool *ret_place)
{
  const uint64_t offset = w->page[i].offset;
  int r;

  *ret_place = false;
  if (!file_may_nocow (w->f))
    return 0;
  if (m->len == 0 || offset < m->offset || offset >= m->offset + m->len) {
    r = nocow_check (w->f, offset, m, &w->map_nocow);
    if (r < 0)
      return r;
  }
  *ret_place = w->map_nocow;
  return 0;
}

static int
decide (struct writeout *w)
{
  struct mapping m = { .len = 0 };
  struct wo_run *last = NULL;
  size_t i;

  for (i = 0; i < w->n; ++i) {
    enum wo_mode mode = WO_COW;
    bool place;
    int r = decide_one (w, i, &m, &place);

    if (r < 0)
      return r;
    if (place)
      mode = m.kind == MAP_PREALLOC ? WO_PREALLOC : WO_PLACE;
    if (extends (w, last, i, mode, &m)) {
      ++last->n;
      continue;
    }
    if (mode != WO_COW
        && !space_nocow_begin (w->d->env.space,
                               mapping_disk (&m, w->page[i].offset))) {
      /* The group became read-only. */
      mode = WO_COW;
      if (extends (w, last, i, mode, &m)) {
        ++last->n;
        continue;
      }
    }
    last = add_run (w, i, mode);
    last->map = m;
    if (mode != WO_COW)
      last->group = mapping_disk (&m, w->page[i].offset);
  }
  return 0;
}

/* --- allocate --- */

/* Sectors that were reserved and do not need it, and the other way round.
 * Afterwards just the COW pages are `reserved`.
 */
static int
settle_space (struct writeout *w)
{
  const uint32_t ps = w->d->ps;
  size_t give = 0, need = 0, k, i;
  int r;

  for (k = 0; k < w->runs; ++k)
    for (i = w->run[k].first; i < w->run[k].first + w->run[k].n; ++i) {
      const bool cow = w->run[k].mode == WO_COW;

      give += w->page[i].reserved && !cow;
      need += !w->page[i].reserved && cow;
    }
  if (need > give) {
    r = space_data_reserve (w->d->env.space, (need - give) * ps);
    if (r < 0)
      return err_note (r, "copy instead of a write in place");
  }
  else if (give > need)
    space_data_unreserve (w->d->env.space, (give - need) * ps);
  for (k = 0; k < w->runs; ++k)
    for (i = w->run[k].first; i < w->run[k].first + w->run[k].n; ++i)
      w->page[i].reserved = w->run[k].mode == WO_COW;
  return 0;
}

/* Cut run K so that its first N pages stay; the rest becomes run K + 1. */
static void
split_run (struct writeout *w, size_t k, size_t n)
{
  memmove (&w->run[k + 2], &w->run[k + 1],
           (w->runs - k - 1) * sizeof *w->run);
  w->run[k + 1] = w->run[k];
  w->run[k + 1].first += n;
  w->run[k + 1].n -= n;
  w->run[k].n = n;
  ++w->runs;
}

/* Run K, of new extents, does not leave the piece of the file that it begins
 * in.  What will be overwritten in place has no dead space.
 */
static void
stay_in_piece (struct writeout *w, size_t k)
{
  const uint64_t start = w->page[w->run[k].first].offset;
  const size_t n = (round_up (start + 1, file_unit (w->f)) - start)
    / w->d->ps;

  if (w->run[k].n > n && (file_flags (w->f) & BTRFS_INODE_NODATACOW) == 0)
    split_run (w, k, n);
}

/* Addresses for all COW pages: as few extents as the free space allows, laid
 * under the pages in file order.
 */
static int
allocate (struct writeout *w)
{
  const uint32_t ps = w->d->ps;
  uint64_t at = 0, left = 0;
  size_t k, i, want = 0;
  int r;

  for (k = 0; k < w->runs; ++k)
    want += w->run[k].mode == WO_COW ? w->run[k].n : 0;

  for (k = 0; k < w->runs; ++k) {
    struct wo_run *run = &w->run[k];

    if (run->mode != WO_COW) {
      run->disk = mapping_disk (&run->map, w->page[run->first].offset);
      continue;
    }
    if (left == 0) {
      r = space_data_alloc (w->d->env.space, ps,
                            MIN ((uint64_t) want * ps,
                                 (uint64_t) BTRFS_MAX_EXTENT),
                            __atomic_load_n (&w->f->hint, __ATOMIC_RELAXED),
                            &at, &left);
      if (r < 0)
        return err_note (r, "%zu sectors of data", want);
      want -= left / ps;
      __atomic_store_n (&w->f->hint, at + left, __ATOMIC_RELAXED);
    }
    stay_in_piece (w, k);
    if ((uint64_t) run->n * ps > left)
      split_run (w, k, left / ps);
    run->disk = at;
    run->allocated = true;
    for (i = run->first; i < run->first + run->n; ++i)
      w->page[i].reserved = false;
    at += (uint64_t) run->n * ps;
    left -= (uint64_t) run->n * ps;
  }
  assert (left == 0);
  return 0;
}

/* --- write --- */

static void
checksum (struct writeout *w)
{
  const struct format_info *fmt = w->d->fmt;
  size_t i;

  if (!file_has_csums (w->f))
    return;
  for (i = 0; i < w->n; ++i)
    csum_data (fmt->csum_type, page_mem (w->d->pages, w->page[i].page),
               w->d->ps, w->sums + i * fmt->csum_size);
}

/* The end of the chunk that ADDR lies in: no operation crosses it. */
static uint64_t
chunk_end (const struct writeout *w, uint64_t addr)
{
  struct chunk_info c;

  if (volume_get_chunk (w->d->env.volume, addr, &c) < 0) {
    err_clear ();
    return UINT64_MAX;          /* the write will tell */
  }
  return c.logical + c.length;
}

/* Pages that follow each other on disk are one operation, whatever runs they
 * belong to.
 */
size_t
writeout_ops (struct writeout *w, struct volume_op *ops, struct iovec *iov,
              size_t *first)
{
  const uint32_t ps = w->d->ps;
  CLEANUP_FREE uint32_t *page = malloc (w->n * sizeof *page);
  size_t ops_n = 0, i, start;
  uint64_t end;

  if (page == NULL)
    return 0;
  for (i = 0; i < w->n; ++i)
    page[i] = w->page[i].page;
  for (start = 0; start < w->n; start = i) {
    end = chunk_end (w, w->disk[start]);
    for (i = start + 1; i < w->n && i - start < OP_PAGES; ++i)
      if (w->disk[i] != w->disk[i - 1] + ps || w->disk[i] >= end)
        break;
    ops[ops_n] = (struct volume_op) {
      .kind = IO_WRITE, .logical = w->disk[start],
      .len = (uint64_t) (i - start) * ps, .iov = iov + start,
      .iovcnt = pages_iov (w->d->pages, page + start, i - start,
                           iov + start) };
    first[ops_n++] = start;
  }
  return ops_n;
}

/* Runs with pages FROM.. of a failed operation are cut and marked. */
static void
mark_failed (struct writeout *w, size_t from, size_t n)
{
  size_t k;

  for (k = 0; k < w->runs; ++k) {
    const size_t end = w->run[k].first + w->run[k].n;

    if (end <= from || w->run[k].first >= from + n)
      continue;
    w->run[k].failed = true;
  }
}

static int
write_pages (struct writeout *w)
{
  CLEANUP_FREE struct volume_op *ops = malloc (w->n * sizeof *ops);
  CLEANUP_FREE struct iovec *iov = malloc (w->n * sizeof *iov);
  CLEANUP_FREE size_t *first = malloc (w->n * sizeof *first);
  size_t n, i;
  int r = 0;

  if (ops != NULL && iov != NULL && first != NULL)
    n = writeout_ops (w, ops, iov, first);
  else
    n = 0;
  if (n == 0)
    return err_new (ERR_nomem, "write-out");
  r = volume_run (w->d->env.volume, ops, n);
  if (r < 0)
    for (i = 0; i < n; ++i)
      if (ops[i].result < 0)
        mark_failed (w, first[i], (i + 1 < n ? first[i + 1] : w->n)
                     - first[i]);
  return r;
}

/* --- the batch --- */

static void
fill_disk (struct writeout *w)
{
  size_t k, i;

  for (k = 0; k < w->runs; ++k)
    for (i = 0; i < w->run[k].n; ++i)
      w->disk[w->run[k].first + i]
        = w->run[k].disk + (uint64_t) i * w->d->ps;
}

/* Cached copies and reads under way of these addresses are of somebody who
 * had them before.
 */
static void
forget_cached (struct writeout *w)
{
  size_t start, i;

  for (start = 0; start < w->n; start = i) {
    for (i = start + 1; i < w->n; ++i)
      if (w->disk[i] != w->disk[i - 1] + w->d->ps)
        break;
    cache_invalidate (w->d->cache, w->disk[start],
                      (uint64_t) (i - start) * w->d->ps);
  }
}

static void
count_written (struct writeout *w)
{
  size_t k;

  for (k = 0; k < w->runs; ++k) {
    const uint64_t bytes = (uint64_t) w->run[k].n * w->d->ps;

    if (w->run[k].failed)
      continue;
    data_count (&w->d->stats.written_bytes, bytes);
    if (w->run[k].mode != WO_COW)
      data_count (&w->d->stats.nocow_bytes, bytes);
  }
}

void
writeout_note_failure (struct writeout *w, int r)
{
  struct file_data *f = w->f;
  uint64_t n;

  mutex_lock (&w->d->lock);
  f->retry_at = now_ms () + RETRY_MS;
  mutex_unlock (&w->d->lock);
  n = __atomic_add_fetch (&f->failures, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add (&w->d->failures, 1, __ATOMIC_RELAXED);
  /* Again and again while a device does not work: seldom is enough. */
  if ((n & (n - 1)) == 0)
    log_error ("tree %" PRIu64 " inode %" PRIu64 ": write-out failed, time %"
               PRIu64 ": %s", f->inode->root->id, f->inode->ino, n,
               err_text (r));
}

/* The addresses of RUN are free again, its pages hold promises. */
static void
take_back (struct writeout *w, const struct wo_run *run)
{
  size_t i;

  space_data_unalloc (w->d->env.space, run->disk,
                      (uint64_t) run->n * w->d->ps);
  for (i = run->first; i < run->first + run->n; ++i)
    w->page[i].reserved = true;
}

/* Everything that the batch still holds goes back: block groups, addresses
 * without an extent; pages become clean or are dirty again.
 */
void
writeout_finish (struct writeout *w, const struct dirty_batch *batch)
{
  struct space *space = w->d->env.space;
  size_t k, i, unused = 0;

  for (k = 0; k < w->runs; ++k) {
    struct wo_run *run = &w->run[k];

    if (run->mode != WO_COW)
      space_nocow_end (space, run->group);
    else if (run->allocated && !run->inserted)
      take_back (w, run);
    if (run->inserted)
      dirty_finish (w->f, w->page + run->first, w->disk + run->first, run->n);
    else
      unused += dirty_return (w->f, w->page + run->first, run->n, batch);
  }
  /* Pages that were not decided on. */
  i = w->runs == 0 ? 0 : w->run[w->runs - 1].first + w->run[w->runs - 1].n;
  unused += dirty_return (w->f, w->page + i, w->n - i, batch);
  if (unused > 0)
    space_data_unreserve (space, unused * w->d->ps);
}

/* What was decided is void. */
static void
undecide (struct writeout *w)
{
  size_t k;

  for (k = 0; k < w->runs; ++k)
    if (w->run[k].mode != WO_COW)
      space_nocow_end (w->d->env.space, w->run[k].group);
  w->runs = 0;
}

/* Pages that were taken in to go in place have no space of their own.  If an
 * image of the pool does not let them, and there is no space for a copy, the
 * image has to go.
 */
static int
decide_and_settle (struct writeout *w)
{
  struct space *space = w->d->env.space;
  bool held;
  int r;

  for (;;) {
    held = space_held_generation (space) != 0;
    r = decide (w);
    if (r == 0)
      r = settle_space (w);
    if (r != -ERR_nospace || !held
        || (!space_hold_cancel (space, "there is no room for copies of what "
                                "is written in place")
            && space_held_generation (space) != 0))
      return r;
    err_clear ();
    undecide (w);
  }
}

int
writeout_prepare (struct writeout *w)
{
  int r;

  r = decide_and_settle (w);
  if (r == 0)
    r = allocate (w);
  if (r < 0)
    return r;
  fill_disk (w);
  checksum (w);
  return 0;
}

void
writeout_written (struct writeout *w)
{
  forget_cached (w);
  count_written (w);
}

int
writeout_run (struct writeout *w)
{
  int r, failed = write_pages (w);

  if (failed == -ERR_nomem) {
    forget_cached (w);
    return failed;
  }
  writeout_written (w);
  r = writeout_insert (w);
  return r < 0 ? r : failed;
}

/* The pages are nobody's but ours. */
static void
finish_move (struct writeout *w)
{
  size_t k, i, unused = 0;

  for (k = 0; k < w->runs; ++k) {
    const struct wo_run *run = &w->run[k];

    if (run->allocated && !run->inserted)
      take_back (w, run);
    for (i = run->first; i < run->first + run->n; ++i) {
      if (run->inserted)
        cache_put (w->d->cache, w->disk[i], w->page[i].page);
      else
        pages_give (w->d->pages, &w->page[i].page, 1);
      unused += w->page[i].reserved;
    }
  }
  if (unused > 0)
    space_data_unreserve (w->d->env.space, unused * w->d->ps);
}

/* Runs that are side by side on disk are in one place. */
static size_t
num_places (const struct writeout *w)
{
  size_t k, n = 0;

  for (k = 0; k < w->runs; ++k)
    n += k == 0 || w->run[k - 1].disk + run_len (w, &w->run[k - 1])
                   != w->run[k].disk;
  return n;
}

int
writeout_move (struct writeout *w, const struct wo_most *most)
{
  int r;

  w->moved = true;
  add_run (w, 0, WO_COW)->n = w->n;
  r = allocate (w);
  if (r == 0 && w->runs <= most->extents && num_places (w) <= most->places) {
    fill_disk (w);
    checksum (w);
    r = write_pages (w);
    forget_cached (w);
    if (r == 0)
      r = writeout_insert (w);
  }
  finish_move (w);
  return r;
}

/* What to do when the gate is closed: it is not for those who are inside, or
 * who have closed it.
 */
enum at_gate { GATE_WAIT, GATE_TRY, GATE_INSIDE, GATE_FROZEN };

static int
write_batch_inside (struct file_data *f, uint64_t start, uint64_t end,
                    uint64_t seq, bool frozen, size_t *ret_n,
                    uint64_t *ret_next)
{
  const size_t max = MIN (__atomic_load_n (&f->num_dirty, __ATOMIC_ACQUIRE),
                          (size_t) DATA_BATCH_PAGES);
  struct dirty_batch batch;
  struct writeout w;
  int r;

  if (max == 0)
    return 0;
  r = writeout_init (&w, f, max);
  if (r < 0) {
    writeout_done (&w);
    return r;
  }
  if (frozen)
    w.n = dirty_collect_frozen (f, w.page, max, &batch);
  else
    w.n = dirty_collect (f, start, end, seq, w.page, max, &batch);
  if (w.n > 0) {
    *ret_n = w.n;
    *ret_next = w.page[w.n - 1].offset + f->d->ps;
    __atomic_store_n (&f->cursor, *ret_next, __ATOMIC_RELAXED);
    r = writeout_prepare (&w);
    if (r == 0)
      r = writeout_run (&w);
    if (r < 0)
      writeout_note_failure (&w, r);
    writeout_finish (&w, &batch);
    dirty_batch_end (f, &batch);
  }
  writeout_done (&w);
  return r;
}

/* *ret_next: where the pages that were tried end. */
static int
write_batch (struct file_data *f, uint64_t start, uint64_t end, uint64_t seq,
             enum at_gate how, size_t *ret_n, uint64_t *ret_next)
{
  struct gate *g = file_gate (f);
  int r;

  *ret_n = 0;
  *ret_next = end;
  if (how == GATE_WAIT)
    gate_batch_begin (g);
  else if (how == GATE_TRY && !gate_batch_try (g))
    return 0;
  r = write_batch_inside (f, start, end, seq, how == GATE_FROZEN, ret_n,
                          ret_next);
  if (how == GATE_WAIT || how == GATE_TRY)
    gate_batch_end (g);
  return r;
}

/* Each page is tried once.  Somebody else's failure counts when its pages are
 * not there for us to try.
 */
static int
write_out (struct file_data *f, uint64_t start, uint64_t end, uint64_t seq,
           enum at_gate how)
{
  const uint64_t before = __atomic_load_n (&f->failures, __ATOMIC_RELAXED);
  uint64_t from = start, next;
  int r = 0, one;
  size_t n;

  for (;;) {
    one = write_batch (f, from, end, seq, how, &n, &next);
    if (one < 0) {
      r = r < 0 ? r : one;
      from = next;
    }
    if (n > 0 && from < end)
      continue;
    if (n == 0 && one < 0)
      return r; /* no memory to collect with */
    dirty_wait_written (f, start, end);
    if (r < 0 || !dirty_any (f, start, end, seq))
      return r;
    if (__atomic_load_n (&f->failures, __ATOMIC_RELAXED) - before > 2)
      return err_new (ERR_write_lost, "tree %" PRIu64 " inode %" PRIu64,
                      f->inode->root->id, f->inode->ino);
  }
}

int
file_write_out (struct file_data *f, uint64_t start, uint64_t end,
                uint64_t seq)
{
  return write_out (f, start, end, seq, GATE_WAIT);
}

int
file_write_out_inside (struct file_data *f, uint64_t start, uint64_t end,
                       uint64_t seq)
{
  return write_out (f, start, end, seq, GATE_INSIDE);
}

int
file_write_out_frozen (struct file_data *f)
{
  uint64_t next;
  int r = 0, one;
  size_t n;

  do {
    one = write_batch (f, 0, DATA_FILE_END, UINT64_MAX, GATE_FROZEN, &n,
                       &next);
    if (r == 0)
      r = one;
  } while (n > 0);
  dirty_unfreeze (f);           /* if there was no memory to collect with */
  return r;
}

/* Round and round, so that no part of the file waits for ever. */
bool
file_write_some (struct file_data *f, uint64_t seq)
{
  const uint64_t from = __atomic_load_n (&f->cursor, __ATOMIC_RELAXED);
  uint64_t next;
  size_t n;
  int r;

  r = write_batch (f, from, DATA_FILE_END, seq, GATE_TRY, &n, &next);
  if (r == 0 && n == 0 && from > 0)
    r = write_batch (f, 0, from, seq, GATE_TRY, &n, &next);
  if (r < 0)
    err_clear ();
  return r == 0 && n > 0;
}
