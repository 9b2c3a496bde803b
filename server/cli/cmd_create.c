/* cli: btrnbd create. */
#include <config.h>

#include "cli.h"

int
cmd_create (struct cli *c)
{
  struct btrnbd_volume_opts o = { .size = UINT64_MAX };
  const struct cli_opt opts[] = {
    { "size", 's', CLI_SIZE, &o.size, "SIZE", "of the disk; required" },
    { "nocow", 0, CLI_FLAG, &o.nocow, NULL,
      "overwrite in place, without checksums" },
    { "description", 0, CLI_STRING, &o.description, "TEXT",
      "told to clients that list exports" },
    { NULL }
  };
  char **args = cli_parse (c, opts);
  int r, status;

  if (!args)
    return c->status;
  if (o.size == UINT64_MAX)
    return cli_usage_error (c, "--size is required");
  status = cli_open (c, false);
  if (status)
    return status;
  r = btrnbd_volume_create (c->pool, args[0], &o);
  if (r < 0)
    status = cli_fail (r, "%s", args[0]);
  return cli_close (c, status);
}
