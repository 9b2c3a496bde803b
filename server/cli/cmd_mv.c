/* cli: btrnbd mv. */
#include <config.h>

#include "cli.h"
#include "control/rpc.h"

int
cmd_mv (struct cli *c)
{
  bool exchange = false, no_clobber = false;
  const struct cli_opt opts[] = {
    { "exchange", 'x', CLI_FLAG, &exchange, NULL, "swap the two" },
    { "no-clobber", 'n', CLI_FLAG, &no_clobber, NULL,
      "fail when TO is there" },
    { NULL }
  };
  char **args = cli_parse (c, opts);

  if (!args)
    return c->status;
  if (exchange && no_clobber)
    return cli_usage_error (c, "--exchange and --no-clobber exclude each "
                            "other");
  return cli_do (c, "file.rename",
                 json_pack ("{s:o,s:o,s:b,s:b}", "from", rpc_string (args[0]),
                            "to", rpc_string (args[1]), "exchange", exchange,
                            "no_replace", no_clobber),
                 "%s -> %s", args[0], args[1]);
}
