/* nbd-seeds DIR COUNT: inputs for the target "nbd", whole sessions. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>

#include "lib/nbdsession.h"

int
main (int argc, char **argv)
{
  static struct session s;
  unsigned long i;

  if (argc != 3)
    return 2;
  for (i = 0; i < strtoul (argv[2], NULL, 0); ++i) {
    uint64_t state = i;
    char path[4096];
    FILE *f;

    session_make (&s, &state, "e7", 65536, 200);
    snprintf (path, sizeof path, "%s/session-%04lu", argv[1], i);
    f = fopen (path, "wb");
    if (f == NULL)
      return 1;
    /* One server in eight lets nobody write, or list. */
    fputc (i % 8 == 7 ? 24 : 0, f);
    fputc (i, f);
    fwrite (s.data, 1, s.len, f);
    if (fclose (f) != 0)
      return 1;
  }
  return 0;
}
