/* daemon: the server: one plugin, its loops, listeners and workers. */
#ifndef BTRNBDD_DAEMON_SERVER_H
#define BTRNBDD_DAEMON_SERVER_H

#include <ev.h>
#include <pthread.h>
#include <stdatomic.h>

#include "daemon/awake.h"
#include "daemon/exports.h"
#include "daemon/peers.h"
#include "daemon/pool.h"
#include "daemon/stats.h"
#include "host/plugin.h"

struct conn;
struct control_server;
struct job;
struct loop_question;
struct metrics;
struct reload;
struct tls_server;

/* What one connection may hold: one more request is read below that.  More in
 * flight is not faster, and lies beside the plugin's caches.
 */
#define CONN_BYTES (16u << 20)

/* Limits; a reload may change them.  0 means none where it says so. */
struct limits {
  atomic_uint conn_requests;   /* requests in flight of a connection */
  atomic_size_t conn_bytes;    /* their payloads and unsent replies */
  atomic_size_t total_bytes;   /* the same over all connections */
  atomic_uint connections;     /* over all peers */
  atomic_uint peer_connections; /* of one peer; 0: none */
  atomic_uint handshake_seconds;
  atomic_uint idle_seconds;    /* 0: none */
  atomic_uint drain_seconds;
  atomic_uint awake_us;       /* see awake.h; 0: never */
};

struct listener {
  SLIST_ENTRY (listener) link;
  struct server *server;
  int fd;
  bool passed;                 /* by systemd: not ours to close on reload */
  bool kept;                   /* by the reload that is under way */
  char *spec;                  /* as given; for messages */
  char *unlink_path;           /* of a unix socket that we made, or NULL */
  dev_t dev;
  ino_t ino;                   /* of that file */
  ev_io watcher;
};

/* An event loop with its thread.  Everything of its connections is touched
 * by this thread only, except what says otherwise.
 */
struct loop {
  struct server *server;
  struct ev_loop *ev;
  pthread_t thread;
  ev_async wake;
  TAILQ_HEAD (, conn) conns;
  bool draining;
  unsigned reloads;            /* that its connections have seen */
  unsigned names;              /* as server.names, the same */
  TAILQ_HEAD (, conn) to_advance; /* after the batch of finished jobs */
  uint64_t now;                /* stats_now of the batch of finished jobs */
  ev_timer kick;               /* see pool_kick */
  uint64_t kick_seen;
  ev_check check;              /* takes up finished jobs in any event's wake */
  ev_timer collect;            /* ... or when no event comes */
  unsigned jobs;               /* with workers, of all its connections */
  struct awake awake;
  ev_idle idle;                /* active: it does not sleep */
  struct loop_stats stats;

  pthread_mutex_t lock;        /* protects all below */
  struct pool_jobs finished;
  bool woken;                  /* the loop will see to them now */
  TAILQ_HEAD (, conn) arriving;
  STAILQ_HEAD (, loop_question) questions;
  enum { LOOP_SERVE, LOOP_DRAIN, LOOP_CUT, LOOP_STOP } order;
  unsigned reloads_ordered;
};

struct server {
  /* Constant while serving. */
  struct plugin plugin;
  struct pool *pool;
  struct control_server *control; /* NULL: none */
  char *control_path;
  int control_listener;        /* until control_start */
  struct metrics *metrics;     /* NULL: none */
  int metrics_listener;        /* until metrics_start; -1: none */
  struct loop *loops;
  unsigned nloops;

  /* A reload changes these. */
  struct limits limits;
  struct exports exports;
  struct peers peers;
  pthread_mutex_t tls_lock;    /* protects tls */
  struct tls_server *tls;      /* NULL: no TLS; referenced */

  /* The main thread's, as all below that is not atomic. */
  enum handshake_tls_policy tls_policy;
  SLIST_HEAD (, listener) listeners;
  struct reload *reload;       /* NULL: nothing to read again */

  atomic_uint connections;     /* open ones */
  atomic_ulong next_conn_id;
  atomic_size_t bytes;         /* in flight or unsent, all connections */

  pthread_t names_thread;      /* the main thread's; see names.c */
  bool names_running;
  atomic_bool names_stop;

  atomic_uint names;           /* how often exports may have got other ones */

  double started;              /* seconds since the epoch; constant */

  /* The main thread's loop. */
  struct ev_loop *ev;
  ev_async shutdown_wake, conn_gone;
  ev_timer drain_timer, accept_retry;
  ev_signal sigterm, sigint, sighup, sigpipe;
  bool accepting, draining, cut;
  unsigned next_loop;
};

/* Start loops and workers; serve until told to stop; tear down.  The plugin
 * is ready and forked.  Returns the exit status.
 */
extern int server_run (struct server *, unsigned workers);

/* --- listen.c --- */
/* Sockets passed by systemd; the number added or -1. */
extern int listener_add_activated (struct server *, char **ret_error);
/* Could it be listened on, as far as that shows without trying? */
extern int listen_check (const char *spec, char **ret_error);
/* Have exactly these ("unix:PATH", "HOST:PORT", "vsock:CID:PORT") and the
 * passed ones; the default ones when there is none.  What is new is opened
 * first, and when that fails nothing is changed: -1 with a text.
 */
extern int listeners_change (struct server *, const char *const *specs,
                             size_t count, char **ret_error);
extern void listeners_start (struct server *);
extern void listeners_stop (struct server *);
extern void listeners_free (struct server *);

/* --- greet.c --- */
/* Log how clients reach it. */
extern void server_greet (const struct server *);

/* --- names.c --- */
/* Warn, later, of sections for exports that are not there. */
extern void names_check (struct server *);
extern void names_stop (struct server *);

/* --- loop.c --- */
extern int loop_start (struct loop *, struct server *);
extern void loop_join (struct loop *);
/* From any thread. */
extern void loop_order (struct loop *, int order);
/* Rules or limits have changed: its connections look at them again. */
extern void loop_order_reload (struct loop *);
/* Exports may have got other names: its connections see what theirs is. */
extern void loops_order_names (struct server *);
/* Jobs of C have run; DONE: the client has all that it waits for, the rest
 * has time, if C does not say otherwise.
 */
extern void loop_finish_jobs (struct loop *, const struct conn *c,
                              struct pool_jobs *, bool done);
/* From now on C needs to know at once when a job has run, or no more. */
extern void loop_set_prompt (struct loop *, struct conn *c, bool prompt);
/* A job goes to the workers. */
extern void loop_job_begins (struct loop *);
/* An event has brought REQUESTS, at least one. */
extern void loop_served (struct loop *, unsigned requests);
/* Jobs wait for workers that are at work: see to them in a while. */
extern void loop_kick_later (struct loop *);
extern void loop_take_conn (struct loop *, struct conn *);
/* Run FN in the thread of every loop, and wait until all have; not from a
 * loop's thread, and only while loops run.  False: out of memory.
 */
extern bool loops_ask (struct server *, void (*fn) (struct loop *, void *),
                       void *opaque);

#endif /* BTRNBDD_DAEMON_SERVER_H */
