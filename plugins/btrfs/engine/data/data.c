/* data: the room's context, the state of each file, background write-out. */
#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "data/regroup_priv.h"

#define CACHE_MIN (8 * 1024 * 1024)
#define DIRTY_AGE_MS 5000      /* dirty data older than this is written out */
#define FLUSHER_TICK_MS 1000

static void *flusher (void *);

static int
start_flushers (struct data *d)
{
  sigset_t all, old;
  int e = 0;

  if (d->env.read_only)
    return 0;
  /* Signals belong to the host's threads. */
  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &old);
  while (d->num_flushers < DATA_FLUSHERS && e == 0) {
    e = pthread_create (&d->flushers[d->num_flushers], NULL, flusher, d);
    if (e == 0)
      ++d->num_flushers;
  }
  pthread_sigmask (SIG_SETMASK, &old, NULL);
  return d->num_flushers > 0 ? 0 : err_new (ERR_thread, "data write-out");
}

int
data_new (const struct data_env *env, struct data **ret)
{
  struct data *d = calloc (1, sizeof *d);
  int r;

  if (d == NULL)
    return err_new (ERR_nomem, "data");
  d->env = *env;
  d->fmt = volume_format (env->volume);
  d->ps = d->fmt->sectorsize;
  d->ppf = CACHE_FRAME / d->ps;
  d->no_holes = (d->fmt->incompat & BTRFS_INCOMPAT_NO_HOLES) != 0;
  mutex_init (&d->lock, RANK_DATA);
  convoy_init (&d->convoy);
  cond_init (&d->progress);
  cond_init (&d->work);
  TAILQ_INIT (&d->dirty_files);
  r = pages_new (MAX (env->cache_bytes, (size_t) CACHE_MIN), d->ps,
                 &d->pages);
  if (r == 0)
    r = cache_new (d->pages, &d->cache);
  if (r == 0)
    r = lend_init (d);
  if (r == 0)
    r = regroup_new (env->regroup && !env->read_only, &d->regroup);
  if (r == 0) {
    d->dirty_limit = d->pages->count / 2;
    d->dirty_background = d->pages->count / 8;
    r = start_flushers (d);
  }
  if (r < 0) {
    data_free (d);
    return r;
  }
  *ret = d;
  return 0;
}

void
data_free (struct data *d)
{
  unsigned i;

  if (d == NULL)
    return;
  mutex_lock (&d->lock);
  d->stop = true;
  cond_broadcast (&d->work);
  mutex_unlock (&d->lock);
  for (i = 0; i < d->num_flushers; ++i)
    pthread_join (d->flushers[i], NULL);
  regroup_free (d->regroup);
  lend_done (d);
  cache_free (d->cache);
  pages_free (d->pages);
  cond_done (&d->work);
  cond_done (&d->progress);
  convoy_done (&d->convoy);
  mutex_done (&d->lock);
  free (d);
}

/* --- files --- */

static void
file_free (struct file_data *f)
{
  assert (f->num_dirty == 0);
  convoy_leave (f);
  regroup_file_left (f);
  map_clear (f);
  changed_done (f);
  cond_done (&f->dirty_cond);
  mutex_done (&f->dirty_lock);
  mutex_done (&f->map_lock);
  range_locks_done (&f->ranges);
  free (f);
}

int
file_get (struct data *d, struct inode *inode, struct file_data **ret)
{
  struct file_data *f, *other = NULL;

  f = __atomic_load_n (&inode->data, __ATOMIC_ACQUIRE);
  if (f != NULL) {
    *ret = f;
    return 0;
  }
  f = calloc (1, sizeof *f);
  if (f == NULL)
    return err_new (ERR_nomem, "file");
  f->d = d;
  f->inode = inode;
  range_locks_init (&f->ranges);
  mutex_init (&f->map_lock, RANK_EXTENT_MAP);
  mutex_init (&f->dirty_lock, RANK_DIRTY);
  cond_init (&f->dirty_cond);
  RB_INIT (&f->dirty);
  TAILQ_INIT (&f->batches);
  TAILQ_INIT (&f->holds);
  map_init (f);
  changed_init (f);
  if (!__atomic_compare_exchange_n (&inode->data, &other, f, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    file_free (f);
    f = other;
  }
  *ret = f;
  return 0;
}

int
file_check_range (const struct file_data *f, uint64_t offset, uint64_t len)
{
  /* Nothing else is addressed, whatever an inode on disk may claim. */
  const uint64_t size = MIN (file_size (f), DATA_FILE_END - CACHE_FRAME);

  if (offset > size || len > size - offset)
    return err_new (ERR_file_range, "%" PRIu64 " bytes at %" PRIu64
                    " of a file of %" PRIu64, len, offset, size);
  return 0;
}

int
file_check_writable (const struct file_data *f)
{
  if (f->d->env.read_only)
    return err_new (ERR_readonly, "inode %" PRIu64, f->inode->ino);
  return trans_check (f->d->env.trans);
}

int
file_get_for_change (struct data *d, struct inode *inode, uint64_t offset,
                     uint64_t len, struct file_data **ret)
{
  int r = file_get (d, inode, ret);

  if (r == 0)
    r = file_check_writable (*ret);
  if (r == 0)
    r = file_check_range (*ret, offset, len);
  return r;
}

/* Nobody else uses the inode any more, but a flusher may. */
static void
file_leave (struct file_data *f)
{
  struct data *d = f->d;

  SCOPED_LOCK (&d->lock);
  while (f->busy > 0)
    cond_wait (&d->progress, &d->lock);
}

/* Overwrites in place change no metadata, not to make every flush a commit;
 * the times of the file follow when it leaves memory.
 */
static void
stamp (struct file_data *f)
{
  struct inode *in = f->inode;
  struct txn *txn;
  int r;

  if (!__atomic_exchange_n (&f->stamp, false, __ATOMIC_RELAXED))
    return;
  mutex_lock (&in->lock);
  r = txn_begin (f->d->env.trans, 1, &txn);
  if (r == 0) {
    r = inode_finish_change (txn, f, 0, 0);
    if (r < 0)
      txn_abort (txn, r);
    r = txn_end (txn);
  }
  mutex_unlock (&in->lock);
  if (r < 0)
    err_clear ();
}

static void
leave (struct inode *inode, bool gone)
{
  struct file_data *f = inode->data;

  dirty_drop_all (f);
  if (!gone)
    stamp (f);
  file_leave (f);
  inode->data = NULL;
  file_free (f);
}

int
data_evict (void *data, struct inode *inode)
{
  struct file_data *f = inode->data;
  uint32_t nlink;
  int r;

  (void) data;
  if (f == NULL)
    return 0;
  while (__atomic_load_n (&f->ra_busy, __ATOMIC_ACQUIRE) != 0) {
    const struct timespec ts = { .tv_nsec = 1000000 };

    nanosleep (&ts, NULL); /* a read that was begun ends soon */
  }
  mutex_lock (&inode->lock);
  nlink = inode->nlink;
  mutex_unlock (&inode->lock);
  if (nlink > 0) {
    r = file_write_out (f, 0, DATA_FILE_END, UINT64_MAX);
    if (r < 0)
      return r;
  }
  leave (inode, nlink == 0);
  return 0;
}

void
data_drop (void *data, struct inode *inode)
{
  (void) data;
  if (inode->data != NULL)
    leave (inode, true);
}

/* --- write-out in the background --- */

static bool
too_much (const struct data *d)
{
  return __atomic_load_n (&d->dirty_pages, __ATOMIC_RELAXED)
    > d->dirty_background;
}

/* A file to work on, moved to the end of the list; d->lock held. */
static struct file_data *
choose (struct data *d)
{
  const uint64_t now = now_ms ();
  const bool much = too_much (d);
  struct file_data *f;

  TAILQ_FOREACH (f, &d->dirty_files, dirty_link)
    if (f->busy < DATA_FLUSHERS && now >= f->retry_at
        && !gate_is_closed (file_gate (f))
        && (much || now - f->dirty_since >= DIRTY_AGE_MS))
      break;
  if (f != NULL) {
    TAILQ_REMOVE (&d->dirty_files, f, dirty_link);
    TAILQ_INSERT_TAIL (&d->dirty_files, f, dirty_link);
    ++f->busy;
  }
  return f;
}

static void
release (struct data *d, struct file_data *f)
{
  --f->busy;
  f->dirty_since = now_ms ();
  cond_broadcast (&d->progress);
}

/* Work on F until it is clean as of now, or there is little left.  False:
 * nothing could be done (another flusher has all of it).
 */
static bool
work_on (struct data *d, struct file_data *f)
{
  const bool aged = !too_much (d);
  const uint64_t seq = dirty_now (f);
  bool any = false;

  while (!__atomic_load_n (&d->stop, __ATOMIC_RELAXED)
         && file_write_some (f, seq)) {
    any = true;
    if (!aged && !too_much (d))
      break;
  }
  return any;
}

static void *
flusher (void *opaque)
{
  struct data *d = opaque;

  pthread_setname_np (pthread_self (), "btrnbd-data");
  mutex_lock (&d->lock);
  while (!d->stop) {
    struct file_data *f = choose (d);
    bool any;

    if (f == NULL) {
      cond_timedwait (&d->work, &d->lock, FLUSHER_TICK_MS);
      continue;
    }
    mutex_unlock (&d->lock);
    any = work_on (d, f);
    mutex_lock (&d->lock);
    release (d, f);
    if (!any && !d->stop)
      cond_timedwait (&d->progress, &d->lock, 5);
  }
  mutex_unlock (&d->lock);
  return NULL;
}

/* --- write-out on demand --- */

int
data_write_out (struct data *d, struct inode *inode, uint64_t offset,
                uint64_t len)
{
  struct file_data *f;
  uint64_t end;

  if (d->env.read_only)
    return 0;
  f = __atomic_load_n (&inode->data, __ATOMIC_ACQUIRE);
  if (f == NULL)
    return 0;
  if (!add_ok (offset, len, &end) || end > DATA_FILE_END - d->ps)
    end = DATA_FILE_END - d->ps;
  return file_write_out (f, round_down (offset, d->ps),
                         round_up (end, d->ps), dirty_now (f));
}

/* A listed file that the sync GEN has not seen; d->lock held. */
static struct file_data *
next_to_sync (struct data *d, uint64_t gen)
{
  struct file_data *f;

  TAILQ_FOREACH (f, &d->dirty_files, dirty_link)
    if (f->sync_gen < gen)
      break;
  if (f != NULL) {
    f->sync_gen = gen;
    ++f->busy;
  }
  return f;
}

int
data_write_out_all (struct data *d)
{
  struct file_data *f;
  uint64_t gen;
  int r = 0, one;

  if (d->env.read_only)
    return 0;
  mutex_lock (&d->lock);
  gen = ++d->sync_gen;
  while ((f = next_to_sync (d, gen)) != NULL) {
    mutex_unlock (&d->lock);
    one = file_write_out (f, 0, DATA_FILE_END, dirty_now (f));
    mutex_lock (&d->lock);
    release (d, f);
    if (one < 0 && r == 0)
      r = one;
  }
  mutex_unlock (&d->lock);
  return r;
}

uint64_t
data_in_place (struct data *d)
{
  return __atomic_load_n (&d->stats.nocow_bytes, __ATOMIC_ACQUIRE);
}

uint64_t
data_activity (struct data *d)
{
  return __atomic_load_n (&d->stats.read_bytes, __ATOMIC_RELAXED)
    + d->ps * __atomic_load_n (&d->taken_pages, __ATOMIC_RELAXED);
}

void
data_get_stats (struct data *d, struct data_stats *ret)
{
  const struct data_stats *s = &d->stats;

  *ret = (struct data_stats) {
    .cache_bytes = cache_bytes (d->cache),
    .dirty_bytes = (uint64_t) d->ps
      * __atomic_load_n (&d->dirty_pages, __ATOMIC_RELAXED),
    .hits = __atomic_load_n (&s->hits, __ATOMIC_RELAXED),
    .misses = __atomic_load_n (&s->misses, __ATOMIC_RELAXED),
    .read_bytes = __atomic_load_n (&s->read_bytes, __ATOMIC_RELAXED),
    .written_bytes = __atomic_load_n (&s->written_bytes, __ATOMIC_RELAXED),
    .nocow_bytes = __atomic_load_n (&s->nocow_bytes, __ATOMIC_RELAXED),
    .extent_tree_searches
      = __atomic_load_n (&s->extent_tree_searches, __ATOMIC_RELAXED),
  };
}
