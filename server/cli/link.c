/* cli: reaching a pool: in this process on its devices, or through the
 * control socket of its server.  The methods are the same.
 */
#include <config.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli.h"
#include "control/methods.h"
#include "control/rpc.h"

#define ANSWER_MAX (64u << 20)  /* bytes of a line */
#define CHUNK 65536

/* --- the socket --- */

const char *
cli_default_socket (char *buf, size_t size)
{
  const char *name = getenv ("BTRNBD_SOCKET");
  const char *dir = getenv ("XDG_RUNTIME_DIR");

  if (name)
    return *name ? name : NULL;
  if (dir && geteuid () != 0) {
    snprintf (buf, size, "%s/btrnbd.sock", dir);
    if (access (buf, F_OK) == 0)
      return buf;
  }
  snprintf (buf, size, "/run/btrnbd/control.sock");
  return access (buf, F_OK) == 0 ? buf : NULL;
}

int
cli_socket_open (const char *path)
{
  struct sockaddr_un un = { .sun_family = AF_UNIX };
  int fd;

  if (*path == '\0' || strlen (path) >= sizeof un.sun_path) {
    cli_error ("%s: not the path of a socket", path);
    return -1;
  }
  strcpy (un.sun_path, path);
  fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect (fd, (struct sockaddr *) &un, sizeof un) == 0)
    return fd;
  cli_error ("%s: %s", path, errno == ECONNREFUSED
             ? "no server listens there" : strerror (errno));
  if (fd >= 0)
    close (fd);
  return -1;
}

/* The descriptor goes with the first byte. */
static bool
send_line (struct cli *c, const char *line, int pass_fd)
{
  union {
    char space[CMSG_SPACE (sizeof (int))];
    struct cmsghdr align;
  } control = { .space = "" };
  size_t len = strlen (line);
  struct iovec iov;
  struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
  struct cmsghdr *h;
  ssize_t n;

  if (pass_fd != -1) {
    m.msg_control = control.space;
    m.msg_controllen = sizeof control.space;
    h = CMSG_FIRSTHDR (&m);
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN (sizeof pass_fd);
    memcpy (CMSG_DATA (h), &pass_fd, sizeof pass_fd);
  }
  while (len > 0) {
    iov = (struct iovec) { (char *) line, len };
    n = sendmsg (c->fd, &m, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return false;
    line += n;
    len -= n;
    m.msg_control = NULL;
    m.msg_controllen = 0;
  }
  return true;
}

/* The next line as JSON; NULL when the connection has ended. */
static json_t *
read_line (struct cli *c)
{
  char *end, *bigger;
  json_t *value;
  ssize_t n;

  while (c->in_len == 0 ||
         (end = memchr (c->in, '\n', c->in_len)) == NULL) {
    if (c->in_len + CHUNK > c->in_size) {
      if (c->in_size >= ANSWER_MAX)
        return NULL;
      bigger = realloc (c->in, 2 * c->in_size + CHUNK);
      if (bigger == NULL)
        return NULL;
      c->in = bigger;
      c->in_size = 2 * c->in_size + CHUNK;
    }
    n = read (c->fd, c->in + c->in_len, CHUNK);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return NULL;
    c->in_len += n;
  }
  value = json_loadb (c->in, end - c->in, JSON_REJECT_DUPLICATES, NULL);
  c->in_len -= end + 1 - c->in;
  memmove (c->in, end + 1, c->in_len);
  return value;
}

json_t *
cli_next_event (struct cli *c)
{
  json_t *line, *params = NULL;

  while (params == NULL) {
    line = read_line (c);
    if (line == NULL)
      return NULL;
    if (json_object_get (line, "method"))
      params = json_incref (json_object_get (line, "params"));
    json_decref (line);
  }
  return params;
}

static int
fail_with (struct cli *c, const char *message)
{
  free (c->message);
  c->message = strdup (message ? message : "out of memory");
  return -1;
}

static int
take_answer (struct cli *c, json_t *answer, json_t **ret_result)
{
  json_t *error = json_object_get (answer, "error"), *result;

  if (error) {
    c->error_code = json_integer_value (json_object_get (error, "code"));
    c->error_errno = json_integer_value (
      json_object_get (json_object_get (error, "data"), "errno"));
    if (c->error_code == RPC_METHOD_NOT_FOUND)
      return fail_with (c, "this server does not offer that; btrnbdd with a "
                        "pool does");
    return fail_with (c, json_string_value (json_object_get (error,
                                                             "message")));
  }
  result = json_object_get (answer, "result");
  if (result == NULL)
    return fail_with (c, "the server's answer is no JSON-RPC");
  if (ret_result)
    *ret_result = json_incref (result);
  return 0;
}

static int
call_server (struct cli *c, const char *method, json_t *params, int fd,
             json_t **ret_result)
{
  json_t *request = json_pack ("{s:s,s:i,s:s,s:O}", "jsonrpc", "2.0", "id",
                               ++c->calls, "method", method, "params",
                               params);
  char *text = request ? json_dumps (request, JSON_COMPACT) : NULL, *line;
  json_t *answer = NULL;
  int r;

  json_decref (request);
  if (text == NULL)
    return fail_with (c, "a name that is not UTF-8 cannot be told to a "
                      "server");
  if (asprintf (&line, "%s\n", text) < 0)
    line = NULL;
  free (text);
  if (line && send_line (c, line, fd))
    do {
      json_decref (answer);
      answer = read_line (c);
    } while (answer && json_object_get (answer, "id") == NULL);
  free (line);
  if (answer == NULL)
    return fail_with (c, "the server has closed the connection");
  r = take_answer (c, answer, ret_result);
  json_decref (answer);
  return r;
}

/* --- the pool in this process --- */

static void
on_progress (void *opaque, uint64_t done, uint64_t total)
{
  struct cli *c = opaque;

  if (!c->progress.what)
    cli_progress_start (&c->progress, c->progress_name, total);
  cli_progress_add (&c->progress, done - c->progress.done);
}

static atomic_bool interrupted;

static void
on_interrupt (int signal)
{
  (void) signal;
  atomic_store (&interrupted, true);
}

/* From here on, once: a second signal ends the process. */
static const atomic_bool *
catch_interrupts (void)
{
  const struct sigaction sa = { .sa_handler = on_interrupt,
    .sa_flags = SA_RESTART | SA_RESETHAND };

  sigaction (SIGINT, &sa, NULL);
  sigaction (SIGTERM, &sa, NULL);
  return &interrupted;
}

static int
call_here (struct cli *c, const char *method, json_t *params, int fd,
           json_t **ret_result)
{
  struct control_call call = { .pool = c->pool, .method = method,
    .params = params, .fd = fd, .own_pool = true, .progress_opaque = c };
  int r = 0;

  c->progress = (struct cli_progress) { .what = NULL };
  if (c->progress_name)
    call.progress = on_progress;
  if (c->interruptible)
    call.cancel = catch_interrupts ();
  control_run (&call);
  if (c->progress.what)
    cli_progress_end (&c->progress);
  c->error_code = call.code;
  c->error_errno = call.error ? btrnbd_error_errno (call.error) : 0;
  if (call.code == RPC_BUSY && atomic_load (&interrupted))
    r = fail_with (c, "interrupted");
  else if (call.code != 0)
    r = fail_with (c, call.message);
  else if (ret_result)
    *ret_result = call.result ? json_incref (call.result) : json_null ();
  control_call_done (&call);
  return r;
}

/* --- both --- */

int
cli_call_fd (struct cli *c, const char *method, json_t *params, int fd,
             json_t **ret_result)
{
  int r;

  if (ret_result)
    *ret_result = NULL;
  c->error_code = c->error_errno = 0;
  if (params == NULL)
    params = json_object ();
  r = c->pool ? call_here (c, method, params, fd, ret_result)
    : call_server (c, method, params, fd, ret_result);
  json_decref (params);
  return r;
}

int
cli_call (struct cli *c, const char *method, json_t *params,
          json_t **ret_result)
{
  return cli_call_fd (c, method, params, -1, ret_result);
}

/* Something has happened at the server, or a second has passed. */
static void
wait_for_change (struct cli *c)
{
  struct pollfd p = { .fd = c->fd, .events = POLLIN };

  if ((c->in_len > 0 && memchr (c->in, '\n', c->in_len) != NULL) ||
      poll (&p, 1, 1000) > 0)
    json_decref (cli_next_event (c));
}

/* C's message gets a hint: what this server can be asked. */
static int
note_clients (struct cli *c)
{
  char *message = c->message, *text = NULL;
  bool knows;

  c->message = NULL;
  knows = cli_call (c, "host.clients", NULL, NULL) == 0;
  if (asprintf (&text, "%s; %s--when-free waits", message ? message : "",
                knows ? "btrnbd clients tells by whom, " : "") < 0)
    text = NULL;
  free (message);
  free (c->message);
  c->message = text;
  return -1;
}

int
cli_call_busy (struct cli *c, const char *method, json_t *params, bool wait,
               json_t **ret_result)
{
  bool listening = false;
  int r;

  while ((r = cli_call (c, method, json_incref (params), ret_result)) < 0 &&
         c->error_errno == EBUSY && wait && c->socket) {
    /* A server that tells of no events is asked every second. */
    if (!listening)
      cli_call (c, "events.subscribe", NULL, NULL);
    listening = true;
    wait_for_change (c);
  }
  json_decref (params);
  return r < 0 && c->error_errno == EBUSY && c->socket && !wait
    ? note_clients (c) : r;
}

int
cli_call_list (struct cli *c, const char *method, const char *path,
               json_t **ret_array)
{
  json_t *all = json_array (), *page, *params;
  const size_t max = 5000;
  size_t n;

  do {
    params = json_pack ("{s:I,s:I}", "skip",
                        (json_int_t) json_array_size (all), "max",
                        (json_int_t) max);
    if (path)
      json_object_set_new (params, "path", rpc_string (path));
    if (cli_call (c, method, params, &page) < 0) {
      json_decref (all);
      return -1;
    }
    n = json_array_size (page);
    json_array_extend (all, page);
    json_decref (page);
  } while (n == max);
  *ret_array = all;
  return 0;
}

static int
call_failed (struct cli *c, const char *fmt, va_list args)
{
  int len = strlen (c->message);
  char what[4096] = "", tail[4096 + 2];
  const char *name = what;

  vsnprintf (what, sizeof what, fmt, args);
  /* Once is enough, also where one of them has a slash before it. */
  if (*name == '/')
    name++;
  snprintf (tail, sizeof tail, ": %s", name);
  if (len > (int) strlen (tail)
      && strcmp (c->message + len - strlen (tail), tail) == 0)
    len -= strlen (tail);
  fprintf (stderr, "btrnbd: %s: %.*s\n", what, len, c->message);
  return 1;
}

int
cli_call_failed (struct cli *c, const char *fmt, ...)
{
  va_list args;

  va_start (args, fmt);
  call_failed (c, fmt, args);
  va_end (args);
  return 1;
}

static int
connect_server (struct cli *c)
{
  c->fd = cli_socket_open (c->socket);
  return c->fd == -1 ? 1 : 0;
}

int
cli_connect (struct cli *c, bool read_only)
{
  return c->socket ? connect_server (c) : cli_open (c, read_only);
}

const char *
cli_pool_name (const struct cli *c)
{
  return c->socket ? c->socket : c->devices[0];
}

int
cli_disconnect (struct cli *c, int status)
{
  free (c->message);
  c->message = NULL;
  if (c->pool)
    return cli_close (c, status);
  close (c->fd);
  c->fd = -1;
  free (c->in);
  c->in = NULL;
  c->in_len = c->in_size = 0;
  return cli_finish_output (status);
}

int
cli_do (struct cli *c, const char *method, json_t *params, const char *fmt,
        ...)
{
  int status = cli_connect (c, false);
  va_list args;

  if (status) {
    json_decref (params);
    return status;
  }
  if (cli_call (c, method, params, NULL) < 0) {
    va_start (args, fmt);
    status = call_failed (c, fmt, args);
    va_end (args);
  }
  return cli_disconnect (c, status);
}

int
cli_show (struct cli *c, const char *method, void (*print) (const json_t *))
{
  int status = cli_connect (c, true);
  json_t *result = NULL;

  if (status)
    return status;
  if (cli_call (c, method, NULL, &result) < 0)
    status = cli_call_failed (c, "%s", cli_pool_name (c));
  else if (c->json)
    status = cli_print_json (json_incref (result));
  else
    print (result);
  json_decref (result);
  return cli_disconnect (c, status);
}
