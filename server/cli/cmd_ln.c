/* cli: btrnbd ln. */
#include <config.h>

#include "cli.h"
#include "control/rpc.h"

int
cmd_ln (struct cli *c)
{
  bool symbolic = false;
  const struct cli_opt opts[] = {
    { "symbolic", 's', CLI_FLAG, &symbolic, NULL, "a symbolic link" },
    { NULL }
  };
  char **args = cli_parse (c, opts);
  int status;

  if (!args)
    return c->status;
  status = cli_connect (c, false);
  if (status)
    return status;
  if (cli_call (c, "file.link",
                json_pack ("{s:o,s:o,s:b}", "target", rpc_string (args[0]),
                           "path", rpc_string (args[1]), "symbolic",
                           symbolic), NULL) < 0)
    status = cli_call_failed (c, "%s", args[1]);
  return cli_disconnect (c, status);
}
