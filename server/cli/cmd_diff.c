/* cli: btrnbd diff: where two exports differ. */
#include <config.h>

#include <inttypes.h>

#include "cli.h"
#include "control/rpc.h"

#define PAGE 5000

/* Ranges from SKIP on: *RET_PAGE. */
static int
next_page (struct cli *c, char **args, size_t skip, json_t **ret_page)
{
  return cli_call (c, "export.diff",
                   json_pack ("{s:o,s:o,s:I,s:I}", "a", rpc_string (args[0]),
                              "b", rpc_string (args[1]), "skip",
                              (json_int_t) skip, "max", (json_int_t) PAGE),
                   ret_page);
}

int
cmd_diff (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };
  char **args = cli_parse (c, opts);
  json_t *all, *page, *e;
  size_t n = PAGE, skip = 0, i;
  int status;

  if (!args)
    return c->status;
  status = cli_connect (c, true);
  if (status)
    return status;
  all = json_array ();
  for (; n == PAGE && status == 0; skip += n) {
    if (next_page (c, args, skip, &page) < 0) {
      status = cli_call_failed (c, "%s %s", args[0], args[1]);
      break;
    }
    n = json_array_size (page);
    if (c->json)
      json_array_extend (all, page);
    else
      json_array_foreach (page, i, e)
        printf ("%" PRIu64 " %" PRIu64 "\n", cli_json_u64 (e, "offset"),
                cli_json_u64 (e, "length"));
    json_decref (page);
  }
  if (c->json && status == 0)
    status = cli_print_json (all);
  else
    json_decref (all);
  return cli_disconnect (c, status);
}
