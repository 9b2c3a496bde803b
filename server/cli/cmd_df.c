/* cli: btrnbd df. */
#include <config.h>

#include "cli.h"

static void
print_space (const json_t *df, const char *name)
{
  const json_t *s = json_object_get (df, name);
  const uint64_t total = cli_json_u64 (s, "total");
  const uint64_t used = cli_json_u64 (s, "used");
  char total_text[CLI_SIZE_MAX], used_text[CLI_SIZE_MAX];

  printf ("%-9s %-7s %10s %10s %3.0f %%\n", name,
          cli_json_text (s, "profile"), cli_size (total, total_text),
          cli_size (used, used_text), total ? 100.0 * used / total : 0.0);
}

/* What @pool costs, while somebody has it open. */
static void
print_image (const json_t *df)
{
  const json_t *i = json_object_get (df, "image");
  char held[CLI_SIZE_MAX], limit[CLI_SIZE_MAX];

  if (cli_json_u64 (i, "clients") == 0)
    return;
  printf ("held by @pool %s of %s", cli_size (cli_json_u64 (i, "held"), held),
          cli_size (cli_json_u64 (i, "limit"), limit));
  if (*cli_json_text (i, "ended"))
    printf (", ended: %s", cli_json_text (i, "ended"));
  putchar ('\n');
}

static void
print_df (const json_t *df)
{
  char size[CLI_SIZE_MAX];

  printf ("%-9s %-7s %10s %10s %5s\n", "type", "profile", "allocated",
          "used", "used");
  print_space (df, "data");
  print_space (df, "metadata");
  print_space (df, "system");
  printf ("not allocated %s\n", cli_size (cli_json_u64 (df, "unallocated"),
                                          size));
  printf ("free, about   %s\n", cli_size (cli_json_u64 (df, "free_estimate"),
                                          size));
  print_image (df);
}

int
cmd_df (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };
  json_t *df;
  int status;

  if (!cli_parse (c, opts))
    return c->status;
  status = cli_connect (c, true);
  if (status)
    return status;
  if (cli_call (c, "pool.df", NULL, &df) < 0)
    status = cli_call_failed (c, "%s", cli_pool_name (c));
  else if (c->json)
    status = cli_print_json (json_incref (df));
  else
    print_df (df);
  json_decref (df);
  return cli_disconnect (c, status);
}
