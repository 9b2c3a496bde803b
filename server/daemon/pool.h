/* daemon: the worker pool with fair queues.
 *
 * Work that may block runs here.  Jobs queue in lanes (a connection), lanes
 * belong to groups (an export).  Workers take from the groups in turn, and
 * inside a group from its lanes in turn, so neither a busy export nor a busy
 * connection starves another.  A lane runs at most `width` jobs at once: one
 * for plugins that want requests of a connection one after the other.
 *
 * Bounds: the queue is as long as the connections let it be (they stop
 * reading at their limits), the threads are fixed.
 */
#ifndef BTRNBDD_DAEMON_POOL_H
#define BTRNBDD_DAEMON_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct pool;
struct pool_group;

struct pool_job {
  STAILQ_ENTRY (pool_job) link;
  void (*run) (struct pool_job *);
  /* After run, when the pool has let go of the lane: whoever is told here may
   * end the lane and the job.
   */
  void (*done) (struct pool_job *);
};

struct pool_lane {
  /* Set by pool_lane_init. */
  struct pool_group *group;
  unsigned width;
  /* Protected by the pool's lock. */
  STAILQ_HEAD (, pool_job) jobs;
  TAILQ_ENTRY (pool_lane) link;
  unsigned running;
  bool queued;                 /* in the group's list of ready lanes */
};

/* EXCLUSIVE: one job at a time in the whole pool (a plugin that serialises
 * all requests).
 */
extern struct pool *pool_new (unsigned threads, bool exclusive);
/* Runs what is queued, then joins the threads.  Accepts NULL. */
extern void pool_free (struct pool *);

/* The group NAME, made if need be; referenced.  NULL: out of memory. */
extern struct pool_group *pool_group_get (struct pool *, const char *name);
extern void pool_group_put (struct pool *, struct pool_group *);

extern void pool_lane_init (struct pool_lane *, struct pool_group *,
                            unsigned width);
extern void pool_submit (struct pool *, struct pool_lane *,
                         struct pool_job *);

#endif /* BTRNBDD_DAEMON_POOL_H */
