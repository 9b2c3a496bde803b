/* daemon: the worker pool.
 *
 * A lane is in its group's ready list while it has a job and room to run it;
 * a group is in the pool's ready list while it has a ready lane.  Taking a
 * job moves lane and group to the end of their lists.
 */
#include <config.h>

#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/pool.h"
#include "daemon/stats.h"

#define QUICK_NS 20000         /* jobs that take less than this are quick */
#define QUICK_QUEUE 8          /* such jobs for each worker that is awake */
#define BATCH_MAX 16           /* jobs delivered together ... */
#define BATCH_NS 50000         /* ... since the first of them began */

struct pool_group {
  TAILQ_ENTRY (pool_group) link, ready_link;
  TAILQ_HEAD (, pool_lane) ready;
  unsigned refs;
  bool queued;
  uint64_t cost;               /* of its jobs, ns: a moving average */
  char name[];
};

/* A worker that sleeps is on the pool's stack: the last one to fall asleep is
 * the first to be woken, its memory is the warmest.  It sleeps at a semaphore
 * because glibc's condition variables leave the mutex marked as contended.
 */
struct worker {
  struct pool *pool;
  pthread_t thread;
  sem_t wake;
  SLIST_ENTRY (worker) link;   /* as below: the pool's lock */
};

struct pool {
  pool_deliver_fn *deliver;    /* these are constant */
  bool exclusive;
  unsigned cpus, nworkers;
  struct worker *workers;

  pthread_mutex_t lock;        /* protects all below and every lane */
  TAILQ_HEAD (, pool_group) groups, ready;
  bool stop;
  unsigned running;
  unsigned slow;               /* of those that run: not of quick groups */
  unsigned delivering;         /* workers; who has an answer asks again, and a
                                  worker may lose its CPU to who asks */
  SLIST_HEAD (, worker) sleepers;
  unsigned idle;               /* their number */
  unsigned woken;              /* that have not taken a job yet */
  size_t queued;               /* jobs that no worker has taken */
  uint64_t taken;              /* jobs so far */
};

/* What a worker has finished and not delivered. */
struct batch {
  struct pool_jobs jobs;
  unsigned count;
  uint64_t since;              /* ns */
};

/* Put the lane where it belongs after a change. */
static void
lane_update (struct pool *p, struct pool_lane *l)
{
  const bool ready = !STAILQ_EMPTY (&l->jobs) && l->running < l->width;
  struct pool_group *g = l->group;

  if (ready && !l->queued)
    TAILQ_INSERT_TAIL (&g->ready, l, link);
  else if (!ready && l->queued)
    TAILQ_REMOVE (&g->ready, l, link);
  l->queued = ready;
  if (!TAILQ_EMPTY (&g->ready) && !g->queued) {
    TAILQ_INSERT_TAIL (&p->ready, g, ready_link);
    g->queued = true;
  }
  else if (TAILQ_EMPTY (&g->ready) && g->queued) {
    TAILQ_REMOVE (&p->ready, g, ready_link);
    g->queued = false;
  }
}

static bool
is_quick (const struct pool_group *g)
{
  return g->cost < QUICK_NS;
}

/* Another worker, where that is worth its waking: to be signalled when the
 * lock is free.  Each that takes a job asks again.
 */
static struct worker *
wake_if_wanted (struct pool *p)
{
  const unsigned awake = p->nworkers - p->idle - p->slow - p->delivering;
  const struct pool_group *g = TAILQ_FIRST (&p->ready);
  struct worker *w = SLIST_FIRST (&p->sleepers);

  if (g == NULL || w == NULL || (p->exclusive && p->running > 0))
    return NULL;
  if (awake > 0 && is_quick (g) &&
      (awake >= p->cpus || p->queued <= (size_t) awake * QUICK_QUEUE))
    return NULL;
  SLIST_REMOVE_HEAD (&p->sleepers, link);
  p->idle--;
  p->woken++;
  return w;
}

static void
unlock_and_signal (struct pool *p, struct worker *w)
{
  pthread_mutex_unlock (&p->lock);
  if (w)
    sem_post (&w->wake);
}

/* Jobs wait, and nobody comes for them but who is at work. */
static bool
some_wait (const struct pool *p)
{
  return p->idle > 0 && p->queued > p->woken && !TAILQ_EMPTY (&p->ready);
}

/* The next job in turn, or NULL. */
static struct pool_job *
pool_take (struct pool *p, struct pool_lane **ret_lane)
{
  struct pool_group *g = TAILQ_FIRST (&p->ready);
  struct pool_lane *l;
  struct pool_job *j;

  if (g == NULL || (p->exclusive && p->running > 0))
    return NULL;
  l = TAILQ_FIRST (&g->ready);
  assert (l != NULL);
  j = STAILQ_FIRST (&l->jobs);
  STAILQ_REMOVE_HEAD (&l->jobs, link);
  TAILQ_REMOVE (&g->ready, l, link);
  l->queued = false;
  TAILQ_REMOVE (&p->ready, g, ready_link);
  g->queued = false;
  l->running++;
  p->running++;
  p->queued--;
  p->taken++;
  lane_update (p, l);
  *ret_lane = l;
  return j;
}

/* Lock held, but not while it delivers. */
static void
deliver (struct pool *p, struct batch *b)
{
  if (b->count == 0)
    return;
  p->delivering++;
  pthread_mutex_unlock (&p->lock);
  p->deliver (&b->jobs);
  STAILQ_INIT (&b->jobs);
  b->count = 0;
  pthread_mutex_lock (&p->lock);
  p->delivering--;
}

static void
run_job (struct pool *p, struct pool_lane *lane, struct pool_job *j,
         struct batch *b)
{
  struct pool_group *g = lane->group;
  const bool slow = !is_quick (g);
  uint64_t begin, end;

  p->slow += slow;
  if (slow)
    deliver (p, b);
  unlock_and_signal (p, wake_if_wanted (p));
  begin = stats_now ();
  j->run (j);
  end = stats_now ();
  pthread_mutex_lock (&p->lock);
  lane->running--;
  p->running--;
  p->slow -= slow;
  g->cost += ((int64_t) (end - begin) - (int64_t) g->cost) / 8;
  lane_update (p, lane);
  if (b->count++ == 0)
    b->since = begin;
  STAILQ_INSERT_TAIL (&b->jobs, j, link);
  if (b->count == BATCH_MAX || end - b->since > BATCH_NS)
    deliver (p, b);
}

static void
sleep_until_woken (struct pool *p, struct worker *w)
{
  SLIST_INSERT_HEAD (&p->sleepers, w, link);
  p->idle++;
  pthread_mutex_unlock (&p->lock);
  while (sem_wait (&w->wake) == -1)
    continue; /* a signal */
  pthread_mutex_lock (&p->lock);
  if (!p->stop)
    p->woken--;
}

static void *
worker_main (void *opaque)
{
  struct worker *w = opaque;
  struct pool *p = w->pool;
  struct batch b = { .jobs = STAILQ_HEAD_INITIALIZER (b.jobs) };
  struct pool_lane *lane;
  struct pool_job *j;

  pthread_mutex_lock (&p->lock);
  for (;;) {
    j = pool_take (p, &lane);
    if (j != NULL)
      run_job (p, lane, j, &b);
    else if (b.count > 0)
      deliver (p, &b);
    else if (p->stop)
      break;
    else
      sleep_until_woken (p, w);
  }
  pthread_mutex_unlock (&p->lock);
  return NULL;
}

static bool
start_worker (struct pool *p, struct worker *w)
{
  w->pool = p;
  sem_init (&w->wake, 0, 0);
  if (pthread_create (&w->thread, NULL, worker_main, w) == 0)
    return true;
  sem_destroy (&w->wake);
  return false;
}

struct pool *
pool_new (unsigned threads, bool exclusive, pool_deliver_fn *deliver_fn)
{
  struct pool *p = calloc (1, sizeof *p);

  if (p == NULL)
    return NULL;
  pthread_mutex_init (&p->lock, NULL);
  TAILQ_INIT (&p->groups);
  TAILQ_INIT (&p->ready);
  SLIST_INIT (&p->sleepers);
  p->deliver = deliver_fn;
  p->exclusive = exclusive;
  p->cpus = sysconf (_SC_NPROCESSORS_ONLN);
  p->workers = calloc (threads, sizeof *p->workers);
  while (p->workers && p->nworkers < threads &&
         start_worker (p, &p->workers[p->nworkers]))
    p->nworkers++;
  if (p->nworkers == 0) {
    pool_free (p);
    return NULL;
  }
  return p;
}

void
pool_free (struct pool *p)
{
  unsigned i;

  if (p == NULL)
    return;
  pthread_mutex_lock (&p->lock);
  p->stop = true;
  pthread_mutex_unlock (&p->lock);
  for (i = 0; i < p->nworkers; ++i)
    sem_post (&p->workers[i].wake);
  for (i = 0; i < p->nworkers; ++i) {
    pthread_join (p->workers[i].thread, NULL);
    sem_destroy (&p->workers[i].wake);
  }
  assert (TAILQ_EMPTY (&p->groups));
  free (p->workers);
  pthread_mutex_destroy (&p->lock);
  free (p);
}

struct pool_group *
pool_group_get (struct pool *p, const char *name)
{
  struct pool_group *g;

  pthread_mutex_lock (&p->lock);
  TAILQ_FOREACH (g, &p->groups, link)
    if (strcmp (g->name, name) == 0)
      break;
  if (g == NULL) {
    g = calloc (1, sizeof *g + strlen (name) + 1);
    if (g) {
      strcpy (g->name, name);
      TAILQ_INIT (&g->ready);
      TAILQ_INSERT_TAIL (&p->groups, g, link);
    }
  }
  if (g)
    g->refs++;
  pthread_mutex_unlock (&p->lock);
  return g;
}

void
pool_group_put (struct pool *p, struct pool_group *g)
{
  if (g == NULL)
    return;
  pthread_mutex_lock (&p->lock);
  if (--g->refs == 0) {
    assert (TAILQ_EMPTY (&g->ready) && !g->queued);
    TAILQ_REMOVE (&p->groups, g, link);
    free (g);
  }
  pthread_mutex_unlock (&p->lock);
}

void
pool_lane_init (struct pool_lane *l, struct pool_group *g, unsigned width)
{
  *l = (struct pool_lane) { .group = g, .width = width };
  STAILQ_INIT (&l->jobs);
}

bool
pool_submit (struct pool *p, struct pool_lane *l, struct pool_jobs *jobs)
{
  struct pool_job *j;
  struct worker *w;
  bool waiting;

  pthread_mutex_lock (&p->lock);
  assert (!p->stop);
  STAILQ_FOREACH (j, jobs, link)
    p->queued++;
  STAILQ_CONCAT (&l->jobs, jobs);
  lane_update (p, l);
  w = wake_if_wanted (p);
  waiting = some_wait (p);
  unlock_and_signal (p, w);
  return waiting;
}

bool
pool_kick (struct pool *p, uint64_t *seen)
{
  struct worker *w = NULL;
  struct pool_group *g;
  bool waiting;

  pthread_mutex_lock (&p->lock);
  g = TAILQ_FIRST (&p->ready);
  if (g != NULL && p->taken == *seen) {
    if (is_quick (g))
      g->cost = 2 * QUICK_NS;
    w = wake_if_wanted (p);
  }
  *seen = p->taken;
  waiting = some_wait (p);
  unlock_and_signal (p, w);
  return waiting;
}
