/* daemon: one connection.
 *
 *   HANDSHAKE <-> ASKING (a worker answers a question of the handshake)
 *       |  \-> TLS (its handshake) -> HANDSHAKE
 *       v
 *   TRANSMIT -> ENDING (reads no more; answers what is in flight, sends it)
 *       -> DEAD (socket closed; waits for workers) -> CLOSING (a worker closes
 *       the export) -> freed
 *
 * All fields belong to the loop's thread; workers see only their job, and
 * what they need to send its reply themselves (job.c): the descriptor, which
 * stays open as long as there are jobs, the dialect, and `sending`.
 */
#ifndef BTRNBDD_DAEMON_CONN_H
#define BTRNBDD_DAEMON_CONN_H

#include "daemon/out.h"
#include "daemon/server.h"
#include "nbd/handshake.h"

enum conn_state { CONN_HANDSHAKE, CONN_ASKING, CONN_TLS, CONN_TRANSMIT,
                  CONN_ENDING, CONN_DEAD, CONN_CLOSING };

struct tls_session;

enum job_kind { JOB_LIST, JOB_OPEN, JOB_CLOSE, JOB_REQUEST, JOB_NAME };

/* Work for the pool on behalf of a connection. */
struct job {
  struct pool_job pool;        /* first; its link is also loop.finished's */
  struct conn *conn;
  enum job_kind kind;
  bool final;                  /* JOB_OPEN: for transmission */

  /* JOB_REQUEST; read and write: `data` holds `head` spare bytes, then the
   * payload.
   */
  struct nbd_request req;
  uint64_t start;              /* stats_now, about */
  uint8_t *data;
  size_t head, charged;        /* `charged`: bytes counted in the limits */
  struct nbdkit_extents extents;

  /* What a worker has sent of the reply: all of it, or a part; then it has
   * kept `sending`, and the rest comes before anything else.
   */
  size_t sent;
  bool sent_all;

  /* Results. */
  struct export *export;       /* JOB_OPEN for transmission: entered */
  bool hidden;                 /* TEXT is not for the client to know */
  int error;                   /* errno, 0: success */
  char *text;                  /* malloc'd reason, or NULL; JOB_NAME: what the
                                  export was called, then what it is */
  struct nbdkit_exports exports;
  struct handle *handle;
};

struct conn {
  TAILQ_ENTRY (conn) link;
  struct loop *loop;
  struct server *server;
  unsigned long id;
  int fd;
  enum conn_state state;
  const char *why;             /* it ended; static, for the log */

  ev_io rd, wr;
  ev_timer timer;              /* handshake, later idle */
  bool reading, writing;       /* watchers are active */
  bool eof;
  ev_tstamp last_activity;

  struct buf in;
  size_t read_chunk;           /* bytes asked for in one read */
  struct out out;
  bool prompt;                 /* see loop_set_prompt: the loop's lock */
  atomic_bool sending;         /* who sets it may send */
  atomic_bool out_begun;       /* the front of `out` is sent in part; changed
                                  by who has `sending` */
  bool out_missed;             /* a worker was sending: its job comes soon */
  struct handshake hs;
  struct nbd_dialect dialect;
  struct host_context context;
  struct tls_session *tls;     /* NULL: clear text */
  struct handle *handle;

  struct peer *peer;           /* entered */
  struct export *export;       /* entered, its name is what the one that is
                                  open is called now; NULL: none */
  unsigned names_seen;         /* server.names when a worker was asked */
  bool naming;                 /* a worker looks for the export's name */
  ev_timer stall;              /* until the export's rates allow more */
  bool stalled;
  bool admitted;               /* the next request has been booked */

  struct pool_group *group;
  struct pool_lane lane;
  struct pool_jobs submits;    /* for the pool, at the end of the event */
  bool advance_queued;         /* in loop.to_advance */
  TAILQ_ENTRY (conn) advance_link;
  unsigned jobs;               /* with workers */
  size_t bytes;                /* charged to the limits, */
  size_t out_charged;          /* and of `out` to that of all connections */
  struct job *filling;         /* a write whose payload is still arriving */
  uint64_t filled;
  uint64_t skip;               /* payload bytes of a refused request */

  double since;                /* seconds since the epoch */
  uint64_t bytes_in, bytes_out, requests, errors;
  struct export_stats *stats;  /* the loop's; NULL before transmission */
  uint64_t mark;               /* stats_now when the request that is handled
                                  was there */
  double errors_since;         /* of the lines about errors */
  unsigned errors_logged, errors_unlogged;
};

/* --- conn.c --- */
/* FD becomes the connection's.  NULL: refused, the log says why. */
extern struct conn *conn_new (struct server *, int fd);
extern void conn_start (struct conn *);   /* in the loop's thread */
extern void conn_end (struct conn *, const char *why);  /* gently */
extern void conn_kill (struct conn *, const char *why); /* at once */
/* Send as much as the socket takes, unless a worker is sending. */
extern void conn_flush (struct conn *);
extern void conn_count_sent (struct conn *, size_t bytes);
/* Act on what changed: send, read on, end.  May free the connection. */
extern void conn_advance (struct conn *);
/* What waits for the export's rates need not wait, or books anew. */
extern void conn_unstall (struct conn *);
/* End it when the rules in force do not allow its export. */
extern void conn_check_access (struct conn *);
/* Have a worker look for its export's name, when it may have changed. */
extern void conn_ask_name (struct conn *);
/* Rules and limits have changed.  May free the connection. */
extern void conn_reload (struct conn *);
/* Exports may have got other names: see what its own is called now.  May free
 * the connection.
 */
extern void conn_look_at_name (struct conn *);
extern void conn_job_finished (struct conn *, struct job *);
/* The export that it has open, else "".  (What the context says belongs to
 * the worker that is opening one.)
 */
extern const char *conn_export_name (const struct conn *);
extern const char *conn_peer (const struct conn *, char *buf, size_t size);
extern struct job *conn_job_new (struct conn *, enum job_kind);
extern void conn_job_free (struct job *);
/* To the workers, when conn_advance is called. */
extern void conn_submit (struct conn *, struct job *);
#define CONN_PEER_MAX 160

/* --- conn_hs.c --- */
extern void conn_handshake (struct conn *);
extern void conn_handshake_answer (struct conn *, struct job *);

/* --- conn_tx.c --- */
/* Handle requests in `in`; may stop at a limit. */
extern void conn_requests (struct conn *);
/* `in` holds a request whole, but for a write's payload. */
extern bool conn_has_request (const struct conn *);
/* Nothing more is taken from the client now: what is at work, or not yet sent
 * (in the handshake, too), is enough.
 */
extern bool conn_at_limit (const struct conn *);
extern void conn_reply (struct conn *, struct job *);

/* --- job.c --- */
extern void job_run (struct pool_job *);
extern void job_deliver (struct pool_jobs *);
/* The reply of a request that was done, in one piece: the data with its head
 * before it, or HEAD alone.  False: there is more to it.
 */
extern bool job_reply (struct job *, uint8_t head[NBD_REPLY_HEAD_MAX],
                       struct iovec *ret);

/* As recv and sendmsg, in clear or through TLS. */
extern ssize_t conn_recv (struct conn *, void *buf, size_t len);
extern ssize_t conn_send (struct conn *, const struct iovec *, int n);

#endif /* BTRNBDD_DAEMON_CONN_H */
