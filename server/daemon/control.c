/* daemon: the control socket. */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/server.h"
#include "daemon/conn.h"
#include "daemon/control.h"
#include "host/log.h"

#define ROOT_DIRECTORY "/run/btrnbd"

/* --- requests --- */

static enum control_where
where (void *opaque, const char *method)
{
  const struct server *s = opaque;
  const struct host_method *m = host_method_find (method);

  if (m)
    return m->on_loop ? CONTROL_ON_LOOP : CONTROL_QUICK;
  return s->plugin.ext.control ? CONTROL_SLOW : CONTROL_UNKNOWN;
}

static void
run_plugin_method (struct server *s, struct control_request *r)
{
  char *params = rpc_text (r->rpc.params), *text = NULL;
  int code = -1;

  if (params)
    code = s->plugin.ext.control (r->rpc.method, params, r->fd, &r->cancel,
                                  &text);
  free (params);
  /* One answer is one line, whatever a plugin says. */
  if (text && strchr (text, '\n')) {
    free (text);
    code = RPC_INTERNAL;
    text = rpc_error_text (code, "the plugin's answer has several lines",
                           NULL);
  }
  control_answer (r, code == 0, text);
}

static void
run (void *opaque, struct control_request *r)
{
  struct server *s = opaque;
  const struct host_method *m = host_method_find (r->rpc.method);

  if (m)
    m->run (s, r);
  else
    run_plugin_method (s, r);
}

static void
say (void *opaque, enum control_log level, const char *line)
{
  static const enum host_log_level levels[] = {
    [CONTROL_LOG_ERROR] = HOST_LOG_WARNING,
    [CONTROL_LOG_INFO] = HOST_LOG_INFO,
    [CONTROL_LOG_DEBUG] = HOST_LOG_DEBUG,
  };

  (void) opaque;
  host_log (levels[level], "%s", line);
}

static const struct control_ops ops = { where, run, say };

/* --- events --- */

static void
on_plugin_event (void *opaque, const char *event)
{
  struct server *s = opaque;

  loops_order_names (s);
  if (control_wants_events (s->control))
    control_emit (s->control, json_loads (event, 0, NULL));
}

void
control_client_happened (struct conn *c, const char *type, const char *text)
{
  struct server *s = c->server;
  char peer[CONN_PEER_MAX];
  json_t *params;

  if (s->control == NULL || !control_wants_events (s->control))
    return;
  params = json_pack ("{s:I,s:s,s:o}", "client", (json_int_t) c->id, "peer",
                      conn_peer (c, peer, sizeof peer), "export",
                      rpc_utf8 (conn_export_name (c)));
  if (text)
    json_object_set_new (params, "text", rpc_utf8 (text));
  if (c->state >= CONN_ENDING) {
    json_object_set_new (params, "bytes_in", json_integer (c->bytes_in));
    json_object_set_new (params, "bytes_out", json_integer (c->bytes_out));
  }
  control_emit (s->control, json_pack ("{s:s,s:o}", "type", type, "params",
                                       params));
}

void
control_server_happened (struct server *s, const char *type)
{
  if (s->control)
    control_emit (s->control, json_pack ("{s:s,s:{}}", "type", type,
                                         "params"));
}

/* --- life --- */

const char *
control_default_path (char *buf, size_t size)
{
  const char *dir = getenv ("RUNTIME_DIRECTORY");
  int n = 0;

  if (dir && *dir == '/' && strchr (dir, ':') == NULL)
    n = snprintf (buf, size, "%s/control.sock", dir);
  else if (geteuid () == 0) {
    if (mkdir (ROOT_DIRECTORY, 0755) == -1 && errno != EEXIST)
      return NULL;
    n = snprintf (buf, size, "%s/control.sock", ROOT_DIRECTORY);
  }
  else {
    dir = getenv ("XDG_RUNTIME_DIR");
    if (dir == NULL || *dir != '/')
      return NULL;
    n = snprintf (buf, size, "%s/btrnbd.sock", dir);
  }
  return n > 0 && (size_t) n < size ? buf : NULL;
}

int
control_open (struct server *s, const char *path)
{
  char why[256], buf[128];
  const bool given = path != NULL;

  s->control_listener = -1;
  if (!given)
    path = control_default_path (buf, sizeof buf);
  if (path == NULL || strcmp (path, "off") == 0)
    return 0;
  s->control_path = strdup (path);
  if (s->control_path == NULL)
    return -1;
  s->control_listener = control_listen (path, why, sizeof why);
  if (s->control_listener != -1)
    return 0;
  host_log (given ? HOST_LOG_ERROR : HOST_LOG_WARNING, "%s%s", why,
            given ? "" : "; serving without (--control names another)");
  free (s->control_path);
  s->control_path = NULL;
  return given ? -1 : 0;
}

int
control_start (struct server *s)
{
  if (s->control_path == NULL)
    return 0;
  s->control = control_server_new (s->ev, s->control_listener,
                                   s->control_path, &ops, s);
  s->control_listener = -1;
  if (s->control == NULL) {
    host_log (HOST_LOG_ERROR, "control socket: out of memory or threads");
    return -1;
  }
  if (s->plugin.ext.control_events)
    s->plugin.ext.control_events (on_plugin_event, s);
  host_log (HOST_LOG_DEBUG, "control socket: %s", s->control_path);
  return 0;
}

void
control_stop (struct server *s)
{
  if (s->control && s->plugin.ext.control_events)
    s->plugin.ext.control_events (NULL, NULL);
  control_server_free (s->control);
  s->control = NULL;
  if (s->control_listener != -1) {
    close (s->control_listener);
    unlink (s->control_path);
  }
  s->control_listener = -1;
  free (s->control_path);
  s->control_path = NULL;
}
