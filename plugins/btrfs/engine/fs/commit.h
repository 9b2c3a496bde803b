/* fs: the commit steps and the commit thread. */
#ifndef BTRNBD_FS_COMMIT_H
#define BTRNBD_FS_COMMIT_H

#include "extent/extent.h"

struct fs;
struct commit_ctx;

struct commit_stats {
  uint64_t commits, ns_total, ns_max;
  uint64_t ns_shut_total, ns_shut_max; /* while joins were shut out */
  uint64_t block_bytes;        /* of tree blocks handed to the volume */
};

/* The state that commits of FS share; starts from the superblock on disk. */
extern int commit_ctx_new (struct fs *, struct commit_ctx **ret);
extern void commit_ctx_free (struct commit_ctx *); /* accepts NULL */

extern const struct commit_step commit_steps[];
extern const unsigned commit_steps_shut, commit_steps_unblock;

/* The thread that commits by itself and runs delayed references early. */
extern int commit_thread_start (struct fs *);
extern void commit_thread_stop (struct fs *); /* no effect when not started */

/* Commit soon; does not wait. */
extern void commit_thread_kick (struct fs *);

extern void commit_get_stats (struct fs *, struct commit_stats *ret);

/* Fields of the superblock that other rooms change (features, label, ...):
 * FN edits the super that the next commit writes.
 */
extern void commit_edit_super (struct fs *,
                               void (*fn) (void *opaque, struct btrfs_super *),
                               void *opaque);

#endif /* BTRNBD_FS_COMMIT_H */
