/* The time of delayed references, with and without what the engine does for
 * them.
 *
 *   refs [FILES [THREADS]]
 *
 * Several threads create empty files in directories of their own, on a pool
 * in memory that commits every so often.  Three runs: free-space changes one
 * by one without the cached form of a group, the same with the cache, and
 * collected per commit (the normal way).  Printed: the distribution of the
 * time spent on one reference of a tree block, and what the free space tree
 * cost per commit.
 */
#include <config.h>

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/math.h"
#include "fs/api_priv.h"
#include "io/device.h"
#include "space/space.h"

#define POOL_SIZE (UINT64_C (4) << 30)
#define THREADS_MAX 64
#define COMMIT_EVERY 5000

struct samples {
  pthread_mutex_t lock;
  uint64_t *ns;
  size_t n, max;
};

struct worker {
  pthread_t thread;
  struct btrnbd_pool *pool;
  unsigned number, files;
  int result;
};

struct mode {
  const char *name;
  bool one_by_one, no_cache;
};

static const struct mode modes[] = {
  { "one by one, no cache", true, true },
  { "one by one, cached form", true, false },
  { "collected, cached form", false, false },
};

static uint64_t
now_ns (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return (uint64_t) ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void
sample (void *opaque, uint64_t ns)
{
  struct samples *s = opaque;

  pthread_mutex_lock (&s->lock);
  if (s->n == s->max) {
    const size_t max = s->max ? 2 * s->max : 65536;
    void *p = realloc (s->ns, max * sizeof *s->ns);

    if (p) {
      s->ns = p;
      s->max = max;
    }
  }
  if (s->n < s->max)
    s->ns[s->n++] = ns;
  pthread_mutex_unlock (&s->lock);
}

static int
cmp_ns (const void *a, const void *b)
{
  const uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

  return x < y ? -1 : x > y;
}

static void *
create_files (void *opaque)
{
  struct worker *w = opaque;
  char path[64];

  for (unsigned i = 0; w->result == 0 && i < w->files; i++) {
    snprintf (path, sizeof path, "dir%u/file%u", w->number, i);
    w->result = btrnbd_create (w->pool, path, 0644, false);
    if (w->result == 0 && i % COMMIT_EVERY == COMMIT_EVERY - 1)
      w->result = btrnbd_pool_sync (w->pool);
  }
  return NULL;
}

static void
report (const struct mode *m, struct samples *s, struct btrnbd_pool *pool,
        uint64_t ns)
{
  struct fst_stats fst;
  struct btrnbd_pool_stats stats;
  double sum = 0;

  qsort (s->ns, s->n, sizeof *s->ns, cmp_ns);
  for (size_t i = 0; i < s->n; i++)
    sum += s->ns[i];
  space_fst_get_stats (pool->fs->space, &fst);
  btrnbd_pool_get_stats (pool, &stats);
  printf ("%-25s %8zu %8.0f %8" PRIu64 " %8" PRIu64 " %8" PRIu64
          " %9" PRIu64 " %9" PRIu64 " %10.0f %8.2f\n", m->name, s->n,
          s->n ? sum / s->n : 0, s->n ? s->ns[s->n / 2] : 0,
          s->n ? s->ns[s->n * 9 / 10] : 0, s->n ? s->ns[s->n * 99 / 100] : 0,
          fst.changes, fst.applied,
          stats.commits ? fst.ns / 1e3 / stats.commits : 0, ns / 1e9);
}

static int
run (const struct mode *m, unsigned files, unsigned threads)
{
  const struct btrnbd_open_opts opts = { .commit_interval = UINT_MAX };
  struct samples s = { .lock = PTHREAD_MUTEX_INITIALIZER };
  struct worker w[THREADS_MAX] = { 0 };
  struct btrnbd_pool *pool;
  struct device *dev;
  uint64_t start;
  int r;

  r = device_mem_new ("bench", POOL_SIZE, &dev);
  if (r < 0)
    return r;
  r = btrnbd_mkfs_device (dev, &(struct btrnbd_mkfs_opts) { 0 });
  if (r < 0) {
    device_close (dev);
    return r;
  }
  r = btrnbd_pool_open_devices (&dev, 1, &opts, &pool);
  if (r < 0)
    return r;
  space_fst_set_mode (pool->fs->space, m->one_by_one, m->no_cache);
  extents_set_timer (pool->fs->extents, sample, &s);
  start = now_ns ();
  for (unsigned i = 0; r == 0 && i < threads; i++) {
    char dir[32];

    snprintf (dir, sizeof dir, "dir%u", i);
    r = btrnbd_mkdir (pool, dir, 0755);
    w[i] = (struct worker) {
      .pool = pool, .number = i, .files = files / threads
    };
  }
  if (r == 0) {
    for (unsigned i = 0; i < threads; i++)
      if (pthread_create (&w[i].thread, NULL, create_files, &w[i]) != 0)
        abort ();
    for (unsigned i = 0; i < threads; i++) {
      pthread_join (w[i].thread, NULL);
      if (w[i].result < 0)
        r = w[i].result;
    }
  }
  if (r == 0)
    r = btrnbd_pool_sync (pool);
  extents_set_timer (pool->fs->extents, NULL, NULL);
  if (r == 0)
    report (m, &s, pool, now_ns () - start);
  free (s.ns);
  btrnbd_pool_close (pool);
  return r;
}

int
main (int argc, char *argv[])
{
  const unsigned files = argc > 1 ? atoi (argv[1]) : 100000;
  const unsigned threads = argc > 2 ? atoi (argv[2]) : 4;

  if (files == 0 || threads == 0 || threads > THREADS_MAX) {
    fprintf (stderr, "usage: refs [FILES [THREADS]]\n");
    return 2;
  }
  printf ("\n%u empty files by %u threads: ns of one tree reference; free "
          "space tree\n%-25s %8s %8s %8s %8s %8s %9s %9s %10s %8s\n", files,
          threads, "", "refs", "mean", "median", "p90", "p99", "changes",
          "applied", "us/commit", "seconds");
  for (size_t i = 0; i < ARRAY_SIZE (modes); i++) {
    int r = run (&modes[i], files, threads);

    if (r < 0) {
      fprintf (stderr, "refs: %s: %s\n", modes[i].name,
               btrnbd_last_error (r));
      return 1;
    }
  }
  return 0;
}
