/* Signals, and an end in bounded time.
 *
 * nbdkit waits for its clients when it is told to end, an idle one included,
 * and fails the requests they have sent.  So the signals are ours: a thread
 * of the plugin turns new clients away, closes the reading side of the
 * connections (what was received before is answered), waits until all export
 * handles are closed, and only then lets the server end.  Clients that do
 * not take their replies are cut off after DRAIN_MS.
 *
 *   RUNNING --signal--> DRAINING --no clients--> nbdkit_shutdown
 *                          | DRAIN_MS             ^
 *                          +--> CUTTING ----------+  CUT_MS, or a 2nd signal
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "plugin.h"

#define DRAIN_MS 2500
#define CUT_MS 3500             /* counted from the signal, too */
#define SCAN_MS 20
#define LISTENERS_MAX 64
#define INHERITED_MAX 16

static atomic_bool draining;
static int wake[2] = { -1, -1 }; /* bytes: 't' end, 'h' reload, 'q' stop */
static pthread_t thread;
static bool running;

static void
send_byte (char c)
{
  int saved = errno;
  ssize_t n;

  n = write (wake[1], &c, 1); /* full: the thread is awake anyway */
  (void) n;
  errno = saved;
}

static void
handle_end (int sig)
{
  (void) sig;
  send_byte ('t');
}

static void
handle_reload (int sig)
{
  (void) sig;
  send_byte ('h');
}

static int64_t
now_ms (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * INT64_C (1000) + ts.tv_nsec / 1000000;
}

/* --- the server's sockets --- */

struct local_name {
  struct sockaddr_storage addr;
  socklen_t len;
};

static bool
socket_name (int fd, struct local_name *ret, bool *ret_listens)
{
  int listens = 0;
  socklen_t len = sizeof listens;

  memset (ret, 0, sizeof *ret);
  ret->len = sizeof ret->addr;
  if (getsockname (fd, (struct sockaddr *) &ret->addr, &ret->len) < 0 ||
      getsockopt (fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0)
    return false;
  *ret_listens = listens != 0;
  return true;
}

/* Is A what accept gives on a socket that listens as L?  The address may be
 * a wildcard there, the port is not.
 */
static bool
accepted_from (const struct local_name *a, const struct local_name *l)
{
  if (a->addr.ss_family != l->addr.ss_family)
    return false;
  switch (a->addr.ss_family) {
  case AF_INET:
    return ((const struct sockaddr_in *) &a->addr)->sin_port ==
      ((const struct sockaddr_in *) &l->addr)->sin_port;
  case AF_INET6:
    return ((const struct sockaddr_in6 *) &a->addr)->sin6_port ==
      ((const struct sockaddr_in6 *) &l->addr)->sin6_port;
  default:
    return a->len == l->len && memcmp (&a->addr, &l->addr, a->len) == 0;
  }
}

typedef void (*fd_fn) (void *opaque, int fd);

static void
each_fd (fd_fn fn, void *opaque)
{
  DIR *dir = opendir ("/proc/self/fd");
  struct dirent *d;

  if (dir == NULL)
    return;
  while ((d = readdir (dir)) != NULL) {
    char *end;
    long fd = strtol (d->d_name, &end, 10);

    if (*end == '\0' && end != d->d_name && fd != dirfd (dir))
      fn (opaque, fd);
  }
  closedir (dir);
}

/* With -s the client is on standard input, of which nbdkit keeps a copy
 * somewhere: the sockets that were there before the plugin was.
 */
static struct { dev_t dev; ino_t ino; } inherited[INHERITED_MAX];
static unsigned num_inherited;

static void
note_inherited (void *opaque, int fd)
{
  struct stat st, err;

  (void) opaque;
  if (num_inherited == INHERITED_MAX || fd == STDERR_FILENO ||
      fstat (fd, &st) < 0 || !S_ISSOCK (st.st_mode))
    return;
  /* Messages may go to a socket. */
  if (fstat (STDERR_FILENO, &err) == 0 && err.st_ino == st.st_ino &&
      err.st_dev == st.st_dev)
    return;
  inherited[num_inherited].dev = st.st_dev;
  inherited[num_inherited++].ino = st.st_ino;
}

static bool
was_inherited (int fd)
{
  struct stat st;
  unsigned i;

  if (fstat (fd, &st) < 0)
    return false;
  for (i = 0; i < num_inherited; i++)
    if (inherited[i].dev == st.st_dev && inherited[i].ino == st.st_ino)
      return true;
  return false;
}

struct scan {
  struct local_name listeners[LISTENERS_MAX];
  unsigned num_listeners;
  int how;                      /* of shutdown (2) */
  unsigned clients;
};

static void
note_listener (void *opaque, int fd)
{
  struct scan *s = opaque;
  struct local_name n;
  bool listens;

  if (plugin_control_is_listener (fd))
    return; /* its clients are none of the server's */
  if (s->num_listeners < LISTENERS_MAX && socket_name (fd, &n, &listens) &&
      listens)
    s->listeners[s->num_listeners++] = n;
}

static void
close_client (void *opaque, int fd)
{
  struct scan *s = opaque;
  struct local_name n;
  bool listens;
  unsigned i;

  if (!socket_name (fd, &n, &listens) || listens)
    return;
  for (i = 0; i < s->num_listeners; i++)
    if (accepted_from (&n, &s->listeners[i])) {
      s->clients++;
      shutdown (fd, s->how);
      return;
    }
  /* Not counted: nbdkit may keep its copy open. */
  if (s->num_listeners == 0 && was_inherited (fd))
    shutdown (fd, s->how);
}

/* Shut down every client's socket; returns how many there are. */
static unsigned
close_clients (int how)
{
  struct scan s = { .how = how };

  each_fd (note_listener, &s);
  each_fd (close_client, &s);
  return s.clients;
}

/* --- the thread --- */

/* The next byte, or 0 after TIMEOUT_MS (-1: no limit). */
static char
next_byte (int timeout_ms)
{
  struct pollfd p = { .fd = wake[0], .events = POLLIN };
  char c;

  for (;;) {
    int n = poll (&p, 1, timeout_ms);

    if (n == 0)
      return 0;
    if (n > 0 && read (wake[0], &c, 1) == 1)
      return c;
    if (errno != EINTR && errno != EAGAIN)
      return 'q';
  }
}

static void
drain (void)
{
  int64_t start = now_ms ();
  unsigned clients, handles;
  bool cut;

  atomic_store (&draining, true);
  nbdkit_debug ("draining: %u open handles", plugin_open_handles ());
  for (;;) {
    cut = now_ms () - start >= DRAIN_MS;
    clients = close_clients (cut ? SHUT_RDWR : SHUT_RD);
    handles = plugin_open_handles ();
    if (clients == 0 && handles == 0)
      break;
    if (now_ms () - start >= CUT_MS) {
      nbdkit_error ("ending with %u clients that do not leave", clients);
      break;
    }
    switch (next_byte (SCAN_MS)) {
    case 't':
      nbdkit_error ("second signal: ending at once");
      close_clients (SHUT_RDWR);
      return;
    case 'q':
      return;
    default:
      break;
    }
  }
}

static void *
thread_main (void *arg)
{
  (void) arg;
  for (;;)
    switch (next_byte (-1)) {
    case 't':
      drain ();
      nbdkit_shutdown ();
      return NULL;
    case 'h':
      nbdkit_debug ("SIGHUP: there is no configuration file to read again");
      break;
    case 'q':
      return NULL;
    default:
      break;
    }
}

/* --- for plugin.c --- */

bool
shutdown_draining (void)
{
  return atomic_load (&draining);
}

void
shutdown_load (void)
{
  each_fd (note_inherited, NULL);
}

int
shutdown_start (void)
{
  static const int ends[] = { SIGTERM, SIGINT, SIGQUIT };
  struct sigaction sa;
  sigset_t all, old;
  size_t i;
  int err;

  if (pipe2 (wake, O_CLOEXEC | O_NONBLOCK) < 0) {
    nbdkit_error ("pipe2: %m");
    return -1;
  }
  sigfillset (&all);
  pthread_sigmask (SIG_BLOCK, &all, &old);
  err = pthread_create (&thread, NULL, thread_main, NULL);
  pthread_sigmask (SIG_SETMASK, &old, NULL);
  if (err != 0) {
    errno = err;
    nbdkit_error ("pthread_create: %m");
    return -1;
  }
  running = true;
  memset (&sa, 0, sizeof sa);
  sigfillset (&sa.sa_mask);
  sa.sa_flags = SA_RESTART;
  sa.sa_handler = handle_end;
  for (i = 0; i < sizeof ends / sizeof ends[0]; i++)
    sigaction (ends[i], &sa, NULL);
  sa.sa_handler = handle_reload;
  sigaction (SIGHUP, &sa, NULL);
  return 0;
}

void
shutdown_stop (void)
{
  static const int sigs[] = { SIGTERM, SIGINT, SIGQUIT, SIGHUP };
  size_t i;

  if (running) {
    /* Committing takes as long as it takes; a signal now changes nothing. */
    for (i = 0; i < sizeof sigs / sizeof sigs[0]; i++)
      signal (sigs[i], SIG_IGN);
    send_byte ('q');
    pthread_join (thread, NULL);
    running = false;
  }
  for (i = 0; i < 2; i++)
    if (wake[i] >= 0) {
      close (wake[i]);
      wake[i] = -1;
    }
}
