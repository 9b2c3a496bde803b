/* cli: btrnbd rm. */
#include <config.h>

#include "cli.h"
#include "control/rpc.h"

int
cmd_rm (struct cli *c)
{
  bool when_free = false, recursive = false;
  const struct cli_opt opts[] = {
    { "recursive", 'r', CLI_FLAG, &recursive, NULL,
      "volumes with their snapshots" },
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
  for (; *args; args++)
    if (cli_call_busy (c, "file.remove",
                       json_pack ("{s:o,s:b}", "path", rpc_string (*args),
                                  "snapshots", recursive), when_free,
                       NULL) < 0)
      status = cli_call_failed (c, "%s", *args);
  return cli_disconnect (c, status);
}
