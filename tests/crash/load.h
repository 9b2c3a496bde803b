/* A random load on a pool, entered in a journal. */
#ifndef BTRNBD_TESTS_CRASH_LOAD_H
#define BTRNBD_TESTS_CRASH_LOAD_H

#include "crash/journal.h"

struct load {
  struct journal *j;
  struct btrnbd_pool *pool;
  uint64_t seed;
  unsigned ops;                /* naming and data operations of one thread */
  unsigned threads;            /* more of them, each on a file of its own */
  unsigned subvols;            /* so many hold the files of the threads */
  bool snapshots;              /* of volumes, not with LOG */
  bool log;                    /* more names and fsyncs, few commits */
  uint64_t file_max;           /* bytes */
  bool errors_allowed;         /* faults are being injected */
  bool early;                  /* tree blocks are written early (early.h) */
  bool full_allowed;           /* the pool is small: ENOSPC is an answer */
  unsigned full;               /* such answers; atomic */
  uint64_t regrouped;          /* bytes that were moved; atomic */
  bool verbose;
};

/* False and a line on stderr when the engine failed without leave. */
extern bool load_run (struct load *);

/* The same few operations every time, one of each kind. */
extern bool load_scenario (struct load *);

/* splitmix64 */
extern uint64_t load_rand (uint64_t *state);

#endif /* BTRNBD_TESTS_CRASH_LOAD_H */
