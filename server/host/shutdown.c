/* host: the request to shut down, from a plugin or a signal. */
#include <config.h>

#include <pthread.h>
#include <time.h>

#include "host/plugin.h"

static struct {
  pthread_mutex_t lock;        /* protects all below */
  pthread_cond_t cond;         /* CLOCK_REALTIME: a static initialiser */
  bool requested;
  void (*fn) (void *);
  void *opaque;
} shutdown_state = {
  .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER,
};

void
host_shutdown_notify (void (*fn) (void *), void *opaque)
{
  pthread_mutex_lock (&shutdown_state.lock);
  shutdown_state.fn = fn;
  shutdown_state.opaque = opaque;
  if (shutdown_state.requested && fn)
    fn (opaque);
  pthread_mutex_unlock (&shutdown_state.lock);
}

void
host_shutdown_request (void)
{
  pthread_mutex_lock (&shutdown_state.lock);
  if (!shutdown_state.requested) {
    shutdown_state.requested = true;
    pthread_cond_broadcast (&shutdown_state.cond);
    if (shutdown_state.fn)
      shutdown_state.fn (shutdown_state.opaque);
  }
  pthread_mutex_unlock (&shutdown_state.lock);
}

bool
host_shutdown_wait (unsigned sec, unsigned nsec)
{
  struct timespec until;
  bool requested;
  int r = 0;

  clock_gettime (CLOCK_REALTIME, &until);
  until.tv_sec += sec;
  until.tv_nsec += nsec;
  if (until.tv_nsec >= 1000000000) {
    until.tv_sec++;
    until.tv_nsec -= 1000000000;
  }
  pthread_mutex_lock (&shutdown_state.lock);
  while (!shutdown_state.requested && r == 0)
    r = pthread_cond_timedwait (&shutdown_state.cond, &shutdown_state.lock,
                                &until);
  requested = shutdown_state.requested;
  pthread_mutex_unlock (&shutdown_state.lock);
  return requested;
}
