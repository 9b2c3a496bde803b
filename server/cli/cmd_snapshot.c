/* cli: btrnbd snapshot, snapshots, clone, rollback. */
#include <config.h>

#include <string.h>
#include <time.h>

#include "cli.h"
#include "control/rpc.h"

/* Every argument but the last one is a volume. */
int
cmd_snapshot (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };
  char **args = cli_parse (c, opts);
  json_t *names;
  int n;

  if (!args)
    return c->status;
  names = json_array ();
  for (n = 0; args[n + 1]; n++)
    json_array_append_new (names, rpc_string (args[n]));
  return cli_do (c, "volume.snapshot",
                 json_pack ("{s:o,s:o}", "names", names, "tag",
                            rpc_string (args[n])),
                 "%s%s@%s", args[0], n > 1 ? "..." : "", args[n]);
}

static void
print_snapshot (const json_t *e)
{
  const time_t t = cli_json_u64 (e, "created");
  char size[CLI_SIZE_MAX], used[CLI_SIZE_MAX], when[32];
  struct tm tm;

  strftime (when, sizeof when, "%Y-%m-%d %H:%M:%S", localtime_r (&t, &tm));
  printf ("%s %10s %10s  ", when, cli_size (cli_json_u64 (e, "size"), size),
          cli_size (cli_json_u64 (e, "used"), used));
  cli_print_name (cli_json_text (e, "name"), 0);
  putchar ('\n');
}

int
cmd_snapshots (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };
  char **args = cli_parse (c, opts);
  json_t *array, *e;
  int status;
  size_t i;

  if (!args)
    return c->status;
  status = cli_connect (c, true);
  if (status)
    return status;
  if (cli_call_list (c, "volume.snapshots", args[0], &array) < 0)
    status = cli_call_failed (c, "%s", args[0]);
  else if (c->json)
    status = cli_print_json (array);
  else {
    json_array_foreach (array, i, e)
      print_snapshot (e);
    json_decref (array);
  }
  return cli_disconnect (c, status);
}

int
cmd_clone (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };
  char **args = cli_parse (c, opts);

  if (!args)
    return c->status;
  return cli_do (c, "volume.clone",
                 json_pack ("{s:o,s:o}", "from", rpc_string (args[0]), "to",
                            rpc_string (args[1])),
                 "%s -> %s", args[0], args[1]);
}

int
cmd_rollback (struct cli *c)
{
  bool when_free = false;
  const struct cli_opt opts[] = {
    { "when-free", 'w', CLI_FLAG, &when_free, NULL,
      "wait until no client has it open" },
    { NULL }
  };
  char **args = cli_parse (c, opts);
  int status;

  if (!args)
    return c->status;
  status = cli_connect (c, false);
  if (status)
    return status;
  if (cli_call_busy (c, "volume.rollback",
                     json_pack ("{s:o,s:o}", "name", rpc_string (args[0]),
                                "tag", rpc_string (args[1])), when_free,
                     NULL) < 0)
    status = cli_call_failed (c, "%s@%s", args[0], args[1]);
  return cli_disconnect (c, status);
}
