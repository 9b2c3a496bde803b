/* log: what the files of replay share. */
#ifndef BTRNBD_LOG_REPLAY_PRIV_H
#define BTRNBD_LOG_REPLAY_PRIV_H

#include "log/replay.h"

/* The log tree of one subvolume. */
struct replay_log {
  uint64_t root_id;
  struct tree_expect expect;   /* of its root block */
};

/* All log trees, highest subvolume id first; malloc'd. */
extern int replay_logs (const struct replay_env *, struct replay_log **ret,
                        size_t *ret_n);
/* Every block of the log, the log root tree included, read and checked. */
typedef int (*replay_block_fn) (void *opaque, uint64_t bytenr);
extern int replay_blocks (const struct replay_env *,
                          const struct replay_log *, size_t n,
                          replay_block_fn, void *opaque);
extern int replay_open (const struct replay_env *, const struct replay_log *,
                        struct tree **ret);

#endif /* BTRNBD_LOG_REPLAY_PRIV_H */
