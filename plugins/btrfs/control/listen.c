/* control: the socket file. */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/server.h"

#define BACKLOG 128

/* Remove what a crash left: a socket that refuses connections. */
static void
remove_stale (const struct sockaddr_un *un)
{
  struct stat st;
  int fd;

  if (lstat (un->sun_path, &st) < 0 || !S_ISSOCK (st.st_mode))
    return;
  fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return;
  if (connect (fd, (const struct sockaddr *) un, sizeof *un) < 0 &&
      errno == ECONNREFUSED)
    unlink (un->sun_path);
  close (fd);
}

int
control_listen (const char *path, char *why, size_t size)
{
  struct sockaddr_un un = { .sun_family = AF_UNIX };
  int fd;

  if (*path == '\0' || strlen (path) >= sizeof un.sun_path) {
    snprintf (why, size, "control socket \"%s\": the path must have 1 to %zu "
              "bytes", path, sizeof un.sun_path - 1);
    return -1;
  }
  strcpy (un.sun_path, path);
  remove_stale (&un);
  fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  /* The mode before bind is that of the file: it is never open to others. */
  if (fd >= 0 && fchmod (fd, 0600) == 0 &&
      bind (fd, (const struct sockaddr *) &un, sizeof un) == 0 &&
      listen (fd, BACKLOG) == 0)
    return fd;
  snprintf (why, size, "control socket %s: %s", path,
            errno == EADDRINUSE ? "in use by another server, or another file"
            : strerror (errno));
  if (fd >= 0)
    close (fd);
  return -1;
}
