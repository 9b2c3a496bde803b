/* daemon: start, serve, drain, stop.
 *
 * Shutdown (SIGTERM, SIGINT, nbdkit_shutdown): listening ends, connections
 * answer what they have been asked and end; after drain_seconds the rest is
 * cut; then workers, the plugin's cleanup.  A second signal cuts at once.
 */
#include <config.h>

#include <signal.h>
#include <stdlib.h>

#include "daemon/conn.h"
#include "daemon/control.h"
#include "daemon/metrics.h"
#include "daemon/notify.h"
#include "daemon/reload.h"
#include "daemon/server.h"
#include "host/log.h"

static void
order_loops (struct server *s, int order)
{
  unsigned i;

  for (i = 0; i < s->nloops; ++i)
    loop_order (&s->loops[i], order);
}

static void
check_drained (struct server *s)
{
  if (s->draining && s->connections == 0)
    ev_break (s->ev, EVBREAK_ALL);
}

static void
begin_drain (struct server *s)
{
  if (s->draining) {
    if (!s->cut) {
      s->cut = true;
      order_loops (s, LOOP_CUT);
    }
    return;
  }
  s->draining = true;
  host_log (HOST_LOG_INFO, "shutting down, %u clients are connected",
            (unsigned) s->connections);
  notify_stopping (s->limits.drain_seconds, s->connections);
  control_server_happened (s, "server.draining");
  listeners_stop (s);
  order_loops (s, LOOP_DRAIN);
  ev_timer_set (&s->drain_timer, s->limits.drain_seconds, 0);
  ev_timer_start (s->ev, &s->drain_timer);
  check_drained (s);
}

static void
on_drain_timeout (struct ev_loop *ev, ev_timer *w, int revents)
{
  struct server *s = w->data;

  (void) ev;
  (void) revents;
  host_log (HOST_LOG_WARNING, "clients did not end in time, cutting them");
  s->cut = true;
  order_loops (s, LOOP_CUT);
}

static void
on_signal (struct ev_loop *ev, ev_signal *w, int revents)
{
  struct server *s = w->data;

  (void) ev;
  (void) revents;
  if (w->signum == SIGHUP) {
    char *text;

    server_reload (s, &text);
    free (text);
  }
  else if (s->draining)
    begin_drain (s); /* the second one cuts */
  else
    host_shutdown_request ();
}

static void
on_shutdown (struct ev_loop *ev, ev_async *w, int revents)
{
  (void) ev;
  (void) revents;
  begin_drain (w->data);
}

static void
on_conn_gone (struct ev_loop *ev, ev_async *w, int revents)
{
  struct server *s = w->data;

  (void) ev;
  (void) revents;
  check_drained (s);
  if (!s->draining)
    listeners_start (s);
}

static void
on_accept_retry (struct ev_loop *ev, ev_timer *w, int revents)
{
  struct server *s = w->data;

  (void) ev;
  (void) revents;
  if (!s->draining)
    listeners_start (s);
}

static void
wake_for_shutdown (void *opaque)
{
  struct server *s = opaque;

  ev_async_send (s->ev, &s->shutdown_wake);
}

static void
watch (struct server *s)
{
  ev_async_init (&s->shutdown_wake, on_shutdown);
  ev_async_init (&s->conn_gone, on_conn_gone);
  ev_timer_init (&s->drain_timer, on_drain_timeout, 0, 0);
  ev_timer_init (&s->accept_retry, on_accept_retry, 0, 0);
  ev_signal_init (&s->sigterm, on_signal, SIGTERM);
  ev_signal_init (&s->sigint, on_signal, SIGINT);
  ev_signal_init (&s->sighup, on_signal, SIGHUP);
  s->shutdown_wake.data = s->conn_gone.data = s;
  s->drain_timer.data = s->accept_retry.data = s;
  s->sigterm.data = s->sigint.data = s->sighup.data = s;
  ev_async_start (s->ev, &s->shutdown_wake);
  ev_async_start (s->ev, &s->conn_gone);
  ev_signal_start (s->ev, &s->sigterm);
  ev_signal_start (s->ev, &s->sigint);
  ev_signal_start (s->ev, &s->sighup);
}

static int
start_threads (struct server *s, unsigned workers)
{
  const bool exclusive = s->plugin.thread_model <=
    NBDKIT_THREAD_MODEL_SERIALIZE_ALL_REQUESTS;
  unsigned i;

  s->pool = pool_new (workers, exclusive, job_deliver);
  s->loops = calloc (s->nloops, sizeof *s->loops);
  if (s->pool == NULL || s->loops == NULL) {
    host_log (HOST_LOG_ERROR, "cannot start the workers");
    return -1;
  }
  for (i = 0; i < s->nloops; ++i)
    if (loop_start (&s->loops[i], s) == -1)
      return -1;
  return 0;
}

/* What operators look at; -1 after a message. */
static int
start_services (struct server *s)
{
  if (control_start (s) == -1)
    return -1;
  if (s->metrics_listener == -1)
    return 0;
  s->metrics = metrics_start (s, s->metrics_listener);
  s->metrics_listener = -1;
  return s->metrics ? 0 : -1;
}

int
server_run (struct server *s, unsigned workers)
{
  unsigned i;
  int status = EXIT_FAILURE;

  signal (SIGPIPE, SIG_IGN);
  s->ev = ev_default_loop (EVFLAG_AUTO);
  if (s->ev == NULL) {
    host_log (HOST_LOG_ERROR, "cannot make an event loop");
    return EXIT_FAILURE;
  }
  s->started = ev_time ();
  watch (s);
  if (start_threads (s, workers) == 0 && start_services (s) == 0) {
    host_shutdown_notify (wake_for_shutdown, s);
    listeners_start (s);
    server_greet (s);
    names_check (s);
    notify_ready ("Serving %s", s->plugin.p.name);
    ev_run (s->ev, 0);
    host_shutdown_notify (NULL, NULL);
    status = EXIT_SUCCESS;
  }
  names_stop (s);
  metrics_stop (s->metrics);
  control_stop (s);
  for (i = 0; s->loops && i < s->nloops; ++i)
    loop_join (&s->loops[i]);
  pool_free (s->pool);
  free (s->loops);
  listeners_free (s);
  ev_loop_destroy (s->ev);
  return status;
}
