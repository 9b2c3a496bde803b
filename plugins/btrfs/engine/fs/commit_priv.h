/* fs: what the files of commits and of opening share. */
#ifndef BTRNBD_FS_COMMIT_PRIV_H
#define BTRNBD_FS_COMMIT_PRIV_H

#include "fs/core.h"

struct commit_ctx {
  struct mutex lock;           /* RANK_SPACE; protects all below */
  struct btrfs_super super;    /* what the next capture starts from */
  struct btrfs_super captured; /* of the commit that is being written */
  bool uuid_tree_current;      /* we found it in step and keep it so */
  struct commit_stats stats;
  uint64_t began, shut;        /* ns, of the running commit */

  /* The commit thread. */
  pthread_t thread;
  bool started, stop, kick;
  struct cond cond;
};

/* Hooks of trans/ and space/; opaque is the struct fs. */
extern void commit_finished (void *fs, uint64_t transid, int err);
extern int commit_log_super (void *fs, uint64_t root, unsigned level);
extern int commit_sys_chunk (void *fs, struct key,
                             const struct btrfs_chunk *, uint32_t size);

#endif /* BTRNBD_FS_COMMIT_PRIV_H */
