/* cli: btrnbd info. */
#include <config.h>

#include <inttypes.h>

#include "cli.h"

static json_t *
info_json (const struct btrnbd_pool_info *i)
{
  return json_pack ("{s:s,s:o,s:I,s:I,s:I,s:I,s:i,s:i,s:s,s:I,s:I,s:s,"
                    "s:b,s:o}",
                    "uuid", i->uuid,
                    "label", cli_json_string (i->label),
                    "generation", (json_int_t) i->generation,
                    "total_bytes", (json_int_t) i->total_bytes,
                    "bytes_used", (json_int_t) i->bytes_used,
                    "num_devices", (json_int_t) i->num_devices,
                    "nodesize", (int) i->nodesize,
                    "sectorsize", (int) i->sectorsize,
                    "csum", i->csum,
                    "incompat", (json_int_t) i->incompat,
                    "compat_ro", (json_int_t) i->compat_ro,
                    "features", i->features,
                    "read_only", i->read_only_reason[0] != '\0',
                    "read_only_reason", i->read_only_reason[0]
                    ? cli_json_string (i->read_only_reason) : json_null ());
}

int
cmd_info (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };
  struct btrnbd_pool_info i;
  char total[CLI_SIZE_MAX], used[CLI_SIZE_MAX];
  int r, status;

  if (!cli_parse (c, opts))
    return c->status;
  status = cli_open (c, true);
  if (status)
    return status;
  r = btrnbd_pool_get_info (c->pool, &i);
  if (r < 0)
    status = cli_fail (r, "%s", c->devices[0]);
  else if (c->json)
    status = cli_print_json (info_json (&i));
  else {
    printf ("label       ");
    cli_print_name (i.label, 0);
    printf ("\nuuid        %s\n"
            "size        %s\n"
            "used        %s\n"
            "devices     %" PRIu64 "\n"
            "generation  %" PRIu64 "\n"
            "nodesize    %" PRIu32 "\n"
            "sectorsize  %" PRIu32 "\n"
            "csum        %s\n"
            "incompat    0x%" PRIx64 "\n"
            "compat_ro   0x%" PRIx64 "\n"
            "features    %s\n",
            i.uuid, cli_size (i.total_bytes, total),
            cli_size (i.bytes_used, used), i.num_devices, i.generation,
            i.nodesize, i.sectorsize, i.csum, i.incompat, i.compat_ro,
            i.features);
    if (i.read_only_reason[0])
      printf ("read-only   %s\n", i.read_only_reason);
  }
  return cli_close (c, status);
}
