/* cli: btrnbd mkdir. */
#include <config.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

/* The directory and those above it that are missing. */
static int
make_parents (struct btrnbd_pool *pool, const char *path)
{
  char *copy = strdup (path);
  char *slash = copy;
  struct btrnbd_stat st;
  int r = 0;

  if (!copy)
    return -ERR_nomem;
  while (r == 0 && slash) {
    slash += strspn (slash, "/");
    slash = strchr (slash, '/');
    if (slash)
      *slash = '\0';
    if (*copy && (btrnbd_stat (pool, copy, &st) < 0 || !S_ISDIR (st.mode)))
      r = btrnbd_mkdir (pool, copy, 0755);
    if (slash)
      *slash = '/';
  }
  free (copy);
  return r;
}

int
cmd_mkdir (struct cli *c)
{
  bool parents = false;
  const struct cli_opt opts[] = {
    { "parents", 'p', CLI_FLAG, &parents, NULL,
      "also those above; no error when it is there" },
    { NULL }
  };
  char **args = cli_parse (c, opts);
  int status;

  if (!args)
    return c->status;
  status = cli_open (c, false);
  if (status)
    return status;
  for (; *args; args++) {
    int r = parents ? make_parents (c->pool, *args)
      : btrnbd_mkdir (c->pool, *args, 0755);

    if (r < 0)
      status = cli_fail (r, "%s", *args);
  }
  return cli_close (c, status);
}
