/* cli: btrnbd info. */
#include <config.h>

#include <inttypes.h>

#include "cli.h"

static void
print_info (const json_t *i)
{
  const json_t *image = json_object_get (i, "image");
  char total[CLI_SIZE_MAX], used[CLI_SIZE_MAX];

  printf ("label       ");
  cli_print_name (cli_json_text (i, "label"), 0);
  printf ("\nuuid        %s\n"
          "size        %s\n"
          "used        %s\n"
          "devices     %" PRIu64 "\n"
          "generation  %" PRIu64 "\n"
          "nodesize    %" PRIu64 "\n"
          "sectorsize  %" PRIu64 "\n"
          "csum        %s\n"
          "incompat    0x%" PRIx64 "\n"
          "compat_ro   0x%" PRIx64 "\n"
          "features    %s\n",
          cli_json_text (i, "uuid"),
          cli_size (cli_json_u64 (i, "total_bytes"), total),
          cli_size (cli_json_u64 (i, "bytes_used"), used),
          cli_json_u64 (i, "num_devices"), cli_json_u64 (i, "generation"),
          cli_json_u64 (i, "nodesize"), cli_json_u64 (i, "sectorsize"),
          cli_json_text (i, "csum"), cli_json_u64 (i, "incompat"),
          cli_json_u64 (i, "compat_ro"), cli_json_text (i, "features"));
  if (cli_json_u64 (image, "clients") > 0)
    printf ("@pool       %" PRIu64 " clients, generation %" PRIu64 "%s%s\n",
            cli_json_u64 (image, "clients"),
            cli_json_u64 (image, "generation"),
            *cli_json_text (image, "ended") ? ", ended: " : "",
            cli_json_text (image, "ended"));
  if (*cli_json_text (i, "read_only_reason"))
    printf ("read-only   %s\n", cli_json_text (i, "read_only_reason"));
}

int
cmd_info (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };

  if (!cli_parse (c, opts))
    return c->status;
  return cli_show (c, "pool.info", print_info);
}
