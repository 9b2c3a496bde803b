/* log: what the files of this room share.
 *
 * Everything here but the queue belongs to the leader, the one thread that
 * logs (sync.c), or to the commit while joins are shut out; neither can run
 * beside the other, because the leader holds a transaction handle.
 */
#ifndef BTRNBD_LOG_LOG_PRIV_H
#define BTRNBD_LOG_LOG_PRIV_H

#include "base/containers.h"
#include "log/log.h"

struct addrs {
  uint64_t *v;
  size_t n, cap;
};
extern int addrs_push (struct addrs *, uint64_t);
extern void addrs_done (struct addrs *);

/* The blocks of the log of one transaction.
 *
 *   free space -> fresh -> (written) -> stale -> (next sync durable)
 *        -> reusable -> fresh ...
 *
 * A block that a durable superblock may lead to is never written over: it is
 * stale from its replacement until the superblock of the next sync is
 * durable.
 */
struct log_blocks {
  struct tree_txn txn;         /* handed to btree/ */
  struct logs *logs;
  struct addrs all;            /* every address taken from free space */
  struct addrs fresh;          /* allocated since the last sync, unwritten */
  struct addrs stale;          /* replaced since the last sync */
  struct addrs reusable;       /* ascending */
  size_t wrote;                /* by the last sync */
};
extern const struct tree_alloc_ops log_alloc_ops;
/* Write what is fresh, beside the N operations DATA, which keep their results
 * when they are not run.  *ret_blocks: how many.
 */
extern int log_blocks_write (struct log_blocks *, struct volume_op **data,
                             size_t n, size_t *ret_blocks);
/* The sync that wrote them is durable. */
extern void log_blocks_synced (struct log_blocks *);
/* The commit of TXN gives all of them back (NULL: forget them). */
extern int log_blocks_release (struct log_blocks *, struct txn *);

struct log_tree {
  SLIST_ENTRY (log_tree) link;
  uint64_t root_id;            /* subvolume */
  struct tree *tree;
  bool changed;                /* since its root item was written */
};

struct request {
  TAILQ_ENTRY (request) link;
  struct inode *inode;
  bool done;
  bool commit;                 /* has to be committed instead */
  bool names_logged;           /* of its subvolume, for this batch */
  bool data_only;              /* as fdatasync: times need not be durable */
  /* Data that is written beside the log, or NULL; TAKEN: it has been, or has
   * failed; else it is still the caller's to write.
   */
  struct data_flush *data;
  bool taken;
  uint64_t transid;            /* that holds the changes; 0: durable already */
};
TAILQ_HEAD (requests, request);

struct logs {
  struct logs_env env;
  struct data *data;           /* see logs_attach */
  uint32_t sectorsize, csum_size;

  struct mutex lock;           /* RANK_FLUSH; protects the next few */
  struct cond changed;
  struct cond arrived;         /* for a leader that gathers a batch */
  struct requests waiting;
  size_t num_waiting;
  bool busy;                   /* there is a leader */
  size_t crowd;                /* requests in the last batch and behind it */
  size_t awaited;              /* requests that wake who gathers; 0: nobody */
  uint64_t arrival;            /* of the newest request, in ns */
  uint64_t batch_ns;           /* what the last batch took */
  unsigned alone;              /* leaders that shall not gather ... */
  unsigned in_vain;            /* ... and how many the next time */
  struct logs_stats stats;     /* atomic */

  /* The leader's. */
  uint64_t transid;            /* whose log this is; 0: none is begun */
  bool closed;                 /* commit instead, until the next transaction */
  struct log_blocks blocks;
  struct tree *root_tree;      /* log root tree, NULL until needed */
  SLIST_HEAD (, log_tree) trees;
};

/* --- file.c, names.c: copying to a log.  *ret_ok false: the log cannot say
 * it.  After an error the log is void.
 */

/* A regular file (lock held): everything that the transaction changed of it
 * but names of which log_names has not been told.  DATA_ONLY: an inode item
 * that only its times would change stays as it was logged.
 */
extern int log_file (struct logs *, struct log_tree *, struct inode *,
                     bool data_only, bool *ret_ok);
/* After log_file: extents that the file will have.  *ret_ok false: it will
 * not, and the log is as it was.
 */
extern int log_extents_to_be (struct logs *, struct log_tree *,
                              struct inode *, struct data_flush *,
                              bool *ret_ok);
/* Any other inode (lock held), without entries of a directory. */
extern int log_inode (struct logs *, struct log_tree *, struct inode *);
/* All names in ROOT that the transaction has changed and no log_names before
 * has copied.
 */
extern int log_names (struct logs *, struct log_tree *, struct inodes *,
                      struct root *, bool *ret_ok);
/* The items FIRST to LAST of FROM (lock shared) in place of those of LOG (lock
 * exclusive).
 */
extern int log_copy_items (struct logs *, struct tree *log,
                           struct tree *from, struct key first,
                           struct key last);

#endif /* BTRNBD_LOG_LOG_PRIV_H */
