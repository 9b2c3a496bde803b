/* base: a pool of worker threads.
 *
 * One queue, first in first out.  Work is embedded in its owner, so queueing
 * cannot fail; a thread does not touch a struct work after it entered FN.
 */
#include <config.h>

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/workers.h"

struct workers {
  /* Constant after workers_new. */
  unsigned nr_threads;
  pthread_t *threads;
  char name[16];

  struct mutex lock;            /* RANK_WORKERS, protects what follows */
  struct cond more;             /* work came, or stop */
  struct cond idle;             /* head is NULL and running is 0 */
  struct work *head, **tail;
  unsigned running, sleeping;
  bool stop;
};

static void *
worker_main (void *opaque)
{
  struct workers *w = opaque;
  struct work *work;

  pthread_setname_np (pthread_self (), w->name);
  mutex_lock (&w->lock);
  for (;;) {
    while (w->head == NULL && !w->stop) {
      ++w->sleeping;
      cond_wait (&w->more, &w->lock);
      --w->sleeping;
    }
    work = w->head;
    if (work == NULL)
      break;
    w->head = work->next;
    if (w->head == NULL)
      w->tail = &w->head;
    ++w->running;
    mutex_unlock (&w->lock);

    work->fn (work);
    lock_assert_below (RANK_NONE);
    err_clear ();

    mutex_lock (&w->lock);
    --w->running;
    if (w->running == 0 && w->head == NULL)
      cond_broadcast (&w->idle);
  }
  mutex_unlock (&w->lock);
  return NULL;
}

/* Join the first N threads and free everything. */
static void
stop_and_free (struct workers *w, unsigned n)
{
  mutex_lock (&w->lock);
  w->stop = true;
  cond_broadcast (&w->more);
  mutex_unlock (&w->lock);
  for (unsigned i = 0; i < n; ++i)
    pthread_join (w->threads[i], NULL);
  assert (w->head == NULL);
  cond_done (&w->idle);
  cond_done (&w->more);
  mutex_done (&w->lock);
  free (w->threads);
  free (w);
}

int
workers_new (const char *name, unsigned threads, struct workers **ret)
{
  struct workers *w;
  int r;

  assert (threads >= 1);
  w = calloc (1, sizeof *w);
  if (w == NULL)
    return err_new (ERR_nomem, "worker pool %s", name);
  w->threads = calloc (threads, sizeof w->threads[0]);
  if (w->threads == NULL) {
    free (w);
    return err_new (ERR_nomem, "worker pool %s", name);
  }
  snprintf (w->name, sizeof w->name, "%s", name);
  w->nr_threads = threads;
  w->tail = &w->head;
  mutex_init (&w->lock, RANK_WORKERS);
  cond_init (&w->more);
  cond_init (&w->idle);

  for (unsigned i = 0; i < threads; ++i) {
    r = pthread_create (&w->threads[i], NULL, worker_main, w);
    if (r != 0) {
      stop_and_free (w, i);
      return err_new (ERR_thread, "worker pool %s, thread %u of %u: errno %d",
                      name, i + 1, threads, r);
    }
  }
  *ret = w;
  return 0;
}

void
workers_free (struct workers *w)
{
  if (w != NULL)
    stop_and_free (w, w->nr_threads);
}

void
workers_queue (struct workers *w, struct work *work)
{
  SCOPED_LOCK (&w->lock);
  assert (!w->stop || w->running > 0);
  work->next = NULL;
  *w->tail = work;
  w->tail = &work->next;
  if (w->sleeping > 0)
    cond_signal (&w->more);
}

void
workers_drain (struct workers *w)
{
  SCOPED_LOCK (&w->lock);
  while (w->head != NULL || w->running > 0)
    cond_wait (&w->idle, &w->lock);
}

unsigned
workers_threads (const struct workers *w)
{
  return w->nr_threads;
}
