/* daemon: reading the configuration again while serving. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/conn.h"
#include "daemon/fail.h"
#include "daemon/notify.h"
#include "daemon/options.h"
#include "daemon/reload.h"
#include "host/log.h"

struct reload {
  int argc;
  char **argv;
  const struct options *started;
};

struct reload *
reload_new (int argc, char **argv, const struct options *started)
{
  struct reload *x = calloc (1, sizeof *x);

  if (x)
    *x = (struct reload) { .argc = argc, .argv = argv, .started = started };
  return x;
}

void
reload_free (struct reload *x)
{
  free (x);
}

/* --- what a reload cannot change --- */

static bool
same (const char *a, const char *b)
{
  return a == b || (a && b && strcmp (a, b) == 0);
}

static bool
same_params (const struct options *a, const struct options *b)
{
  size_t i;

  if (a->nparams != b->nparams || !same (a->pool, b->pool) ||
      !same (a->plugin, b->plugin))
    return false;
  for (i = 0; i < a->nparams; ++i)
    if (strcmp (a->params[i].text, b->params[i].text) != 0)
      return false;
  return true;
}

/* The first setting that differs and needs a start, or NULL. */
static const char *
fixed_difference (const struct options *a, const struct options *b)
{
  return !same_params (a, b) ? "the pool or plugin and its parameters"
    : !same (a->plugin_dirs, b->plugin_dirs) ? "plugin-dir"
    : !same (a->control, b->control) ? "control"
    : !same (a->metrics, b->metrics) ? "metrics"
    : !same (a->pidfile, b->pidfile) ? "pidfile"
    : a->loops != b->loops ? "loops"
    : a->workers != b->workers ? "workers"
    : a->read_only != b->read_only ? "read-only" : NULL;
}

/* --- taking over --- */

static void
set_limits (struct limits *to, const struct limits *from)
{
  to->conn_requests = from->conn_requests;
  to->conn_bytes = from->conn_bytes;
  to->total_bytes = from->total_bytes;
  to->connections = from->connections;
  to->peer_connections = from->peer_connections;
  to->handshake_seconds = from->handshake_seconds;
  to->idle_seconds = from->idle_seconds;
  to->drain_seconds = from->drain_seconds;
  to->awake_us = from->awake_us;
}

static void
set_tls (struct server *s, enum handshake_tls_policy policy,
         struct tls_server *tls)
{
  struct tls_server *old;

  pthread_mutex_lock (&s->tls_lock);
  old = s->tls;
  s->tls = tls;
  pthread_mutex_unlock (&s->tls_lock);
  s->tls_policy = policy;
  tls_server_unref (old);
}

/* Nothing can fail any more. */
static void
take_over (struct server *s, struct options *o, struct tls_server *tls)
{
  unsigned i;

  set_tls (s, o->tls_policy, tls);
  set_limits (&s->limits, &o->limits);
  host_log_set_verbose (o->verbose);
  exports_set_rules (&s->exports, o->rules);
  o->rules = NULL;
  for (i = 0; i < s->nloops; ++i)
    loop_order_reload (&s->loops[i]);
}

static int
change (struct server *s, struct options *o, char **ret_text)
{
  const struct reload *x = s->reload;
  struct tls_server *tls = NULL;

  if (o->tls_policy != HS_TLS_OFF) {
    tls = tls_server_new (&o->tls, ret_text);
    if (tls == NULL)
      return -1;
  }
  if (listeners_change (s, o->listen.v, o->listen.count, ret_text) == -1) {
    tls_server_unref (tls);
    return -1;
  }
  take_over (s, o, tls);
  if (fixed_difference (x->started, o))
    fail (ret_text, "%s: changed, which takes effect at the next start",
          fixed_difference (x->started, o));
  return 0;
}

int
server_reload (struct server *s, char **ret_text)
{
  const struct reload *x = s->reload;
  struct options o;
  int r = -1;

  *ret_text = NULL;
  if (s->draining)
    return fail (ret_text, "the server is shutting down");
  notify_reloading ();
  if (options_read (x->argc, x->argv, &o, ret_text) == -1 &&
      rules_settle (o.rules, &s->plugin, true, o.config, ret_text) == 0)
    r = change (s, &o, ret_text);
  options_done (&o);
  if (r == 0) {
    names_check (s);
    host_log (HOST_LOG_INFO, "configuration read again%s%s",
              *ret_text ? "; " : "", *ret_text ? *ret_text : "");
    notify_ready ("Serving %s%s%s", s->plugin.p.name, *ret_text ? "; " : "",
                  *ret_text ? *ret_text : "");
  }
  else {
    host_log (HOST_LOG_ERROR, "nothing is changed: %s",
              *ret_text ? *ret_text : "out of memory");
    notify_ready ("Serving %s with the configuration from before: %s",
                  s->plugin.p.name, *ret_text ? *ret_text : "no memory");
  }
  return r;
}
