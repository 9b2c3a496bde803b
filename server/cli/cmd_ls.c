/* cli: btrnbd ls: the exports of the pool, or one directory. */
#include <config.h>

#include <inttypes.h>
#include <string.h>

#include "cli.h"
#include "control/rpc.h"

struct ls {
  bool details;
  bool exports;                 /* entries are exports, not of a directory */
  json_t *array;
};

static void
print_export (const json_t *e, bool details)
{
  const char *description = cli_json_text (e, "description");
  char size[CLI_SIZE_MAX], used[CLI_SIZE_MAX];

  if (details)
    printf ("%c%c%c %10s %10s  ", cli_json_bool (e, "volume") ? 'v' : '-',
            cli_json_bool (e, "read_only") ? 'r' : 'w',
            cli_json_bool (e, "nocow") ? 'n' : '-',
            cli_size (cli_json_u64 (e, "size"), size),
            cli_size (cli_json_u64 (e, "used"), used));
  if (details && json_is_string (json_object_get (e, "description"))) {
    cli_print_name (cli_json_text (e, "name"), 20);
    fputs (" ", stdout);
    cli_print_name (description, 0);
  }
  else
    cli_print_name (cli_json_text (e, "name"), 0);
  putchar ('\n');
}

static void
print_entry (const json_t *e, bool details)
{
  char size[CLI_SIZE_MAX];

  if (details)
    printf ("%-9s %04o %3" PRIu64 " %10s  ", cli_json_text (e, "type"),
            (unsigned) cli_json_u64 (e, "mode"), cli_json_u64 (e, "nlink"),
            cli_size (cli_json_u64 (e, "size"), size));
  cli_print_name (cli_json_text (e, "name"), 0);
  putchar ('\n');
}

static void
print_all (const struct ls *ls)
{
  const json_t *e;
  size_t i;

  json_array_foreach (ls->array, i, e)
    if (ls->exports)
      print_export (e, ls->details);
    else
      print_entry (e, ls->details);
}

/* An argument is an export's name, or else a path. */
static int
list_one (struct cli *c, struct ls *ls, const char *name)
{
  json_t *st;

  while (*name == '/')
    name++;
  if (*name) {
    ls->exports = true;
    if (cli_call (c, "export.list", json_pack ("{s:o}", "name",
                                               rpc_string (name)),
                  &ls->array) < 0)
      return -1;
    if (json_array_size (ls->array) > 0)
      return 0;
    json_decref (ls->array);
    ls->array = NULL;
  }
  ls->exports = false;
  if (cli_call (c, "file.stat", json_pack ("{s:o}", "path",
                                           rpc_string (name)), &st) < 0)
    return -1;
  if (strcmp (cli_json_text (st, "type"), "directory") == 0 ||
      strcmp (cli_json_text (st, "type"), "subvolume") == 0) {
    json_decref (st);
    return cli_call_list (c, "file.list", name, &ls->array);
  }
  ls->array = json_pack ("[o]", st);
  return 0;
}

static int
list_all (struct cli *c, struct ls *ls)
{
  ls->exports = true;
  return cli_call_list (c, "export.list", NULL, &ls->array);
}

int
cmd_ls (struct cli *c)
{
  struct ls ls = { 0 };
  const struct cli_opt opts[] = {
    { "long", 'l', CLI_FLAG, &ls.details, NULL,
      "kind, size, space used, description" },
    { NULL }
  };
  char **args = cli_parse (c, opts);
  int status;

  if (!args)
    return c->status;
  status = cli_connect (c, true);
  if (status)
    return status;
  if ((args[0] ? list_one (c, &ls, args[0]) : list_all (c, &ls)) < 0)
    status = cli_call_failed (c, "%s", args[0] ? args[0]
                              : cli_pool_name (c));
  else if (c->json)
    status = cli_print_json (json_incref (ls.array));
  else
    print_all (&ls);
  json_decref (ls.array);
  return cli_disconnect (c, status);
}
