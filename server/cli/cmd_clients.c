/* cli: btrnbd clients, kick: who is attached. */
#include <config.h>

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "cli.h"

/* "3 d 4 h", "5 min": the two largest units. */
static const char *
age (double seconds, char *buf, size_t size)
{
  const long s = seconds > 0 ? seconds : 0;

  if (s < 60)
    snprintf (buf, size, "%ld s", s);
  else if (s < 3600)
    snprintf (buf, size, "%ld min", s / 60);
  else if (s < 86400)
    snprintf (buf, size, "%ld h %ld min", s / 3600, s / 60 % 60);
  else
    snprintf (buf, size, "%ld d %ld h", s / 86400, s / 3600 % 24);
  return buf;
}

static void
print_clients (const json_t *clients)
{
  char in[CLI_SIZE_MAX], out[CLI_SIZE_MAX], since[32];
  const json_t *e;
  size_t i;

  if (json_array_size (clients) == 0)
    return;
  printf ("%6s  %-20s %-28s %12s %10s %10s %10s\n", "client", "export",
          "peer", "attached", "requests", "written", "read");
  json_array_foreach (clients, i, e) {
    printf ("%6" PRIu64 "  ", cli_json_u64 (e, "client"));
    cli_print_name (cli_json_text (e, "export"), 20);
    putchar (' ');
    cli_print_name (cli_json_text (e, "peer"), 28);
    printf (" %12s %10" PRIu64 " %10s %10s\n",
            age (time (NULL) - json_real_value (json_object_get (e, "since")),
                 since, sizeof since),
            cli_json_u64 (e, "requests"),
            cli_size (cli_json_u64 (e, "bytes_in"), in),
            cli_size (cli_json_u64 (e, "bytes_out"), out));
  }
}

int
cmd_clients (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };

  if (!cli_parse (c, opts))
    return c->status;
  return cli_show (c, "host.clients", print_clients);
}

int
cmd_kick (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };
  char **args = cli_parse (c, opts), *end;
  int status = 0;
  size_t i;

  if (!args)
    return c->status;
  for (i = 0; args[i]; i++) {
    strtoul (args[i], &end, 10);
    if (*args[i] < '0' || *args[i] > '9' || *end)
      return cli_usage_error (c, "\"%s\" is not the number of a client "
                              "(btrnbd clients lists them)", args[i]);
  }
  status = cli_connect (c, false);
  if (status)
    return status;
  for (; *args; args++)
    if (cli_call (c, "host.kick",
                  json_pack ("{s:I}", "client",
                             (json_int_t) strtoul (*args, NULL, 10)),
                  NULL) < 0)
      status = cli_call_failed (c, "%s", *args);
  return cli_disconnect (c, status);
}
