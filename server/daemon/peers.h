/* daemon: how many connections each peer has: a user of this machine, an
 * address, a virtual machine.
 */
#ifndef BTRNBDD_DAEMON_PEERS_H
#define BTRNBDD_DAEMON_PEERS_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>

#define PEERS_BUCKETS 256

struct host_peer;
struct peer;

struct peers {
  pthread_mutex_t lock;        /* protects all below */
  LIST_HEAD (, peer) buckets[PEERS_BUCKETS];
};

extern void peers_init (struct peers *);
extern void peers_done (struct peers *); /* all have left */
/* One more connection, of at most MAX (0: any number).  NULL: too many
 * (*RET_FIRST: the first since it had none too many), or no memory.
 */
extern struct peer *peers_enter (struct peers *, const struct host_peer *,
                                 unsigned max, bool *ret_first);
extern void peers_leave (struct peers *, struct peer *); /* accepts NULL */

#endif /* BTRNBDD_DAEMON_PEERS_H */
