/* block: what the files of this room share.
 *
 * The cache is cut into shards by a hash of the address.  A shard's mutex
 * protects its hash table, its queues, and `state`, `queue` and the links of
 * its blocks; it is never held during I/O.
 *
 * References: a block counts its users plus one for being in the table.  The
 * count goes up from one only under the shard's mutex, so an evictor that
 * holds it and sees one knows that nobody can reach the block.
 *
 * Eviction is S3-FIFO: clean blocks enter the small queue (a tenth of the
 * budget); those that were used again while in it move on to the main queue,
 * the others leave and their address stays behind in the ghost table; a
 * block that comes back while its ghost is there enters the main queue at
 * once.  The main queue gives one more round per use (at most three).  A scan
 * of the whole pool therefore passes through the small queue only.
 */
#ifndef BTRNBD_BLOCK_BLOCK_PRIV_H
#define BTRNBD_BLOCK_BLOCK_PRIV_H

#include <stdatomic.h>

#include "base/cleanup.h"
#include "base/containers.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/math.h"
#include "base/workers.h"
#include "block/block.h"
#include "block/pool.h"

enum block_state {
  BLOCK_READING,        /* in the table; its reader fills it, others wait */
  BLOCK_CLEAN,          /* in the table and in one of the two queues */
  BLOCK_DIRTY,          /* in the table and in a dirty list */
  BLOCK_GONE,           /* only its users know it */
};

enum block_queue { QUEUE_NONE, QUEUE_SMALL, QUEUE_MAIN };

#define BLOCK_FREQ_MAX 3

struct block_priv {
  struct block b;
  struct block_cache *cache;
  /* Copies of header fields; constant from the end of BLOCK_READING on. */
  uint64_t generation, owner;
  uint8_t level;

  atomic_uint refs;
  atomic_uchar freq;           /* uses since the last round of its queue */
  atomic_bool dirty;           /* state == BLOCK_DIRTY, for any reader */
  atomic_bool sealed;          /* handed to write-out */

  /* Protected by the shard's mutex. */
  enum block_state state;
  enum block_queue queue;
  struct block_priv *hash_next;
  TAILQ_ENTRY (block_priv) link; /* a queue, a dirty list, or a list of
                                    victims on their way out */
};

TAILQ_HEAD (block_list, block_priv);

#define BLOCK_DIRTY_LISTS 2    /* by transid modulo this */

struct block_shard {
  struct mutex lock;           /* RANK_BLOCK_CACHE */
  struct cond read_done;       /* a block left BLOCK_READING */
  struct block_priv **table;
  size_t table_size;           /* a power of two */
  size_t count;                /* blocks in the table */
  struct block_list small, main; /* oldest last */
  size_t nr_small, nr_main, nr_dirty;
  struct block_list dirty[BLOCK_DIRTY_LISTS];
  uint64_t *ghost;             /* addresses, one per hash slot; 0: none */
  size_t ghost_size;           /* a power of two */
};

struct block_cache {
  struct volume *volume;
  const struct format_info *format;
  uint32_t nodesize;
  size_t shard_capacity;       /* blocks in a shard: clean ones make way for
                                  dirty ones, down to an eighth of this */
  unsigned nr_shards;          /* a power of two */
  struct block_shard *shards;

  atomic_uint_fast64_t hits, misses, reads, repaired;
  atomic_uint_fast64_t nr_clean; /* blocks */
  atomic_uint_fast64_t nr_dirty[BLOCK_DIRTY_LISTS];
  atomic_uint_fast64_t nr_alive; /* blocks allocated */
  /* Highest generation that a block can have: that of the superblock at open
   * or of the newest block made since.
   */
  atomic_uint_fast64_t newest;
  atomic_uint next_early;      /* shard that early write-out goes on with */

  /* RANK_BLOCK_WRITE: a batch is being written.  While somebody holds it no
   * block becomes clean, so no commit can come to its end and no address can
   * be used again under a write that is on its way.
   */
  struct mutex write_lock;

  struct block_pool pool;

  struct mutex jobs_lock;      /* RANK_BLOCK_CACHE; protects all below */
  struct cond jobs_done;
  unsigned jobs;               /* prefetches queued or running */
  struct workers *workers;     /* NULL: prefetch reads at once */
};

static inline struct block_priv *
block_to_priv (const struct block *b)
{
  return b->priv;
}

/* cache.c */
extern struct block_shard *block_shard_of (struct block_cache *,
                                           uint64_t bytenr);
/* A block with one reference, in no table. */
extern struct block_priv *block_alloc (struct block_cache *, uint64_t bytenr);
extern void block_free (struct block_priv *);
/* All below: the shard's mutex is held. */
extern struct block_priv *block_lookup (struct block_shard *,
                                        uint64_t bytenr);
/* Takes the table's own reference. */
extern void block_hash (struct block_shard *, struct block_priv *);
/* Out of table, queue and list; the table's reference is now the caller's. */
extern void block_unhash (struct block_cache *, struct block_shard *,
                          struct block_priv *);
/* From BLOCK_READING or BLOCK_DIRTY; KNOWN: it has proven to be of use. */
extern void block_to_clean (struct block_cache *, struct block_shard *,
                            struct block_priv *, bool known);
/* Victims beyond the budget go to OUT, to be freed without the mutex; at most
 * STEPS blocks are looked at, because those in use cannot go: a cache full of
 * them is over its budget for a while.
 */
#define EVICT_STEPS_MAX 64
extern void block_evict (struct block_cache *, struct block_shard *,
                         size_t steps, struct block_list *out);
extern void block_free_list (struct block_list *);

#endif /* BTRNBD_BLOCK_BLOCK_PRIV_H */
