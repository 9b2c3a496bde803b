/* fs: the thread that commits by itself.
 *
 * Every second it looks whether very many references are pending and runs
 * them, so that commits stay short; when it is told that memory is short it
 * sees to that; every commit interval it writes out data and
 * commits; after commits it drops deleted subvolumes and discards what they
 * freed.
 */
#include <config.h>

#include <limits.h>
#include <time.h>

#include "base/err.h"
#include "base/log.h"
#include "fs/commit_priv.h"
#include "fs/core.h"
#include "fs/image.h"
#include "fs/memory.h"

#define TICK_MS 1000

static uint64_t
now_s (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return ts.tv_sec;
}

static bool
stopping (void *opaque)
{
  struct fs *fs = opaque;

  SCOPED_LOCK (&fs->commit->lock);
  return fs->commit->stop;
}

static void
run_refs (struct fs *fs)
{
  size_t n = extents_pending (fs->extents);
  struct txn *txn;
  int r;

  if (n < memory_refs (fs) || txn_join (fs->trans, &txn) < 0)
    return;
  r = extents_run (fs->extents, txn, n, false);
  if (r < 0)
    txn_abort (txn, r);
  txn_end (txn);
}

static void
commit_if_dirty (struct fs *fs)
{
  /* What fails is told already, stays dirty, and fails again when flushed. */
  if (fs->data && data_write_out_all (fs->data) < 0)
    err_clear ();
  if (trans_is_dirty (fs->trans) && trans_commit (fs->trans, NULL) < 0)
    err_clear ();               /* the abort has been told already */
}

static void
clean (struct fs *fs)
{
  if (fs->subvols && subvols_have_dead (fs->subvols) &&
      subvols_drop_dead (fs->subvols, stopping, fs) < 0)
    err_clear ();
}

/* Unlinked inodes that a crash has left, in all subvolumes. */
static void
clean_orphans (struct fs *fs)
{
  int r = subvols_clean_orphans (fs->subvols, stopping, fs);

  if (r < 0)
    log_warning ("deleting what a crash left: %s", err_text (r));
  err_clear ();
}

static void *
thread_main (void *opaque)
{
  struct fs *fs = opaque;
  struct commit_ctx *c = fs->commit;
  unsigned interval = fs->opts.commit_interval;
  uint64_t next;
  bool kicked;

  if (interval == 0)
    interval = 30;
  clean_orphans (fs);
  next = now_s () + interval;
  for (;;) {
    mutex_lock (&c->lock);
    if (!c->stop && !c->kick)
      cond_timedwait (&c->cond, &c->lock, TICK_MS);
    kicked = c->kick;
    c->kick = false;
    if (c->stop) {
      mutex_unlock (&c->lock);
      return NULL;
    }
    mutex_unlock (&c->lock);
    if (trans_check (fs->trans) < 0) {
      err_clear ();
      continue;
    }
    run_refs (fs);
    if (kicked && memory_relieve (fs) < 0)
      err_clear ();             /* the abort has been told already */
    if (trans_is_dirty (fs->trans))
      space_grow (fs->space);
    clean (fs);
    images_tell (fs->images);
    space_discard (fs->space);
    if (interval != UINT_MAX && now_s () >= next) {
      commit_if_dirty (fs);
      next = now_s () + interval;
    }
    err_clear ();
  }
}

void
commit_thread_kick (struct fs *fs)
{
  struct commit_ctx *c = fs->commit;

  SCOPED_LOCK (&c->lock);
  if (!c->kick) {
    c->kick = true;
    cond_broadcast (&c->cond);
  }
}

int
commit_thread_start (struct fs *fs)
{
  struct commit_ctx *c = fs->commit;

  if (pthread_create (&c->thread, NULL, thread_main, fs) != 0)
    return err_new (ERR_thread, "commit thread");
  pthread_setname_np (c->thread, "btrnbd-commit");
  c->started = true;
  return 0;
}

void
commit_thread_stop (struct fs *fs)
{
  struct commit_ctx *c = fs->commit;

  if (c == NULL || !c->started)
    return;
  {
    SCOPED_LOCK (&c->lock);
    c->stop = true;
    cond_broadcast (&c->cond);
  }
  pthread_join (c->thread, NULL);
  c->started = false;
}
