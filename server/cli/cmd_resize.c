/* cli: btrnbd resize. */
#include <config.h>

#include "cli.h"

static int
resize (struct btrnbd_pool *pool, const char *name, uint64_t size)
{
  struct btrnbd_stat st;
  struct btrnbd_file *file;
  int r = btrnbd_stat (pool, name, &st);

  if (r < 0)
    return r;
  if (st.is_subvol)
    return btrnbd_volume_resize (pool, name, size);
  r = btrnbd_file_open (pool, name, 0, &file);
  if (r < 0)
    return r;
  r = btrnbd_truncate (file, size);
  btrnbd_file_close (file);
  return r;
}

int
cmd_resize (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };
  char **args = cli_parse (c, opts);
  uint64_t size;
  int r, status;

  if (!args)
    return c->status;
  if (!cli_parse_size ("size", args[1], &size))
    return 2;
  status = cli_open (c, false);
  if (status)
    return status;
  r = resize (c->pool, args[0], size);
  if (r < 0)
    status = cli_fail (r, "%s", args[0]);
  return cli_close (c, status);
}
