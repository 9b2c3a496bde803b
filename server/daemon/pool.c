/* daemon: the worker pool.
 *
 * A lane is in its group's ready list while it has a job and room to run it;
 * a group is in the pool's ready list while it has a ready lane.  Taking a
 * job moves lane and group to the end of their lists.
 */
#include <config.h>

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/pool.h"

struct pool_group {
  TAILQ_ENTRY (pool_group) link, ready_link;
  TAILQ_HEAD (, pool_lane) ready;
  unsigned refs;
  bool queued;
  char name[];
};

struct pool {
  pthread_mutex_t lock;        /* protects all below and every lane */
  pthread_cond_t cond;
  TAILQ_HEAD (, pool_group) groups, ready;
  bool stop, exclusive;
  unsigned running, idle, nthreads;
  pthread_t *threads;
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
  lane_update (p, l);
  *ret_lane = l;
  return j;
}

static void
run_job (struct pool *p, struct pool_lane *lane, struct pool_job *j)
{
  if (p->idle > 0 && !TAILQ_EMPTY (&p->ready) && !p->exclusive)
    pthread_cond_signal (&p->cond);
  pthread_mutex_unlock (&p->lock);
  j->run (j);
  pthread_mutex_lock (&p->lock);
  lane->running--;
  p->running--;
  lane_update (p, lane);
  pthread_mutex_unlock (&p->lock);
  j->done (j);
  pthread_mutex_lock (&p->lock);
}

static void *
worker (void *opaque)
{
  struct pool *p = opaque;
  struct pool_lane *lane;
  struct pool_job *j;

  pthread_mutex_lock (&p->lock);
  for (;;) {
    j = pool_take (p, &lane);
    if (j != NULL)
      run_job (p, lane, j);
    else if (p->stop)
      break;
    else {
      p->idle++;
      pthread_cond_wait (&p->cond, &p->lock);
      p->idle--;
    }
  }
  pthread_mutex_unlock (&p->lock);
  return NULL;
}

struct pool *
pool_new (unsigned threads, bool exclusive)
{
  struct pool *p = calloc (1, sizeof *p);

  if (p == NULL)
    return NULL;
  pthread_mutex_init (&p->lock, NULL);
  pthread_cond_init (&p->cond, NULL);
  TAILQ_INIT (&p->groups);
  TAILQ_INIT (&p->ready);
  p->exclusive = exclusive;
  p->threads = calloc (threads, sizeof *p->threads);
  for (; p->threads && p->nthreads < threads; p->nthreads++)
    if (pthread_create (&p->threads[p->nthreads], NULL, worker, p) != 0)
      break;
  if (p->nthreads == 0) {
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
  pthread_cond_broadcast (&p->cond);
  pthread_mutex_unlock (&p->lock);
  for (i = 0; i < p->nthreads; ++i)
    pthread_join (p->threads[i], NULL);
  assert (TAILQ_EMPTY (&p->groups));
  free (p->threads);
  pthread_cond_destroy (&p->cond);
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

void
pool_submit (struct pool *p, struct pool_lane *l, struct pool_job *j)
{
  pthread_mutex_lock (&p->lock);
  assert (!p->stop);
  STAILQ_INSERT_TAIL (&l->jobs, j, link);
  lane_update (p, l);
  if (p->idle > 0)
    pthread_cond_signal (&p->cond);
  pthread_mutex_unlock (&p->lock);
}
