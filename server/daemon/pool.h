/* daemon: the worker pool with fair queues.
 *
 * Work that may block runs here.  Jobs queue in lanes (a connection), lanes
 * belong to groups (an export).  Workers take from the groups in turn, and
 * inside a group from its lanes in turn, so neither a busy export nor a busy
 * connection starves another.  A lane runs at most `width` jobs at once: one
 * for plugins that want requests of a connection one after the other.
 *
 * Waking a thread costs more than many a job.  How long the jobs of a group
 * take is measured: as long as they are quick, one worker does several in a
 * row, another is woken only when the queue is long, and what is finished is
 * delivered together.  Where jobs wait for something every job gets a worker
 * of its own, and its result is delivered at once.  When quick jobs turn out
 * slow, pool_kick finds the queue standing still.
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
};
STAILQ_HEAD (pool_jobs, pool_job);

/* Takes jobs that have run, in that order, when the pool has let go of their
 * lanes: whoever is told may end lanes and jobs.
 */
typedef void pool_deliver_fn (struct pool_jobs *);

struct pool_lane {
  /* Set by pool_lane_init. */
  struct pool_group *group;
  unsigned width;
  /* Protected by the pool's lock. */
  struct pool_jobs jobs;
  TAILQ_ENTRY (pool_lane) link;
  unsigned running;
  bool queued;                 /* in the group's list of ready lanes */
};

/* EXCLUSIVE: one job at a time in the whole pool (a plugin that serialises
 * all requests).
 */
extern struct pool *pool_new (unsigned threads, bool exclusive,
                              pool_deliver_fn *);
/* Runs what is queued, then joins the threads.  Accepts NULL. */
extern void pool_free (struct pool *);

/* The group NAME, made if need be; referenced.  NULL: out of memory. */
extern struct pool_group *pool_group_get (struct pool *, const char *name);
extern void pool_group_put (struct pool *, struct pool_group *);

extern void pool_lane_init (struct pool_lane *, struct pool_group *,
                            unsigned width);
/* All JOBS, which is empty then.  True: some wait for workers that are at
 * work; call pool_kick in a while.
 */
extern bool pool_submit (struct pool *, struct pool_lane *,
                         struct pool_jobs *);
/* If no job has been taken since *SEEN was written by the last call, more
 * workers are woken.  True: there still are jobs that wait, call it again.
 */
extern bool pool_kick (struct pool *, uint64_t *seen);

#endif /* BTRNBDD_DAEMON_POOL_H */
