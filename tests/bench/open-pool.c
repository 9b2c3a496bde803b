/* What it costs to open a pool:
 *
 *   open-pool DEVICE [ro|rw|write [PATH]]
 *
 * Opens it (read-only by default) and prints, as JSON, the time until it is
 * open and until the first 4 KiB of PATH (disk0/disk by default) are read,
 * the tree blocks read until then, and the memory of the process.  With
 * `write`, the first answer is that of a write of 4 KiB and a flush.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <btrnbd/engine.h>

static double
now_ms (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * 1e3 + ts.tv_nsec / 1e6;
}

static long
rss_kib (void)
{
  char line[256];
  long kib = 0;
  FILE *f = fopen ("/proc/self/status", "r");

  while (f && fgets (line, sizeof line, f))
    if (sscanf (line, "VmHWM: %ld", &kib) == 1)
      break;
  if (f)
    fclose (f);
  return kib;
}

int
main (int argc, char *argv[])
{
  const char *devices[1] = { argc > 1 ? argv[1] : "" };
  const bool write = argc > 2 && strcmp (argv[2], "write") == 0;
  const bool rw = write || (argc > 2 && strcmp (argv[2], "rw") == 0);
  const struct btrnbd_open_opts opts = { .read_only = !rw };
  struct btrnbd_pool_stats at_open, at_read;
  struct btrnbd_pool *pool;
  struct btrnbd_file *file;
  char buf[4096] = "x";
  double start, opened, answered;
  int r;

  if (argc < 2 || argc > 4) {
    fprintf (stderr, "usage: open-pool DEVICE [ro|rw|write [PATH]]\n");
    return 2;
  }
  start = now_ms ();
  r = btrnbd_pool_open (devices, 1, &opts, &pool);
  if (r < 0)
    goto failed;
  opened = now_ms ();
  btrnbd_pool_get_stats (pool, &at_open);
  r = btrnbd_file_open (pool, argc > 3 ? argv[3] : "disk0/disk",
                        write ? 0 : BTRNBD_OPEN_RDONLY, &file);
  if (r == 0)
    r = write ? btrnbd_pwrite (file, buf, sizeof buf, 0, BTRNBD_FUA)
      : btrnbd_pread (file, buf, sizeof buf, 0);
  if (r < 0)
    goto failed;
  answered = now_ms ();
  btrnbd_pool_get_stats (pool, &at_read);
  printf ("{\"open_ms\": %.2f, \"answer_ms\": %.2f, \"open_blocks\": %" PRIu64
          ", \"answer_blocks\": %" PRIu64 ", \"rss_kib\": %ld}\n",
          opened - start, answered - start, at_open.block_reads,
          at_read.block_reads, rss_kib ());
  btrnbd_file_close (file);
  r = btrnbd_pool_close (pool);
  if (r == 0)
    return 0;

failed:
  fprintf (stderr, "open-pool: %s: %s\n", devices[0], btrnbd_last_error (r));
  return 1;
}
