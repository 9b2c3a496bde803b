/* fs: regrouping in the background.
 *
 * The thread sleeps until data/ has noted that something was changed.  Then
 * it waits for a quiet time, and works as long as it lasts, at a bounded rate.
 * Once, after a longer quiet time, it looks at all files, because notes do not
 * outlive the pool.  When space gets short it does not wait for that, but
 * works slowly.  Between two steps it holds nothing, not even the file
 * (inode_visit).
 */
#include <config.h>

#include <signal.h>
#include <time.h>

#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "fs/regroup.h"
#include "fs/regroup_scan.h"

#define LOOK_MS 100            /* activity is looked at that often */
#define QUIET_BYTES 65536      /* of clients, meanwhile, at most */
#define QUIET_LOOKS 10         /* so often before work begins */
#define RATE (64 * 1024 * 1024) /* bytes moved a second */
#define SHORT_RATE (4 * 1024 * 1024) /* with clients at work */
#define SHORT_MS 20            /* between two steps, also if there was nothing
                                  to move */
#define HELD_MS 1000
#define SHORT_SHARE 16         /* less than that part of the pool is free */
#define SCAN_AFTER 60          /* seconds of quiet until all files are seen */
#define BUSY_TRIES 20          /* at a place where somebody is at work */

struct pace {
  struct fs *fs;
  uint64_t seen;               /* activity at the last look */
  uint64_t looked;             /* ms */
  bool quiet;                  /* at work in a quiet time */
};

static uint64_t
now_ms (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return (uint64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Less than LOOK_MS of quiet says nothing. */
static bool
look (struct pace *p)
{
  const uint64_t now = now_ms (), seen = data_activity (p->fs->data);
  const uint64_t ms = MAX (now - p->looked, (uint64_t) 1);
  const bool quiet = (seen - p->seen) / ms <= QUIET_BYTES / LOOK_MS;

  if (ms >= LOOK_MS || !quiet) {
    p->looked = now;
    p->seen = seen;
  }
  return quiet;
}

static bool
is_short (struct fs *fs)
{
  struct space_numbers n;
  uint64_t gone;

  if (space_get_numbers (fs->space, SPACE_DATA, &n) < 0) {
    err_clear ();
    return false;
  }
  gone = n.used + n.reserved + n.pinned + n.held + n.may_use + n.readonly;
  return (n.total > gone ? n.total - gone : 0)
    + space_unallocated (fs->space) < n.total / SHORT_SHARE;
}

/* While an image is open what is moved would not get free, but count for what
 * it may hold.
 */
static bool
is_held (struct fs *fs)
{
  return space_held_generation (fs->space) != 0;
}

/* Wait until work may be done; false: the pool closes. */
static bool
wait_for_turn (struct pace *p)
{
  unsigned looks = 0;

  while (is_held (p->fs))
    if (!data_regroup_pause (p->fs->data, HELD_MS))
      return false;
  if (p->quiet && look (p))
    return data_regroup_pause (p->fs->data, 0);
  p->quiet = false;
  while (looks < QUIET_LOOKS) {
    if (is_short (p->fs))
      return data_regroup_pause (p->fs->data, SHORT_MS);
    if (!data_regroup_pause (p->fs->data, LOOK_MS))
      return false;
    looks = look (p) ? looks + 1 : 0;
  }
  p->quiet = true;
  return true;
}

static bool
rest (struct pace *p, uint64_t moved)
{
  const uint64_t rate = p->quiet ? RATE : SHORT_RATE;

  return data_regroup_pause (p->fs->data, moved * 1000 / rate);
}

static int
step (struct fs *fs, struct data_regroup_job *job, struct data_regrouped *ret)
{
  struct inode *in;
  int r;

  r = inode_visit (fs->inodes, job->root_id, job->ino, &in);
  if (r < 0)
    return r;
  r = data_regroup (fs->data, in, &job->start, job->end, ret);
  inode_leave (in);
  return r;
}

static bool
is_gone (int r)
{
  return r == -ERR_inode_missing || r == -ERR_subvol_missing;
}

static bool
is_hopeless (int r)
{
  return is_gone (r) || r == -ERR_aborted || r == -ERR_readonly
    || r == -ERR_nospace || r == -ERR_nospace_meta;
}

/* What fails is passed over; readers will be told. */
static bool
work_on (struct pace *p, struct data_regroup_job *job)
{
  unsigned tries = 0;
  uint64_t before, own;

  do {
    struct data_regrouped done = { .moved = 0 };
    int r;

    if (!wait_for_turn (p))
      return false;
    before = job->start;
    own = data_activity (p->fs->data);
    r = step (p->fs, job, &done);
    p->seen += data_activity (p->fs->data) - own; /* mostly our own reads */
    if (r < 0) {
      const bool hopeless = is_hopeless (r);

      if (is_gone (r))
        data_regroup_forget (p->fs->data, job);
      log_debug ("%s", err_text (r));
      err_clear ();
      if (hopeless)
        return true;
    }
    tries = done.busy ? tries + 1 : 0;
    if (!rest (p, done.moved)
        || (done.busy && !data_regroup_pause (p->fs->data, LOOK_MS)))
      return false;
    /* Who writes there notes it anew. */
    if (tries > BUSY_TRIES || (r < 0 && job->start == before))
      return true;
  } while (job->start < job->end);
  return true;
}

/* Until there is something noted, or it was quiet for long. */
static bool
is_idle (struct pace *p, uint64_t *quiet_since)
{
  const unsigned s = p->fs->opts.regroup_scan_after;
  const uint64_t ms = s == 0 ? SCAN_AFTER * 1000 : (uint64_t) s * 1000;

  if (!look (p))
    *quiet_since = now_ms ();
  return now_ms () - *quiet_since >= ms;
}

/* What is noted goes first.  False: the pool closes. */
static bool
scan_files (struct pace *p)
{
  struct regroup_scan scan = { .next = 0 };
  struct data_regroup_job job;
  uint64_t quiet_since = now_ms ();
  bool go_on = true, all = false;

  while (go_on && !all) {
    if (data_regroup_try (p->fs->data, &job)) {
      go_on = work_on (p, &job);
      continue;
    }
    if (!is_idle (p, &quiet_since)) {
      go_on = data_regroup_pause (p->fs->data, 10 * LOOK_MS);
      continue;
    }
    all = !regroup_scan_next (p->fs, &scan, &job);
    go_on = all || work_on (p, &job);
  }
  regroup_scan_done (&scan);
  return go_on;
}

static void *
thread_main (void *opaque)
{
  struct fs *fs = opaque;
  struct pace p = { .fs = fs };
  struct data_regroup_job job;

  pthread_setname_np (pthread_self (), "btrnbd-regroup");
  look (&p);
  if (!scan_files (&p))
    return NULL;
  while (data_regroup_next (fs->data, &job)) {
    look (&p);
    if (!work_on (&p, &job))
      break;
  }
  return NULL;
}

int
regroup_start (struct fs *fs)
{
  sigset_t all, old;
  int e;

  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &old);
  e = pthread_create (&fs->regroup_thread, NULL, thread_main, fs);
  pthread_sigmask (SIG_SETMASK, &old, NULL);
  if (e != 0)
    return err_new (ERR_thread, "regrouping");
  fs->regroup_started = true;
  return 0;
}

void
regroup_stop (struct fs *fs)
{
  if (!fs->regroup_started)
    return;
  data_regroup_stop (fs->data);
  pthread_join (fs->regroup_thread, NULL);
  fs->regroup_started = false;
}
