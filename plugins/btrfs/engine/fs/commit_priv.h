/* fs: what the files of commits and of opening share. */
#ifndef BTRNBD_FS_COMMIT_PRIV_H
#define BTRNBD_FS_COMMIT_PRIV_H

#include "fs/core.h"

struct image;

struct commit_ctx {
  struct mutex lock;           /* RANK_SPACE; protects all below */
  struct btrfs_super super;    /* what the next capture starts from */
  struct btrfs_super captured; /* of the commit that is being written */
  struct btrfs_super synced;   /* of the last log sync */
  struct image *image;         /* whose commit the next one is, or NULL */
  bool capturing;              /* an image is told, without the lock */
  bool others_behind;          /* only the first copy on disk is `synced` */
  bool uuid_tree_current;      /* we found it in step and keep it so */
  struct commit_stats stats;
  uint64_t began, shut;        /* ns, of the running commit */

  /* The commit thread. */
  pthread_t thread;
  bool started, stop, kick;
  struct cond cond;
};

/* commit_super.c */
extern void commit_super_init (struct fs *, struct commit_ctx *);
/* Flush the devices before the first superblock is written over. */
extern int commit_flush (struct fs *);

/* The next commit that captures its superblock is IMAGE's (NULL: nobody's, and
 * no commit uses one on return).
 */
extern void commit_set_image (struct fs *, struct image *);

/* Hooks of trans/ and space/; opaque is the struct fs. */
extern void commit_finished (void *fs, uint64_t transid, int err);
extern int commit_log_super (void *fs, uint64_t root, unsigned level);
extern const struct btrfs_super *commit_others_begin (void *fs);
extern void commit_others_end (void *fs, bool written);
extern int commit_sys_chunk (void *fs, struct key,
                             const struct btrfs_chunk *, uint32_t size);

#endif /* BTRNBD_FS_COMMIT_PRIV_H */
