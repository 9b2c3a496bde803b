/* block: the cache of tree blocks.
 *
 * A block is one buffer of nodesize bytes at a logical address.
 *
 *   absent -> clean (read and verified) -> evicted
 *          -> dirty (made by block_new in the running transaction)
 *               -> sealed (written early, before its transaction commits)
 *               -> written (write-out of that generation done) == clean
 *               -> dropped (freed before it was written)
 *
 * Blocks of earlier transactions are immutable: whoever wants to change one
 * makes a copy at a new address (COW).  A dirty block is changed only under
 * the exclusive lock of the tree that owns it.  Therefore write-out of a
 * committed generation needs no tree lock.  Leaves of the running transaction
 * that nobody needs at the moment may be written early: they are sealed under
 * the lock of their tree, and from then on copied like older ones.  Their
 * addresses are not used again before the commit, whoever frees them.
 *
 * A reference (block_get / block_put) keeps the buffer; clean unreferenced
 * blocks may be evicted at any time.  Dirty blocks take the room of clean ones
 * within the budget, and may go beyond it: who fills transactions writes some
 * early, or commits in time (block_cache_dirty_bytes).
 */
#ifndef BTRNBD_BLOCK_BLOCK_H
#define BTRNBD_BLOCK_BLOCK_H

#include "format/tree_block.h"
#include "volume/volume.h"

struct block_cache;

struct block {
  /* Constant. */
  uint64_t bytenr;
  uint8_t *data;             /* nodesize bytes, IO_MEM_ALIGN aligned */
  /* Of btree/: that of the tree that made it, see struct tree; 0 when read. */
  uint64_t epoch;
  /* Managed by the cache; read through the functions below. */
  struct block_priv *priv;
};

extern int block_cache_new (struct volume *, size_t budget_bytes,
                            struct block_cache **ret);
extern void block_cache_free (struct block_cache *); /* drops all */
/* From now on prefetches run there; NULL (the default): in their caller.
 * Waits for those under way: the old pool may go afterwards.
 */
struct workers;
extern void block_cache_set_workers (struct block_cache *, struct workers *);

/* The block that EXPECT describes, verified against it (also when it was in
 * the cache).  Bad copies are retried on the other mirrors and repaired.
 */
extern int block_read (struct block_cache *, const struct tree_expect *,
                       struct block **ret);
/* Only if present and valid: never does I/O. */
extern bool block_peek (struct block_cache *, const struct tree_expect *,
                        struct block **ret);
/* Hint: read in the background, errors ignored. */
extern void block_prefetch (struct block_cache *, const struct tree_expect *,
                            size_t n);
/* The same, done when it returns, all at once. */
extern void block_prefetch_wait (struct block_cache *,
                                 const struct tree_expect *, size_t n);

/* Into BUF, nodesize bytes, past the cache: for a chunk source, whose rules
 * it keeps (volume/volume.h).
 */
extern int block_read_mapped (struct block_cache *,
                              const struct tree_expect *, void *buf);

/* A new dirty block, contents tb_init'ed from IDENT (whose generation is the
 * running transaction's).  A stale clean block at that address is dropped; a
 * dirty one there is an error of the allocator (-ERR_invalid).
 */
extern int block_new (struct block_cache *, const struct tb_ident *,
                      struct block **ret);

/* The same with the items of FROM.  Only the number of items is taken from
 * the header of FROM: that may be getting its checksum from write-out at this
 * moment.
 */
extern int block_new_copy (struct block_cache *, const struct tb_ident *,
                           const struct block *from, struct block **ret);

extern struct block *block_get (struct block *);
extern void block_put (struct block *); /* accepts NULL */

static inline void
block_putp (struct block **b)
{
  block_put (*b);
}
#define CLEANUP_BLOCK_PUT __attribute__ ((cleanup (block_putp)))

/* Dirty and of the transaction TRANSID and not yet handed to write-out, that
 * is: may be changed in place.
 */
extern bool block_is_writable (const struct block *, uint64_t transid);
/* A dirty block of the *running* transaction (never of the one before, which
 * still has to reach the disk) is being freed: it will not be written.  No
 * effect on a clean one.  Must come before its address may be allocated again.
 */
extern void block_drop (struct block_cache *, struct block *);
/* A clean block that has been replaced by a copy and is of little use until
 * its address is freed by the commit: next in line to be evicted.
 */
extern void block_demote (struct block_cache *, struct block *);
/* Forget a clean block whose address has been freed by a commit. */
extern void block_forget (struct block_cache *, uint64_t bytenr);

/* Write all dirty blocks of generation TRANSID: check contents, checksum,
 * write in batches sorted by address, wait.  Any failure is returned after
 * all writes have finished; the blocks then stay dirty.  On success they are
 * clean.  Not a flush.  *ret_bytes (may be NULL): bytes handed to volume.
 */
extern int block_write_out (struct block_cache *, uint64_t transid,
                            uint64_t *ret_bytes);
/* The tree that seems to have most leaves of TRANSID that can be sealed; 0:
 * none.  Never a log tree.
 */
extern uint64_t block_early_owner (struct block_cache *, uint64_t transid);
/* Seal up to MAX leaves of TRANSID of the tree OWNER, those first that were
 * made dirty first, with a reference each; the tree's lock is held (shared is
 * enough).
 */
extern size_t block_seal_some (struct block_cache *, uint64_t transid,
                               uint64_t owner, struct block **, size_t max);
/* Write those of them that nobody has written or dropped meanwhile, and give
 * up the references.  After an error they are still dirty, and the commit
 * tries again.
 */
extern int block_write_sealed (struct block_cache *, struct block **,
                               size_t n);
/* Write a given set of blocks (log trees), same rules, and something else in
 * the same go; NULL: nothing.  What of OPS has not been run keeps its result.
 */
#define BLOCK_BESIDE_MAX 64
struct block_beside {
  const struct btrfs_super *others; /* see volume_run_beside; or NULL */
  struct volume_op **ops;
  size_t n;
};
extern int block_write_set (struct block_cache *, struct block **, size_t n,
                            const struct block_beside *);
/* After an abort: dirty blocks of TRANSID become unreachable and are freed. */
extern void block_drop_all (struct block_cache *, uint64_t transid);

struct block_cache_stats {
  uint64_t hits, misses, reads, bytes_cached, bytes_dirty, repaired;
};
extern void block_cache_get_stats (struct block_cache *,
                                   struct block_cache_stats *ret);

/* Dirty blocks of the running transaction TRANSID (or of the one before the
 * last one, which is empty by then).
 */
extern uint64_t block_cache_dirty_bytes (struct block_cache *,
                                         uint64_t transid);

/* Of all transactions: what is not on disk yet. */
extern uint64_t block_cache_all_dirty_bytes (struct block_cache *);

extern struct volume *block_cache_volume (const struct block_cache *);
extern const struct format_info *
block_cache_format (const struct block_cache *);

#endif /* BTRNBD_BLOCK_BLOCK_H */
