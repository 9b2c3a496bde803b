/* daemon: listening sockets. */
#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/vm_sockets.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/conn.h"
#include "daemon/fail.h"
#include "daemon/tcp_where.h"
#include "host/log.h"

#define BACKLOG 1024
#define ACCEPT_BATCH 64
#define ACCEPT_RETRY_SECONDS 1.0
#define LISTEN_FDS_FIRST 3     /* sd_listen_fds(3) */
#define PASSED "passed socket" /* what their specs begin with */

/* Somebody else may have put a file in the place of ours. */
static void
remove_path (const struct listener *l)
{
  struct stat st;

  if (l->unlink_path && lstat (l->unlink_path, &st) == 0 &&
      st.st_dev == l->dev && st.st_ino == l->ino)
    unlink (l->unlink_path);
}

static void
listener_free (struct listener *l)
{
  if (l->fd != -1)
    close (l->fd);
  remove_path (l);
  free (l->unlink_path);
  free (l->spec);
  free (l);
}

static int
listener_register (struct server *s, int fd, const char *spec,
                   const char *unlink_path, char **ret_error)
{
  struct listener *l = calloc (1, sizeof *l);
  struct stat st;

  if (l == NULL) {
    close (fd);
    return fail (ret_error, "out of memory");
  }
  l->server = s;
  l->fd = fd;
  l->passed = strncmp (spec, PASSED, strlen (PASSED)) == 0;
  l->spec = strdup (spec);
  l->unlink_path = unlink_path ? strdup (unlink_path) : NULL;
  if (l->unlink_path && lstat (l->unlink_path, &st) == 0) {
    l->dev = st.st_dev;
    l->ino = st.st_ino;
  }
  if (l->spec == NULL || (unlink_path && !l->unlink_path)) {
    listener_free (l);
    return fail (ret_error, "out of memory");
  }
  SLIST_INSERT_HEAD (&s->listeners, l, link);
  return 0;
}

static int
listen_on (struct server *s, const struct sockaddr *addr, socklen_t len,
           const char *spec, const char *unlink_path, char **ret_error)
{
  const int fd = socket (addr->sa_family,
                         SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int one = 1, err;

  if (fd == -1)
    return fail (ret_error, "%s: socket: %s", spec, strerror (errno));
  if (addr->sa_family == AF_INET || addr->sa_family == AF_INET6)
    setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (addr->sa_family == AF_INET6)
    setsockopt (fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
  if (bind (fd, addr, len) == -1 || listen (fd, BACKLOG) == -1) {
    err = errno;
    close (fd);
    return fail (ret_error, "%s: %s", spec, strerror (err));
  }
  return listener_register (s, fd, spec, unlink_path, ret_error);
}

/* A socket file that nobody listens on is left over from a crash.  (One with
 * a long queue is somebody's, and is not waited for.)
 */
static void
remove_stale (const struct sockaddr_un *un)
{
  struct stat st;
  int fd;

  if (lstat (un->sun_path, &st) == -1 || !S_ISSOCK (st.st_mode))
    return;
  fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd == -1)
    return;
  if (connect (fd, (const struct sockaddr *) un, sizeof *un) == -1 &&
      errno == ECONNREFUSED)
    unlink (un->sun_path);
  close (fd);
}

static int
parse_unix (const char *spec, const char *path, struct sockaddr_un *ret,
            char **ret_error)
{
  *ret = (struct sockaddr_un) { .sun_family = AF_UNIX };
  if (*path == '\0' || strlen (path) >= sizeof ret->sun_path)
    return fail (ret_error, "%s: the path must have 1 to %zu bytes", spec,
                 sizeof ret->sun_path - 1);
  strcpy (ret->sun_path, path);
  return 0;
}

static int
listen_unix (struct server *s, const char *spec, const char *path,
             char **ret_error)
{
  struct sockaddr_un un;

  if (parse_unix (spec, path, &un, ret_error) == -1)
    return -1;
  remove_stale (&un);
  return listen_on (s, (struct sockaddr *) &un, sizeof un, spec, path,
                    ret_error);
}

/* "PORT", ":PORT", "*:PORT" or "CID:PORT". */
static int
parse_vsock (const char *spec, const char *where, struct sockaddr_vm *ret,
             char **ret_error)
{
  const char *colon = strchr (where, ':');
  const char *port = colon ? colon + 1 : where;
  unsigned long cid = VMADDR_CID_ANY, n;
  char *end;

  if (colon && colon != where && !(colon == where + 1 && *where == '*')) {
    cid = strtoul (where, &end, 10);
    if (!isdigit ((unsigned char) *where) || end != colon ||
        cid > UINT32_MAX)
      return fail (ret_error, "%s: the CID is not a number", spec);
  }
  n = strtoul (port, &end, 10);
  if (!isdigit ((unsigned char) *port) || *end || n > UINT32_MAX)
    return fail (ret_error, "%s: the port is not a number", spec);
  *ret = (struct sockaddr_vm) { .svm_family = AF_VSOCK, .svm_cid = cid,
    .svm_port = n };
  return 0;
}

static int
listen_vsock (struct server *s, const char *spec, const char *where,
              char **ret_error)
{
  struct sockaddr_vm vm;

  if (parse_vsock (spec, where, &vm, ret_error) == -1)
    return -1;
  return listen_on (s, (struct sockaddr *) &vm, sizeof vm, spec, NULL,
                    ret_error);
}

/* A port alone is not enough here: "foo" may be any mistake. */
static int
parse_tcp (const char *spec, struct tcp_where *ret, char **ret_error)
{
  if (strchr (spec, ':') == NULL)
    return fail (ret_error, "%s: not unix:PATH, HOST:PORT or "
                 "vsock:CID:PORT", spec);
  return tcp_where_parse (spec, ret, ret_error);
}

/* HOST:PORT, [ADDRESS]:PORT, :PORT or *:PORT for all addresses.  One of
 * several addresses is enough.
 */
static int
listen_tcp (struct server *s, const char *spec, char **ret_error)
{
  struct addrinfo *list, *a;
  struct tcp_where w;
  int n = 0;

  if (parse_tcp (spec, &w, ret_error) == -1 ||
      tcp_where_look_up (spec, &w, NULL, &list, ret_error) == -1)
    return -1;
  for (a = list; a; a = a->ai_next)
    if (listen_on (s, a->ai_addr, a->ai_addrlen, spec, NULL, ret_error) == 0)
      ++n;
  freeaddrinfo (list);
  if (n == 0)
    return -1;
  free (*ret_error);
  *ret_error = NULL;
  return 0;
}

static int
listener_add (struct server *s, const char *spec, char **ret_error)
{
  if (strncmp (spec, "unix:", 5) == 0)
    return listen_unix (s, spec, spec + 5, ret_error);
  if (spec[0] == '/')
    return listen_unix (s, spec, spec, ret_error);
  if (strncmp (spec, "vsock:", 6) == 0)
    return listen_vsock (s, spec, spec + 6, ret_error);
  return listen_tcp (s, spec, ret_error);
}

int
listen_check (const char *spec, char **ret_error)
{
  struct sockaddr_un un;
  struct sockaddr_vm vm;
  struct tcp_where w;

  if (strncmp (spec, "unix:", 5) == 0)
    return parse_unix (spec, spec + 5, &un, ret_error);
  if (spec[0] == '/')
    return parse_unix (spec, spec, &un, ret_error);
  if (strncmp (spec, "vsock:", 6) == 0)
    return parse_vsock (spec, spec + 6, &vm, ret_error);
  return parse_tcp (spec, &w, ret_error);
}

/* --- sockets that systemd has passed --- */

static int
take_passed (struct server *s, int fd, const char *fd_name, char **ret_error)
{
  char spec[300];
  const int flags = fcntl (fd, F_GETFL);
  socklen_t len = sizeof (int);
  int type = 0, listening = 0;

  snprintf (spec, sizeof spec, PASSED " %d (%.200s)", fd, fd_name);
  if (flags == -1 || fcntl (fd, F_SETFL, flags | O_NONBLOCK) == -1 ||
      fcntl (fd, F_SETFD, FD_CLOEXEC) == -1 ||
      getsockopt (fd, SOL_SOCKET, SO_TYPE, &type, &len) == -1 ||
      getsockopt (fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) == -1)
    return fail (ret_error, "%s: %s", spec, strerror (errno));
  if (type != SOCK_STREAM || !listening)
    return fail (ret_error, "%s: not a stream socket that listens", spec);
  return listener_register (s, fd, spec, NULL, ret_error);
}

int
listener_add_activated (struct server *s, char **ret_error)
{
  const char *pid = getenv ("LISTEN_PID"), *fds = getenv ("LISTEN_FDS");
  const char *names = getenv ("LISTEN_FDNAMES");
  char *all, *next, *name, *end;
  long n;
  int i, r = 0;

  if (pid == NULL || fds == NULL || atol (pid) != (long) getpid ())
    return 0;
  n = strtol (fds, &end, 10);
  if (!isdigit ((unsigned char) *fds) || *end || n < 1 || n > 64)
    return fail (ret_error, "LISTEN_FDS=%s makes no sense", fds);
  next = all = strdup (names ? names : "");
  if (all == NULL)
    return fail (ret_error, "out of memory");
  for (i = 0; r == 0 && i < n; ++i) {
    name = next ? strsep (&next, ":") : NULL;
    r = take_passed (s, LISTEN_FDS_FIRST + i, name && *name ? name : "nbd",
                     ret_error);
  }
  free (all);
  unsetenv ("LISTEN_PID");
  unsetenv ("LISTEN_FDS");
  unsetenv ("LISTEN_FDNAMES");
  return r == 0 ? n : -1;
}

/* --- changing them while serving --- */

static bool
listened_on (const struct server *s, const char *spec)
{
  const struct listener *l;

  SLIST_FOREACH (l, &s->listeners, link)
    if (!l->passed && strcmp (l->spec, spec) == 0)
      return true;
  return false;
}

static bool
is_wanted (const struct listener *l, const char *const *specs, size_t count)
{
  size_t i;

  for (i = 0; i < count; ++i)
    if (strcmp (l->spec, specs[i]) == 0)
      return true;
  return l->passed;
}

/* Close all that are not kept. */
static void
close_others (struct server *s)
{
  struct listener *l, *next;

  for (l = SLIST_FIRST (&s->listeners); l != NULL; l = next) {
    next = SLIST_NEXT (l, link);
    if (l->kept)
      continue;
    SLIST_REMOVE (&s->listeners, l, listener, link);
    listener_free (l);
  }
}

/* A socket that anybody here can find, and this machine's port. */
static size_t
default_specs (const char **specs, char *buf, size_t size)
{
  const char *dir = getenv ("RUNTIME_DIRECTORY");
  size_t n = 0;
  int len = -1;

  specs[n++] = "127.0.0.1:10809";
  if (dir && *dir == '/' && strchr (dir, ':') == NULL)
    len = snprintf (buf, size, "unix:%s/nbd.sock", dir);
  else if (geteuid () == 0) {
    if (mkdir ("/run/btrnbd", 0755) == 0 || errno == EEXIST)
      len = snprintf (buf, size, "unix:/run/btrnbd/nbd.sock");
  }
  else {
    dir = getenv ("XDG_RUNTIME_DIR");
    if (dir && *dir == '/')
      len = snprintf (buf, size, "unix:%s/btrnbd-nbd.sock", dir);
  }
  if (len > 0 && (size_t) len < size)
    specs[n++] = buf;
  return n;
}

int
listeners_change (struct server *s, const char *const *specs, size_t count,
                  char **ret_error)
{
  const char *standard[2];
  char buf[PATH_MAX];
  const bool accepting = s->accepting;
  bool passed = false;
  struct listener *l;
  size_t i;
  int r = 0;

  listeners_stop (s);
  SLIST_FOREACH (l, &s->listeners, link) {
    l->kept = true;
    passed |= l->passed;
  }
  if (count == 0 && !passed) {
    specs = standard;
    count = default_specs (standard, buf, sizeof buf);
  }
  for (i = 0; r == 0 && i < count; ++i)
    if (!listened_on (s, specs[i]))
      r = listener_add (s, specs[i], ret_error);
  if (r == 0)
    SLIST_FOREACH (l, &s->listeners, link)
      l->kept = is_wanted (l, specs, count);
  close_others (s);
  if (accepting)
    listeners_start (s);
  return r;
}

/* --- accepting --- */

static bool
room_for_one (const struct server *s)
{
  const bool alone = s->plugin.thread_model ==
    NBDKIT_THREAD_MODEL_SERIALIZE_CONNECTIONS;

  return s->connections < (alone ? 1 : s->limits.connections);
}

static void
on_accept (struct ev_loop *ev, ev_io *w, int revents)
{
  struct listener *l = w->data;
  struct server *s = l->server;
  struct conn *c;
  int i, fd;

  (void) ev;
  (void) revents;
  for (i = 0; i < ACCEPT_BATCH; ++i) {
    if (!room_for_one (s)) {
      /* The backlog holds the others until somebody leaves. */
      listeners_stop (s);
      return;
    }
    fd = accept4 (l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd == -1) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
        host_log (HOST_LOG_ERROR, "%s: accept: %s", l->spec,
                  strerror (errno));
        listeners_stop (s);
        ev_timer_set (&s->accept_retry, ACCEPT_RETRY_SECONDS, 0);
        ev_timer_start (s->ev, &s->accept_retry);
      }
      return;
    }
    c = conn_new (s, fd);
    if (c)
      loop_take_conn (&s->loops[s->next_loop++ % s->nloops], c);
  }
}

void
listeners_start (struct server *s)
{
  struct listener *l;

  if (s->accepting)
    return;
  SLIST_FOREACH (l, &s->listeners, link) {
    ev_io_init (&l->watcher, on_accept, l->fd, EV_READ);
    l->watcher.data = l;
    ev_io_start (s->ev, &l->watcher);
  }
  s->accepting = true;
}

void
listeners_stop (struct server *s)
{
  struct listener *l;

  if (!s->accepting)
    return;
  SLIST_FOREACH (l, &s->listeners, link)
    ev_io_stop (s->ev, &l->watcher);
  s->accepting = false;
}

void
listeners_free (struct server *s)
{
  struct listener *l;

  while ((l = SLIST_FIRST (&s->listeners)) != NULL) {
    SLIST_REMOVE_HEAD (&s->listeners, link);
    listener_free (l);
  }
}
