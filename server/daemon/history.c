/* daemon: rates of the last minutes. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "control/rpc.h"
#include "daemon/history.h"
#include "daemon/server.h"

static double
per_second (uint64_t now, uint64_t before, double seconds)
{
  return now > before ? (now - before) / seconds : 0;
}

static uint64_t
other_requests (const struct op_sum *ops)
{
  uint64_t n = 0;
  unsigned op;

  for (op = STATS_FLUSH; op < STATS_OPS; op++)
    n += ops[op].requests;
  return n;
}

static uint64_t
all_errors (const struct op_sum *ops)
{
  uint64_t n = 0;
  unsigned op;

  for (op = 0; op < STATS_OPS; op++)
    n += ops[op].errors;
  return n;
}

static double
p99_since (const struct op_sum *now, const struct op_sum *before)
{
  struct op_sum d = *now;

  op_sum_since (&d, before);
  return op_sum_quantile (&d, 0.99);
}

static struct sample
sample_of (const struct stats_sum *now, const struct stats_sum *before,
           double seconds)
{
  const struct op_sum *a = now->total, *b = before->total;

  return (struct sample) {
    .reads = per_second (a[STATS_READ].requests, b[STATS_READ].requests,
                         seconds),
    .writes = per_second (a[STATS_WRITE].requests, b[STATS_WRITE].requests,
                          seconds),
    .others = per_second (other_requests (a), other_requests (b), seconds),
    .read_bytes = per_second (a[STATS_READ].bytes, b[STATS_READ].bytes,
                              seconds),
    .written_bytes = per_second (a[STATS_WRITE].bytes, b[STATS_WRITE].bytes,
                                 seconds),
    .errors = per_second (all_errors (a), all_errors (b), seconds),
    .read_p99 = p99_since (&a[STATS_READ], &b[STATS_READ]),
    .write_p99 = p99_since (&a[STATS_WRITE], &b[STATS_WRITE]),
  };
}

static const struct op_sum *
ops_before (const struct stats_sum *before, const char *name, size_t *hint)
{
  static const struct op_sum none[STATS_OPS];

  /* Both are sorted. */
  while (*hint < before->count &&
         strcmp (before->exports[*hint].name, name) < 0)
    ++*hint;
  return *hint < before->count &&
    strcmp (before->exports[*hint].name, name) == 0
    ? before->exports[*hint].op : none;
}

/* Those that did something; NULL: nobody, or no memory. */
static struct export_rate *
rates_of (const struct stats_sum *now, const struct stats_sum *before,
          double seconds, size_t *ret_count)
{
  struct export_rate *v = calloc (now->count + 1, sizeof *v);
  size_t i, hint = 0, n = 0;

  for (i = 0; v && i < now->count; i++) {
    const struct op_sum *a = now->exports[i].op;
    const struct op_sum *b = ops_before (before, now->exports[i].name,
                                         &hint);
    struct export_rate r = {
      .name = now->exports[i].name,
      .reads = per_second (a[STATS_READ].requests, b[STATS_READ].requests,
                           seconds),
      .writes = per_second (a[STATS_WRITE].requests,
                            b[STATS_WRITE].requests, seconds),
      .others = per_second (other_requests (a), other_requests (b),
                            seconds),
      .read_bytes = per_second (a[STATS_READ].bytes, b[STATS_READ].bytes,
                                seconds),
      .written_bytes = per_second (a[STATS_WRITE].bytes,
                                   b[STATS_WRITE].bytes, seconds),
    };

    if (r.reads + r.writes + r.others > 0)
      v[n++] = r;
  }
  *ret_count = n;
  return v;
}

static void
on_timer (struct ev_loop *ev, ev_timer *w, int revents)
{
  struct history *h = w->data;
  const double now = ev_now (ev), seconds = now - h->last_time;
  struct export_rate *rates, *old;
  struct stats_sum sum;
  struct sample s;
  size_t n;

  (void) revents;
  if (seconds <= 0 || !stats_sum (h->server, &sum))
    return;
  s = sample_of (&sum, &h->last, seconds);
  s.time = now;
  s.connections = h->server->connections;
  rates = rates_of (&sum, &h->last, seconds, &n);
  pthread_mutex_lock (&h->lock);
  h->ring[h->next] = s;
  h->next = (h->next + 1) % HISTORY_SAMPLES;
  if (h->count < HISTORY_SAMPLES)
    h->count++;
  old = h->rates;
  h->rates = rates;
  h->num_rates = n;
  pthread_mutex_unlock (&h->lock);
  free (old);
  stats_sum_done (&h->last);
  h->last = sum;
  h->last_time = now;
}

void
history_start (struct history *h, struct server *s)
{
  memset (h, 0, sizeof *h);
  h->server = s;
  pthread_mutex_init (&h->lock, NULL);
  stats_sum (s, &h->last);
  h->last_time = ev_time ();
  ev_timer_init (&h->timer, on_timer, HISTORY_SECONDS, HISTORY_SECONDS);
  h->timer.data = h;
  ev_timer_start (s->ev, &h->timer);
}

void
history_stop (struct history *h)
{
  ev_timer_stop (h->server->ev, &h->timer);
  stats_sum_done (&h->last);
  free (h->rates);
  pthread_mutex_destroy (&h->lock);
}

json_t *
history_json (struct history *h)
{
  struct sample *copy = malloc (sizeof h->ring);
  json_t *samples = json_array ();
  unsigned i, n, first;

  if (copy == NULL) {
    json_decref (samples);
    return NULL;
  }
  pthread_mutex_lock (&h->lock);
  memcpy (copy, h->ring, sizeof h->ring);
  n = h->count;
  first = (h->next + HISTORY_SAMPLES - n) % HISTORY_SAMPLES;
  pthread_mutex_unlock (&h->lock);
  for (i = 0; i < n; i++) {
    const struct sample *s = &copy[(first + i) % HISTORY_SAMPLES];

    json_array_append_new (
      samples, json_pack ("[f,f,f,f,f,f,f,f,f,i]", s->time, s->reads,
                          s->writes, s->others, s->read_bytes,
                          s->written_bytes, s->errors, s->read_p99,
                          s->write_p99, (int) s->connections));
  }
  free (copy);
  return json_pack ("{s:f,s:i,s:[s,s,s,s,s,s,s,s,s,s],s:o}", "interval",
                    HISTORY_SECONDS, "size", HISTORY_SAMPLES, "fields",
                    "time", "reads", "writes", "others", "read_bytes",
                    "written_bytes", "errors", "read_p99", "write_p99",
                    "connections", "samples", samples);
}

json_t *
history_rates_json (struct history *h)
{
  json_t *o = json_object (), *name;
  size_t i;

  pthread_mutex_lock (&h->lock);
  for (i = 0; i < h->num_rates; i++) {
    const struct export_rate *r = &h->rates[i];

    name = rpc_utf8 (r->name);
    if (name)
      json_object_set_new (
        o, json_string_value (name),
        json_pack ("{s:f,s:f,s:f,s:f,s:f}", "reads", r->reads, "writes",
                   r->writes, "others", r->others, "read_bytes",
                   r->read_bytes, "written_bytes", r->written_bytes));
    json_decref (name);
  }
  pthread_mutex_unlock (&h->lock);
  return o;
}
