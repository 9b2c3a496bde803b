/* daemon: connections by peer. */
#include <config.h>

#include <assert.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/peers.h"
#include "host/context.h"

/* Who it is, without what differs between its connections. */
struct key {
  int family;
  uint8_t bytes[16];
};

struct peer {
  LIST_ENTRY (peer) link;
  struct key key;
  unsigned bucket, connections;
  bool told;                   /* that it has too many */
};

static struct key
key_of (const struct host_peer *p)
{
  struct key k;

  memset (&k, 0, sizeof k);    /* compared as a whole */
  k.family = p->addr.ss_family;
  switch (k.family) {
  case AF_UNIX:
    memcpy (k.bytes, &p->uid, sizeof p->uid);
    break;
  case AF_INET:
    memcpy (k.bytes, &((const struct sockaddr_in *) &p->addr)->sin_addr, 4);
    break;
  case AF_INET6:
    memcpy (k.bytes, &((const struct sockaddr_in6 *) &p->addr)->sin6_addr,
            16);
    break;
  case AF_VSOCK:
    memcpy (k.bytes, &((const struct sockaddr_vm *) &p->addr)->svm_cid,
            sizeof (unsigned));
    break;
  }
  return k;
}

static unsigned
bucket_of (const struct key *k)
{
  unsigned h = k->family;
  size_t i;

  for (i = 0; i < sizeof k->bytes; ++i)
    h = h * 31 + k->bytes[i];
  return h % PEERS_BUCKETS;
}

void
peers_init (struct peers *x)
{
  unsigned i;

  pthread_mutex_init (&x->lock, NULL);
  for (i = 0; i < PEERS_BUCKETS; ++i)
    LIST_INIT (&x->buckets[i]);
}

void
peers_done (struct peers *x)
{
  unsigned i;

  for (i = 0; i < PEERS_BUCKETS; ++i)
    assert (LIST_EMPTY (&x->buckets[i]));
  pthread_mutex_destroy (&x->lock);
}

/* Find or make; the lock is held. */
static struct peer *
get (struct peers *x, const struct key *k)
{
  const unsigned bucket = bucket_of (k);
  struct peer *p;

  LIST_FOREACH (p, &x->buckets[bucket], link)
    if (memcmp (&p->key, k, sizeof *k) == 0)
      return p;
  p = calloc (1, sizeof *p);
  if (p == NULL)
    return NULL;
  p->key = *k;
  p->bucket = bucket;
  LIST_INSERT_HEAD (&x->buckets[bucket], p, link);
  return p;
}

struct peer *
peers_enter (struct peers *x, const struct host_peer *host_peer, unsigned max,
             bool *ret_first)
{
  const struct key k = key_of (host_peer);
  struct peer *p;

  *ret_first = false;
  pthread_mutex_lock (&x->lock);
  p = get (x, &k);
  if (p && max > 0 && p->connections >= max) {
    *ret_first = !p->told;
    p->told = true;
    p = NULL;
  }
  else if (p)
    p->connections++;
  pthread_mutex_unlock (&x->lock);
  return p;
}

void
peers_leave (struct peers *x, struct peer *p)
{
  if (p == NULL)
    return;
  pthread_mutex_lock (&x->lock);
  p->told = false;
  if (--p->connections == 0) {
    LIST_REMOVE (p, link);
    free (p);
  }
  pthread_mutex_unlock (&x->lock);
}
