/* data: readahead of sequential streams, and prefetch.
 *
 * A stream is recognised when a read begins near where the last one ended
 * (requests of one stream may overtake each other).  The window doubles with
 * each read of the stream up to a limit; one readahead per file is under way
 * at a time.
 *
 * The limit is small where extents are large.  Where the last window was in
 * fragments it is eight times as much: of what was overwritten at random,
 * pieces that were written together lie side by side on disk, and the more of
 * the file is read at once, the more of them meet again (read_disk.c).
 */
#include <config.h>

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

#define READAHEAD_MIN (128 * 1024)
#define READAHEAD_MAX (4 * 1024 * 1024)
#define CONVOY_WINDOW (1024 * 1024) /* a long stream, and on */
#define READAHEAD_FRAGMENTED (32 * 1024 * 1024)
#define FRAGMENT (64 * 1024)   /* smaller places on disk, on the average */
#define LEAF_STEP (64 * 4096)  /* of so many fragments a leaf holds several */

/* Pieces that are to be read together. */
struct pieces {
  struct miss *v;
  size_t n, max;
  size_t pages, places;        /* of V; on disk, in all */
};

static int
read_pieces (struct file_data *f, struct pieces *p)
{
  int r = 0;

  if (p->n > 0)
    r = read_misses (f, p->v, p->n, file_has_csums (f));
  p->n = p->pages = 0;
  return r;
}

/* What goes on where the last one ended is in the same place. */
static int
add_piece (struct file_data *f, struct pieces *p, uint64_t disk, size_t len)
{
  struct miss *last = p->n > 0 ? &p->v[p->n - 1] : NULL;
  const bool same = last != NULL && last->disk + last->len == disk;
  const size_t pages = len / f->d->ps;
  int r = 0;

  if (!same)
    ++p->places;
  if (p->n == p->max || p->pages + pages > AHEAD_PAGES)
    r = read_pieces (f, p);
  else if (same && last->len + len <= MISS_MAX) {
    last->len += len;
    p->pages += pages;
    return 0;
  }
  p->v[p->n++] = (struct miss) { .disk = disk, .len = len };
  p->pages += pages;
  return r;
}

/* The leaves with the mappings, all at once. */
static void
prefetch_leaves (struct file_data *f, uint64_t offset, uint64_t end)
{
  struct key key[READAHEAD_FRAGMENTED / LEAF_STEP];
  size_t n = 0;

  for (; offset < end && n < ARRAY_SIZE (key); offset += LEAF_STEP)
    key[n++] = file_extent_key (f, offset);
  tree_prefetch_many (file_tree (f), key, n);
}

/* Bring [offset, end) into the cache as far as it is plain data on disk. */
static int
prefetch_pieces (struct file_data *f, uint64_t offset, uint64_t end,
                 struct pieces *p)
{
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
      r = add_piece (f, p, mapping_disk (&m, offset), stop - offset);
    }
    else if (m.kind == MAP_REGULAR) {
      uint8_t byte;
      bool done;

      r = read_compressed (f, &m, m.ext_offset + (offset - m.offset), 1,
                           &byte, false, &done);
    }
    offset = stop;
  }
  return r < 0 ? r : read_pieces (f, p);
}

static int
prefetch (struct file_data *f, uint64_t offset, uint64_t end)
{
  CLEANUP_FREE struct miss *miss = NULL;
  struct pieces p = { .n = 0 };
  int r;

  p.max = MIN ((end - offset) / f->d->ps, (uint64_t) AHEAD_PAGES);
  p.v = miss = malloc (p.max * sizeof *miss);
  if (miss == NULL)
    return err_new (ERR_nomem, "readahead");
  if (__atomic_load_n (&f->ra_most, __ATOMIC_RELAXED) > READAHEAD_MAX)
    prefetch_leaves (f, offset, end);
  r = prefetch_pieces (f, offset, end, &p);
  __atomic_store_n (&f->ra_most, end - offset < p.places * FRAGMENT
                    ? READAHEAD_FRAGMENTED : READAHEAD_MAX,
                    __ATOMIC_RELAXED);
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
  w = MIN (w, MAX ((uint64_t) __atomic_load_n (&f->ra_most,
                                               __ATOMIC_RELAXED),
                   (uint64_t) READAHEAD_MAX));
  w = MIN (w, (uint64_t) f->d->pages->count * f->d->ps / 8);
  __atomic_store_n (&f->ra_window, w, __ATOMIC_RELAXED);
  if (w >= CONVOY_WINDOW)
    convoy_note (f, MAX (end, next));
  have = MAX (__atomic_load_n (&f->ra_end, __ATOMIC_RELAXED), end);
  want = MIN (end + w, round_up (file_size (f), f->d->ps));
  /* In large steps: when half of the window is used up. */
  if (want > have && want - have >= w / 2 && !convoy_is_ahead (f, have))
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
