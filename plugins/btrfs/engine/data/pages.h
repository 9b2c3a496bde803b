/* data: the memory of the data cache, one arena of sector-sized pages.
 *
 * Clean cache, dirty data and buffers of reads under way all live here, so
 * the budget holds by construction.  Pages are named by number; memory that
 * was never used is not resident.
 */
#ifndef BTRNBD_DATA_PAGES_H
#define BTRNBD_DATA_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/lock.h"

#define PAGE_NONE UINT32_MAX

struct pages {
  uint8_t *base;
  size_t size;                 /* of a page, power of two */
  uint32_t count;
  struct mutex lock;           /* RANK_DATA_PAGES; protects all below */
  uint32_t used;               /* pages from here on were never given out */
  uint32_t num_free;
  uint32_t *free;              /* stack */
};

extern int pages_new (size_t bytes, size_t page_size, struct pages **ret);
extern void pages_free (struct pages *);

/* Up to N pages, neighbours ascending where possible; the number taken. */
extern size_t pages_take (struct pages *, uint32_t *ret, size_t n);
extern void pages_give (struct pages *, const uint32_t *page, size_t n);

static inline uint8_t *
page_mem (const struct pages *p, uint32_t page)
{
  return p->base + (size_t) page * p->size;
}

/* Fill IOV with N pages, neighbours joined; the number of entries. */
extern unsigned pages_iov (const struct pages *, const uint32_t *page,
                           size_t n, struct iovec *iov);

#endif /* BTRNBD_DATA_PAGES_H */
