/* data: the clean data cache.
 *
 * Keyed by where the data is on disk, so everything that shares an extent
 * shares its cached copy.  Frames of 64 KiB hold up to CACHE_PAGES pages; the
 * key of plain data is its logical address; the decompressed data of an
 * extent has keys of its own (cache_key_plain).  Sharded; each shard evicts
 * by S3-FIFO, weighted by pages.
 *
 * A page that is read from disk is announced first (cache_begin_read): other
 * readers wait for it instead of reading it too, and a writer of that address
 * who comes meanwhile (cache_put, cache_invalidate) makes the page unfit: it
 * is then not kept.
 */
#ifndef BTRNBD_DATA_CACHE_H
#define BTRNBD_DATA_CACHE_H

#include <stdbool.h>

#include "data/pages.h"

#define CACHE_FRAME 65536
#define CACHE_PAGES 16         /* most pages in a frame */

struct cache;

extern int cache_new (struct pages *, struct cache **ret);
extern void cache_free (struct cache *);

static inline uint64_t
cache_key (uint64_t logical)
{
  return logical & ~(uint64_t) (CACHE_FRAME - 1);
}
/* Frame N of the decompressed data of the extent at BYTENR (a multiple of
 * 4096; N < 4095).
 */
static inline uint64_t
cache_key_plain (uint64_t bytenr, unsigned n)
{
  return bytenr + 1 + n;
}

/* Copy the LEN bytes at OFFSET of a frame to DST, as far as they are there;
 * a mask of the pages that are not is returned.  DST may be NULL.
 */
extern unsigned cache_copy (struct cache *, uint64_t key, unsigned offset,
                            unsigned len, uint8_t *dst);
/* Of the pages in MASK, those that the caller must now read are returned;
 * the others are there or being read by somebody else.  0 also when out of
 * memory: then *ret_failed.
 */
extern unsigned cache_begin_read (struct cache *, uint64_t key, unsigned mask,
                                  bool *ret_failed);
/* The end of a read of pages MASK: PAGE[i] (i: bit) becomes the cache's, or
 * is given back when the page became unfit; PAGE_NONE: the read failed.
 * DEMAND: somebody asked for it (else readahead).
 */
extern void cache_end_read (struct cache *, uint64_t key, unsigned mask,
                            const uint32_t page[CACHE_PAGES], bool demand);
/* Wait until nobody reads pages of MASK. */
extern void cache_wait_read (struct cache *, uint64_t key, unsigned mask);

/* PAGE holds the data at LOGICAL: it becomes the cache's. */
extern void cache_put (struct cache *, uint64_t logical, uint32_t page);
/* What was cached of the range is void. */
extern void cache_invalidate (struct cache *, uint64_t logical, uint64_t len);

/* Up to N free pages, evicting; fewer when the rest is dirty or in use. */
extern size_t cache_take_pages (struct cache *, uint32_t *ret, size_t n);

extern uint64_t cache_bytes (struct cache *);

#endif /* BTRNBD_DATA_CACHE_H */
