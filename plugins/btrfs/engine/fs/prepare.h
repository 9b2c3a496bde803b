/* fs: steps of opening, see prepare.c; for open.c only. */
#ifndef BTRNBD_FS_PREPARE_H
#define BTRNBD_FS_PREPARE_H

#include "fs/core.h"

/* The next commit sets this incompat bit in the superblock. */
extern void prepare_use_incompat (void *fs, uint64_t bit);
/* From now on nothing is written; WHY is what the user is told. */
extern void fs_make_read_only (struct fs *, const char *why);

extern int prepare_relocation (struct fs *);
extern int prepare_replace (struct fs *);
extern int prepare_dev_stats (struct fs *);
/* Use the free space tree that is valid; make one when there is none, which
 * commits: after the replay of a log.
 */
extern int prepare_fst (struct fs *);
extern int prepare_fst_build (struct fs *);
extern int prepare_quota (struct fs *);

/* --- pending_log.c --- */

/* Before the volume is opened: read-only, with a log to be replayed into
 * memory.  DEVS may be exchanged.
 */
extern int prepare_overlays (struct fs *, struct device **devs, size_t n);
/* Can the log be read?  If not, the pool becomes read-only. */
extern int prepare_log_check (struct fs *);
/* An error with replay_failed: the steps are to be undone and run again, now
 * read-only.
 */
extern int prepare_log_replay (struct fs *);
/* All that is to be written to overlays has been. */
extern int prepare_end_overlays (struct fs *);

#endif /* BTRNBD_FS_PREPARE_H */
