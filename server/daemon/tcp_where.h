/* daemon: where a TCP socket listens: [HOST:]PORT. */
#ifndef BTRNBDD_DAEMON_TCP_WHERE_H
#define BTRNBDD_DAEMON_TCP_WHERE_H

struct addrinfo;

struct tcp_where {
  char host[256];              /* "": not said; "*": all addresses */
  const char *port;            /* in the text; a number or a known service */
};

/* HOST:PORT, [ADDRESS]:PORT or PORT.  Names of hosts are not looked up.  -1
 * with a text that begins with TEXT.
 */
extern int tcp_where_parse (const char *text, struct tcp_where *ret,
                            char **ret_error);
/* Its addresses, for freeaddrinfo; where no host is said those of HOST (NULL:
 * all).
 */
extern int tcp_where_look_up (const char *text, const struct tcp_where *,
                              const char *host, struct addrinfo **ret,
                              char **ret_error);

#endif /* BTRNBDD_DAEMON_TCP_WHERE_H */
