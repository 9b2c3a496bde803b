/* cli: btrnbd rm. */
#include <config.h>

#include "cli.h"

static int
remove_one (struct btrnbd_pool *pool, const char *name)
{
  struct btrnbd_stat st;
  int r = btrnbd_stat (pool, name, &st);

  if (r < 0)
    return r;
  if (st.is_subvol)
    return btrnbd_volume_remove (pool, name);
  return btrnbd_unlink (pool, name);
}

int
cmd_rm (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };
  char **args = cli_parse (c, opts);
  int status;

  if (!args)
    return c->status;
  status = cli_open (c, false);
  if (status)
    return status;
  for (; *args; args++) {
    int r = remove_one (c->pool, *args);

    if (r < 0)
      status = cli_fail (r, "%s", *args);
  }
  return cli_close (c, status);
}
