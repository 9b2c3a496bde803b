/* log: the tree log, which makes single files durable between commits.
 *
 * A log tree per subvolume holds copies of the items that the running
 * transaction changed of the inodes that were flushed; a log root tree points
 * to the log trees, the superblock to it.  Whoever opens the pool after a
 * crash replays the log on top of the last commit; the next commit makes the
 * log void.
 *
 * Log blocks are metadata extents that only memory knows: reserved while the
 * transaction runs, in no tree of the pool, given back by the commit.
 *
 * One thread at a time logs and syncs, for everybody who waits (group
 * commit).  In doubt, and after any error, the flush is a commit instead:
 * the log of that transaction is then closed for good.
 */
#ifndef BTRNBD_LOG_LOG_H
#define BTRNBD_LOG_LOG_H

#include "data/data.h"

struct logs;

struct logs_env {              /* all borrowed */
  struct block_cache *cache;
  struct trans *trans;
  struct roots *roots;
  struct space *space;
  /* Make the log that begins at block ROOT of LEVEL the pool's: its blocks
   * have been written; flushes the devices, then writes the first copy of
   * each superblock; returns when that is durable.
   */
  void *opaque;
  int (*write_super) (void *opaque, uint64_t root, unsigned level);
  /* Copies of the superblock of the last sync but the first: what is still to
   * be written before the next write_super, or NULL; the log writes it beside
   * its blocks and then tells whether that was done.
   */
  const struct btrfs_super *(*others_begin) (void *opaque);
  void (*others_end) (void *opaque, bool written);
};

extern int logs_new (const struct logs_env *, struct logs **ret);
/* Before the first flush. */
extern void logs_attach (struct logs *, struct data *);
/* Nobody uses the log any more; accepts NULL. */
extern void logs_free (struct logs *);

/* Everything that was written out of INODE (data_write_out) is durable when
 * this returns 0; times and the like only if not DATA_ONLY.  No lock and no
 * transaction handle may be held.
 */
extern int logs_flush (struct logs *, struct inode *, bool data_only);
/* The same, times left out, with what data_flush_begin has left to be written;
 * ends that.
 */
extern int logs_flush_data (struct logs *, struct inode *,
                            struct data_flush *);

/* A step of the commit of TXN, joins shut out: its log is void. */
extern int logs_commit (struct logs *, struct txn *);

struct logs_stats {
  uint64_t flushes;            /* calls of logs_flush with something to do */
  uint64_t syncs;              /* superblocks written for them */
  uint64_t commits;            /* flushes that became a commit */
  uint64_t blocks;             /* log blocks written */
};
extern void logs_get_stats (struct logs *, struct logs_stats *ret);

#endif /* BTRNBD_LOG_LOG_H */
