/* A thread that writes tree blocks of the running transaction early, all the
 * time, as a pool does that is short of memory.
 */
#ifndef BTRNBD_TESTS_LIB_EARLY_H
#define BTRNBD_TESTS_LIB_EARLY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/err.h"
#include "fs/api_priv.h"

struct early {
  struct btrnbd_pool *pool;
  bool stop;                   /* atomic */
  pthread_t thread;
};

static void *
early_main (void *opaque)
{
  const struct timespec pause = { .tv_nsec = 300000 };
  struct early *e = opaque;
  struct fs *fs = e->pool->fs;

  while (!__atomic_load_n (&e->stop, __ATOMIC_RELAXED)) {
    roots_write_early (fs->roots, trans_running_id (fs->trans), 0);
    err_clear ();
    nanosleep (&pause, NULL);
  }
  return NULL;
}

static inline void
early_start (struct early *e, struct btrnbd_pool *pool)
{
  *e = (struct early) { .pool = pool };
  if (pthread_create (&e->thread, NULL, early_main, e) != 0)
    abort ();
}

static inline void
early_stop (struct early *e)
{
  __atomic_store_n (&e->stop, true, __ATOMIC_RELAXED);
  pthread_join (e->thread, NULL);
}

#endif /* BTRNBD_TESTS_LIB_EARLY_H */
