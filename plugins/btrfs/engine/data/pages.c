/* data: the arena of pages. */
#include <config.h>

#include <stdlib.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/math.h"
#include "data/pages.h"

int
pages_new (size_t bytes, size_t page_size, struct pages **ret)
{
  struct pages *p;
  size_t count = bytes / page_size;
  void *mem;

  if (count == 0 || count >= PAGE_NONE)
    return err_new (ERR_invalid, "data cache of %zu bytes", bytes);
  p = calloc (1, sizeof *p);
  if (p == NULL)
    return err_new (ERR_nomem, "data cache");
  p->free = malloc (count * sizeof *p->free);
  if (p->free == NULL) {
    free (p);
    return err_new (ERR_nomem, "data cache");
  }
  mem = mmap (NULL, count * page_size, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mem == MAP_FAILED) {
    free (p->free);
    free (p);
    return err_new (ERR_nomem, "data cache of %zu bytes", bytes);
  }
  /* Fewer TLB misses and cheaper pinning; memory is used from the start of
   * the arena on, so at most one huge page more is resident.
   */
  (void) madvise (mem, count * page_size, MADV_HUGEPAGE);
  p->base = mem;
  p->size = page_size;
  p->count = count;
  mutex_init (&p->lock, RANK_DATA_PAGES);
  *ret = p;
  return 0;
}

void
pages_free (struct pages *p)
{
  if (p == NULL)
    return;
  munmap (p->base, (size_t) p->count * p->size);
  mutex_done (&p->lock);
  free (p->free);
  free (p);
}

/* Pages are given back in ascending order mostly, so the top of the stack is
 * handed out from the back of RET forward.
 */
size_t
pages_take (struct pages *p, uint32_t *ret, size_t n)
{
  size_t from_stack, fresh, i;

  SCOPED_LOCK (&p->lock);
  from_stack = MIN (n, (size_t) p->num_free);
  for (i = 0; i < from_stack; ++i)
    ret[from_stack - 1 - i] = p->free[--p->num_free];
  fresh = MIN (n - from_stack, (size_t) (p->count - p->used));
  for (i = 0; i < fresh; ++i)
    ret[from_stack + i] = p->used++;
  return from_stack + fresh;
}

void
pages_give (struct pages *p, const uint32_t *page, size_t n)
{
  size_t i;

  if (n == 0)
    return;
  SCOPED_LOCK (&p->lock);
  for (i = 0; i < n; ++i)
    p->free[p->num_free++] = page[i];
}

unsigned
pages_iov (const struct pages *p, const uint32_t *page, size_t n,
           struct iovec *iov)
{
  unsigned cnt = 0;
  size_t i;

  for (i = 0; i < n; ++i) {
    uint8_t *mem = page_mem (p, page[i]);

    if (cnt > 0 && (uint8_t *) iov[cnt - 1].iov_base
        + iov[cnt - 1].iov_len == mem)
      iov[cnt - 1].iov_len += p->size;
    else
      iov[cnt++] = (struct iovec) { .iov_base = mem, .iov_len = p->size };
  }
  return cnt;
}
