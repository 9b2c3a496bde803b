/* cli: btrnbd dump-tree. */
#include <config.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static bool
parse_tree (const char *s, uint64_t *ret)
{
  static const struct {
    const char *name;
    uint64_t id;
  } trees[] = {
    { "root", 1 }, { "extent", 2 }, { "chunk", 3 }, { "dev", 4 },
    { "fs", 5 }, { "csum", 7 }, { "quota", 8 }, { "uuid", 9 },
    { "free-space", 10 }, { "block-group", 11 },
    { "data-reloc", (uint64_t) -9 },
  };
  char *end;

  for (size_t i = 0; i < sizeof trees / sizeof trees[0]; i++)
    if (strcmp (trees[i].name, s) == 0) {
      *ret = trees[i].id;
      return true;
    }
  *ret = strtoull (s, &end, 0);
  return *s >= '0' && *s <= '9' && !*end && *ret != 0;
}

int
cmd_dump_tree (struct cli *c)
{
  uint64_t tree = 0, block = 0;
  const struct cli_opt opts[] = {
    { "block", 'b', CLI_U64, &block, "ADDRESS",
      "only the block at this logical address" },
    { NULL }
  };
  char **args = cli_parse (c, opts);
  int status;

  if (!args)
    return c->status;
  if (args[0] && !parse_tree (args[0], &tree))
    return cli_usage_error (c, "\"%s\" is no tree: root, extent, chunk, dev, "
                            "fs, csum, quota, uuid, free-space, block-group, "
                            "data-reloc or a number", args[0]);
  if (c->json)
    return cli_usage_error (c, "--json is not for this command");
  status = cli_connect (c, true);
  if (status)
    return status;
  if (cli_call_fd (c, "pool.dump-tree",
                   json_pack ("{s:I,s:I}", "tree", (json_int_t) tree,
                              "block", (json_int_t) block),
                   STDOUT_FILENO, NULL) < 0)
    status = cli_call_failed (c, "%s", args[0] ? args[0]
                              : cli_pool_name (c));
  return cli_disconnect (c, status);
}
