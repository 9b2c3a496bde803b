/* cli: btrnbd resize. */
#include <config.h>

#include "cli.h"
#include "control/rpc.h"

int
cmd_resize (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };
  char **args = cli_parse (c, opts);
  uint64_t size;
  int status;

  if (!args)
    return c->status;
  if (!cli_parse_size ("size", args[1], &size))
    return 2;
  status = cli_connect (c, false);
  if (status)
    return status;
  if (cli_call (c, "file.resize",
                json_pack ("{s:o,s:I}", "path", rpc_string (args[0]),
                           "size", (json_int_t) size), NULL) < 0)
    status = cli_call_failed (c, "%s", args[0]);
  return cli_disconnect (c, status);
}
