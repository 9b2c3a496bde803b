/* cli: btrnbd subvol: what is done to any subvolume, by its path. */
#include <config.h>

#include <string.h>

#include "cli.h"
#include "control/rpc.h"

static const struct action {
  const char *name, *method;
  const char *flag;             /* a boolean parameter, or NULL */
  bool value, has_to;
} actions[] = {
  { "snapshot", "subvol.snapshot", "read_only", false, true },
  { "remove", "subvol.remove", NULL, false, false },
  { "lock", "subvol.set-read-only", "read_only", true, false },
  { "unlock", "subvol.set-read-only", "read_only", false, false },
  { "default", "subvol.set-default", NULL, false, false },
  { NULL }
};

static const struct action *
find_action (const char *name)
{
  for (const struct action *a = actions; a->name; a++)
    if (strcmp (a->name, name) == 0)
      return a;
  return NULL;
}

int
cmd_subvol (struct cli *c)
{
  bool read_only = false;
  const struct cli_opt opts[] = {
    { "read-only", 'r', CLI_FLAG, &read_only, NULL, "of a snapshot" },
    { NULL }
  };
  char **args = cli_parse (c, opts);
  const struct action *a;
  json_t *params;

  if (!args)
    return c->status;
  a = find_action (args[0]);
  if (!a)
    return cli_usage_error (c, "no action \"%s\": snapshot, remove, lock, "
                            "unlock, default", args[0]);
  if (a->has_to != (args[2] != NULL) || (read_only && !a->has_to))
    return cli_usage_error (c, a->has_to ? "snapshot PATH TO"
                            : "only a path belongs to %s", a->name);
  params = json_pack ("{s:o}", a->has_to ? "from" : "path",
                      rpc_string (args[1]));
  if (a->has_to)
    json_object_set_new (params, "to", rpc_string (args[2]));
  if (a->flag)
    json_object_set_new (params, a->flag, json_boolean (a->value
                                                        || read_only));
  return cli_do (c, a->method, params, "%s", args[1]);
}
