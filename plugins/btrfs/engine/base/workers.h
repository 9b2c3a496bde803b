/* base: a pool of worker threads with a bounded queue. */
#ifndef BTRNBD_BASE_WORKERS_H
#define BTRNBD_BASE_WORKERS_H

#include <stddef.h>

struct workers;

/* Embedded by its owner, who keeps it alive until FN has been entered. */
struct work {
  void (*fn) (struct work *);
  struct work *next;
};

/* THREADS >= 1.  Threads are named NAME (15 bytes at most). */
extern int workers_new (const char *name, unsigned threads,
                        struct workers **ret);
/* Runs what is queued, then joins.  Accepts NULL. */
extern void workers_free (struct workers *);
/* Never blocks: the queue is bounded by its users, who embed struct work. */
extern void workers_queue (struct workers *, struct work *);
/* Wait until nothing is queued or running. */
extern void workers_drain (struct workers *);
extern unsigned workers_threads (const struct workers *);

#endif /* BTRNBD_BASE_WORKERS_H */
