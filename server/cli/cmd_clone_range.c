/* cli: btrnbd clone-range, dedupe: data that files share. */
#include <config.h>

#include <inttypes.h>

#include "cli.h"
#include "control/rpc.h"

struct ranges {
  uint64_t from, to, length;    /* length UINT64_MAX: to the end */
};

/* The arguments, or NULL with c->status. */
static char **
parse (struct cli *c, struct ranges *x)
{
  const struct cli_opt opts[] = {
    { "from-offset", 0, CLI_SIZE, &x->from, "OFFSET",
      "where the range begins in FROM; 0" },
    { "to-offset", 0, CLI_SIZE, &x->to, "OFFSET",
      "where the range begins in TO; 0" },
    { "length", 0, CLI_SIZE, &x->length, "SIZE",
      "of the range; else to the end of FROM" },
    { NULL }
  };

  *x = (struct ranges) { .length = UINT64_MAX };
  return cli_parse (c, opts);
}

static json_t *
params (char **args, const struct ranges *x)
{
  json_t *p = json_pack ("{s:o,s:o,s:I,s:I}", "from", rpc_string (args[0]),
                         "to", rpc_string (args[1]), "from_offset",
                         (json_int_t) x->from, "to_offset",
                         (json_int_t) x->to);

  if (x->length != UINT64_MAX)
    json_object_set_new (p, "length", json_integer (x->length));
  return p;
}

int
cmd_clone_range (struct cli *c)
{
  struct ranges x;
  char **args = parse (c, &x);

  if (!args)
    return c->status;
  return cli_do (c, "file.clone-range", params (args, &x),
                 "%s -> %s", args[0], args[1]);
}

int
cmd_dedupe (struct cli *c)
{
  struct ranges x;
  char **args = parse (c, &x), size[CLI_SIZE_MAX];
  json_t *result;
  int status;

  if (!args)
    return c->status;
  status = cli_connect (c, false);
  if (status)
    return status;
  if (cli_call (c, "file.dedupe", params (args, &x), &result) < 0)
    status = cli_call_failed (c, "%s %s", args[0], args[1]);
  else if (c->json)
    status = cli_print_json (result);
  else {
    printf ("%s had been stored twice\n",
            cli_size (cli_json_u64 (result, "shared"), size));
    json_decref (result);
  }
  return cli_disconnect (c, status);
}
