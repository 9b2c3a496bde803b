/* cli: btrnbd mkfs. */
#include <config.h>

#include "cli.h"

int
cmd_mkfs (struct cli *c)
{
  struct btrnbd_mkfs_opts o = { 0 };
  const struct cli_opt opts[] = {
    { "size", 's', CLI_SIZE, &o.size, "SIZE",
      "create the file or make it larger; use that much" },
    { "label", 'L', CLI_STRING, &o.label, "LABEL", "name of the pool" },
    { "uuid", 'U', CLI_STRING, &o.uuid, "UUID", "default: random" },
    { "nodesize", 'n', CLI_U32, &o.nodesize, "SIZE",
      "4K to 64K; default: 16K" },
    { "sectorsize", 0, CLI_U32, &o.sectorsize, "SIZE",
      "4K to 64K; default: 4K" },
    { "csum", 0, CLI_STRING, &o.csum, "TYPE",
      "crc32c (default), xxhash, sha256 or blake2b" },
    { "data", 0, CLI_STRING, &o.data_profile, "PROFILE",
      "single (default) or dup" },
    { "metadata", 'm', CLI_STRING, &o.metadata_profile, "PROFILE",
      "dup (default) or single" },
    { "mixed", 'M', CLI_FLAG, &o.mixed, NULL,
      "data and metadata in the same block groups" },
    { "features", 'O', CLI_STRING, &o.features, "LIST",
      "FEATURE switches on, ^FEATURE off" },
    { "force", 'f', CLI_FLAG, &o.force, NULL, "overwrite what is there" },
    { NULL }
  };
  int r;

  if (!cli_parse (c, opts))
    return c->status;
  if (c->num_devices > 1)
    return cli_usage_error (c, "one device only");
  r = btrnbd_mkfs (c->devices[0], &o);
  if (r < 0)
    return cli_fail (r, "mkfs");
  return 0;
}
