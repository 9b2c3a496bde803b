/* corrupt BASE MUTATIONS: apply each mutation in memory and compare what the
 * checker says, walking all blocks, with the table.
 *
 * corrupt -w NAME BASE MUTATIONS IMAGE: write the image with that damage, to
 * look at it by other means.
 */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "lib/mutate.h"
#include "lib/sparse.h"

struct context {
  uint8_t *base;
  uint64_t size;
  struct rawimg healthy;        /* over the same memory */
  unsigned tests, failed;
};

static const char *
result_name (int r)
{
  return r == 0 ? "ok" : btrnbd_error_name (r);
}

/* NAME is one of LIST, "/" between. */
static bool
listed (const char *name, const char *list)
{
  size_t len = strlen (name);

  for (const char *p = list; p != NULL; p = strchr (p, '/')) {
    p += *p == '/';
    if (strncmp (p, name, len) == 0 && (p[len] == '/' || p[len] == '\0'))
      return true;
  }
  return false;
}

static void
result (struct context *c, bool good, const char *what, const char *name)
{
  ++c->tests;
  if (!good)
    ++c->failed;
  printf ("%sok %u - %s %s\n", good ? "" : "not ", c->tests, what, name);
}

static int
walk_everything (const struct context *c)
{
  struct rawimg img;
  int r;

  rawimg_attach (c->base, c->size, &img);
  r = rawimg_load (&img);
  if (r == 0)
    r = rawimg_walk_all (&img, NULL, NULL);
  rawimg_close (&img);
  return r;
}

static void
try_mutation (struct context *c, const struct mutation *m)
{
  struct mutate_undo undo;
  const char *got;
  bool good;
  int r;

  if (mutation_apply (&c->healthy, m, &undo) < 0) {
    printf ("# %s cannot be applied\n", m->name);
    mutation_undo (&undo);
    result (c, false, "apply", m->name);
    return;
  }
  err_clear ();
  r = walk_everything (c);
  got = result_name (r);
  good = listed (got, m->expect);
  if (r < 0)
    printf ("# %s\n", err_text (r));
  if (!good)
    printf ("# got %s, expected %s\n", got, m->expect);
  result (c, good, "checker", m->name);
  mutation_undo (&undo);
}

int
main (int argc, char **argv)
{
  const char *write_name = NULL;
  struct context c = { 0 };
  struct mutation m;
  struct mutate_undo undo;
  char line[512];
  FILE *f;

  if (argc == 6 && strcmp (argv[1], "-w") == 0) {
    write_name = argv[2];
    argv += 2;
  }
  else if (argc != 3) {
    fprintf (stderr, "usage: corrupt [-w NAME] BASE MUTATIONS [IMAGE]\n");
    return 2;
  }
  if (sparse_load (argv[1], &c.base, &c.size) < 0)
    return 2;
  rawimg_attach (c.base, c.size, &c.healthy);
  f = fopen (argv[2], "r");
  if (f == NULL || rawimg_load (&c.healthy) < 0) {
    fprintf (stderr, "%s or %s is unusable\n", argv[1], argv[2]);
    return 2;
  }
  if (write_name == NULL)
    result (&c, walk_everything (&c) == 0, "the base image", "is healthy");
  while (fgets (line, sizeof line, f) != NULL) {
    if (!mutation_parse (line, &m))
      continue;
    if (write_name == NULL)
      try_mutation (&c, &m);
    else if (strcmp (m.name, write_name) == 0)
      return mutation_apply (&c.healthy, &m, &undo) < 0 ||
        sparse_write (c.base, c.size, argv[3]) < 0;
  }
  fclose (f);
  if (write_name != NULL)
    return 1;
  result (&c, walk_everything (&c) == 0, "the base image",
          "is healthy at the end");
  printf ("1..%u\n", c.tests);
  rawimg_close (&c.healthy);
  sparse_free (c.base, c.size);
  return c.failed > 0;
}
