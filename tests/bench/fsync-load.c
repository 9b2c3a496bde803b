/* Loads of new files and fsync, on a pool through the engine's API, or on a
 * mounted filesystem:
 *
 *   fsync-load dir ours|linux PLACE FILES EVERY
 *   fsync-load files ours|linux PLACE THREADS SECONDS
 *   fsync-load flush ours|linux PLACE MIB COUNT
 *
 * PLACE is the device of the pool, or a directory.  `dir`: empty files in one
 * new directory, and after every EVERY of them an fsync of the directory.
 * `files`: each thread makes files in a directory of its own and fsyncs each.
 * `flush`: COUNT writes of 4 KiB at random places of a file of so many MiB,
 * which has been written and committed, and after each a FLUSH (fdatasync).
 * Prints JSON: times in milliseconds, counters of the engine.
 */
#include <config.h>

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <btrnbd/engine.h>

#define THREADS_MAX 64
#define BLOCK 4096
#define EARLY 64               /* FLUSHes after a commit that are told apart */

static struct btrnbd_pool *pool;     /* NULL: Linux */

static double
now_ms (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * 1e3 + ts.tv_nsec / 1e6;
}

static void
die (int r, const char *what)
{
  if (pool != NULL)
    fprintf (stderr, "fsync-load: %s: %s\n", what, btrnbd_last_error (r));
  else
    perror (what);
  exit (1);
}

static void
make_dir (const char *path)
{
  int r = pool ? btrnbd_mkdir (pool, path, 0755) : mkdir (path, 0755);

  if (r < 0)
    die (r, path);
}

static void
create (const char *path)
{
  int r;

  if (pool != NULL)
    r = btrnbd_create (pool, path, 0644, false);
  else {
    r = open (path, O_CREAT | O_EXCL | O_WRONLY, 0644);
    if (r >= 0)
      close (r);
  }
  if (r < 0)
    die (r, path);
}

static void
sync_path (const char *path, bool dir)
{
  int r, fd;

  if (pool != NULL)
    r = btrnbd_fsync (pool, path);
  else {
    fd = open (path, O_RDONLY | (dir ? O_DIRECTORY : 0));
    r = fd < 0 ? fd : fsync (fd);
    if (fd >= 0)
      close (fd);
  }
  if (r < 0)
    die (r, path);
}

static void
sync_all (const char *place)
{
  int r;

  if (pool != NULL)
    r = btrnbd_pool_sync (pool);
  else {
    int fd = open (place, O_RDONLY);

    r = fd < 0 ? fd : syncfs (fd);
    if (fd >= 0)
      close (fd);
  }
  if (r < 0)
    die (r, place);
}

static void
print_counters (void)
{
  struct btrnbd_pool_stats st;

  if (pool == NULL)
    return;
  btrnbd_pool_get_stats (pool, &st);
  printf (", \"flushes\": %" PRIu64 ", \"syncs\": %" PRIu64
          ", \"became_commits\": %" PRIu64 ", \"log_blocks\": %" PRIu64
          ", \"commits\": %" PRIu64 ", \"commit_ms\": %.1f, "
          "\"commit_max_ms\": %.1f", st.log_flushes, st.log_syncs,
          st.log_commits, st.log_blocks, st.commits, st.commit_ns_total / 1e6,
          st.commit_ns_max / 1e6);
}

/* --- one directory --- */

static int
by_size (const void *a, const void *b)
{
  const double x = *(const double *) a, y = *(const double *) b;

  return x < y ? -1 : x > y;
}

static double
mean (const double *v, size_t n)
{
  double sum = 0;
  size_t i;

  for (i = 0; i < n; ++i)
    sum += v[i];
  return n ? sum / n : 0;
}

static void
load_dir (const char *place, size_t files, size_t every)
{
  const size_t n = files / every, tenth = n / 10;
  double *ms = calloc (n + 1, sizeof *ms), start, first, last;
  char dir[300], path[400];
  size_t i;

  if (ms == NULL)
    die (-1, "memory");
  snprintf (dir, sizeof dir, "%s%sdir", pool ? "" : place, pool ? "" : "/");
  make_dir (dir);
  sync_all (place);
  start = now_ms ();
  for (i = 0; i < n * every; ++i) {
    snprintf (path, sizeof path, "%s/file_%zu", dir, i + 1);
    create (path);
    if ((i + 1) % every == 0) {
      const double t = now_ms ();

      sync_path (dir, true);
      ms[i / every] = now_ms () - t;
    }
  }
  start = now_ms () - start;
  first = mean (ms, tenth);
  last = mean (ms + n - tenth, tenth);
  printf ("{\"total_ms\": %.1f, \"mean\": %.3f, \"first\": %.3f, "
          "\"last\": %.3f", start, mean (ms, n), first, last);
  qsort (ms, n, sizeof *ms, by_size);
  printf (", \"p50\": %.3f, \"p99\": %.3f, \"fsyncs\": %zu, "
          "\"first_n\": %zu", ms[n / 2], ms[n * 99 / 100], n, tenth);
  print_counters ();
  printf ("}\n");
  free (ms);
}

/* --- a file each --- */

struct worker {
  pthread_t thread;
  char dir[320];
  double end;
  size_t files;
};

static void *
work (void *opaque)
{
  struct worker *w = opaque;
  char path[400];

  while (now_ms () < w->end) {
    snprintf (path, sizeof path, "%s/f%zu", w->dir, w->files);
    create (path);
    sync_path (path, false);
    ++w->files;
  }
  return NULL;
}

static void
load_files (const char *place, unsigned threads, double seconds)
{
  struct worker w[THREADS_MAX] = { 0 };
  size_t files = 0;
  double start;
  unsigned i;

  for (i = 0; i < threads; ++i) {
    snprintf (w[i].dir, sizeof w[i].dir, "%s%sd%u", pool ? "" : place,
              pool ? "" : "/", i);
    make_dir (w[i].dir);
  }
  sync_all (place);
  start = now_ms ();
  for (i = 0; i < threads; ++i) {
    w[i].end = start + seconds * 1e3;
    if (pthread_create (&w[i].thread, NULL, work, &w[i]) != 0)
      die (-1, "thread");
  }
  for (i = 0; i < threads; ++i) {
    pthread_join (w[i].thread, NULL);
    files += w[i].files;
  }
  printf ("{\"rate\": %.1f", files * 1e3 / (now_ms () - start));
  print_counters ();
  printf ("}\n");
}

/* --- random writes --- */

static void
write_at (struct btrnbd_file *f, int fd, const void *buf, size_t len,
          uint64_t at)
{
  const int r = f ? btrnbd_pwrite (f, buf, len, at, 0)
    : pwrite (fd, buf, len, at) == (ssize_t) len ? 0 : -1;

  if (r < 0)
    die (r, "write");
}

static void
flush (struct btrnbd_file *f, int fd)
{
  const int r = f ? btrnbd_flush (f) : fdatasync (fd);

  if (r < 0)
    die (r, "flush");
}

static void
load_flush (const char *place, size_t mib, size_t count)
{
  double *ms = calloc (count, sizeof *ms);
  struct btrnbd_pool_stats before = { 0 }, early = { 0 };
  struct btrnbd_file *f = NULL;
  char *buf = malloc (1 << 20), path[400];
  int fd = -1, r = 0;
  size_t i;

  if (ms == NULL || buf == NULL)
    die (-1, "memory");
  snprintf (path, sizeof path, "%s%sfile", pool ? "" : place, pool ? "" : "/");
  create (path);
  if (pool != NULL) {
    r = btrnbd_file_open (pool, path, 0, &f);
    if (r == 0)
      r = btrnbd_truncate (f, mib << 20);
  }
  else
    r = fd = open (path, O_RDWR);
  if (r < 0)
    die (r, path);
  for (i = 0; i < mib; ++i) {
    memset (buf, 'a' + i % 26, 1 << 20);
    write_at (f, fd, buf, 1 << 20, i << 20);
  }
  sync_all (place);
  if (pool != NULL)
    btrnbd_pool_get_stats (pool, &before);
  srandom (1);
  for (i = 0; i < count; ++i) {
    const double t = now_ms ();

    write_at (f, fd, buf, BLOCK, random () % (mib << 8) * BLOCK);
    flush (f, fd);
    ms[i] = now_ms () - t;
    if (i + 1 == EARLY && pool != NULL)
      btrnbd_pool_get_stats (pool, &early);
  }
  qsort (ms, count, sizeof *ms, by_size);
  printf ("{\"p50\": %.3f, \"p99\": %.3f, \"mean\": %.3f, \"early\": "
          "%.2f", ms[count / 2], ms[count * 99 / 100], mean (ms, count),
          (double) (early.log_blocks - before.log_blocks) / EARLY);
  print_counters ();
  printf ("}\n");
  if (f != NULL)
    btrnbd_file_close (f);
  free (ms);
  free (buf);
}

int
main (int argc, char *argv[])
{
  const struct btrnbd_open_opts opts = { .workers = 0 };
  const char *place = argc == 6 ? argv[3] : "";
  bool ours;
  int r;

  if (argc != 6 || atoi (argv[4]) < 1 || atoi (argv[5]) < 1 ||
      (strcmp (argv[1], "files") == 0 && atoi (argv[4]) > THREADS_MAX)) {
    fprintf (stderr, "usage: fsync-load dir|files|flush ours|linux PLACE N "
             "M\n");
    return 2;
  }
  ours = strcmp (argv[2], "ours") == 0;
  if (ours && (r = btrnbd_pool_open (&place, 1, &opts, &pool)) < 0)
    die (r, place);
  if (strcmp (argv[1], "dir") == 0)
    load_dir (place, atol (argv[4]), atol (argv[5]));
  else if (strcmp (argv[1], "flush") == 0)
    load_flush (place, atol (argv[4]), atol (argv[5]));
  else
    load_files (place, atoi (argv[4]), atof (argv[5]));
  fflush (stdout);
  if (ours && (r = btrnbd_pool_close (pool)) < 0)
    die (r, place);
  return 0;
}
