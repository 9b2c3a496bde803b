/* control: what the files of the socket share. */
#ifndef BTRNBD_CONTROL_SERVER_PRIV_H
#define BTRNBD_CONTROL_SERVER_PRIV_H

#include <pthread.h>
#include <sys/queue.h>

#include "control/server.h"

struct control_client {
  TAILQ_ENTRY (control_client) link;
  struct control_server *server;
  int fd;                      /* -1: gone, waits for its requests */
  uid_t uid;
  pid_t pid;
  ev_io rd, wr;
  ev_timer stall;
  ev_tstamp last_activity;
  unsigned requests;           /* not yet answered */
  struct control_request *running; /* by client_next */
  bool eof, closing, subscribed;

  char *in;                    /* CONTROL_LINE_MAX bytes, lazily made */
  size_t in_len;
  int passed_fd;               /* belongs to the line that arrives */
  char *out;
  size_t out_len, out_sent;
  size_t events_len;           /* of out: events */
  unsigned long lost_events;
};

struct control_event_line {
  STAILQ_ENTRY (control_event_line) link;
  size_t len;
  char text[];
};

struct control_server {
  /* Constant while serving. */
  struct ev_loop *ev;
  const struct control_ops *ops;
  void *opaque;
  int listener;
  char *path;
  dev_t dev;
  ino_t ino;                   /* of the socket file that is ours */
  pthread_t workers[CONTROL_WORKERS];
  unsigned num_workers;

  /* The loop's. */
  ev_io accept;
  ev_async wake;
  ev_timer retry;
  TAILQ_HEAD (, control_client) clients;
  unsigned num_clients;
  size_t unsent;               /* of all clients */

  atomic_uint subscribers;

  pthread_mutex_t lock;        /* protects all below */
  pthread_cond_t work;
  struct control_queue {
    struct control_request *first, **end;
  } quick, slow;
  struct control_request *answered;
  STAILQ_HEAD (, control_event_line) events;
  size_t events_bytes;
  unsigned long events_seq, events_lost;
  bool stop;
};

/* --- client.c --- */

extern void control_client_new (struct control_server *, int fd);
extern void control_client_close (struct control_client *);
/* The answer of one of its requests; frees the request. */
extern void control_client_answer (struct control_request *);
extern void control_client_event (struct control_client *,
                                  const struct control_event_line *);
extern void control_client_flush (struct control_client *);
extern void control_client_free (struct control_client *);

/* --- server.c --- */

extern void control_queue (struct control_request *, bool quick);
extern void control_request_free (struct control_request *);
extern void control_say (struct control_server *, enum control_log,
                         const char *fmt, ...)
  __attribute__ ((format (printf, 3, 4)));

#endif /* BTRNBD_CONTROL_SERVER_PRIV_H */
