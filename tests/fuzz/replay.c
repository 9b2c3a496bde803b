/* Run a fuzz target over files, without libFuzzer: a crash is a failure.
 *
 * replay FILE-OR-DIRECTORY...  prints TAP, one test for each argument.
 * replay -r COUNT SEED  runs COUNT random inputs; with FUZZ_SAVE=FILE in the
 * environment each is written there first, so that after a crash it is known.
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

/* A byte or a few, anywhere. */
size_t
LLVMFuzzerMutate (uint8_t *data, size_t size, size_t max_size)
{
  static const uint8_t values[] = { 0, 1, 2, 0x7f, 0x80, 0xff };
  size_t at, n;

  if (size == 0 || (size < max_size && rand () % 4 == 0))
    data[size++] = rand ();
  at = rand () % size;
  n = 1 + rand () % 4;
  for (size_t i = at; i < at + n && i < size; ++i)
    data[i] = rand () % 2 ? rand ()
      : values[(unsigned) rand () % sizeof values];
  return size;
}

static void
save (const uint8_t *data, size_t size)
{
  const char *path = getenv ("FUZZ_SAVE");
  FILE *f = path == NULL ? NULL : fopen (path, "wb");

  if (f != NULL) {
    fwrite (data, 1, size, f);
    fclose (f);
  }
}

static int
run_random (unsigned count, unsigned seed)
{
  static uint8_t buf[600];
  size_t size = 0;

  srand (seed);
  for (unsigned i = 0; i < count; ++i) {
    unsigned rounds = 1 + rand () % 4;

    if (i % 8 == 0)
      size = 0;
    while (rounds-- > 0)
      size = LLVMFuzzerCustomMutator (buf, size, sizeof buf, rand ());
    save (buf, size);
    LLVMFuzzerTestOneInput (buf, size);
  }
  printf ("1..1\nok 1 - %u random inputs, seed %u\n", count, seed);
  return 0;
}

int
main (int argc, char **argv)
{
  int r, bad = 0;

  LLVMFuzzerInitialize (&argc, &argv);
  if (argc == 4 && strcmp (argv[1], "-r") == 0)
    return run_random (strtoul (argv[2], NULL, 0),
                       strtoul (argv[3], NULL, 0));
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
