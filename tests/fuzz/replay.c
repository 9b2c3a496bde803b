/* Run a fuzz target over files, without libFuzzer: a crash is a failure.
 * replay FILE-OR-DIRECTORY...  prints TAP, one test for each argument.
 */
#include <config.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"

static unsigned inputs;

static int
run_file (const char *path)
{
  static uint8_t buf[1 << 20];
  FILE *f = fopen (path, "rb");
  uint8_t *exact;
  size_t n;

  if (f == NULL)
    return -1;
  n = fread (buf, 1, sizeof buf, f);
  fclose (f);
  /* Of its very size, so that a sanitizer sees reads past the end. */
  exact = malloc (n > 0 ? n : 1);
  if (exact == NULL)
    return -1;
  memcpy (exact, buf, n);
  LLVMFuzzerTestOneInput (exact, n);
  free (exact);
  ++inputs;
  return 0;
}

static int
run_directory (const char *path)
{
  DIR *dir = opendir (path);
  struct dirent *e;
  char name[4096];
  int r = 0;

  if (dir == NULL)
    return run_file (path);
  while ((e = readdir (dir)) != NULL) {
    if (e->d_name[0] == '.')
      continue;
    snprintf (name, sizeof name, "%s/%s", path, e->d_name);
    if (run_file (name) < 0)
      r = -1;
  }
  closedir (dir);
  return r;
}

int
main (int argc, char **argv)
{
  int r, bad = 0;

  LLVMFuzzerInitialize (&argc, &argv);
  printf ("1..%d\n", argc - 1);
  for (int i = 1; i < argc; ++i) {
    inputs = 0;
    r = run_directory (argv[i]);
    /* An empty corpus proves nothing. */
    if (inputs == 0)
      r = -1;
    printf ("%sok %d - %u inputs of %s\n", r < 0 ? "not " : "", i, inputs,
            argv[i]);
    bad |= r < 0;
  }
  return bad;
}
