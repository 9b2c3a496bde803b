/* daemon: counters of requests. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/server.h"
#include "daemon/stats.h"

const char *const stats_op_names[STATS_OPS] = {
  "read", "write", "flush", "trim", "zero", "cache", "status",
};

/* --- the loop's --- */

void
stats_init (struct loop_stats *s)
{
  memset (s, 0, sizeof *s);
}

void
stats_free (struct loop_stats *s)
{
  struct export_stats *e = s->exports, *next;

  for (; e; e = next) {
    next = e->next;
    free (e);
  }
}

static struct export_stats *
find (struct loop_stats *s, const char *name)
{
  struct export_stats *e = s->exports;

  while (e && strcmp (e->name, name) != 0)
    e = e->next;
  return e;
}

struct export_stats *
stats_export (struct loop_stats *s, const char *name)
{
  struct export_stats *e = find (s, name);

  if (e == NULL && s->count == STATS_EXPORTS_MAX) {
    name = STATS_OTHERS;
    e = find (s, name);
  }
  if (e)
    return e;
  e = calloc (1, sizeof *e + strlen (name) + 1);
  if (e == NULL)
    return NULL;
  strcpy (e->name, name);
  e->next = s->exports;
  /* Whole before others see it. */
  atomic_store_explicit (&s->exports, e, memory_order_release);
  if (strcmp (name, STATS_OTHERS) != 0)
    s->count++;
  return e;
}

/* --- sums --- */

static uint64_t
get (const _Atomic uint64_t *counter)
{
  return atomic_load_explicit (counter, memory_order_relaxed);
}

/* Requests last: with the buckets read first there are never more in them
 * than requests.
 */
static void
op_read (const struct stats_counters *c, struct op_sum *ret)
{
  unsigned b;

  for (b = 0; b < STATS_BUCKETS; b++)
    ret->buckets[b] = get (&c->buckets[b]);
  ret->bytes = get (&c->bytes);
  ret->ns = get (&c->ns);
  ret->errors = get (&c->errors);
  ret->requests = get (&c->requests);
}

void
op_sum_add (struct op_sum *to, const struct op_sum *from)
{
  unsigned b;

  to->requests += from->requests;
  to->errors += from->errors;
  to->bytes += from->bytes;
  to->ns += from->ns;
  for (b = 0; b < STATS_BUCKETS; b++)
    to->buckets[b] += from->buckets[b];
}

void
op_sum_since (struct op_sum *now, const struct op_sum *earlier)
{
  unsigned b;

  now->requests -= earlier->requests;
  now->errors -= earlier->errors;
  now->bytes -= earlier->bytes;
  now->ns -= earlier->ns;
  for (b = 0; b < STATS_BUCKETS; b++)
    now->buckets[b] -= earlier->buckets[b];
}

static int
by_name (const void *a, const void *b)
{
  const struct export_sum *x = a, *y = b;

  return strcmp (x->name, y->name);
}

/* The same export of several loops becomes one. */
static void
merge (struct stats_sum *s)
{
  size_t i, n = 0;
  unsigned op;

  if (s->count > 0)
    qsort (s->exports, s->count, sizeof *s->exports, by_name);
  for (i = 0; i < s->count; i++)
    if (n > 0 && strcmp (s->exports[n - 1].name, s->exports[i].name) == 0) {
      s->exports[n - 1].connections += s->exports[i].connections;
      for (op = 0; op < STATS_OPS; op++)
        op_sum_add (&s->exports[n - 1].op[op], &s->exports[i].op[op]);
    }
    else if (n++ != i)
      s->exports[n - 1] = s->exports[i];
  s->count = n;
  for (i = 0; i < n; i++)
    for (op = 0; op < STATS_OPS; op++)
      op_sum_add (&s->total[op], &s->exports[i].op[op]);
}

static bool
add_export (struct stats_sum *s, size_t *room, const struct export_stats *e)
{
  struct export_sum *x;
  uint64_t left;
  unsigned op;

  if (s->count == *room) {
    *room = *room ? 2 * *room : 16;
    x = realloc (s->exports, *room * sizeof *x);
    if (x == NULL)
      return false;
    s->exports = x;
  }
  x = &s->exports[s->count++];
  memset (x, 0, sizeof *x);
  x->name = e->name;
  left = get (&e->left); /* first: never less than none */
  x->connections = get (&e->attached) - left;
  for (op = 0; op < STATS_OPS; op++)
    op_read (&e->op[op], &x->op[op]);
  return true;
}

bool
stats_sum (struct server *server, struct stats_sum *ret)
{
  const struct export_stats *e;
  size_t room = 0;
  unsigned i;

  memset (ret, 0, sizeof *ret);
  for (i = 0; i < server->nloops; i++) {
    struct loop_stats *l = &server->loops[i].stats;

    ret->connections += get (&l->connections);
    ret->bytes_in += get (&l->bytes_in);
    ret->bytes_out += get (&l->bytes_out);
    for (e = atomic_load_explicit (&l->exports, memory_order_acquire); e;
         e = e->next)
      if (!add_export (ret, &room, e)) {
        stats_sum_done (ret);
        return false;
      }
  }
  merge (ret);
  return true;
}

void
stats_sum_done (struct stats_sum *s)
{
  free (s->exports);
  s->exports = NULL;
  s->count = 0;
}

double
stats_bucket_bound (unsigned bucket)
{
  return (double) (UINT64_C (1) << (STATS_BUCKET_FIRST + bucket)) / 1e9;
}

double
op_sum_quantile (const struct op_sum *s, double q)
{
  uint64_t all = 0, below = 0;
  double rank, low;
  unsigned b;

  for (b = 0; b < STATS_BUCKETS; b++)
    all += s->buckets[b];
  if (all == 0)
    return 0;
  rank = q * all;
  for (b = 0; b < STATS_BUCKETS - 1 && below + s->buckets[b] < rank; b++)
    below += s->buckets[b];
  low = b == 0 ? 0 : stats_bucket_bound (b - 1);
  if (s->buckets[b] == 0)
    return low;
  return low + (stats_bucket_bound (b) - low) * (rank - below) /
    s->buckets[b];
}
