/* daemon: statistics as JSON, for the control socket and the status page. */
#include <config.h>

#include <stdlib.h>

#include "control/rpc.h"
#include "daemon/server.h"
#include "daemon/stats_json.h"

static json_t *
buckets_json (const struct op_sum *s)
{
  json_t *a = json_array ();
  unsigned b;

  for (b = 0; b < STATS_BUCKETS; b++)
    json_array_append_new (a, json_integer (s->buckets[b]));
  return a;
}

json_t *
op_sum_json (const struct op_sum *s)
{
  return json_pack ("{s:I,s:I,s:I,s:f,s:f,s:f,s:o}",
                    "requests", (json_int_t) s->requests,
                    "errors", (json_int_t) s->errors,
                    "bytes", (json_int_t) s->bytes,
                    "seconds", s->ns / 1e9,
                    "p50", op_sum_quantile (s, 0.5),
                    "p99", op_sum_quantile (s, 0.99),
                    "buckets", buckets_json (s));
}

json_t *
ops_json (const struct op_sum *ops, bool all)
{
  json_t *o = json_object ();
  unsigned op;

  for (op = 0; op < STATS_OPS; op++)
    if (all || ops[op].requests > 0)
      json_object_set_new (o, stats_op_names[op], op_sum_json (&ops[op]));
  return o;
}

json_t *
stats_json (struct server *s)
{
  struct stats_sum sum;
  json_t *exports, *result;
  size_t i;

  if (!stats_sum (s, &sum))
    return NULL;
  exports = json_array ();
  for (i = 0; i < sum.count; i++)
    json_array_append_new (
      exports, json_pack ("{s:o,s:I,s:o}",
                          "name", rpc_utf8 (sum.exports[i].name),
                          "connections",
                          (json_int_t) sum.exports[i].connections, "ops",
                          ops_json (sum.exports[i].op, false)));
  result = json_pack ("{s:f,s:I,s:I,s:I,s:I,s:I,s:o,s:o}",
                      "started", s->started,
                      "connections", (json_int_t) s->connections,
                      "connections_total", (json_int_t) sum.connections,
                      "bytes_in", (json_int_t) sum.bytes_in,
                      "bytes_out", (json_int_t) sum.bytes_out,
                      "bytes_in_flight", (json_int_t) s->bytes,
                      "ops", ops_json (sum.total, true),
                      "exports", exports);
  stats_sum_done (&sum);
  return result;
}
