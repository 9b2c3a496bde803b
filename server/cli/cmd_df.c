/* cli: btrnbd df. */
#include <config.h>

#include "cli.h"

static json_t *
space_json (const struct btrnbd_space *s)
{
  return json_pack ("{s:s,s:I,s:I,s:I,s:I,s:I,s:I}",
                    "profile", s->profile,
                    "total", (json_int_t) s->total,
                    "used", (json_int_t) s->used,
                    "reserved", (json_int_t) s->reserved,
                    "pinned", (json_int_t) s->pinned,
                    "may_use", (json_int_t) s->may_use,
                    "readonly", (json_int_t) s->readonly);
}

static void
print_space (const char *name, const struct btrnbd_space *s)
{
  char total[CLI_SIZE_MAX], used[CLI_SIZE_MAX];

  printf ("%-9s %-7s %10s %10s %3.0f %%\n", name, s->profile,
          cli_size (s->total, total), cli_size (s->used, used),
          s->total ? 100.0 * s->used / s->total : 0.0);
}

int
cmd_df (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };
  struct btrnbd_pool_info i;
  char size[CLI_SIZE_MAX];
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
    status = cli_print_json (
      json_pack ("{s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:o}",
                 "total_bytes", (json_int_t) i.total_bytes,
                 "bytes_used", (json_int_t) i.bytes_used,
                 "free_estimate", (json_int_t) i.free_estimate,
                 "unallocated", (json_int_t) i.unallocated,
                 "global_reserve", (json_int_t) i.global_reserve,
                 "data", space_json (&i.data),
                 "metadata", space_json (&i.metadata),
                 "system", space_json (&i.system)));
  else {
    printf ("%-9s %-7s %10s %10s %5s\n", "type", "profile", "allocated",
            "used", "used");
    print_space ("data", &i.data);
    print_space ("metadata", &i.metadata);
    print_space ("system", &i.system);
    printf ("not allocated %s\n", cli_size (i.unallocated, size));
    printf ("free, about   %s\n", cli_size (i.free_estimate, size));
  }
  return cli_close (c, status);
}
