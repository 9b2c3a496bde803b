/* daemon: listening sockets. */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
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
#include "host/log.h"

#define BACKLOG 128
#define ACCEPT_BATCH 64
#define ACCEPT_RETRY_SECONDS 1.0
#define LISTEN_FDS_FIRST 3     /* sd_listen_fds(3) */

static int
listener_register (struct server *s, int fd, const char *name,
                   const char *unlink_path)
{
  struct listener *l = calloc (1, sizeof *l);

  if (l) {
    l->server = s;
    l->fd = fd;
    l->name = strdup (name);
    l->unlink_path = unlink_path ? strdup (unlink_path) : NULL;
  }
  if (l == NULL || l->name == NULL || (unlink_path && !l->unlink_path)) {
    host_log (HOST_LOG_ERROR, "out of memory");
    close (fd);
    if (l)
      free (l->name);
    free (l);
    return -1;
  }
  SLIST_INSERT_HEAD (&s->listeners, l, link);
  return 0;
}

static int
listen_on (struct server *s, const struct sockaddr *addr, socklen_t len,
           const char *name, const char *unlink_path)
{
  const int fd = socket (addr->sa_family,
                         SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int one = 1;

  if (fd == -1) {
    host_log (HOST_LOG_ERROR, "%s: socket: %s", name, strerror (errno));
    return -1;
  }
  if (addr->sa_family == AF_INET || addr->sa_family == AF_INET6)
    setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (addr->sa_family == AF_INET6)
    setsockopt (fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
  if (bind (fd, addr, len) == -1 || listen (fd, BACKLOG) == -1) {
    host_log (HOST_LOG_ERROR, "%s: %s", name, strerror (errno));
    close (fd);
    return -1;
  }
  return listener_register (s, fd, name, unlink_path);
}

/* A socket file that nobody listens on is left over from a crash. */
static void
remove_stale (const struct sockaddr_un *un)
{
  struct stat st;
  int fd;

  if (lstat (un->sun_path, &st) == -1 || !S_ISSOCK (st.st_mode))
    return;
  fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd == -1)
    return;
  if (connect (fd, (const struct sockaddr *) un, sizeof *un) == -1 &&
      errno == ECONNREFUSED)
    unlink (un->sun_path);
  close (fd);
}

static int
listen_unix (struct server *s, const char *path)
{
  struct sockaddr_un un = { .sun_family = AF_UNIX };

  if (*path == '\0' || strlen (path) >= sizeof un.sun_path) {
    host_log (HOST_LOG_ERROR, "unix:%s: the path must have 1 to %zu bytes",
              path, sizeof un.sun_path - 1);
    return -1;
  }
  strcpy (un.sun_path, path);
  remove_stale (&un);
  return listen_on (s, (struct sockaddr *) &un, sizeof un, path, path);
}

static int
listen_vsock (struct server *s, const char *spec)
{
  struct sockaddr_vm vm = { .svm_family = AF_VSOCK };
  const char *colon = strchr (spec, ':');
  char cid[16];
  uint32_t n;

  vm.svm_cid = VMADDR_CID_ANY;
  if (colon) {
    if ((size_t) (colon - spec) >= sizeof cid)
      return -1;
    memcpy (cid, spec, colon - spec);
    cid[colon - spec] = '\0';
    if (cid[0] && strcmp (cid, "*") != 0) {
      if (nbdkit_parse_uint32_t ("vsock CID", cid, &n) == -1)
        return -1;
      vm.svm_cid = n;
    }
    spec = colon + 1;
  }
  if (nbdkit_parse_uint32_t ("vsock port", spec, &n) == -1)
    return -1;
  vm.svm_port = n;
  return listen_on (s, (struct sockaddr *) &vm, sizeof vm, "vsock", NULL);
}

/* HOST:PORT, [ADDRESS]:PORT, :PORT or *:PORT for all addresses. */
static int
listen_tcp (struct server *s, const char *spec)
{
  const struct addrinfo hints = { .ai_flags = AI_PASSIVE,
    .ai_socktype = SOCK_STREAM };
  struct addrinfo *list, *a;
  const char *colon = strrchr (spec, ':');
  char host[256];
  size_t len;
  int r, n = 0;

  if (colon == NULL || colon[1] == '\0') {
    host_log (HOST_LOG_ERROR, "%s: not unix:PATH, HOST:PORT or "
              "vsock:CID:PORT", spec);
    return -1;
  }
  len = colon - spec;
  if (len >= 2 && spec[0] == '[' && spec[len - 1] == ']') {
    spec++;
    len -= 2;
  }
  if (len >= sizeof host) {
    host_log (HOST_LOG_ERROR, "%s: the host name is too long", spec);
    return -1;
  }
  memcpy (host, spec, len);
  host[len] = '\0';
  r = getaddrinfo (host[0] == '\0' || strcmp (host, "*") == 0 ? NULL : host,
                   colon + 1, &hints, &list);
  if (r != 0) {
    host_log (HOST_LOG_ERROR, "%s: %s", spec, gai_strerror (r));
    return -1;
  }
  for (a = list; a; a = a->ai_next)
    if (listen_on (s, a->ai_addr, a->ai_addrlen, spec, NULL) == 0)
      ++n;
    else if (a->ai_next == NULL && n == 0)
      r = -1;
  freeaddrinfo (list);
  return n > 0 ? 0 : -1;
}

int
listener_add (struct server *s, const char *spec)
{
  if (strncmp (spec, "unix:", 5) == 0)
    return listen_unix (s, spec + 5);
  if (spec[0] == '/')
    return listen_unix (s, spec);
  if (strncmp (spec, "vsock:", 6) == 0)
    return listen_vsock (s, spec + 6);
  return listen_tcp (s, spec);
}

int
listener_add_activated (struct server *s)
{
  const char *pid = getenv ("LISTEN_PID"), *fds = getenv ("LISTEN_FDS");
  char name[32];
  int n, i;

  if (pid == NULL || fds == NULL || atol (pid) != (long) getpid ())
    return 0;
  if (nbdkit_parse_int ("LISTEN_FDS", fds, &n) == -1 || n < 1 || n > 64) {
    host_log (HOST_LOG_ERROR, "LISTEN_FDS=%s makes no sense", fds);
    return -1;
  }
  for (i = 0; i < n; ++i) {
    const int fd = LISTEN_FDS_FIRST + i;
    const int flags = fcntl (fd, F_GETFL);

    if (flags == -1 || fcntl (fd, F_SETFL, flags | O_NONBLOCK) == -1 ||
        fcntl (fd, F_SETFD, FD_CLOEXEC) == -1) {
      host_log (HOST_LOG_ERROR, "passed socket %d: %s", fd,
                strerror (errno));
      return -1;
    }
    snprintf (name, sizeof name, "passed socket %d", fd);
    if (listener_register (s, fd, name, NULL) == -1)
      return -1;
  }
  unsetenv ("LISTEN_PID");
  unsetenv ("LISTEN_FDS");
  return n;
}

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
        host_log (HOST_LOG_ERROR, "%s: accept: %s", l->name,
                  strerror (errno));
        listeners_stop (s);
        ev_timer_set (&s->accept_retry, ACCEPT_RETRY_SECONDS, 0);
        ev_timer_start (s->ev, &s->accept_retry);
      }
      return;
    }
    c = conn_new (s, fd);
    if (c == NULL) {
      host_log (HOST_LOG_ERROR, "%s: out of memory", l->name);
      continue;
    }
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
    close (l->fd);
    if (l->unlink_path)
      unlink (l->unlink_path);
    free (l->unlink_path);
    free (l->name);
    free (l);
  }
}
