/* daemon: a list of the clients: the loops tell, whoever asks sorts. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "control/rpc.h"
#include "daemon/clients.h"
#include "daemon/conn.h"

struct client_info {
  unsigned long id;
  char peer[CONN_PEER_MAX];
  char *export_name;
  enum conn_state state;
  bool tls;
  double since;
  unsigned in_flight;
  uint64_t bytes_in, bytes_out, requests, errors;
};

struct clients {
  pthread_mutex_t lock;        /* protects all below */
  struct client_info *v;
  size_t count, room;
  bool nomem;
};

static bool
note_client (struct clients *all, struct conn *c)
{
  struct client_info *i;

  if (all->count == all->room) {
    const size_t room = all->room ? 2 * all->room : 64;
    void *p = realloc (all->v, room * sizeof *all->v);

    if (p == NULL)
      return false;
    all->v = p;
    all->room = room;
  }
  i = &all->v[all->count];
  *i = (struct client_info) {
    .id = c->id, .state = c->state, .tls = c->context.tls,
    .export_name = strdup (conn_export_name (c)), .since = c->since,
    .in_flight = c->jobs, .bytes_in = c->bytes_in,
    .bytes_out = c->bytes_out, .requests = c->requests, .errors = c->errors,
  };
  conn_peer (c, i->peer, sizeof i->peer);
  if (i->export_name)
    all->count++;
  return i->export_name != NULL;
}

static void
note_clients (struct loop *l, void *opaque)
{
  struct clients *all = opaque;
  struct conn *c;

  pthread_mutex_lock (&all->lock);
  TAILQ_FOREACH (c, &l->conns, link)
    if (c->state < CONN_DEAD && !note_client (all, c))
      all->nomem = true;
  pthread_mutex_unlock (&all->lock);
}

static int
by_id (const void *a, const void *b)
{
  const struct client_info *x = a, *y = b;

  return (x->id > y->id) - (x->id < y->id);
}

static json_t *
client_json (const struct client_info *i)
{
  static const char *const states[] = {
    [CONN_HANDSHAKE] = "handshake", [CONN_ASKING] = "handshake",
    [CONN_TLS] = "handshake", [CONN_TRANSMIT] = "attached",
    [CONN_ENDING] = "ending", [CONN_DEAD] = "ending",
    [CONN_CLOSING] = "ending",
  };

  return json_pack ("{s:I,s:s,s:o,s:s,s:b,s:f,s:i,s:I,s:I,s:I,s:I}",
                    "client", (json_int_t) i->id, "peer", i->peer,
                    "export", rpc_utf8 (i->export_name),
                    "state", states[i->state], "tls", i->tls,
                    "since", i->since, "in_flight", (int) i->in_flight,
                    "requests", (json_int_t) i->requests,
                    "errors", (json_int_t) i->errors,
                    "bytes_in", (json_int_t) i->bytes_in,
                    "bytes_out", (json_int_t) i->bytes_out);
}

json_t *
clients_json (struct server *s)
{
  struct clients all = { .lock = PTHREAD_MUTEX_INITIALIZER };
  json_t *array;
  size_t i;

  if (!loops_ask (s, note_clients, &all))
    all.nomem = true;
  array = json_array ();
  if (all.count > 0)
    qsort (all.v, all.count, sizeof *all.v, by_id);
  for (i = 0; i < all.count; i++) {
    json_array_append_new (array, client_json (&all.v[i]));
    free (all.v[i].export_name);
  }
  free (all.v);
  if (all.nomem) {
    json_decref (array);
    array = NULL;
  }
  return array;
}
