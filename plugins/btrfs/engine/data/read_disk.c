/* data: verified reads from disk into the clean cache.
 *
 * The pages of all pieces of a read are announced in the cache, read in one
 * batch, verified, and handed to the cache; only then are pages awaited that
 * somebody else was reading, so two readers never wait for each other.
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

/* Verify N sectors at DISK in pages or one buffer; bad ones are read again
 * from every copy.  RESULT: of the first reading.
 */
static int
verify_run (struct data *d, uint64_t disk, uint8_t *(*mem) (void *, size_t),
            void *opaque, size_t n, const uint8_t *sums, int result)
{
  size_t i;

  for (i = 0; i < n; ++i) {
    struct sector_check c = {
      .d = d, .disk = disk + i * d->ps,
      .csum = sums == NULL ? NULL : sums + i * d->fmt->csum_size };
    int r = result;

    if (r == 0)
      r = check_sector (&c, mem (opaque, i), d->ps);
    if (r == 0)
      continue;
    r = volume_read_verified (d->env.volume, c.disk, mem (opaque, i), d->ps,
                              0, check_sector, &c);
    if (r < 0)
      return r;
  }
  return 0;
}

static int
get_sums (struct data *d, uint64_t disk, size_t len, uint8_t **ret)
{
  uint8_t *sums = malloc (len / d->ps * d->fmt->csum_size);
  int r;

  if (sums == NULL)
    return err_new (ERR_nomem, "checksums");
  r = csums_lookup (d, disk, len, sums);
  if (r < 0) {
    free (sums);
    return r;
  }
  *ret = sums;
  return 0;
}

static uint8_t *
buffer_sector (void *opaque, size_t i)
{
  const struct miss *m = opaque;

  return m->dst + i * m->len;
}

int
read_sectors (struct data *d, uint64_t disk, uint8_t *buf, size_t len,
              bool csums)
{
  CLEANUP_FREE uint8_t *sums = NULL;
  struct miss m = { .dst = buf, .len = d->ps };
  int r = 0;

  if (csums)
    r = get_sums (d, disk, len, &sums);
  if (r < 0)
    return r;
  r = volume_read (d->env.volume, disk, 0, buf, len);
  data_count (&d->stats.read_bytes, len);
  return verify_run (d, disk, buffer_sector, &m, len / d->ps, sums, r);
}

/* --- batches --- */

/* Consecutive pages on disk that we read, from any number of frames. */
struct run {
  uint64_t disk;
  uint32_t first, n;           /* in batch.page */
};

struct batch {
  struct data *d;
  bool csums, demand;
  uint32_t *page;
  uint64_t *disk;              /* of each page */
  size_t n;
  struct run *run;
  size_t runs;
};

static uint8_t *
batch_sector (void *opaque, size_t i)
{
  const uint32_t *page = ((void **) opaque)[0];
  const struct data *d = ((void **) opaque)[1];

  return page_mem (d->pages, page[i]);
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

static void
make_runs (struct batch *b)
{
  uint64_t end = 0;
  size_t i;

  b->runs = 0;
  for (i = 0; i < b->n; ++i) {
    struct run *last = b->runs > 0 ? &b->run[b->runs - 1] : NULL;

    if (last != NULL && last->n < RUN_PAGES && b->disk[i] < end
        && last->disk + (uint64_t) last->n * b->d->ps == b->disk[i])
      ++last->n;
    else {
      if (b->disk[i] >= end || last == NULL || b->disk[i] < last->disk)
        end = chunk_end (b, b->disk[i]);
      b->run[b->runs++] = (struct run) { .disk = b->disk[i], .first = i,
                                         .n = 1 };
    }
  }
}

static int
verify_batch (struct batch *b, const struct volume_op *ops)
{
  struct data *d = b->d;
  size_t i;

  for (i = 0; i < b->runs; ++i) {
    CLEANUP_FREE uint8_t *sums = NULL;
    const struct run *run = &b->run[i];
    void *opaque[2] = { b->page + run->first, d };
    int r = 0;

    if (b->csums)
      r = get_sums (d, run->disk, (size_t) run->n * d->ps, &sums);
    if (r == 0)
      r = verify_run (d, run->disk, batch_sector, opaque, run->n, sums,
                      ops[i].result);
    if (r < 0)
      return r;
  }
  return 0;
}

/* Read and verify all pages of the batch. */
static int
run_batch (struct batch *b)
{
  struct data *d = b->d;
  CLEANUP_FREE struct volume_op *ops = NULL;
  CLEANUP_FREE struct iovec *iov = NULL;
  size_t i;

  make_runs (b);
  ops = calloc (b->runs, sizeof *ops);
  iov = malloc (b->n * sizeof *iov);
  if (ops == NULL || iov == NULL)
    return err_new (ERR_nomem, "read");
  for (i = 0; i < b->runs; ++i) {
    const struct run *run = &b->run[i];

    ops[i] = (struct volume_op) {
      .kind = IO_READ, .logical = run->disk,
      .len = (uint64_t) run->n * d->ps, .iov = iov + run->first,
      .iovcnt = pages_iov (d->pages, b->page + run->first, run->n,
                           iov + run->first) };
  }
  /* Each operation has its result; a failed one is tried on all copies. */
  if (volume_run (d->env.volume, ops, b->runs) < 0)
    err_clear ();
  data_count (&d->stats.misses, b->n);
  data_count (&d->stats.read_bytes, b->n * d->ps);
  return verify_batch (b, ops);
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

/* Copy what the batch has read to where it is wanted.  Pages and pieces are
 * both in the order of the request.
 */
static void
copy_out (const struct batch *b, const struct miss *miss, size_t n)
{
  const uint32_t ps = b->d->ps;
  size_t i, k;

  for (i = 0; i < n; ++i) {
    const struct miss *m = &miss[i];

    if (m->dst == NULL)
      continue;
    for (k = 0; k < b->n; ++k) {
      const uint64_t at = b->disk[k];
      const uint64_t start = MAX (at, m->disk);
      const uint64_t end = MIN (at + ps, m->disk + m->len);

      if (start < end)
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
  size_t pages = 0, i;
  int r;

  for (i = 0; i < n; ++i)
    pages += miss_pages (d, &miss[i]);
  r = batch_init (&b, d, MIN (pages, (size_t) BATCH_PAGES));
  for (i = 0; i < n && r == 0;) {
    const size_t from = i;
    bool others = false, no_room;

    b.n = 0;
    do
      r = announce (&b, &miss[i++], &others);
    while (r == 0 && i < n
           && b.n + miss_pages (d, &miss[i]) <= BATCH_PAGES);
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
