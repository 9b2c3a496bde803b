/* Makes a pool for tests through the engine alone:
 *
 *   mkfs-pool [KEY=VALUE...] DEVICE
 *
 * with the keys of struct btrnbd_mkfs_opts: size= (bytes), label=, uuid=,
 * nodesize=, sectorsize=, csum=, data=, metadata=, features=, mixed=1,
 * force=1.
 */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <btrnbd/engine.h>

#include "base/err.h"

static bool
option (struct btrnbd_mkfs_opts *o, const char *key, const char *value)
{
  if (strcmp (key, "size") == 0)
    o->size = strtoull (value, NULL, 0);
  else if (strcmp (key, "label") == 0)
    o->label = value;
  else if (strcmp (key, "uuid") == 0)
    o->uuid = value;
  else if (strcmp (key, "nodesize") == 0)
    o->nodesize = strtoul (value, NULL, 0);
  else if (strcmp (key, "sectorsize") == 0)
    o->sectorsize = strtoul (value, NULL, 0);
  else if (strcmp (key, "csum") == 0)
    o->csum = value;
  else if (strcmp (key, "data") == 0)
    o->data_profile = value;
  else if (strcmp (key, "metadata") == 0)
    o->metadata_profile = value;
  else if (strcmp (key, "features") == 0)
    o->features = value;
  else if (strcmp (key, "mixed") == 0)
    o->mixed = atoi (value);
  else if (strcmp (key, "force") == 0)
    o->force = atoi (value);
  else
    return false;
  return true;
}

int
main (int argc, char *argv[])
{
  struct btrnbd_mkfs_opts opts = { 0 };
  int r;

  for (int i = 1; i < argc - 1; i++) {
    char *eq = strchr (argv[i], '=');

    if (eq)
      *eq = '\0';
    if (!eq || !option (&opts, argv[i], eq + 1)) {
      fprintf (stderr, "mkfs-pool: bad argument \"%s\"\n", argv[i]);
      return 2;
    }
  }
  if (argc < 2)
    return 2;
  r = btrnbd_mkfs (argv[argc - 1], &opts);
  if (r < 0) {
    fprintf (stderr, "mkfs-pool: %s\n", err_text (r));
    return 1;
  }
  return 0;
}
