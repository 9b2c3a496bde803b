/* data: memory of the page arena that others use for a while.
 *
 * Lent pages are out of the arena and not resident.  Clean cache makes way
 * for them; dirty pages, half of the arena at most, and an eighth for reads
 * stay.
 */
#include <config.h>

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

#define STEP_BYTES (1024 * 1024)
#define LEAST_BYTES (64 * STEP_BYTES) /* smaller arenas lend nothing */

static int
page_cmp (const void *a, const void *b)
{
  const uint32_t *x = a, *y = b;

  return *x < *y ? -1 : *x > *y;
}

/* The memory of PAGE, sorted, goes back to the system. */
static void
discard (struct pages *p, const uint32_t *page, size_t n)
{
  size_t start, i;

  for (start = 0; start < n; start = i) {
    for (i = start + 1; i < n && page[i] == page[i - 1] + 1; ++i)
      ;
    (void) madvise (page_mem (p, page[start]), (i - start) * p->size,
                    MADV_DONTNEED);
  }
}

static bool
lend_some (struct data *d, size_t n)
{
  uint32_t *page = d->lent + d->num_lent;

  n = cache_take_pages (d->cache, page, n);
  qsort (page, n, sizeof *page, page_cmp);
  discard (d->pages, page, n);
  d->num_lent += n;
  return n > 0;
}

void
data_lend (struct data *d, uint64_t bytes)
{
  const size_t step = STEP_BYTES / d->ps;
  size_t want;

  if (d->lent == NULL
      || __atomic_exchange_n (&d->lending, true, __ATOMIC_ACQUIRE))
    return;
  want = MIN (bytes / d->ps, (uint64_t) d->max_lent) / step * step;
  while (d->num_lent < want
         && lend_some (d, MIN (step, want - d->num_lent)))
    ;
  /* Not back and forth with every block. */
  if (d->num_lent > want + 8 * step || (want == 0 && d->num_lent > 0)) {
    pages_give (d->pages, d->lent + want, d->num_lent - want);
    d->num_lent = want;
  }
  __atomic_store_n (&d->lending, false, __ATOMIC_RELEASE);
}

int
lend_init (struct data *d)
{
  if ((uint64_t) d->pages->count * d->ps < LEAST_BYTES
      || (long) d->ps % sysconf (_SC_PAGESIZE) != 0)
    return 0;
  d->max_lent = d->pages->count / 8 * 3;
  d->lent = malloc (d->max_lent * sizeof *d->lent);
  return d->lent != NULL ? 0 : err_new (ERR_nomem, "data cache");
}

void
lend_done (struct data *d)
{
  free (d->lent);
}
