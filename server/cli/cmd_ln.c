/* cli: btrnbd ln. */
#include <config.h>

#include "cli.h"

int
cmd_ln (struct cli *c)
{
  bool symbolic = false;
  const struct cli_opt opts[] = {
    { "symbolic", 's', CLI_FLAG, &symbolic, NULL, "a symbolic link" },
    { NULL }
  };
  char **args = cli_parse (c, opts);
  int r, status;

  if (!args)
    return c->status;
  status = cli_open (c, false);
  if (status)
    return status;
  if (symbolic)
    r = btrnbd_symlink (c->pool, args[0], args[1]);
  else
    r = btrnbd_link (c->pool, args[0], args[1]);
  if (r < 0)
    status = cli_fail (r, "%s", args[1]);
  return cli_close (c, status);
}
