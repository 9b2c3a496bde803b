/* daemon: token buckets.
 *
 * A bucket is kept as the time at which it will be full again.  An operation
 * moves that time on by its cost.  It may be at most BURST ahead of now; who
 * comes then waits until it is.
 */
#include <config.h>

#include <time.h>

#include "daemon/throttle.h"

#define BURST_SECONDS 0.1      /* of the rate may come at once */

static double
steady_seconds (void)
{
  struct timespec t;

  clock_gettime (CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

void
throttle_init (struct throttle *t)
{
  *t = (struct throttle) { .limited = false };
  pthread_mutex_init (&t->lock, NULL);
}

void
throttle_done (struct throttle *t)
{
  pthread_mutex_destroy (&t->lock);
}

void
throttle_set (struct throttle *t, double ops, double bytes)
{
  const double now = steady_seconds ();

  pthread_mutex_lock (&t->lock);
  if (t->ops_rate != ops)
    t->ops_due = now;
  if (t->bytes_rate != bytes)
    t->bytes_due = now;
  t->ops_rate = ops;
  t->bytes_rate = bytes;
  t->limited = ops > 0 || bytes > 0;
  pthread_mutex_unlock (&t->lock);
}

/* The wait in one bucket; the cost is taken in any case. */
static double
book (double *due, double rate, double cost, double now)
{
  double wait;

  if (rate <= 0)
    return 0;
  if (*due < now)
    *due = now;
  wait = *due - now - BURST_SECONDS;
  *due += cost / rate;
  return wait > 0 ? wait : 0;
}

double
throttle_book (struct throttle *t, uint64_t bytes)
{
  const double now = steady_seconds ();
  double ops_wait, bytes_wait;

  pthread_mutex_lock (&t->lock);
  ops_wait = book (&t->ops_due, t->ops_rate, 1, now);
  bytes_wait = book (&t->bytes_due, t->bytes_rate, bytes, now);
  pthread_mutex_unlock (&t->lock);
  return ops_wait > bytes_wait ? ops_wait : bytes_wait;
}

bool
throttle_is_idle (struct throttle *t)
{
  const double now = steady_seconds ();
  bool idle;

  pthread_mutex_lock (&t->lock);
  idle = t->ops_due <= now && t->bytes_due <= now;
  pthread_mutex_unlock (&t->lock);
  return idle;
}
