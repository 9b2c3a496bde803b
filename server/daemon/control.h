/* daemon: the control socket: host.* methods of ours, the plugin's beside
 * them (through <btrnbd/plugin-ext.h>).  btrnbd-control(7) is the protocol.
 */
#ifndef BTRNBDD_DAEMON_CONTROL_H
#define BTRNBDD_DAEMON_CONTROL_H

#include <jansson.h>

#include "daemon/server.h"

struct conn;
struct control_request;

/* Make the socket at PATH; in the main thread, before serving.  -1: a message
 * has been printed.
 */
extern int control_open (struct server *, const char *path);
/* Where a server without --control makes it, or NULL: the runtime directory
 * that systemd gave, /run/btrnbd of root, or that of the user.  BUF of SIZE
 * bytes.
 */
extern const char *control_default_path (char *buf, size_t size);
/* With loops running; the socket of control_open becomes the server's. */
extern int control_start (struct server *);
/* With loops running, without connections. */
extern void control_stop (struct server *);

/* Tell subscribers; any thread, cheap when there are none.  TYPE is
 * "client.connected" and the like; TEXT may be NULL.
 */
extern void control_client_happened (struct conn *, const char *type,
                                     const char *text);
extern void control_server_happened (struct server *, const char *type);

/* --- control_methods.c: methods of the host --- */

struct host_method {
  const char *name;
  bool on_loop;                /* it does not wait */
  void (*run) (struct server *, struct control_request *);
};
extern const struct host_method host_methods[]; /* ends with a NULL name */
extern const struct host_method *host_method_find (const char *name);

#endif /* BTRNBDD_DAEMON_CONTROL_H */
