/* cli: btrnbd regroup. */
#include <config.h>

#include "cli.h"
#include "control/rpc.h"

int
cmd_regroup (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };
  char **args = cli_parse (c, opts), size[CLI_SIZE_MAX];
  json_t *all, *result;
  int status, i;

  if (!args)
    return c->status;
  status = cli_connect (c, false);
  if (status)
    return status;
  all = json_array ();
  for (i = 0; args[i]; i++) {
    c->progress_name = args[i];
    if (cli_call (c, "export.regroup",
                  json_pack ("{s:o}", "name", rpc_string (args[i])),
                  &result) < 0) {
      status = cli_call_failed (c, "%s", args[i]);
      continue;
    }
    if (!c->json) {
      cli_print_name (args[i], 20);
      printf (" %s moved\n", cli_size (cli_json_u64 (result, "moved"), size));
    }
    json_object_set_new (result, "name", rpc_string (args[i]));
    json_array_append_new (all, result);
  }
  c->progress_name = NULL;
  if (c->json)
    status |= cli_print_json (all);
  else
    json_decref (all);
  return cli_disconnect (c, status);
}
