/* block: buffers of tree blocks.
 *
 * Copy on write takes and gives back thousands of them in each transaction.
 * They live in big mappings of their own, so that what is not needed any more
 * goes back to the system whatever lies around it.  A bounded number of free
 * buffers stays "hot" (with memory behind them) for the next ones who ask.
 */
#ifndef BTRNBD_BLOCK_POOL_H
#define BTRNBD_BLOCK_POOL_H

#include "base/lock.h"

struct block_pool {
  struct mutex lock;           /* RANK_BLOCK_CACHE; protects all below */
  size_t size;                 /* bytes of a buffer, constant */
  void *hot;                   /* linked through their first bytes */
  size_t hot_n, hot_max;
  void **cold;                 /* stack of buffers without memory */
  size_t cold_n;
  void **chunks;               /* mappings; as many places in `cold` as all of
                                  them have buffers */
  size_t chunks_n;
};

/* SIZE: a power of two from 4096 to 65536. */
extern void block_pool_init (struct block_pool *, size_t size,
                             size_t hot_max);
/* All buffers have been given back. */
extern void block_pool_done (struct block_pool *);
extern void *block_pool_take (struct block_pool *); /* NULL: no memory */
extern void block_pool_give (struct block_pool *, void *);

#endif /* BTRNBD_BLOCK_POOL_H */
