/* daemon: rates of the last minutes, kept in memory.
 *
 * The main loop takes a sample every HISTORY_SECONDS; readers in other
 * threads get copies.
 */
#ifndef BTRNBDD_DAEMON_HISTORY_H
#define BTRNBDD_DAEMON_HISTORY_H

#include <pthread.h>

#include <ev.h>
#include <jansson.h>

#include "daemon/stats.h"

#define HISTORY_SECONDS 2.0
#define HISTORY_SAMPLES 300     /* ten minutes */

struct sample {
  double time;                 /* seconds since the epoch */
  double reads, writes, others; /* requests per second */
  double read_bytes, written_bytes, errors; /* per second */
  double read_p99, write_p99;  /* seconds, of the interval */
  unsigned connections;
};

/* Rates of one export in the last interval. */
struct export_rate {
  const char *name;            /* of the counters */
  double reads, writes, others, read_bytes, written_bytes;
};

struct history {
  struct server *server;
  ev_timer timer;
  struct stats_sum last;       /* the main loop's */
  double last_time;

  pthread_mutex_t lock;        /* protects all below */
  struct sample ring[HISTORY_SAMPLES];
  unsigned next, count;
  struct export_rate *rates;   /* owned */
  size_t num_rates;
};

/* On the main loop, with loops running. */
extern void history_start (struct history *, struct server *);
extern void history_stop (struct history *);

/* Any thread. */
/* {"interval":...,"fields":[...],"samples":[[...],...]}, oldest first. */
extern json_t *history_json (struct history *);
/* {NAME: {"reads":...},...} of exports that did something. */
extern json_t *history_rates_json (struct history *);

#endif /* BTRNBDD_DAEMON_HISTORY_H */
