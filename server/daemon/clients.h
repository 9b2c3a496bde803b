/* daemon: a list of the clients. */
#ifndef BTRNBDD_DAEMON_CLIENTS_H
#define BTRNBDD_DAEMON_CLIENTS_H

#include <jansson.h>

struct server;

/* What host.clients answers; asks the loops and waits for them.  NULL: out of
 * memory.
 */
extern json_t *clients_json (struct server *);

#endif /* BTRNBDD_DAEMON_CLIENTS_H */
