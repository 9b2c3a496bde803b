/* daemon: the rates of an export: token buckets for operations and bytes,
 * shared by all its connections.
 *
 * Whoever has a request books it and is told how long to wait.  A booking
 * stands: nobody who comes later is served earlier, and as a connection books
 * one request at a time, connections take turns.  Nothing polls: each wait is
 * known when it begins.  A request waits for the debt that others left, never
 * for its own size, so one of any size gets through.
 *
 * When rates change, debts at the old rate are forgotten; whoever waits must
 * be told to book anew.
 */
#ifndef BTRNBDD_DAEMON_THROTTLE_H
#define BTRNBDD_DAEMON_THROTTLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct throttle {
  atomic_bool limited;         /* a hint: false, nothing need be booked */
  pthread_mutex_t lock;        /* protects all below */
  double ops_rate, bytes_rate; /* per second; 0: no limit */
  double ops_due, bytes_due;   /* seconds: when what is booked is paid for */
};

extern void throttle_init (struct throttle *);
extern void throttle_done (struct throttle *);
/* Rates per second, 0: none.  A rate that stays keeps its debts. */
extern void throttle_set (struct throttle *, double ops, double bytes);
/* Book one operation with BYTES of payload.  Returns the seconds to wait
 * before it may be done, 0: none.
 */
extern double throttle_book (struct throttle *, uint64_t bytes);
/* Nothing is owed: a new one would be the same. */
extern bool throttle_is_idle (struct throttle *);

#endif /* BTRNBDD_DAEMON_THROTTLE_H */
