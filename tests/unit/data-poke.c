/* A hand for shell tests: small changes of files in a pool.
 *
 *   data-poke IMAGE COMMAND...
 *
 *   create FILE         create-nocow FILE      size FILE BYTES
 *   write FILE OFFSET BYTES LETTER             zero FILE OFFSET BYTES
 *   punch FILE OFFSET BYTES                    reopen
 *   read FILE OFFSET BYTES
 *
 * Every change is flushed; a write prints how many bytes went in place.
 */
#include <config.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <btrnbd/engine.h>

static struct btrnbd_pool *pool;
static const char *image;

static void
check (int r, const char *what)
{
  if (r >= 0)
    return;
  fprintf (stderr, "%s: %s\n", what, btrnbd_last_error (r));
  exit (1);
}

static void
open_pool (void)
{
  const struct btrnbd_open_opts opts = { .commit_interval = UINT_MAX };

  check (btrnbd_pool_open (&image, 1, &opts, &pool), "open");
}

static void
change (char **a)
{
  struct btrnbd_pool_stats before, after;
  const uint64_t offset = strtoull (a[2], NULL, 0);
  const uint64_t len = strcmp (a[0], "size") == 0 ? 0
    : strtoull (a[3], NULL, 0);
  struct btrnbd_file *f;

  check (btrnbd_file_open (pool, a[1], 0, &f), a[1]);
  btrnbd_pool_get_stats (pool, &before);
  if (strcmp (a[0], "write") == 0) {
    void *buf = malloc (len);

    memset (buf, a[4][0], len);
    check (btrnbd_pwrite (f, buf, len, offset, 0), "write");
    free (buf);
  }
  else if (strcmp (a[0], "read") == 0) {
    void *buf = malloc (len);

    check (btrnbd_pread (f, buf, len, offset), "read");
    free (buf);
  }
  else if (strcmp (a[0], "size") == 0)
    check (btrnbd_truncate (f, offset), "size");
  else
    check (btrnbd_zero (f, offset, len,
                        strcmp (a[0], "punch") == 0 ? BTRNBD_MAY_TRIM : 0),
           a[0]);
  check (btrnbd_flush (f), "flush");
  btrnbd_pool_get_stats (pool, &after);
  if (strcmp (a[0], "write") == 0)
    printf ("%llu\n", (unsigned long long) (after.data_nocow_bytes
                                            - before.data_nocow_bytes));
  btrnbd_file_close (f);
}

int
main (int argc, char **argv)
{
  char **a = argv + 2, **end = argv + argc;

  if (argc < 3)
    return 2;
  image = argv[1];
  open_pool ();
  while (a < end) {
    if (strcmp (a[0], "reopen") == 0) {
      check (btrnbd_pool_close (pool), "close");
      open_pool ();
      a += 1;
    }
    else if (strncmp (a[0], "create", 6) == 0 && a + 1 < end) {
      check (btrnbd_create (pool, a[1], 0644,
                            strcmp (a[0], "create-nocow") == 0), "create");
      a += 2;
    }
    else {
      const long n = strcmp (a[0], "write") == 0 ? 5
        : strcmp (a[0], "size") == 0 ? 3 : 4;

      if (a + n > end)
        return 2;
      change (a);
      a += n;
    }
  }
  check (btrnbd_pool_close (pool), "close");
  return 0;
}
