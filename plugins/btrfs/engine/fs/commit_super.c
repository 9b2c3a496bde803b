/* fs: superblocks of log syncs.
 *
 * A log sync writes the first copy alone, as Linux does: one barrier less.
 * But a crash that tears it during the next sync or commit must not lose what
 * this one has acknowledged.  So the other copies follow: before the first is
 * written over they are as it is, and durable.  The next sync writes them
 * beside its blocks, ahead of its first barrier; a commit does the same.
 */
#include <config.h>

#include "base/containers.h"
#include "base/err.h"
#include "fs/commit.h"
#include "fs/commit_priv.h"
#include "fs/core.h"

/* A sync and a commit never run beside each other: the leader of a sync holds
 * a handle of the next transaction, and has seen the commit before end.
 */
const struct btrfs_super *
commit_others_begin (void *opaque)
{
  struct fs *fs = opaque;
  struct commit_ctx *c = fs->commit;

  SCOPED_LOCK (&c->lock);
  return c->others_behind ? &c->synced : NULL;
}

void
commit_others_end (void *opaque, bool written)
{
  struct fs *fs = opaque;
  struct commit_ctx *c = fs->commit;

  SCOPED_LOCK (&c->lock);
  c->others_behind = !written;
}

/* After a crash the others may be older than the first, which the first
 * commit or sync writes over.
 */
void
commit_super_init (struct fs *fs, struct commit_ctx *c)
{
  c->synced = *volume_super (fs->volume);
  c->others_behind = true;
}

int
commit_flush (struct fs *fs)
{
  const struct btrfs_super *others = commit_others_begin (fs);

  if (others != NULL) {
    if (volume_write_supers (fs->volume, others, SUPER_OTHERS) < 0)
      err_clear (); /* only for want of memory, or read-only by a failure */
    commit_others_end (fs, true);
  }
  return fs_flush_devices (fs);
}

/* The superblock of the last commit, which is on disk as it is: the caller
 * holds a handle of the next transaction and has seen the last one end.
 */
int
commit_log_super (void *opaque, uint64_t root, unsigned level)
{
  struct fs *fs = opaque;
  struct commit_ctx *c = fs->commit;
  struct btrfs_super sb;
  int r;

  r = commit_flush (fs);
  if (r < 0)
    return r;
  {
    SCOPED_LOCK (&c->lock);
    sb = c->captured;
  }
  sb.log_root = le64_make (root);
  sb.log_root_level = level;
  r = volume_write_supers (fs->volume, &sb, SUPER_FIRST);
  if (r < 0)
    return r;
  SCOPED_LOCK (&c->lock);
  c->synced = sb;
  c->others_behind = true;
  return 0;
}
