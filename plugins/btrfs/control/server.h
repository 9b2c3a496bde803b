/* control: the socket: JSON-RPC requests in, answers and events out.
 *
 * A server lives on one libev loop, which never waits: requests go to a
 * function of the owner (struct control_ops), on the loop or on one of a few
 * workers, and are answered by control_answer from any thread.
 *
 * Bounds: clients, bytes of a line, requests of a client at once, unsent
 * bytes of all clients, events that wait for a client, and the time that half
 * a line or an unread answer may stand.  A client that has not read its
 * answers is not listened to.
 */
#ifndef BTRNBD_CONTROL_SERVER_H
#define BTRNBD_CONTROL_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <ev.h>
#include <jansson.h>

#include "control/rpc.h"

#define CONTROL_LINE_MAX 65536
#define CONTROL_CLIENTS_MAX 32
#define CONTROL_REQUESTS_MAX 4          /* of a client */
#define CONTROL_UNSENT_MAX (32u << 20)  /* of all clients */
#define CONTROL_EVENTS_MAX 65536        /* bytes that wait for a client */
#define CONTROL_STALL_SECONDS 10
#define CONTROL_WORKERS 5        /* one of them for CONTROL_QUICK only */

struct control_server;
struct control_client;

struct control_request {
  /* For the owner; constant. */
  struct rpc_request rpc;
  int fd;                      /* passed along, or -1 */
  uid_t uid;                   /* of the client */
  atomic_bool cancel;          /* the client is gone or the server ends */

  /* The server's. */
  struct control_server *server;
  struct control_client *client;
  struct control_request *next;  /* in one of its lists */
  struct control_request *peer;  /* in the client's */
  char *line;                  /* the answer */
};

enum control_where {
  CONTROL_UNKNOWN,             /* there is no such method */
  CONTROL_ON_LOOP,             /* it does not wait */
  CONTROL_QUICK,               /* it waits, but not for a disk or a peer */
  CONTROL_SLOW,
};

enum control_log { CONTROL_LOG_ERROR, CONTROL_LOG_INFO, CONTROL_LOG_DEBUG };

struct control_ops {
  enum control_where (*where) (void *opaque, const char *method);
  /* Must answer the request, now or later. */
  void (*run) (void *opaque, struct control_request *);
  void (*log) (void *opaque, enum control_log level, const char *line);
};

/* Make the socket: the descriptor, or -1 with a message in WHY.  A socket
 * file that nobody listens on is replaced; any other file is left alone.
 */
extern int control_listen (const char *path, char *why, size_t size);

/* Serve on LISTENER, which becomes the server's, as is its socket file.
 * NULL: out of memory or threads; LISTENER is closed.
 */
extern struct control_server *control_server_new (struct ev_loop *,
                                                  int listener,
                                                  const char *path,
                                                  const struct control_ops *,
                                                  void *opaque);
/* On the loop or after it has ended.  Waits for requests that run (they are
 * told to cancel), sends what is ready as far as sockets take it.  Accepts
 * NULL.
 */
extern void control_server_free (struct control_server *);
extern const char *control_server_path (const struct control_server *);

/* Any thread; once per request.  ON_LOOP requests that are answered later
 * may outlive their client, not the server.  TEXT is JSON, consumed, NULL
 * when memory is short: a result when OK, else an error object.
 */
extern void control_answer (struct control_request *, bool ok, char *text);
/* The same from a value, consumed; NULL is null. */
extern void control_answer_json (struct control_request *, json_t *result);
extern void control_answer_error (struct control_request *, int code,
                                  const char *message);

/* --- events --- */

/* Does anybody listen?  Any thread; cheap. */
extern bool control_wants_events (const struct control_server *);
/* Any thread.  EVENT is an object with "type", consumed.  Its number and time
 * are added.
 */
extern void control_emit (struct control_server *, json_t *event);
/* The client of a request that runs on the loop gets events from now on, or
 * no more.
 */
extern void control_subscribe (struct control_request *, bool on);

#endif /* BTRNBD_CONTROL_SERVER_H */
