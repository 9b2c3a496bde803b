/* corrupt BASE MUTATIONS: apply each mutation in memory and compare with the
 * table what the checker says, walking all blocks, and what the engine says,
 * opening the pool and reading everything.  Opening it for writing and making
 * changes must not crash either.
 *
 * corrupt -w NAME BASE MUTATIONS IMAGE: write the image with that damage, to
 * look at it by other means.
 */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "lib/imagedev.h"
#include "lib/mutate.h"
#include "lib/readall.h"
#include "lib/sparse.h"

struct context {
  uint8_t *base;
  uint64_t size;
  struct rawimg healthy;        /* over the same memory */
  struct device *device;        /* the healthy image */
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

/* A device with the damage that is in memory now. */
static struct device *
damaged (struct context *c, const struct mutate_undo *u)
{
  struct imagedev_patch patches[MUTATE_MAX_TOUCHED];
  struct device *dev;

  for (unsigned i = 0; i < u->n; ++i)
    patches[i] = (struct imagedev_patch) { u->touched[i].at,
                                           u->touched[i].len };
  if (imagedev_overlay (c->device, c->base, patches, u->n, &dev) < 0) {
    fprintf (stderr, "no memory device: %s\n", err_text (-ERR_nomem));
    exit (2);
  }
  return dev;
}

/* The engine tries all copies of a block: when none is good it says so, and
 * must tell what the checker told about the last.
 */
static bool
same_damage (const char *got, const char *what, const char *told)
{
  return strcmp (got, "no_mirror") == 0 && told[0] != '\0' &&
    strstr (what, told) != NULL;
}

static void
try_engine (struct context *c, const struct mutation *m,
            const struct mutate_undo *u, const char *told)
{
  bool same = listed ("=", m->engine);
  const char *expect = m->engine;
  bool want_ro = strcmp (expect, "ro") == 0, good, writable;
  char what[READALL_TEXT];
  const char *got;
  int r, w;

  r = imagedev_read_pool (damaged (c, u), what);
  got = result_name (r);
  good = listed (got, want_ro ? "ok" : expect) ||
    (same && (listed (got, m->expect) || same_damage (got, what, told)));
  if (r < 0)
    printf ("# %s\n", what);
  if (!good)
    printf ("# got %s, expected %s (%s)\n", got, expect, m->expect);
  w = imagedev_write_pool (damaged (c, u), &writable);
  if (want_ro && (w < 0 || writable)) {
    printf ("# expected to open read-only, got %s\n", result_name (w));
    good = false;
  }
  result (c, good, "engine", m->name);
}

static void
try_mutation (struct context *c, const struct mutation *m)
{
  char told[READALL_TEXT] = "";
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
  if (r < 0) {
    printf ("# %s\n", err_text (r));
    /* Without the sentence of the code and ": ". */
    snprintf (told, sizeof told, "%s", err_text (r) +
              2 + strlen (btrnbd_error_text (r)));
  }
  if (!good)
    printf ("# got %s, expected %s\n", got, m->expect);
  result (c, good, "checker", m->name);
  try_engine (c, m, &undo, told);
  mutation_undo (&undo);
}

static void
try_healthy (struct context *c, const char *when)
{
  char what[READALL_TEXT];
  struct mutate_undo none = { 0 };
  bool writable;
  int r;

  result (c, walk_everything (c) == 0, "checker: the base image is healthy",
          when);
  r = imagedev_read_pool (damaged (c, &none), what);
  if (r < 0)
    printf ("# %s: %s\n", result_name (r), what);
  result (c, r == 0, "engine: the base image is healthy", when);
  r = imagedev_write_pool (damaged (c, &none), &writable);
  result (c, r == 0 && writable, "engine: the base image is writable", when);
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
  if (write_name == NULL) {
    if (imagedev_new (c.base, c.size, &c.device) < 0)
      return 2;
    try_healthy (&c, "before");
  }
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
  try_healthy (&c, "after");
  printf ("1..%u\n", c.tests);
  device_close (c.device);
  rawimg_close (&c.healthy);
  sparse_free (c.base, c.size);
  return c.failed > 0;
}
