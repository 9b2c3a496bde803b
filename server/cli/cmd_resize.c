/* cli: btrnbd resize. */
#include <config.h>

#include "cli.h"
#include "control/rpc.h"

int
cmd_resize (struct cli *c)
{
  bool when_free = false, shrink = false;
  const struct cli_opt opts[] = {
    { "shrink", 0, CLI_FLAG, &shrink, NULL,
      "what is behind SIZE may be cut off" },
    { "when-free", 'w', CLI_FLAG, &when_free, NULL,
      "to shrink, wait until no client has it open" },
    { NULL }
  };
  char **args = cli_parse (c, opts);
  json_t *result = NULL;
  uint64_t size;
  int status;

  if (!args)
    return c->status;
  if (!cli_parse_size ("size", args[1], &size))
    return 2;
  status = cli_connect (c, false);
  if (status)
    return status;
  if (cli_call_busy (c, "file.resize",
                     json_pack ("{s:o,s:I,s:b}", "path",
                                rpc_string (args[0]), "size",
                                (json_int_t) size, "shrink", shrink),
                     when_free, &result) < 0)
    status = cli_call_failed (c, "%s", args[0]);
  cli_say_rounded (c, args[0], size, result);
  json_decref (result);
  return cli_disconnect (c, status);
}
