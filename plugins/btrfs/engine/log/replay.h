/* log: replay of the log that a crash left behind.
 *
 * The log was written on top of the last commit, so it is replayed on top of
 * it, in one transaction; a crash before that is durable leaves the log as it
 * was, to be replayed again.
 *
 * Replayed are regular files whose names the log does not change: extents,
 * sizes, attributes.  A log with anything else is left alone: replay_check
 * says so before anything is changed.
 */
#ifndef BTRNBD_LOG_REPLAY_H
#define BTRNBD_LOG_REPLAY_H

#include "data/data.h"

struct replay_env {            /* all borrowed */
  struct block_cache *cache;
  struct trans *trans;
  struct roots *roots;
  struct space *space;
  struct inodes *inodes;
  struct data *data;
  const struct btrfs_super *super; /* with the log's root */
};

/* Can the whole log be read, and replayed?  -ERR_log_pending with a note
 * that names the subvolumes and inodes in it when not.  Writes nothing.
 * Needs cache and roots only.
 */
extern int replay_check (const struct replay_env *);
/* Replay, then commit. */
extern int replay_run (const struct replay_env *);

#endif /* BTRNBD_LOG_REPLAY_H */
