/* daemon: the host's methods on the control socket.
 *
 * What belongs to an event loop is asked for there (loops_ask): the worker
 * that runs the method waits, a loop never does.
 */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "control/server.h"
#include "daemon/clients.h"
#include "daemon/conn.h"
#include "daemon/control.h"
#include "daemon/reload.h"
#include "daemon/stats_json.h"
#include "host/log.h"

static bool
params_ok (struct control_request *r, const char *fmt, ...)
{
  char text[JSON_ERROR_TEXT_LENGTH + 64];
  char reason[JSON_ERROR_TEXT_LENGTH + 32];
  json_error_t why;
  va_list args;
  int n;

  va_start (args, fmt);
  n = json_vunpack_ex (r->rpc.params, &why, JSON_STRICT, fmt, args);
  va_end (args);
  if (n == 0)
    return true;
  rpc_params_reason (&why, reason, sizeof reason);
  snprintf (text, sizeof text, "parameters: %s", reason);
  control_answer_error (r, RPC_INVALID_PARAMS, text);
  return false;
}

/* --- rpc.info --- */

static void
add_plugin_methods (struct server *s, json_t *names)
{
  char *text = NULL;
  json_t *more;

  if (s->plugin.ext.control == NULL)
    return;
  if (s->plugin.ext.control ("rpc.methods", "{}", -1, NULL, &text) == 0) {
    more = json_loads (text, 0, NULL);
    json_array_extend (names, more);
    json_decref (more);
  }
  free (text);
}

static void
rpc_info (struct server *s, struct control_request *r)
{
  const struct host_method *m;
  json_t *names;

  if (!params_ok (r, "{}"))
    return;
  names = json_array ();
  for (m = host_methods; m->name; m++)
    json_array_append_new (names, json_string (m->name));
  add_plugin_methods (s, names);
  control_answer_json (r, json_pack ("{s:s,s:s,s:s,s:i,s:s,s:o}", "server",
                                     "btrnbd", "version", PACKAGE_VERSION,
                                     "host", "btrnbdd", "pid",
                                     (int) getpid (), "plugin",
                                     s->plugin.p.name, "methods", names));
}

static void
host_clients (struct server *s, struct control_request *r)
{
  json_t *all;

  if (!params_ok (r, "{}"))
    return;
  all = clients_json (s);
  if (all)
    control_answer_json (r, all);
  else
    control_answer_error (r, RPC_INTERNAL, "out of memory");
}

/* --- kick --- */

struct kick {
  unsigned long id;
  atomic_bool found;
};

static void
kick_client (struct loop *l, void *opaque)
{
  struct kick *k = opaque;
  struct conn *c;

  TAILQ_FOREACH (c, &l->conns, link)
    if (c->id == k->id && c->state < CONN_DEAD) {
      atomic_store (&k->found, true);
      conn_kill (c, "kicked");
      conn_advance (c);
      return;
    }
}

static void
host_kick (struct server *s, struct control_request *r)
{
  struct kick k = { 0 };
  json_int_t id;
  char text[64];

  if (!params_ok (r, "{s:I}", "client", &id))
    return;
  k.id = id;
  if (!loops_ask (s, kick_client, &k))
    control_answer_error (r, RPC_INTERNAL, "out of memory");
  else if (k.found)
    control_answer_json (r, NULL);
  else {
    snprintf (text, sizeof text, "there is no client %lld", (long long) id);
    control_answer_error (r, RPC_FAILED, text);
  }
}

/* --- the server --- */

static void
host_limits (struct server *s, struct control_request *r)
{
  const struct limits *l = &s->limits;

  if (params_ok (r, "{}"))
    control_answer_json (
      r, json_pack ("{s:I,s:I,s:I,s:I,s:I,s:I,s:I}",
                    "conn_requests", (json_int_t) l->conn_requests,
                    "conn_bytes", (json_int_t) l->conn_bytes,
                    "total_bytes", (json_int_t) l->total_bytes,
                    "connections", (json_int_t) l->connections,
                    "handshake_seconds", (json_int_t) l->handshake_seconds,
                    "idle_seconds", (json_int_t) l->idle_seconds,
                    "drain_seconds", (json_int_t) l->drain_seconds));
}

/* Being asked is enough: a loop sees to finished jobs first. */
static void
note_finished (struct loop *l, void *opaque)
{
  (void) l;
  (void) opaque;
}

/* Whoever has an answer finds its request in the numbers. */
static void
host_stat (struct server *s, struct control_request *r)
{
  json_t *all;

  if (!params_ok (r, "{}"))
    return;
  loops_ask (s, note_finished, NULL);
  all = stats_json (s);
  if (all)
    control_answer_json (r, all);
  else
    control_answer_error (r, RPC_INTERNAL, "out of memory");
}

/* Exports that clients have open, and the settings that they are under. */
static void
host_exports (struct server *s, struct control_request *r)
{
  struct exports *x = &s->exports;
  struct export *e;
  json_t *array;

  if (!params_ok (r, "{}"))
    return;
  array = json_array ();
  pthread_mutex_lock (&x->lock);
  LIST_FOREACH (e, &x->open, link) {
    const struct export_settings set = rules_find (x->rules, e->name);

    if (e->connections > 0)
      json_array_append_new (
        array, json_pack ("{s:o,s:I,s:I,s:b,s:b,s:f,s:f}",
                          "name", rpc_utf8 (e->name),
                          "connections", (json_int_t) e->connections,
                          "max_connections",
                          (json_int_t) set.max_connections,
                          "read_only", set.read_only, "write_through",
                          set.write_through, "iops", set.iops,
                          "bandwidth", set.bandwidth));
  }
  pthread_mutex_unlock (&x->lock);
  control_answer_json (r, array);
}

static void
host_reload (struct server *s, struct control_request *r)
{
  char *text;

  if (!params_ok (r, "{}"))
    return;
  if (server_reload (s, &text) == -1)
    control_answer_error (r, RPC_FAILED, text ? text : "out of memory");
  else
    control_answer_json (r, json_pack ("{s:s?}", "note", text));
  free (text);
}

static void
subscribe (struct control_request *r, bool on)
{
  if (!params_ok (r, "{}"))
    return;
  control_subscribe (r, on);
  control_answer_json (r, NULL);
}

static void
events_subscribe (struct server *s, struct control_request *r)
{
  (void) s;
  subscribe (r, true);
}

static void
events_unsubscribe (struct server *s, struct control_request *r)
{
  (void) s;
  subscribe (r, false);
}

const struct host_method host_methods[] = {
  { "events.subscribe", true, events_subscribe },
  { "events.unsubscribe", true, events_unsubscribe },
  { "host.clients", false, host_clients },
  { "host.exports", false, host_exports },
  { "host.kick", false, host_kick },
  { "host.limits", true, host_limits },
  { "host.reload", true, host_reload },
  { "host.stat", false, host_stat },
  { "rpc.info", false, rpc_info },
  { NULL, false, NULL },
};

const struct host_method *
host_method_find (const char *name)
{
  const struct host_method *m;

  for (m = host_methods; m->name; m++)
    if (strcmp (m->name, name) == 0)
      return m;
  return NULL;
}
