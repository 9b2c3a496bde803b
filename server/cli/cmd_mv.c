/* cli: btrnbd mv. */
#include <config.h>

#include "cli.h"

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
  struct btrnbd_stat st;
  int r, status;

  if (!args)
    return c->status;
  if (exchange && no_clobber)
    return cli_usage_error (c, "--exchange and --no-clobber exclude each "
                            "other");
  status = cli_open (c, false);
  if (status)
    return status;
  r = btrnbd_stat (c->pool, args[0], &st);
  if (r == 0 && st.is_subvol && !exchange)
    r = btrnbd_volume_rename (c->pool, args[0], args[1]);
  else if (r == 0)
    r = btrnbd_rename (c->pool, args[0], args[1],
                       (exchange ? BTRNBD_RENAME_EXCHANGE : 0) |
                       (no_clobber ? BTRNBD_RENAME_NOREPLACE : 0));
  if (r < 0)
    status = cli_fail (r, "%s -> %s", args[0], args[1]);
  return cli_close (c, status);
}
