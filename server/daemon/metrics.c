/* daemon: the HTTP server behind metrics and status page. */
#include <config.h>

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <microhttpd.h>

#include "control/rpc.h"
#include "daemon/clients.h"
#include "daemon/fail.h"
#include "daemon/metrics.h"
#include "daemon/server.h"
#include "daemon/stats_json.h"
#include "daemon/tcp_where.h"
#include "host/log.h"

#define BACKLOG 16
#define CONNECTIONS_MAX 32
#define CONNECTION_MEMORY 16384
#define TIMEOUT_SECONDS 10u
#define FRESH_NS UINT64_C (500000000) /* an answer serves all who ask within */
#define CLIENTS_MAX 500         /* that the page is told */
#define FILES_MAX 8

/* A page made on demand; used by the HTTP thread only. */
struct dynamic {
  struct MHD_Response *response;
  uint64_t made;
};

struct metrics {
  struct server *server;
  struct MHD_Daemon *http;
  struct history history;
  struct pool_watch pool;
  struct MHD_Response *files[FILES_MAX];
  struct dynamic text, json;
};

/* --- answers --- */

static void
add_headers (struct MHD_Response *r, const char *type)
{
  static const char *const headers[][2] = {
    { "Content-Security-Policy", "default-src 'none'; script-src 'self'; "
      "style-src 'self'; img-src 'self'; connect-src 'self'; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'" },
    { "X-Content-Type-Options", "nosniff" },
    { "Referrer-Policy", "no-referrer" },
    { "Cross-Origin-Resource-Policy", "same-origin" },
    { "Cache-Control", "no-store" },
  };
  size_t i;

  MHD_add_response_header (r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  for (i = 0; i < sizeof headers / sizeof headers[0]; i++)
    MHD_add_response_header (r, headers[i][0], headers[i][1]);
}

static bool
is_fresh (const struct dynamic *d)
{
  return d->response && stats_now () - d->made < FRESH_NS;
}

/* TEXT (malloc'd) becomes the answer. */
static void
renew (struct dynamic *d, char *text, size_t len, const char *type)
{
  if (d->response)
    MHD_destroy_response (d->response);
  d->response = text ? MHD_create_response_from_buffer (
    len, text, MHD_RESPMEM_MUST_FREE) : NULL;
  if (d->response)
    add_headers (d->response, type);
  d->made = stats_now ();
}

static struct MHD_Response *
text_answer (struct metrics *m)
{
  json_t *pool;
  size_t len = 0;
  double age;
  char *text;

  if (!is_fresh (&m->text)) {
    pool = pool_watch_get (&m->pool, &age);
    text = metrics_text (m->server, pool, &len);
    json_decref (pool);
    renew (&m->text, text, len, "text/plain; version=0.0.4; charset=utf-8");
  }
  return m->text.response;
}

static json_t *
first_clients (struct server *s)
{
  json_t *all = clients_json (s);

  while (json_array_size (all) > CLIENTS_MAX)
    json_array_remove (all, json_array_size (all) - 1);
  return all;
}

static json_t *
status_json (struct metrics *m)
{
  struct server *s = m->server;
  double age;
  json_t *pool = pool_watch_get (&m->pool, &age);

  return json_pack ("{s:s,s:s,s:f,s:i,s:o?,s:o?,s:o?,s:o?,s:o?,s:f}",
                    "version", PACKAGE_VERSION, "plugin", s->plugin.p.name,
                    "time", ev_time (), "pid", (int) getpid (),
                    "server", stats_json (s), "clients", first_clients (s),
                    "history", history_json (&m->history),
                    "rates", history_rates_json (&m->history),
                    "pool", pool, "pool_age", age);
}

static struct MHD_Response *
json_answer (struct metrics *m)
{
  json_t *status;
  char *text;

  if (!is_fresh (&m->json)) {
    status = status_json (m);
    text = status ? rpc_text (status) : NULL;
    json_decref (status);
    renew (&m->json, text, text ? strlen (text) : 0, "application/json");
  }
  return m->json.response;
}

static struct MHD_Response *
answer_for (struct metrics *m, const char *url)
{
  const struct page_file *files;
  size_t n, i;

  if (strcmp (url, "/metrics") == 0)
    return text_answer (m);
  if (strcmp (url, "/status.json") == 0)
    return json_answer (m);
  files = page_files (&n);
  for (i = 0; i < n; i++)
    if (strcmp (url, files[i].path) == 0)
      return m->files[i];
  return NULL;
}

static enum MHD_Result
refuse (struct MHD_Connection *c, unsigned status, const char *text)
{
  struct MHD_Response *r = MHD_create_response_from_buffer (
    strlen (text), (void *) text, MHD_RESPMEM_PERSISTENT);
  enum MHD_Result result;

  if (r == NULL)
    return MHD_NO;
  add_headers (r, "text/plain; charset=utf-8");
  if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header (r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  result = MHD_queue_response (c, status, r);
  MHD_destroy_response (r);
  return result;
}

static enum MHD_Result
on_request (void *opaque, struct MHD_Connection *c, const char *url,
            const char *method, const char *version, const char *data,
            size_t *len, void **state)
{
  struct metrics *m = opaque;
  struct MHD_Response *r;

  (void) version;
  (void) data;
  if (strcmp (method, MHD_HTTP_METHOD_GET) != 0 &&
      strcmp (method, MHD_HTTP_METHOD_HEAD) != 0) {
    *len = 0;
    return refuse (c, MHD_HTTP_METHOD_NOT_ALLOWED, "this is for looking\n");
  }
  /* The first call comes before a body, which nobody needs. */
  if (*state == NULL) {
    *state = m;
    return MHD_YES;
  }
  *len = 0;
  r = answer_for (m, url);
  if (r)
    return MHD_queue_response (c, MHD_HTTP_OK, r);
  if (strcmp (url, "/metrics") == 0 || strcmp (url, "/status.json") == 0)
    return refuse (c, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");
  return refuse (c, MHD_HTTP_NOT_FOUND, "there is nothing here\n");
}

/* --- life --- */

int
metrics_listen (const char *where, char **ret_error)
{
  struct addrinfo *a;
  struct tcp_where w;
  int one = 1, fd;

  if (tcp_where_parse (where, &w, ret_error) == -1 ||
      tcp_where_look_up (where, &w, "127.0.0.1", &a, ret_error) == -1)
    return fail_note (ret_error, "metrics: ");
  fd = socket (a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd != -1)
    setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (fd == -1 || bind (fd, a->ai_addr, a->ai_addrlen) == -1 ||
      listen (fd, BACKLOG) == -1) {
    fail (ret_error, "metrics: %s: %s", where, strerror (errno));
    if (fd != -1)
      close (fd);
    fd = -1;
  }
  freeaddrinfo (a);
  return fd;
}

static bool
make_files (struct metrics *m)
{
  const struct page_file *files;
  size_t n, i;

  files = page_files (&n);
  for (i = 0; i < n; i++) {
    m->files[i] = MHD_create_response_from_buffer (
      files[i].end - files[i].data, (void *) files[i].data,
      MHD_RESPMEM_PERSISTENT);
    if (m->files[i] == NULL)
      return false;
    add_headers (m->files[i], files[i].type);
  }
  return true;
}

static struct MHD_Daemon *
start_http (struct metrics *m, int fd)
{
  struct MHD_Daemon *http;
  sigset_t all, old;

  sigfillset (&all);
  pthread_sigmask (SIG_BLOCK, &all, &old);
  http = MHD_start_daemon (
    MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, m,
    MHD_OPTION_LISTEN_SOCKET, fd,
    MHD_OPTION_CONNECTION_LIMIT, (unsigned) CONNECTIONS_MAX,
    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) CONNECTION_MEMORY,
    MHD_OPTION_CONNECTION_TIMEOUT, TIMEOUT_SECONDS, MHD_OPTION_END);
  pthread_sigmask (SIG_SETMASK, &old, NULL);
  return http;
}

struct metrics *
metrics_start (struct server *s, int fd)
{
  struct metrics *m = calloc (1, sizeof *m);

  if (m == NULL) {
    close (fd);
    host_log (HOST_LOG_ERROR, "metrics: out of memory");
    return NULL;
  }
  m->server = s;
  history_start (&m->history, s);
  if (pool_watch_start (&m->pool, &s->plugin) && make_files (m))
    m->http = start_http (m, fd);
  if (m->http)
    return m;
  host_log (HOST_LOG_ERROR, "metrics: cannot start the HTTP server");
  close (fd);
  metrics_stop (m);
  return NULL;
}

void
metrics_stop (struct metrics *m)
{
  size_t i;

  if (m == NULL)
    return;
  if (m->http)
    MHD_stop_daemon (m->http); /* closes the socket */
  pool_watch_stop (&m->pool);
  history_stop (&m->history);
  for (i = 0; i < FILES_MAX; i++)
    if (m->files[i])
      MHD_destroy_response (m->files[i]);
  if (m->text.response)
    MHD_destroy_response (m->text.response);
  if (m->json.response)
    MHD_destroy_response (m->json.response);
  free (m);
}
