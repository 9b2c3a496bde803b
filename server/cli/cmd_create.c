/* cli: btrnbd create. */
#include <config.h>

#include "cli.h"
#include "control/rpc.h"

int
cmd_create (struct cli *c)
{
  struct btrnbd_volume_opts o = { .size = UINT64_MAX };
  const struct cli_opt opts[] = {
    { "size", 's', CLI_SIZE, &o.size, "SIZE", "of the disk; required" },
    { "nocow", 0, CLI_FLAG, &o.nocow, NULL,
      "overwrite in place, without checksums" },
    { "alloc-unit", 0, CLI_SIZE, &o.alloc_unit, "SIZE",
      "most that one extent covers; 16K to 256K" },
    { "description", 0, CLI_STRING, &o.description, "TEXT",
      "told to clients that list exports" },
    { NULL }
  };
  char **args = cli_parse (c, opts);
  json_t *params, *result = NULL;
  int status;

  if (!args)
    return c->status;
  if (o.size == UINT64_MAX)
    return cli_usage_error (c, "--size is required");
  status = cli_connect (c, false);
  if (status)
    return status;
  params = json_pack ("{s:o,s:I,s:b}", "name", rpc_string (args[0]), "size",
                      (json_int_t) o.size, "nocow", o.nocow);
  if (o.alloc_unit)
    json_object_set_new (params, "alloc_unit",
                         json_integer ((json_int_t) o.alloc_unit));
  if (o.description)
    json_object_set_new (params, "description", rpc_string (o.description));
  if (cli_call (c, "volume.create", params, &result) < 0)
    status = cli_call_failed (c, "%s", args[0]);
  cli_say_rounded (c, args[0], o.size, result);
  json_decref (result);
  return cli_disconnect (c, status);
}
