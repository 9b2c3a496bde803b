/* cli: btrnbd df. */
#include <config.h>

#include <errno.h>

#include "cli.h"
#include "control/rpc.h"

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
  printf ("not allocated   %s\n", cli_size (cli_json_u64 (df, "unallocated"),
                                            size));
  printf ("free, about     %s\n",
          cli_size (cli_json_u64 (df, "free_estimate"), size));
  printf ("safely writable %s\n", cli_size (cli_json_u64 (df, "writable"),
                                            size));
  print_image (df);
}

/* --- exports --- */

static void
print_column (const json_t *u, const char *key)
{
  char size[CLI_SIZE_MAX];

  printf (" %10s", json_object_get (u, key)
          ? cli_size (cli_json_u64 (u, key), size) : "");
}

static void
print_usage (const json_t *u, const char *name)
{
  cli_print_name (name, 24);
  print_column (u, "allocated");
  print_column (u, "exclusive");
  print_column (u, "shared");
  print_column (u, "dead");
  putchar ('\n');
}

static int
add_export (struct cli *c, json_t *array, const char *name)
{
  json_t *u;

  if (cli_call (c, "export.usage",
                json_pack ("{s:o}", "name", rpc_string (name)), &u) < 0)
    return -1;
  json_object_set_new (u, "name", rpc_string (name));
  json_array_append_new (array, u);
  return 0;
}

/* One that is removed meanwhile is none of them. */
static int
add_all (struct cli *c, json_t *df, json_t *array)
{
  json_t *list, *e, *u;
  int status = 0;
  size_t i;

  if (cli_call_list (c, "export.list", NULL, &list) < 0)
    return cli_call_failed (c, "%s", cli_pool_name (c));
  json_array_foreach (list, i, e) {
    const char *name = cli_json_text (e, "name");

    if (add_export (c, array, name) == 0 || c->error_errno == ENOENT)
      continue;
    if (c->error_code == 0)
      break; /* and it is told below */
    status = cli_call_failed (c, "%s", name);
  }
  json_decref (list);
  if (cli_call (c, "pool.usage", NULL, &u) < 0)
    return cli_call_failed (c, "%s", cli_pool_name (c));
  json_object_set_new (df, "files", u);
  return status;
}

static void
print_exports (const json_t *df)
{
  const json_t *e, *files = json_object_get (df, "files");
  size_t i;

  printf ("%-24s %10s %10s %10s %10s\n", "export", "allocated", "exclusive",
          "shared", "dead");
  json_array_foreach (json_object_get (df, "exports"), i, e)
    print_usage (e, cli_json_text (e, "name"));
  if (files)
    print_usage (files, "all files");
}

/* As far as there is something to tell; the others make the status 1. */
static int
collect (struct cli *c, char **args, bool volumes, json_t *df)
{
  json_t *array = json_array ();
  int status = 0;

  json_object_set_new (df, "exports", array);
  for (; *args; args++)
    if (add_export (c, array, *args) < 0)
      status = cli_call_failed (c, "%s", *args);
  if (volumes)
    status |= add_all (c, df, array);
  return status;
}

int
cmd_df (struct cli *c)
{
  bool volumes = false;
  const struct cli_opt opts[] = {
    { "volumes", 'v', CLI_FLAG, &volumes, NULL,
      "what each export and all files occupy" },
    { NULL }
  };
  char **args = cli_parse (c, opts);
  json_t *df = NULL;
  int status;

  if (!args)
    return c->status;
  status = cli_connect (c, true);
  if (status)
    return status;
  if (cli_call (c, "pool.df", NULL, &df) < 0) {
    status = cli_call_failed (c, "%s", cli_pool_name (c));
    return cli_disconnect (c, status);
  }
  if (*args || volumes)
    status = collect (c, args, volumes, df);
  if (c->json)
    status |= cli_print_json (json_incref (df));
  else {
    if (!*args)
      print_df (df);
    if (*args || volumes)
      print_exports (df);
  }
  json_decref (df);
  return cli_disconnect (c, status);
}
