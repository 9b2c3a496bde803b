/* daemon: counters of requests, per event loop and export.
 *
 * A loop's counters are written by its thread only, with plain stores, and
 * may be read by any thread at any time: a sum is as of about now, and every
 * counter only grows.  Entries are added, never removed while serving, so
 * readers need no lock; their number is bounded, and exports beyond it share
 * one entry.
 */
#ifndef BTRNBDD_DAEMON_STATS_H
#define BTRNBDD_DAEMON_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct server;

enum stats_op { STATS_READ, STATS_WRITE, STATS_FLUSH, STATS_TRIM, STATS_ZERO,
                STATS_CACHE, STATS_STATUS, STATS_OPS };
extern const char *const stats_op_names[STATS_OPS];

/* Latencies: bucket 0 is below 2^8 ns, the next ones twice as far each, the
 * last has no bound.
 */
#define STATS_BUCKETS 28
#define STATS_BUCKET_FIRST 8   /* log2 of the upper bound of bucket 0, ns */

#define STATS_EXPORTS_MAX 1000
#define STATS_OTHERS "@others"  /* the entry of exports beyond */

struct stats_counters {
  _Atomic uint64_t requests, errors, bytes, ns;
  _Atomic uint64_t buckets[STATS_BUCKETS];
};

struct export_stats {
  struct export_stats *next;   /* constant */
  struct stats_counters op[STATS_OPS];
  _Atomic uint64_t attached, left; /* connections */
  char name[];
};

struct loop_stats {
  struct export_stats *_Atomic exports;
  unsigned count;              /* the loop's */
  _Atomic uint64_t connections, bytes_in, bytes_out;
};

static inline uint64_t
stats_now (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return (uint64_t) ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* By the loop's thread. */
static inline void
stats_add (_Atomic uint64_t *counter, uint64_t n)
{
  atomic_store_explicit (
    counter, atomic_load_explicit (counter, memory_order_relaxed) + n,
    memory_order_relaxed);
}

static inline unsigned
stats_bucket (uint64_t ns)
{
  const int log = 64 - __builtin_clzll (ns | 1); /* ns < 2^log */

  if (log <= STATS_BUCKET_FIRST)
    return 0;
  return log - STATS_BUCKET_FIRST < STATS_BUCKETS
    ? log - STATS_BUCKET_FIRST : STATS_BUCKETS - 1;
}

/* A request of BYTES that took NS. */
static inline void
stats_done (struct export_stats *e, enum stats_op op, uint64_t bytes,
            uint64_t ns)
{
  struct stats_counters *s = &e->op[op];

  stats_add (&s->requests, 1);
  stats_add (&s->bytes, bytes);
  stats_add (&s->ns, ns);
  stats_add (&s->buckets[stats_bucket (ns)], 1);
}

static inline void
stats_failed (struct export_stats *e, enum stats_op op)
{
  stats_add (&e->op[op].requests, 1);
  stats_add (&e->op[op].errors, 1);
}

extern void stats_init (struct loop_stats *);
extern void stats_free (struct loop_stats *);
/* By the loop's thread: the entry of export NAME.  NULL: no memory. */
extern struct export_stats *stats_export (struct loop_stats *,
                                          const char *name);

/* --- reading --- */

struct op_sum {
  uint64_t requests, errors, bytes, ns, buckets[STATS_BUCKETS];
};

struct export_sum {
  const char *name;            /* of the server, while it serves */
  uint64_t connections;        /* now */
  struct op_sum op[STATS_OPS];
};

/* Over all loops; exports by name. */
struct stats_sum {
  uint64_t connections, bytes_in, bytes_out;
  struct export_sum *exports;  /* owned */
  size_t count;
  struct op_sum total[STATS_OPS];
};

/* Any thread, while loops are there.  False: out of memory. */
extern bool stats_sum (struct server *, struct stats_sum *ret);
extern void stats_sum_done (struct stats_sum *);
/* The sums since EARLIER, of the same server; EARLIER may be zero. */
extern void op_sum_since (struct op_sum *, const struct op_sum *earlier);
extern void op_sum_add (struct op_sum *, const struct op_sum *);
/* The latency that a share Q (0 to 1) of requests did not exceed, seconds,
 * interpolated within its bucket; 0 without requests.
 */
extern double op_sum_quantile (const struct op_sum *, double q);
/* The upper bound of a bucket in seconds. */
extern double stats_bucket_bound (unsigned bucket);

#endif /* BTRNBDD_DAEMON_STATS_H */
