/* cli: btrnbd stat: the counters of a server. */
#include <config.h>

#include <inttypes.h>
#include <time.h>

#include "cli.h"

static void
print_op (const char *export, const char *name, const json_t *op)
{
  char bytes[CLI_SIZE_MAX], mean[CLI_SIZE_MAX], p50[CLI_SIZE_MAX];
  char p99[CLI_SIZE_MAX];
  const uint64_t n = cli_json_u64 (op, "requests");

  if (n == 0)
    return;
  cli_print_name (export, 20);
  printf (" %-7s %12" PRIu64 " %11s %7" PRIu64 " %9s %9s %9s\n", name, n,
          cli_size (cli_json_u64 (op, "bytes"), bytes),
          cli_json_u64 (op, "errors"),
          cli_seconds (cli_json_real (op, "seconds") / n, mean),
          cli_seconds (cli_json_real (op, "p50"), p50),
          cli_seconds (cli_json_real (op, "p99"), p99));
}

static void
print_server (const json_t *s)
{
  char in[CLI_SIZE_MAX], out[CLI_SIZE_MAX];
  const json_t *e;
  json_t *op;
  const char *name;
  size_t i;

  printf ("clients     %" PRIu64 " now, %" PRIu64 " so far\n"
          "network     %s in, %s out\n", cli_json_u64 (s, "connections"),
          cli_json_u64 (s, "connections_total"),
          cli_size (cli_json_u64 (s, "bytes_in"), in),
          cli_size (cli_json_u64 (s, "bytes_out"), out));
  if (json_array_size (json_object_get (s, "exports")) == 0)
    return;
  printf ("\n%-20s %-7s %12s %11s %7s %9s %9s %9s\n", "export", "", "requests",
          "bytes", "errors", "mean", "p50", "p99");
  json_array_foreach (json_object_get (s, "exports"), i, e)
    json_object_foreach (json_object_get (e, "ops"), name, op)
      print_op (cli_json_text (e, "name"), name, op);
}

static void
print_pool (const json_t *stats, const json_t *df)
{
  const uint64_t hits = cli_json_u64 (stats, "data_hits");
  const uint64_t misses = cli_json_u64 (stats, "data_misses");
  char a[CLI_SIZE_MAX], b[CLI_SIZE_MAX];

  printf ("space       %s used, about %s free\n",
          cli_size (cli_json_u64 (df, "bytes_used"), a),
          cli_size (cli_json_u64 (df, "free_estimate"), b));
  printf ("cache       %s, of it %s not yet written",
          cli_size (cli_json_u64 (stats, "data_cache_bytes"), a),
          cli_size (cli_json_u64 (stats, "data_dirty_bytes"), b));
  if (hits + misses > 0)
    printf (", %.1f %% hits", 100.0 * hits / (hits + misses));
  printf ("\ndisks       %s read, %s written\n",
          cli_size (cli_json_u64 (stats, "data_read_bytes"), a),
          cli_size (cli_json_u64 (stats, "data_written_bytes"), b));
  printf ("commits     %" PRIu64 "\n", cli_json_u64 (stats, "commits"));
  printf ("regrouped   %s, %s of files to look at\n",
          cli_size (cli_json_u64 (stats, "regroup_moved_bytes"), a),
          cli_size (cli_json_u64 (stats, "regroup_noted_bytes"), b));
}

int
cmd_stat (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };
  json_t *server = NULL, *stats = NULL, *df = NULL;
  int status;

  if (!cli_parse (c, opts))
    return c->status;
  status = cli_connect (c, true);
  if (status)
    return status;
  /* Another host has no counters, another plugin no pool. */
  if (cli_call (c, "host.stat", NULL, &server) < 0 &&
      c->error_code != CLI_NO_METHOD)
    status = cli_call_failed (c, "%s", cli_pool_name (c));
  else if ((cli_call (c, "pool.stats", NULL, &stats) < 0 ||
            cli_call (c, "pool.df", NULL, &df) < 0) &&
           (c->error_code != CLI_NO_METHOD || server == NULL))
    status = cli_call_failed (c, "%s", cli_pool_name (c));
  else if (c->json)
    status = cli_print_json (json_pack ("{s:O*,s:O*,s:O*}", "server", server,
                                        "pool", stats, "space", df));
  else {
    if (stats)
      print_pool (stats, df);
    if (server)
      print_server (server);
  }
  json_decref (server);
  json_decref (stats);
  json_decref (df);
  return cli_disconnect (c, status);
}
