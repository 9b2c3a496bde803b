/* daemon: the metrics in Prometheus' text format.
 *
 * Labels come from bounded sets: kinds of requests, the exports that have
 * counters (stats.h bounds them) and the exports that the pool lists
 * (pool_watch.h does).
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/rpc.h"
#include "daemon/metrics.h"
#include "daemon/server.h"

#define BOUND_FIRST 4           /* buckets that are told: this one and every */
#define BOUND_STEP 2            /* so many after it */

static void
head (FILE *f, const char *name, const char *type, const char *help)
{
  fprintf (f, "# HELP btrnbd_%s %s\n# TYPE btrnbd_%s %s\n", name, help, name,
           type);
}

static void
single (FILE *f, const char *name, const char *type, const char *help,
        double value)
{
  head (f, name, type, help);
  fprintf (f, "btrnbd_%s %.17g\n", name, value);
}

/* A label's value, which must be UTF-8. */
static void
put_label (FILE *f, const char *value)
{
  json_t *utf8 = rpc_utf8 (value ? value : "");
  const char *p = utf8 ? json_string_value (utf8) : "";

  for (; *p; p++)
    if (*p == '\\' || *p == '"')
      fprintf (f, "\\%c", *p);
    else if (*p == '\n')
      fputs ("\\n", f);
    else
      putc (*p, f);
  json_decref (utf8);
}

static void
labelled (FILE *f, const char *name, const char *export, const char *op)
{
  fprintf (f, "btrnbd_%s{export=\"", name);
  put_label (f, export);
  if (op)
    fprintf (f, "\",op=\"%s", op);
  fputs ("\"", f);
}

/* --- the server --- */

enum field { REQUESTS, ERRORS, BYTES };

static void
put_counters (FILE *f, const struct stats_sum *s, const char *name,
              const char *help, enum field field)
{
  size_t i;
  unsigned op;

  head (f, name, "counter", help);
  for (i = 0; i < s->count; i++)
    for (op = 0; op < STATS_OPS; op++) {
      const struct op_sum *x = &s->exports[i].op[op];

      if (x->requests == 0)
        continue;
      labelled (f, name, s->exports[i].name, stats_op_names[op]);
      fprintf (f, "} %" PRIu64 "\n", field == REQUESTS ? x->requests
               : field == ERRORS ? x->errors : x->bytes);
    }
}

static void
put_histogram (FILE *f, const char *export, const char *op,
               const struct op_sum *x)
{
  static const char name[] = "request_duration_seconds";
  uint64_t below = 0;
  unsigned b;

  for (b = 0; b < STATS_BUCKETS - 1; b++) {
    below += x->buckets[b];
    if (b < BOUND_FIRST || (b - BOUND_FIRST) % BOUND_STEP != 0)
      continue;
    labelled (f, "request_duration_seconds_bucket", export, op);
    fprintf (f, ",le=\"%.9g\"} %" PRIu64 "\n", stats_bucket_bound (b), below);
  }
  below += x->buckets[STATS_BUCKETS - 1];
  labelled (f, "request_duration_seconds_bucket", export, op);
  fprintf (f, ",le=\"+Inf\"} %" PRIu64 "\n", below);
  fprintf (f, "btrnbd_%s_sum", name);
  fputs ("{export=\"", f);
  put_label (f, export);
  fprintf (f, "\",op=\"%s\"} %.9g\n", op, x->ns / 1e9);
  fprintf (f, "btrnbd_%s_count", name);
  fputs ("{export=\"", f);
  put_label (f, export);
  fprintf (f, "\",op=\"%s\"} %" PRIu64 "\n", op, below);
}

static void
put_exports (FILE *f, const struct stats_sum *s)
{
  size_t i;
  unsigned op;

  head (f, "export_connections", "gauge",
        "Connections that have the export open.");
  for (i = 0; i < s->count; i++) {
    labelled (f, "export_connections", s->exports[i].name, NULL);
    fprintf (f, "} %" PRIu64 "\n", s->exports[i].connections);
  }
  put_counters (f, s, "requests_total", "Requests, answered or refused.",
                REQUESTS);
  put_counters (f, s, "request_errors_total",
                "Requests that were answered with an error.", ERRORS);
  put_counters (f, s, "request_bytes_total",
                "Bytes that requests without an error were about.", BYTES);
  head (f, "request_duration_seconds", "histogram",
        "From a request's arrival to its answer, without errors.");
  for (i = 0; i < s->count; i++)
    for (op = 0; op < STATS_OPS; op++)
      if (s->exports[i].op[op].requests > 0)
        put_histogram (f, s->exports[i].name, stats_op_names[op],
                       &s->exports[i].op[op]);
}

static void
put_server (FILE *f, struct server *s, const struct stats_sum *sum)
{
  head (f, "build_info", "gauge", "The program; the value is 1.");
  fprintf (f, "btrnbd_build_info{version=\"%s\",plugin=\"", PACKAGE_VERSION);
  put_label (f, s->plugin.p.name ? s->plugin.p.name : "");
  fputs ("\"} 1\n", f);
  single (f, "start_time_seconds", "gauge", "When the server started.",
          s->started);
  single (f, "connections", "gauge", "Connections now.", s->connections);
  single (f, "connections_total", "counter", "Connections so far.",
          sum->connections);
  single (f, "received_bytes_total", "counter", "Bytes from clients.",
          sum->bytes_in);
  single (f, "sent_bytes_total", "counter", "Bytes to clients.",
          sum->bytes_out);
  single (f, "in_flight_bytes", "gauge",
          "Payloads of requests in flight, and replies that are not sent.",
          s->bytes);
}

/* --- the pool --- */

static double
number (const json_t *o, const char *key)
{
  return json_number_value (json_object_get (o, key));
}

static void
put_space (FILE *f, const json_t *df)
{
  static const char *const kinds[] = { "data", "metadata", "system" };
  size_t i;

  single (f, "pool_size_bytes", "gauge", "Size of the pool's devices.",
          number (df, "total_bytes"));
  single (f, "pool_used_bytes", "gauge", "Space in use, one copy counted.",
          number (json_object_get (df, "data"), "used") +
          number (json_object_get (df, "metadata"), "used") +
          number (json_object_get (df, "system"), "used"));
  single (f, "pool_free_bytes", "gauge",
          "About how much more data fits.", number (df, "free_estimate"));
  single (f, "pool_unallocated_bytes", "gauge",
          "Space that belongs to no block group.",
          number (df, "unallocated"));
  head (f, "pool_block_groups_bytes", "gauge",
        "Block groups per kind: their size, and what of it is used.");
  for (i = 0; i < 3; i++) {
    const json_t *k = json_object_get (df, kinds[i]);

    fprintf (f, "btrnbd_pool_block_groups_bytes{kind=\"%s\",state=\"total\"} "
             "%.17g\n", kinds[i], number (k, "total"));
    fprintf (f, "btrnbd_pool_block_groups_bytes{kind=\"%s\",state=\"used\"} "
             "%.17g\n", kinds[i], number (k, "used"));
  }
}

static void
put_engine (FILE *f, const json_t *st)
{
  static const struct {
    const char *name, *type, *help, *key;
    double scale;
  } all[] = {
    { "pool_commits_total", "counter", "Commits.", "commits", 1 },
    { "pool_commit_seconds_total", "counter", "Time spent in commits.",
      "commit_ns_total", 1e-9 },
    { "pool_cache_bytes", "gauge", "Memory of the data cache.",
      "data_cache_bytes", 1 },
    { "pool_dirty_bytes", "gauge", "Of it, data that is not written yet.",
      "data_dirty_bytes", 1 },
    { "pool_cache_hits_total", "counter", "Pages found in the data cache.",
      "data_hits", 1 },
    { "pool_cache_misses_total", "counter", "Pages not found there.",
      "data_misses", 1 },
    { "pool_read_bytes_total", "counter", "Data read from devices.",
      "data_read_bytes", 1 },
    { "pool_written_bytes_total", "counter", "Data written to devices.",
      "data_written_bytes", 1 },
    { "pool_overwritten_bytes_total", "counter",
      "Of it, written in place (nocow).", "data_nocow_bytes", 1 },
    { "pool_metadata_written_bytes_total", "counter",
      "Tree blocks written to devices.", "block_writes_bytes", 1 },
    { "pool_metadata_reads_total", "counter",
      "Tree blocks read from devices.", "block_reads", 1 },
    { "pool_repaired_blocks_total", "counter",
      "Bad copies that were repaired from a good one.", "blocks_repaired",
      1 },
  };
  size_t i;

  for (i = 0; i < sizeof all / sizeof all[0]; i++)
    single (f, all[i].name, all[i].type, all[i].help,
            number (st, all[i].key) * all[i].scale);
}

static void
put_volumes (FILE *f, const json_t *exports)
{
  const json_t *e;
  size_t i;

  head (f, "volume_size_bytes", "gauge", "Size of a volume.");
  json_array_foreach (exports, i, e)
    if (json_is_true (json_object_get (e, "volume"))) {
      labelled (f, "volume_size_bytes",
                json_string_value (json_object_get (e, "name")), NULL);
      fprintf (f, "} %.17g\n", number (e, "size"));
    }
  head (f, "volume_used_bytes", "gauge", "Space that a volume takes.");
  json_array_foreach (exports, i, e)
    if (json_is_true (json_object_get (e, "volume"))) {
      labelled (f, "volume_used_bytes",
                json_string_value (json_object_get (e, "name")), NULL);
      fprintf (f, "} %.17g\n", number (e, "used"));
    }
}

static void
put_pool (FILE *f, const json_t *pool)
{
  const json_t *info = json_object_get (pool, "info");
  const char *uuid = json_string_value (json_object_get (info, "uuid"));
  const char *label = json_string_value (json_object_get (info, "label"));

  if (uuid) {
    head (f, "pool_info", "gauge", "Identity of the pool; the value is 1.");
    fputs ("btrnbd_pool_info{uuid=\"", f);
    put_label (f, uuid);
    fputs ("\",label=\"", f);
    put_label (f, label ? label : "");
    fputs ("\"} 1\n", f);
    single (f, "pool_read_only", "gauge",
            "1: the pool cannot be written, for a reason that is no option.",
            json_is_true (json_object_get (info, "read_only")));
    single (f, "pool_generation", "gauge", "Number of the last commit.",
            number (info, "generation"));
  }
  if (json_object_get (pool, "df"))
    put_space (f, json_object_get (pool, "df"));
  if (json_object_get (pool, "stats"))
    put_engine (f, json_object_get (pool, "stats"));
  put_volumes (f, json_object_get (pool, "exports"));
}

char *
metrics_text (struct server *s, const json_t *pool, size_t *ret_len)
{
  struct stats_sum sum;
  char *text = NULL;
  FILE *f;

  if (!stats_sum (s, &sum))
    return NULL;
  f = open_memstream (&text, ret_len);
  if (f) {
    put_server (f, s, &sum);
    put_exports (f, &sum);
    if (pool)
      put_pool (f, pool);
    if (fclose (f) != 0) {
      free (text);
      text = NULL;
    }
  }
  stats_sum_done (&sum);
  return text;
}
