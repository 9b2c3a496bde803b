/* daemon: where a TCP socket listens. */
#include <config.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/fail.h"
#include "daemon/tcp_where.h"

#define PORT_MAX 65535

/* getaddrinfo takes any number, and 16 bits of it. */
static int
check_port (const char *text, const char *port, char **ret_error)
{
  const struct addrinfo hints = { .ai_flags = AI_PASSIVE,
    .ai_socktype = SOCK_STREAM };
  struct addrinfo *list;
  char *end;
  unsigned long n;

  if (*port == '\0')
    return fail (ret_error, "%s: there is no port", text);
  if (port[strspn (port, "0123456789")] == '\0') {
    n = strtoul (port, &end, 10);
    return n <= PORT_MAX ? 0
      : fail (ret_error, "%s: a port is at most %d", text, PORT_MAX);
  }
  if (getaddrinfo (NULL, port, &hints, &list) != 0)
    return fail (ret_error, "%s: \"%s\" is neither a port nor a service that "
                 "is known", text, port);
  freeaddrinfo (list);
  return 0;
}

int
tcp_where_parse (const char *text, struct tcp_where *ret, char **ret_error)
{
  const char *host = text, *colon = strrchr (text, ':');
  struct in6_addr a6;
  struct in_addr a4;
  size_t len = colon ? colon - text : 0;
  const bool brackets = len >= 2 && host[0] == '[' && host[len - 1] == ']';

  if (brackets) {
    host++;
    len -= 2;
  }
  if (len >= sizeof ret->host)
    return fail (ret_error, "%s: the host name is too long", text);
  memcpy (ret->host, host, len);
  ret->host[len] = '\0';
  ret->port = colon ? colon + 1 : text;
  /* A scope ("%eth0") is for the look-up. */
  if (brackets && strchr (ret->host, '%') == NULL &&
      inet_pton (AF_INET6, ret->host, &a6) != 1 &&
      inet_pton (AF_INET, ret->host, &a4) != 1)
    return fail (ret_error, "%s: \"%s\" is not an address", text, ret->host);
  return check_port (text, ret->port, ret_error);
}

int
tcp_where_look_up (const char *text, const struct tcp_where *w,
                   const char *host, struct addrinfo **ret, char **ret_error)
{
  const struct addrinfo hints = { .ai_flags = AI_PASSIVE,
    .ai_socktype = SOCK_STREAM };
  int r;

  if (w->host[0] != '\0')
    host = strcmp (w->host, "*") == 0 ? NULL : w->host;
  r = getaddrinfo (host, w->port, &hints, ret);
  return r == 0 ? 0 : fail (ret_error, "%s: %s", text, gai_strerror (r));
}
