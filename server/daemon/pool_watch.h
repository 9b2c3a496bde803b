/* daemon: what the plugin tells about its pool, for the metrics.
 *
 * The plugin's methods may wait for a disk, so a thread of its own asks them,
 * and only when somebody wants to know.  Readers get the last answers, at
 * once or after a short wait for newer ones.
 */
#ifndef BTRNBDD_DAEMON_POOL_WATCH_H
#define BTRNBDD_DAEMON_POOL_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

struct plugin;

#define POOL_WATCH_SECONDS 2    /* answers of this age are good enough */
#define POOL_WATCH_WAIT_MS 1000
#define POOL_WATCH_EXPORTS 1000 /* that are listed */

struct pool_watch {
  const struct plugin *plugin;
  pthread_t thread;
  bool running;

  pthread_mutex_t lock;        /* protects all below */
  pthread_cond_t cond;         /* CLOCK_MONOTONIC */
  json_t *answers;             /* NULL: none yet */
  uint64_t asked;              /* stats_now when they were asked for */
  bool wanted, stop;
};

extern bool pool_watch_start (struct pool_watch *, const struct plugin *);
extern void pool_watch_stop (struct pool_watch *);
/* {"info":{},"df":{},"stats":{},"exports":[]}, referenced, and its age; NULL
 * when the plugin has no methods or has not answered yet.
 */
extern json_t *pool_watch_get (struct pool_watch *, double *ret_age);

#endif /* BTRNBDD_DAEMON_POOL_WATCH_H */
