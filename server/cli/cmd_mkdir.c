/* cli: btrnbd mkdir. */
#include <config.h>

#include "cli.h"
#include "control/rpc.h"

int
cmd_mkdir (struct cli *c)
{
  bool parents = false;
  const struct cli_opt opts[] = {
    { "parents", 'p', CLI_FLAG, &parents, NULL,
      "also those above; no error when it is there" },
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
    if (cli_call (c, "file.mkdir",
                  json_pack ("{s:o,s:b}", "path", rpc_string (*args),
                             "parents", parents), NULL) < 0)
      status = cli_call_failed (c, "%s", *args);
  return cli_disconnect (c, status);
}
