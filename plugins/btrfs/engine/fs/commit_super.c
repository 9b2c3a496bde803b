/* fs: superblocks of log syncs.
 *
 * A log sync writes the first copy alone, as Linux does: one barrier less.
 * But a crash that tears it during the next sync or commit must not lose what
 * this one has acknowledged.  So the other copies follow, by a worker, which
 * nobody waits for but the flush before the first copy is written over.
 */
#include <config.h>

#include "base/containers.h"
#include "base/err.h"
#include "fs/commit.h"
#include "fs/commit_priv.h"
#include "fs/core.h"

/* Returns when the other copies are as the first; they are not durable yet. */
static void
write_other_supers (struct fs *fs)
{
  struct commit_ctx *c = fs->commit;
  struct btrfs_super synced;

  mutex_lock (&c->lock);
  while (c->others_writing)
    cond_wait (&c->others_done, &c->lock);
  if (!c->others_behind) {
    mutex_unlock (&c->lock);
    return;
  }
  c->others_behind = false;
  c->others_writing = true;
  synced = c->synced;
  mutex_unlock (&c->lock);
  if (volume_write_supers (fs->volume, &synced, SUPER_OTHERS) < 0)
    err_clear (); /* only for want of memory, or read-only by a failure */
  mutex_lock (&c->lock);
  c->others_writing = false;
  cond_broadcast (&c->others_done);
  mutex_unlock (&c->lock);
}

static void
others_work (struct work *work)
{
  struct commit_ctx *c = container_of (work, struct commit_ctx, others_work);

  mutex_lock (&c->lock);
  c->others_queued = false;
  mutex_unlock (&c->lock);
  write_other_supers (c->fs);
}

void
commit_super_init (struct fs *fs, struct commit_ctx *c)
{
  c->fs = fs;
  c->others_work.fn = others_work;
  cond_init (&c->others_done);
  /* After a crash they may be older than the first, which the first commit or
   * sync writes over.
   */
  c->synced = *volume_super (fs->volume);
  c->others_behind = true;
}

void
commit_super_done (struct commit_ctx *c)
{
  cond_done (&c->others_done);
}

int
commit_flush (struct fs *fs)
{
  write_other_supers (fs);
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
  if (!c->others_queued) {
    c->others_queued = true;
    workers_queue (fs->workers, &c->others_work);
  }
  return 0;
}
