/* daemon: telling systemd how things stand. */
#include <config.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/notify.h"
#include "host/log.h"

/* Never waits: a full queue loses the message, not the server's time. */
static void
tell (const char *text)
{
  const char *path = getenv ("NOTIFY_SOCKET");
  struct sockaddr_un un = { .sun_family = AF_UNIX };
  size_t len = path ? strlen (path) : 0;
  int fd;

  if (len < 2 || len >= sizeof un.sun_path ||
      (path[0] != '/' && path[0] != '@'))
    return;
  memcpy (un.sun_path, path, len);
  if (un.sun_path[0] == '@')
    un.sun_path[0] = '\0'; /* abstract: no file */
  fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd == -1)
    return;
  if (sendto (fd, text, strlen (text), MSG_NOSIGNAL,
              (struct sockaddr *) &un,
              offsetof (struct sockaddr_un, sun_path) + len) == -1)
    host_log (HOST_LOG_DEBUG, "NOTIFY_SOCKET=%s: %m", path);
  close (fd);
}

void
notify_ready (const char *fmt, ...)
{
  char text[512] = "READY=1\nSTATUS=";
  const size_t len = strlen (text);
  va_list args;
  char *p;

  va_start (args, fmt);
  vsnprintf (text + len, sizeof text - len, fmt, args);
  va_end (args);
  for (p = text + len; *p; ++p)
    if (*p == '\n')
      *p = ' ';
  tell (text);
}

void
notify_reloading (void)
{
  struct timespec t;
  char text[80];

  clock_gettime (CLOCK_MONOTONIC, &t);
  snprintf (text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%llu",
            t.tv_sec * 1000000ull + t.tv_nsec / 1000);
  tell (text);
}

void
notify_stopping (unsigned seconds, unsigned clients)
{
  char text[160];

  /* Behind the clients' time come a commit and the plugin's end. */
  snprintf (text, sizeof text, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%llu\n"
            "STATUS=Shutting down, %u clients are connected",
            (seconds + 60) * 1000000ull, clients);
  tell (text);
}
