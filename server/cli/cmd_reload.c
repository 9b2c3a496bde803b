/* cli: btrnbd reload. */
#include <config.h>

#include "cli.h"

int
cmd_reload (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };
  json_t *result;
  int status;

  if (!cli_parse (c, opts))
    return c->status;
  status = cli_connect (c, false);
  if (status)
    return status;
  if (cli_call (c, "host.reload", NULL, &result) < 0)
    status = cli_call_failed (c, "%s", cli_pool_name (c));
  else if (c->json)
    status = cli_print_json (json_incref (result));
  else if (*cli_json_text (result, "note"))
    printf ("%s\n", cli_json_text (result, "note"));
  json_decref (result);
  return cli_disconnect (c, status);
}
