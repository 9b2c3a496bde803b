/* data: verified reads from disk into the clean cache.
 *
 * The pages of all pieces of a read are announced in the cache, read in one
 * batch, verified, and handed to the cache; only then are pages awaited that
 * somebody else was reading, so two readers never wait for each other.
 *
 * A batch is read in the order of the disk: what was written together lies
 * together there, in the order of the file, however many other writes lie
 * between the same places in the file.  Small gaps are read, too, to nowhere:
 * that costs less than one more operation.
 */
#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/csum.h"
#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

#define RUN_PAGES 256          /* most pages of one device operation */
#define RUN_PIECES 64          /* most places in memory of one: devices take
                                  more of them, but one after the other */
#define GAP_PAGES 4            /* read rather than skipped */
#define BATCH_PAGES 2048       /* most pages of one batch */

/* --- verification --- */

struct sector_check {
  struct data *d;
  uint64_t disk;
  const uint8_t *csum;         /* NULL: nothing to compare with */
};

static int
check_sector (void *opaque, const void *buf, size_t len)
{
  const struct sector_check *c = opaque;
  uint8_t sum[CSUM_SIZE_MAX];

  if (c->csum == NULL)
    return 0;
  csum_data (c->d->fmt->csum_type, buf, len, sum);
  if (memcmp (sum, c->csum, c->d->fmt->csum_size) == 0)
    return 0;
  return err_new (ERR_data_csum, "sector at logical %" PRIu64
                  ": %02x%02x%02x%02x on disk, %02x%02x%02x%02x expected",
                  c->disk, sum[0], sum[1], sum[2], sum[3], c->csum[0],
                  c->csum[1], c->csum[2], c->csum[3]);
}

/* Verify a sector that was read with RESULT; a bad one is read again from
 * every copy.
 */
static int
verify_sector (struct data *d, uint64_t disk, uint8_t *mem,
               const uint8_t *csum, int result)
{
  struct sector_check c = { .d = d, .disk = disk, .csum = csum };

  if (result == 0)
    result = check_sector (&c, mem, d->ps);
  if (result == 0)
    return 0;
  return volume_read_verified (d->env.volume, disk, mem, d->ps, 0,
                               check_sector, &c);
}

int
read_sectors (struct data *d, uint64_t disk, uint8_t *buf, size_t len,
              bool csums)
{
  const size_t size = d->fmt->csum_size, n = len / d->ps;
  CLEANUP_FREE uint8_t *sums = NULL;
  int r = 0, result;
  size_t i;

  if (csums) {
    sums = malloc (n * size);
    if (sums == NULL)
      return err_new (ERR_nomem, "checksums");
    r = csums_lookup (d, disk, len, sums);
  }
  if (r < 0)
    return r;
  result = volume_read (d->env.volume, disk, 0, buf, len);
  data_count (&d->stats.read_bytes, len);
  for (i = 0; i < n && r == 0; ++i)
    r = verify_sector (d, disk + i * d->ps, buf + i * d->ps,
                       sums == NULL ? NULL : sums + i * size, result);
  return r;
}

/* --- batches --- */

/* What one operation reads: pages of the batch, neighbours on disk or nearly
 * so.
 */
struct run {
  uint64_t disk;
  uint32_t first, n;           /* in batch.page */
  uint32_t sectors;            /* with those of the gaps */
  uint32_t iovcnt;
};

struct batch {
  struct data *d;
  bool csums, demand;
  uint32_t *page;
  uint64_t *disk;              /* of each page, ascending when it is read */
  size_t n;
  struct run *run;
  size_t runs;
  uint8_t *gap;                /* what lies between pages goes here */
};

static int
cmp_disk (const void *p1, const void *p2)
{
  const uint64_t a = *(const uint64_t *) p1, b = *(const uint64_t *) p2;

  return a < b ? -1 : a > b;
}

static void
sort_batch (struct batch *b)
{
  size_t i;

  for (i = 1; i < b->n; ++i)
    if (b->disk[i] < b->disk[i - 1]) {
      qsort (b->disk, b->n, sizeof *b->disk, cmp_disk);
      return;
    }
}

/* The end of the chunk that ADDR lies in: no operation crosses it. */
static uint64_t
chunk_end (const struct batch *b, uint64_t addr)
{
  struct chunk_info c;

  if (volume_get_chunk (b->d->env.volume, addr, &c) < 0) {
    err_clear ();
    return UINT64_MAX;          /* the read will tell */
  }
  return c.logical + c.length;
}

/* Where page I of the batch goes; true: right behind IOV. */
static bool
place_page (const struct batch *b, size_t i, struct iovec *iov)
{
  uint8_t *mem = page_mem (b->d->pages, b->page[i]);

  if (iov != NULL && (uint8_t *) iov->iov_base + iov->iov_len == mem) {
    iov->iov_len += b->d->ps;
    return true;
  }
  return false;
}

/* Page I becomes part of RUN, if it may. */
static bool
join_run (struct batch *b, struct run *run, size_t i, struct iovec *iov)
{
  const uint32_t ps = b->d->ps;
  const uint64_t end = run->disk + (uint64_t) run->sectors * ps;
  const uint64_t gap = (b->disk[i] - end) / ps;
  struct iovec *last = &iov[run->iovcnt - 1];

  if (gap > (b->gap == NULL ? 0 : GAP_PAGES)
      || run->sectors + gap + 1 > RUN_PAGES)
    return false;
  if (gap != 0 || !place_page (b, i, last)) {
    if (run->iovcnt + (gap != 0) + 1 > RUN_PIECES)
      return false;
    if (gap != 0)
      iov[run->iovcnt++] = (struct iovec) { b->gap, gap * ps };
    iov[run->iovcnt++] = (struct iovec) {
      page_mem (b->d->pages, b->page[i]), ps };
  }
  run->sectors += gap + 1;
  ++run->n;
  return true;
}

/* IOV: two for each page.  Returns the first one of each run in ops. */
static void
make_runs (struct batch *b, struct iovec *iov, struct volume_op *ops)
{
  struct run *run = NULL;
  uint64_t end = 0;
  size_t i;

  b->runs = 0;
  for (i = 0; i < b->n; ++i) {
    const bool same_chunk = b->disk[i] < end;

    if (run != NULL && same_chunk && join_run (b, run, i, iov))
      continue;
    if (!same_chunk)
      end = chunk_end (b, b->disk[i]);
    if (run != NULL)
      iov += run->iovcnt;
    ops[b->runs].iov = iov;
    run = &b->run[b->runs++];
    *run = (struct run) { .disk = b->disk[i], .first = i, .n = 1,
                          .sectors = 1, .iovcnt = 1 };
    *iov = (struct iovec) { page_mem (b->d->pages, b->page[i]), b->d->ps };
  }
}

static int
verify_run (struct batch *b, const struct run *run, int result)
{
  struct data *d = b->d;
  uint8_t sums[RUN_PAGES * CSUM_SIZE_MAX];
  bool have[RUN_PAGES];
  size_t i;
  int r = 0;

  if (b->csums)
    r = csums_lookup_some (d, run->disk, run->sectors, sums, have);
  for (i = run->first; i < run->first + run->n && r == 0; ++i) {
    const size_t k = (b->disk[i] - run->disk) / d->ps;

    if (b->csums && !have[k])
      return csums_missing (b->disk[i]);
    r = verify_sector (d, b->disk[i], page_mem (d->pages, b->page[i]),
                       b->csums ? sums + k * d->fmt->csum_size : NULL,
                       result);
  }
  return r;
}

/* Read and verify all pages of the batch. */
static int
run_batch (struct batch *b)
{
  struct data *d = b->d;
  CLEANUP_FREE struct volume_op *ops = calloc (b->n, sizeof *ops);
  CLEANUP_FREE struct iovec *iov = malloc (2 * b->n * sizeof *iov);
  CLEANUP_FREE uint8_t *gap = b->n > 1 ? io_alloc (GAP_PAGES * d->ps) : NULL;
  size_t i;
  int r = 0;

  if (ops == NULL || iov == NULL)
    return err_new (ERR_nomem, "read");
  b->gap = gap;                /* without it nothing is read to it */
  make_runs (b, iov, ops);
  for (i = 0; i < b->runs; ++i) {
    ops[i].kind = IO_READ;
    ops[i].logical = b->run[i].disk;
    ops[i].len = (uint64_t) b->run[i].sectors * d->ps;
    ops[i].iovcnt = b->run[i].iovcnt;
  }
  /* Each operation has its result; a failed one is tried on all copies. */
  if (volume_run (d->env.volume, ops, b->runs) < 0)
    err_clear ();
  data_count (&d->stats.misses, b->n);
  for (i = 0; i < b->runs; ++i)
    data_count (&d->stats.read_bytes, ops[i].len);
  for (i = 0; i < b->runs && r == 0; ++i)
    r = verify_run (b, &b->run[i], ops[i].result);
  return r;
}

/* The batch's pages to the cache, or back when R is an error. */
static void
end_batch (struct batch *b, int r)
{
  struct data *d = b->d;
  size_t i = 0;

  if (r < 0)
    pages_give (d->pages, b->page, b->n);
  while (i < b->n) {
    const uint64_t key = cache_key (b->disk[i]);
    uint32_t page[CACHE_PAGES];
    unsigned mask = 0;

    for (; i < b->n && cache_key (b->disk[i]) == key; ++i) {
      const unsigned k = (b->disk[i] - key) / d->ps;

      if (mask & (1u << k))
        break;
      mask |= 1u << k;
      page[k] = r < 0 ? PAGE_NONE : b->page[i];
    }
    cache_end_read (d->cache, key, mask, page, b->demand);
  }
}

/* The first page of the batch that is at AT or above. */
static size_t
page_from (const struct batch *b, uint64_t at)
{
  size_t lo = 0, hi = b->n;

  while (lo < hi) {
    const size_t mid = lo + (hi - lo) / 2;

    if (b->disk[mid] < at)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

/* Copy what the batch has read to where it is wanted. */
static void
copy_out (const struct batch *b, const struct miss *miss, size_t n)
{
  const uint32_t ps = b->d->ps;
  size_t i, k;

  for (i = 0; i < n; ++i) {
    const struct miss *m = &miss[i];
    const uint64_t m_end = m->disk + m->len;

    if (m->dst == NULL)
      continue;
    for (k = page_from (b, round_down (m->disk, ps));
         k < b->n && b->disk[k] < m_end; ++k) {
      const uint64_t at = b->disk[k];
      const uint64_t start = MAX (at, m->disk), end = MIN (at + ps, m_end);

      memcpy (m->dst + (start - m->disk),
              page_mem (b->d->pages, b->page[k]) + (start - at),
              end - start);
    }
  }
}

/* Announce the pages of M.  *ret_others: some are there now, or somebody else
 * reads them.
 */
static int
announce (struct batch *b, const struct miss *m, bool *ret_others)
{
  const uint32_t ps = b->d->ps;
  const uint64_t end = round_up (m->disk + m->len, ps);
  uint64_t at = round_down (m->disk, ps);

  while (at < end) {
    const uint64_t key = cache_key (at);
    const uint64_t stop = MIN (end, key + CACHE_FRAME);
    const unsigned first = (at - key) / ps, last = (stop - 1 - key) / ps;
    const unsigned want = ((2u << last) - 1) & ~((1u << first) - 1);
    bool failed;
    unsigned mine = cache_begin_read (b->d->cache, key, want, &failed);

    if (failed)
      return err_new (ERR_nomem, "data cache");
    if (mine != want)
      *ret_others = true;
    for (; mine != 0; mine &= mine - 1)
      b->disk[b->n++] = key + (uint64_t) __builtin_ctz (mine) * ps;
    at = stop;
  }
  return 0;
}

/* Without room in the cache (all of it is dirty): straight to the reader. */
static int
read_uncached (struct data *d, const struct miss *m, bool csums)
{
  const uint64_t start = round_down (m->disk, d->ps);
  const size_t len = round_up (m->disk + m->len, d->ps) - start;
  CLEANUP_FREE uint8_t *buf = NULL;
  int r;

  if (m->dst == NULL)
    return 0;
  buf = io_alloc (len);
  if (buf == NULL)
    return err_new (ERR_nomem, "read");
  r = read_sectors (d, start, buf, len, csums);
  if (r == 0)
    memcpy (m->dst, buf + (m->disk - start), m->len);
  return r;
}

/* What others were reading when we came: wait, copy, or read it after all. */
static int
collect_others (struct data *d, const struct miss *m, bool csums)
{
  uint64_t at = m->disk;
  const uint64_t end = m->disk + m->len;

  while (at < end) {
    const uint64_t key = cache_key (at);
    const uint64_t stop = MIN (end, key + CACHE_FRAME);
    struct miss part = { .disk = at, .len = stop - at,
                         .dst = m->dst + (at - m->disk) };
    unsigned missing = cache_copy (d->cache, key, at - key, stop - at,
                                   part.dst);

    if (missing != 0) {
      cache_wait_read (d->cache, key, missing);
      missing = cache_copy (d->cache, key, at - key, stop - at, part.dst);
    }
    if (missing != 0) {
      int r = read_uncached (d, &part, csums);

      if (r < 0)
        return r;
    }
    at = stop;
  }
  return 0;
}

static int
batch_init (struct batch *b, struct data *d, size_t max)
{
  b->d = d;
  b->page = malloc (max * sizeof *b->page);
  b->disk = malloc (max * sizeof *b->disk);
  b->run = malloc (max * sizeof *b->run);
  if (b->page != NULL && b->disk != NULL && b->run != NULL)
    return 0;
  return err_new (ERR_nomem, "read");
}

static void
batch_done (struct batch *b)
{
  free (b->page);
  free (b->disk);
  free (b->run);
}

/* Take the announcement back. */
static void
abandon_batch (struct batch *b)
{
  size_t i;

  for (i = 0; i < b->n; ++i)
    b->page[i] = PAGE_NONE;
  end_batch (b, 0);
}

/* Give the announced pages memory, read them, copy out, hand them over. */
static int
finish_batch (struct batch *b, const struct miss *miss, size_t n,
              bool *ret_no_room)
{
  size_t have;
  int r;

  *ret_no_room = false;
  if (b->n == 0)
    return 0;
  sort_batch (b);
  have = cache_take_pages (b->d->cache, b->page, b->n);
  if (have < b->n) {
    pages_give (b->d->pages, b->page, have);
    abandon_batch (b);
    *ret_no_room = true;
    return 0;
  }
  r = run_batch (b);
  if (r == 0)
    copy_out (b, miss, n);
  end_batch (b, r);
  return r;
}

static size_t
miss_pages (const struct data *d, const struct miss *m)
{
  return (round_up (m->disk + m->len, d->ps)
          - round_down (m->disk, d->ps)) / d->ps;
}

int
read_misses (struct file_data *f, struct miss *miss, size_t n, bool csums)
{
  struct data *d = f->d;
  struct batch b = { .csums = csums, .demand = miss[0].dst != NULL };
  const size_t most = b.demand ? BATCH_PAGES : AHEAD_PAGES;
  size_t pages = 0, i;
  int r;

  for (i = 0; i < n; ++i)
    pages += miss_pages (d, &miss[i]);
  r = batch_init (&b, d, MIN (pages, most));
  for (i = 0; i < n && r == 0;) {
    const size_t from = i;
    bool others = false, no_room;

    b.n = 0;
    do
      r = announce (&b, &miss[i++], &others);
    while (r == 0 && i < n
           && b.n + miss_pages (d, &miss[i]) <= most);
    if (r < 0) {
      abandon_batch (&b);
      break;
    }
    r = finish_batch (&b, miss + from, i - from, &no_room);
    for (size_t k = from; k < i && r == 0 && (others || no_room); ++k)
      if (miss[k].dst != NULL)
        r = collect_others (d, &miss[k], csums);
  }
  batch_done (&b);
  return r;
}
