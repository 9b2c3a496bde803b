/* daemon: telling whoever started the server how to reach it. */
#include <config.h>

#include <arpa/inet.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "daemon/server.h"
#include "host/log.h"

/* HOST:PORT of a URI; the address for all is written as this machine. */
static void
tcp_authority (const struct sockaddr_storage *ss, char *buf, size_t size)
{
  const struct sockaddr_in *in = (const void *) ss;
  const struct sockaddr_in6 *in6 = (const void *) ss;
  char text[INET6_ADDRSTRLEN];

  if (ss->ss_family == AF_INET && in->sin_addr.s_addr != INADDR_ANY) {
    inet_ntop (AF_INET, &in->sin_addr, text, sizeof text);
    snprintf (buf, size, "%s:%u", text, ntohs (in->sin_port));
  }
  else if (ss->ss_family == AF_INET6 &&
           !IN6_IS_ADDR_UNSPECIFIED (&in6->sin6_addr)) {
    inet_ntop (AF_INET6, &in6->sin6_addr, text, sizeof text);
    snprintf (buf, size, "[%s]:%u", text, ntohs (in6->sin6_port));
  }
  else
    snprintf (buf, size, "localhost:%u",
              ntohs (ss->ss_family == AF_INET ? in->sin_port
                     : in6->sin6_port));
}

/* False: no URI leads there. */
static bool
listener_uri (const struct listener *l, bool tls, char *buf, size_t size)
{
  struct sockaddr_storage ss = { .ss_family = AF_UNSPEC };
  const struct sockaddr_un *un = (const void *) &ss;
  const struct sockaddr_vm *vm = (const void *) &ss;
  socklen_t len = sizeof ss - 1; /* a path may fill its field */
  const char *scheme = tls ? "nbds" : "nbd";
  char where[INET6_ADDRSTRLEN + 16];

  if (getsockname (l->fd, (struct sockaddr *) &ss, &len) == -1)
    return false;
  switch (ss.ss_family) {
  case AF_UNIX:
    if (un->sun_path[0] == '\0')
      return false;
    snprintf (buf, size, "%s+unix:///?socket=%s", scheme, un->sun_path);
    return true;
  case AF_INET:
  case AF_INET6:
    tcp_authority (&ss, where, sizeof where);
    snprintf (buf, size, "%s://%s", scheme, where);
    return true;
  case AF_VSOCK:
    snprintf (buf, size, "%s+vsock://%u:%u", scheme,
              vm->svm_cid == VMADDR_CID_ANY ? VMADDR_CID_LOCAL : vm->svm_cid,
              vm->svm_port);
    return true;
  default:
    return false;
  }
}

void
server_greet (const struct server *s)
{
  const bool tls = s->tls_policy == HS_TLS_REQUIRE;
  const struct listener *l;
  char uri[256];

  SLIST_FOREACH (l, &s->listeners, link)
    if (listener_uri (l, tls, uri, sizeof uri))
      host_log (HOST_LOG_INFO, "serving; to attach: nbdinfo --list '%s'",
                uri);
    else
      host_log (HOST_LOG_INFO, "serving on %s", l->spec);
}
