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

  if (!args)
    return c->status;
  return cli_do (c, "file.link",
                 json_pack ("{s:o,s:o,s:b}", "target", rpc_string (args[0]),
                            "path", rpc_string (args[1]), "symbolic",
                            symbolic),
                 "%s", args[1]);
}
