/* cli: btrnbd rm. */
#include <config.h>

#include "cli.h"
#include "control/rpc.h"

int
cmd_rm (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };
  char **args = cli_parse (c, opts);
  int status;

  if (!args)
    return c->status;
  status = cli_connect (c, false);
  if (status)
    return status;
  for (; *args; args++)
    if (cli_call (c, "file.remove", json_pack ("{s:o}", "path",
                                               rpc_string (*args)),
                  NULL) < 0)
      status = cli_call_failed (c, "%s", *args);
  return cli_disconnect (c, status);
}
