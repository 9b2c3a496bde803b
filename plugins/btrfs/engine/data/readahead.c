/* data: readahead of sequential streams, and prefetch.
 *
 * A stream is recognised when a read begins near where the last one ended
 * (requests of one stream may overtake each other).  The window doubles with
 * each read of the stream up to READAHEAD_MAX; one readahead per file is
 * under way at a time.
 */
#include <config.h>

#include <stdlib.h>

#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

#define READAHEAD_MIN (128 * 1024)
#define READAHEAD_MAX (4 * 1024 * 1024)

/* Bring [offset, end) into the cache as far as it is plain data on disk. */
static int
prefetch (struct file_data *f, uint64_t offset, uint64_t end)
{
  struct data *d = f->d;
  struct miss miss[64];
  size_t n = 0;
  int r = 0;

  while (offset < end && r == 0) {
    struct mapping m;
    uint64_t stop;

    r = map_lookup (f, offset, &m);
    if (r < 0)
      break;
    stop = MIN (end, m.offset + m.len);
    if (m.kind == MAP_REGULAR && m.compression == 0) {
      stop = MIN (stop, offset + MISS_MAX);
      miss[n++] = (struct miss) { .disk = mapping_disk (&m, offset),
                                  .len = stop - offset };
    }
    else if (m.kind == MAP_REGULAR) {
      uint8_t byte;
      bool done;

      r = read_compressed (f, &m, m.ext_offset + (offset - m.offset), 1,
                           &byte, false, &done);
    }
    offset = stop;
    if (n == ARRAY_SIZE (miss) || (n > 0 && offset >= end)) {
      r = read_misses (f, miss, n, file_has_csums (f));
      n = 0;
    }
  }
  if (r == 0 && n > 0)
    r = read_misses (f, miss, n, file_has_csums (f));
  (void) d;
  return r;
}

struct ahead {
  struct work work;
  struct file_data *f;
  uint64_t offset, end;
};

static void
run_ahead (struct work *w)
{
  struct ahead *a = container_of (w, struct ahead, work);
  struct file_data *f = a->f;

  /* A hint: whoever reads there meets the error again. */
  if (prefetch (f, a->offset, a->end) < 0)
    err_clear ();
  free (a);
  __atomic_store_n (&f->ra_busy, 0, __ATOMIC_RELEASE);
}

static void
start (struct file_data *f, uint64_t offset, uint64_t end)
{
  struct ahead *a;
  uint32_t idle = 0;

  if (!__atomic_compare_exchange_n (&f->ra_busy, &idle, 1, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    return;
  a = malloc (sizeof *a);
  if (a == NULL) {
    __atomic_store_n (&f->ra_busy, 0, __ATOMIC_RELEASE);
    return;
  }
  *a = (struct ahead) { .work.fn = run_ahead, .f = f, .offset = offset,
                        .end = end };
  __atomic_store_n (&f->ra_end, end, __ATOMIC_RELAXED);
  workers_queue (f->d->env.workers, &a->work);
}

void
readahead_note (struct file_data *f, uint64_t offset, size_t len)
{
  const uint64_t next = __atomic_load_n (&f->ra_next, __ATOMIC_RELAXED);
  const uint64_t window = __atomic_load_n (&f->ra_window, __ATOMIC_RELAXED);
  const uint64_t slack = MAX (window / 2, (uint64_t) 2 * len);
  const uint64_t end = offset + len;
  uint64_t w, have, want;

  if (f->d->env.workers == NULL)
    return;
  if (offset + slack < next || offset > next + slack) {
    /* Another stream, or none. */
    __atomic_store_n (&f->ra_next, end, __ATOMIC_RELAXED);
    if (window != 0) {
      __atomic_store_n (&f->ra_window, 0, __ATOMIC_RELAXED);
      __atomic_store_n (&f->ra_end, 0, __ATOMIC_RELAXED);
    }
    return;
  }
  if (end > next)
    __atomic_store_n (&f->ra_next, end, __ATOMIC_RELAXED);
  w = MAX (window * 2, (uint64_t) READAHEAD_MIN);
  w = MAX (w, (uint64_t) 2 * len);
  w = MIN (w, (uint64_t) READAHEAD_MAX);
  w = MIN (w, (uint64_t) f->d->pages->count * f->d->ps / 8);
  __atomic_store_n (&f->ra_window, w, __ATOMIC_RELAXED);
  have = MAX (__atomic_load_n (&f->ra_end, __ATOMIC_RELAXED), end);
  want = MIN (end + w, round_up (file_size (f), f->d->ps));
  /* In large steps: when half of the window is used up. */
  if (want > have && want - have >= w / 2)
    start (f, round_down (have, f->d->ps), want);
}

int
data_prefetch (struct data *d, struct inode *inode, uint64_t offset,
               uint64_t len)
{
  struct file_data *f;
  uint64_t end;
  int r;

  r = file_get (d, inode, &f);
  if (r == 0)
    r = file_check_range (f, offset, len);
  if (r < 0 || len == 0)
    return r;
  /* No more than the cache can keep. */
  end = MIN (offset + len, offset + (uint64_t) d->pages->count * d->ps / 4);
  r = prefetch (f, round_down (offset, d->ps), round_up (end, d->ps));
  /* A hint: who reads is told what is wrong there, and what has moved in the
   * meantime is nothing wrong.
   */
  if (r < 0)
    err_clear ();
  return 0;
}
