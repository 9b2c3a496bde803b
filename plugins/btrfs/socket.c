/* The pool's control methods, as a host calls them and on a socket of our
 * own.
 *
 * btrnbdd owns the socket and calls plugin_control_call.  Under stock nbdkit
 * the parameter control=PATH makes us own one: the socket is made before the
 * fork, so that a wrong path is told to the user; one thread with an event
 * loop serves it afterwards.
 */
#include <config.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <btrnbd/plugin-ext.h>

#include "control/methods.h"
#include "control/server.h"
#include "plugin.h"

static int listener = -1;
static struct ev_loop *loop;
static ev_async stop_wake;
static pthread_t thread;
static struct control_server *server; /* NULL: none of our own */

/* The host's, or NULL; protected by sink_lock. */
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*sink) (void *opaque, const char *event);
static void *sink_opaque;

/* --- events --- */

static void
emit (json_t *event)
{
  char *text;

  if (event == NULL)
    return;
  if (server) {
    control_emit (server, event);
    return;
  }
  pthread_mutex_lock (&sink_lock);
  text = sink ? rpc_text (event) : NULL;
  if (text)
    sink (sink_opaque, text);
  pthread_mutex_unlock (&sink_lock);
  free (text);
  json_decref (event);
}

void
plugin_control_events (void (*fn) (void *opaque, const char *event),
                       void *opaque)
{
  pthread_mutex_lock (&sink_lock);
  sink = fn;
  sink_opaque = opaque;
  pthread_mutex_unlock (&sink_lock);
}

void
plugin_control_export (const char *type, const char *name)
{
  if (server && control_wants_events (server))
    emit (json_pack ("{s:s,s:{s:o}}", "type", type, "params", "export",
                     rpc_string (name)));
}

void
plugin_control_image_ended (void *opaque, uint64_t generation,
                            const char *why)
{
  (void) opaque;
  emit (json_pack ("{s:s,s:{s:I,s:s}}", "type", "image.ended", "params",
                   "generation", (json_int_t) generation, "why", why));
}

/* --- calls --- */

/* 0 and the text of the result, or a code and that of the error. */
static int
call_text (struct control_call *call, char **ret_text)
{
  const struct control_method *m = control_find (call->method);
  int code, r;

  control_run (call);
  /* Who is told of success may pull the plug. */
  if (m && m->kind == CONTROL_WRITES && call->code == 0) {
    r = btrnbd_pool_sync (call->pool);
    if (r < 0) {
      call->code = RPC_FAILED;
      call->error = r;
      call->message = strdup (btrnbd_last_error (r));
    }
  }
  emit (control_event (call));
  if (call->code == 0)
    *ret_text = call->result ? rpc_text (call->result) : strdup ("null");
  else
    *ret_text = rpc_error_text (call->code, call->message ? call->message
                                : "out of memory", call->error
                                ? control_error_data (call->error) : NULL);
  code = call->code;
  control_call_done (call);
  return code;
}

int
plugin_control_call (const char *method, const char *params, int fd,
                     const atomic_bool *cancel, char **ret_text)
{
  struct control_call call = { .pool = plugin_pool, .method = method,
    .fd = fd, .cancel = cancel };
  int code;

  call.params = json_loads (params, 0, NULL);
  if (!json_is_object (call.params)) {
    json_decref (call.params);
    *ret_text = rpc_error_text (RPC_INVALID_PARAMS,
                                "parameters go by name, in an object", NULL);
    return RPC_INVALID_PARAMS;
  }
  code = call_text (&call, ret_text);
  json_decref (call.params);
  return code;
}

/* --- the socket under stock nbdkit --- */

static enum control_where
where (void *opaque, const char *method)
{
  (void) opaque;
  if (strcmp (method, "rpc.info") == 0 ||
      strncmp (method, "events.", 7) == 0)
    return CONTROL_ON_LOOP;
  return control_find (method) ? CONTROL_SLOW : CONTROL_UNKNOWN;
}

static void
run_on_loop (struct control_request *r)
{
  json_t *names;
  const bool on = strcmp (r->rpc.method, "events.subscribe") == 0;

  if (strcmp (r->rpc.method, "rpc.info") == 0) {
    names = control_names ();
    json_array_append_new (names, json_string ("events.subscribe"));
    json_array_append_new (names, json_string ("events.unsubscribe"));
    json_array_append_new (names, json_string ("rpc.info"));
    control_answer_json (r, json_pack ("{s:s,s:s,s:s,s:i,s:o}", "server",
                                       "btrnbd", "version", PACKAGE_VERSION,
                                       "host", "nbdkit", "pid",
                                       (int) getpid (), "methods", names));
  }
  else if (on || strcmp (r->rpc.method, "events.unsubscribe") == 0) {
    control_subscribe (r, on);
    control_answer_json (r, NULL);
  }
  else
    control_answer_error (r, RPC_METHOD_NOT_FOUND,
                          "there is no such method");
}

static void
run (void *opaque, struct control_request *r)
{
  struct control_call call = { .pool = plugin_pool,
    .method = r->rpc.method, .params = r->rpc.params, .fd = r->fd,
    .cancel = &r->cancel };
  char *text;
  int code;

  if (where (opaque, r->rpc.method) == CONTROL_ON_LOOP) {
    run_on_loop (r);
    return;
  }
  code = call_text (&call, &text);
  control_answer (r, code == 0, text);
}

static void
say (void *opaque, enum control_log level, const char *line)
{
  (void) opaque;
  if (level == CONTROL_LOG_ERROR)
    nbdkit_error ("%s", line);
  else
    nbdkit_debug ("%s", line);
}

static const struct control_ops ops = { where, run, say };

static void
on_stop (struct ev_loop *ev, ev_async *w, int revents)
{
  (void) w;
  (void) revents;
  ev_break (ev, EVBREAK_ALL);
}

static void *
thread_main (void *arg)
{
  (void) arg;
  ev_run (loop, 0);
  return NULL;
}

int
plugin_control_listen (void)
{
  char why[256];

  if (plugin_config.control == NULL)
    return 0;
  listener = control_listen (plugin_config.control, why, sizeof why);
  if (listener == -1)
    nbdkit_error ("%s", why);
  return listener == -1 ? -1 : 0;
}

bool
plugin_control_is_listener (int fd)
{
  return fd == listener && fd != -1;
}

int
plugin_control_start (void)
{
  const int fd = listener;
  sigset_t all, old;
  int err = -1;

  if (fd == -1)
    return 0;
  loop = ev_loop_new (EVFLAG_AUTO);
  if (loop == NULL) {
    nbdkit_error ("control socket: cannot make an event loop");
    return -1;
  }
  ev_async_init (&stop_wake, on_stop);
  ev_async_start (loop, &stop_wake);
  server = control_server_new (loop, fd, plugin_config.control, &ops, NULL);
  if (server) {
    sigfillset (&all);
    pthread_sigmask (SIG_BLOCK, &all, &old);
    err = pthread_create (&thread, NULL, thread_main, NULL);
    pthread_sigmask (SIG_SETMASK, &old, NULL);
  }
  if (err == 0)
    return 0;
  nbdkit_error ("control socket: cannot start a thread");
  control_server_free (server);
  server = NULL;
  listener = -1;
  return -1;
}

void
plugin_control_stop (void)
{
  if (server) {
    ev_async_send (loop, &stop_wake);
    pthread_join (thread, NULL);
    control_server_free (server);
    server = NULL;
  }
  else if (listener != -1) {
    close (listener);
    unlink (plugin_config.control);
  }
  listener = -1;
  if (loop)
    ev_loop_destroy (loop);
  loop = NULL;
}
