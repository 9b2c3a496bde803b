/* cli: btrnbd top: what the clients of a server do, per export and second.
 *
 * Two answers of host.stat make one picture.  On a terminal it is drawn
 * again and again, otherwise once.
 */
#include <config.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

#define BUCKETS_MAX 64
#define BUCKET_FIRST 8         /* log2 of the first bound in ns */

struct rate {
  double requests, bytes, errors; /* per second */
  double p50, p99;                /* seconds, of this interval */
};

struct row {
  const char *name;
  uint64_t connections;
  struct rate read, write, other;
};

/* --- the difference of two answers --- */

/* The entry of this name of an array of exports. */
static const json_t *
find_export (const json_t *exports, const char *name)
{
  const json_t *e;
  size_t i;

  json_array_foreach (exports, i, e)
    if (strcmp (cli_json_text (e, "name"), name) == 0)
      return e;
  return NULL;
}

static double
quantile (const double *buckets, size_t n, double q)
{
  double all = 0, below = 0, low, high;
  size_t i;

  for (i = 0; i < n; i++)
    all += buckets[i];
  if (all <= 0)
    return 0;
  for (i = 0; i + 1 < n && below + buckets[i] < q * all; i++)
    below += buckets[i];
  high = (double) (UINT64_C (1) << (BUCKET_FIRST + i)) / 1e9;
  low = i == 0 ? 0 : high / 2;
  return buckets[i] > 0 ? low + (high - low) * (q * all - below) / buckets[i]
    : low;
}

static void
add_buckets (double *to, const json_t *op, double sign)
{
  const json_t *a = json_object_get (op, "buckets");
  size_t i;

  for (i = 0; i < json_array_size (a) && i < BUCKETS_MAX; i++)
    to[i] += sign * json_integer_value (json_array_get (a, i));
}

static double
grown (const json_t *now, const json_t *before, const char *key)
{
  return (double) cli_json_u64 (now, key) - cli_json_u64 (before, key);
}

/* The named kinds of requests together. */
static struct rate
rate_of (const json_t *now, const json_t *before, const char *const *names,
         double seconds)
{
  double buckets[BUCKETS_MAX] = { 0 };
  struct rate r = { 0 };

  for (; *names; names++) {
    const json_t *a = json_object_get (now, *names);
    const json_t *b = json_object_get (before, *names);

    r.requests += grown (a, b, "requests") / seconds;
    r.bytes += grown (a, b, "bytes") / seconds;
    r.errors += grown (a, b, "errors") / seconds;
    add_buckets (buckets, a, 1);
    add_buckets (buckets, b, -1);
  }
  r.p50 = quantile (buckets, BUCKETS_MAX, 0.5);
  r.p99 = quantile (buckets, BUCKETS_MAX, 0.99);
  return r;
}

static struct row
row_of (const char *name, const json_t *now, const json_t *before,
        double seconds)
{
  static const char *const reads[] = { "read", NULL };
  static const char *const writes[] = { "write", NULL };
  static const char *const others[] = { "flush", "trim", "zero", "cache",
    "status", NULL };
  const json_t *a = json_object_get (now, "ops");
  const json_t *b = json_object_get (before, "ops");

  return (struct row) {
    .name = name, .connections = cli_json_u64 (now, "connections"),
    .read = rate_of (a, b, reads, seconds),
    .write = rate_of (a, b, writes, seconds),
    .other = rate_of (a, b, others, seconds),
  };
}

static int
by_load (const void *a, const void *b)
{
  const struct row *x = a, *y = b;
  const double lx = x->read.requests + x->write.requests +
    x->other.requests;
  const double ly = y->read.requests + y->write.requests +
    y->other.requests;

  return lx != ly ? (ly > lx) - (ly < lx) : strcmp (x->name, y->name);
}

/* --- printing --- */

static json_t *
rate_json (const struct rate *r)
{
  return json_pack ("{s:f,s:f,s:f,s:f,s:f}", "requests", r->requests, "bytes",
                    r->bytes, "errors", r->errors, "p50", r->p50, "p99",
                    r->p99);
}

static json_t *
row_json (const struct row *w)
{
  return json_pack ("{s:s,s:I,s:o,s:o,s:o}", "name", w->name, "connections",
                    (json_int_t) w->connections, "read",
                    rate_json (&w->read), "write", rate_json (&w->write),
                    "other", rate_json (&w->other));
}

static void
print_row (const struct row *w)
{
  char a[CLI_SIZE_MAX], b[CLI_SIZE_MAX], c[CLI_SIZE_MAX], d[CLI_SIZE_MAX];
  char e[CLI_SIZE_MAX], f[CLI_SIZE_MAX], g[CLI_SIZE_MAX];

  cli_print_name (w->name, 20);
  printf (" %4" PRIu64 " %7s %10s %8s %7s %10s %8s %7s\n", w->connections,
          cli_count (w->read.requests, a), cli_size (w->read.bytes, b),
          cli_seconds (w->read.p99, c), cli_count (w->write.requests, d),
          cli_size (w->write.bytes, e), cli_seconds (w->write.p99, f),
          cli_count (w->other.requests, g));
}

/* Lines of the terminal that are left for exports. */
static size_t
room (void)
{
  struct winsize ws;

  if (!isatty (STDOUT_FILENO))
    return SIZE_MAX;
  if (ioctl (STDOUT_FILENO, TIOCGWINSZ, &ws) != 0 || ws.ws_row < 8)
    return 16;
  return ws.ws_row - 6;
}

static void
print_rows (struct row *rows, size_t n, const struct row *total)
{
  const size_t max = room ();
  size_t i;

  printf ("%-20s %4s %7s %10s %8s %7s %10s %8s %7s\n", "export", "cl.",
          "reads/s", "bytes/s", "p99", "writes/s", "bytes/s", "p99",
          "other/s");
  for (i = 0; i < n && i < max; i++)
    print_row (&rows[i]);
  if (i < n)
    printf ("(%zu more)\n", n - i);
  putchar ('\n');
  print_row (total);
}

static int
picture (struct cli *c, const json_t *now, const json_t *before,
         double seconds)
{
  const json_t *exports = json_object_get (now, "exports"), *e;
  const json_t *earlier = json_object_get (before, "exports");
  const size_t n = json_array_size (exports);
  struct row *rows = calloc (n + 1, sizeof *rows);
  struct row total = row_of ("all", now, before, seconds);
  json_t *array;
  int status = 0;
  size_t i;

  if (rows == NULL)
    return cli_error ("out of memory");
  json_array_foreach (exports, i, e)
    rows[i] = row_of (cli_json_text (e, "name"), e,
                      find_export (earlier, cli_json_text (e, "name")),
                      seconds);
  qsort (rows, n, sizeof *rows, by_load);
  if (c->json) {
    array = json_array ();
    for (i = 0; i < n; i++)
      json_array_append_new (array, row_json (&rows[i]));
    status = cli_print_json_line (
      json_pack ("{s:f,s:o,s:o}", "seconds", seconds, "total",
                 row_json (&total), "exports", array));
  }
  else
    print_rows (rows, n, &total);
  free (rows);
  return status;
}

static double
now_seconds (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* Pictures until COUNT (0: for ever). */
static int
watch (struct cli *c, unsigned interval, unsigned count)
{
  const bool terminal = isatty (STDOUT_FILENO) && !c->json;
  json_t *before = NULL, *now;
  double since = 0, at;
  unsigned n = 0;
  int status = 0;

  while (status == 0) {
    if (cli_call (c, "host.stat", NULL, &now) < 0) {
      status = cli_call_failed (c, "%s", cli_pool_name (c));
      break;
    }
    at = now_seconds ();
    if (before) {
      if (terminal)
        printf ("\033[H\033[J%s, every %u s, Ctrl-C ends\n\n",
                cli_pool_name (c), interval);
      status = picture (c, now, before, at - since);
      fflush (stdout);
      n++;
    }
    json_decref (before);
    before = now;
    since = at;
    if (status == 0 && (count == 0 || n < count))
      sleep (interval);
    else
      break;
  }
  json_decref (before);
  return status;
}

#define UNSAID UINT32_MAX

int
cmd_top (struct cli *c)
{
  uint32_t interval = UNSAID, count = UNSAID;
  const struct cli_opt opts[] = {
    { "interval", 'i', CLI_COUNT, &interval, "SECONDS",
      "default: 2, or 1 when printed once" },
    { "count", 'n', CLI_COUNT, &count, "N",
      "end after N pictures; default: 1 unless on a terminal" },
    { NULL }
  };
  const bool terminal = isatty (STDOUT_FILENO);
  int status;

  if (!cli_parse (c, opts))
    return c->status;
  if (interval == 0 || count == 0)
    return cli_usage_error (c, "--interval and --count begin at 1");
  if (interval == UNSAID)
    interval = terminal ? 2 : 1;
  if (count == UNSAID)
    count = terminal ? 0 : 1;
  status = cli_connect (c, true);
  if (status)
    return status;
  status = watch (c, interval, count);
  return cli_disconnect (c, status);
}
