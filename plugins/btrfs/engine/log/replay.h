/* log: replay of the log that a crash left behind, ours or Linux's.
 *
 * The log was written on top of the last commit, so it is replayed on top of
 * it, in one transaction; a crash before that is durable leaves the log as it
 * was, to be replayed again.
 */
#ifndef BTRNBD_LOG_REPLAY_H
#define BTRNBD_LOG_REPLAY_H

#include "data/data.h"

struct replay_env {            /* all borrowed */
  struct block_cache *cache;
  struct trans *trans;
  struct roots *roots;
  struct space *space;
  struct extents *extents;
  struct inodes *inodes;
  struct data *data;
  const struct btrfs_super *super; /* with the log's root */
  void *pool;
  /* The commit shall set this incompat bit in the superblock. */
  void (*use_incompat) (void *pool, uint64_t bit);
};

/* Can the whole log be read?  NAMES, of SIZE bytes, names the subvolumes and
 * inodes in it, as far as they are known, also on error.  Writes nothing.
 * Needs cache and roots only.
 */
extern int replay_check (const struct replay_env *, char *names, size_t size);
/* Replay, then commit.  After an error nothing that was in memory may be
 * used: the transaction has been aborted.  Nobody else uses the pool.
 */
extern int replay_run (const struct replay_env *);

#endif /* BTRNBD_LOG_REPLAY_H */
