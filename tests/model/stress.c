/* Threads on one pool: writers that verify their own files, several handles
 * on one shared file, names that come and go, flushes and syncs.
 *
 *   stress [-t THREADS] [-n OPS] [-d DUMP-FILE] [-W] SEED
 *
 * What a thread owns must read back as it wrote it; the shared file is
 * written in whole sectors of one value each, so every sector read must be of
 * one value.  -W: tree blocks are written early all the time.
 */
#include <config.h>

#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <btrnbd/engine.h>

#include "base/math.h"
#include "io/device.h"
#include "lib/early.h"

#define FILE_SIZE (UINT64_C (2) << 20)
#define SHARED_SIZE (UINT64_C (4) << 20)
#define SECTOR 4096

struct worker {
  pthread_t thread;
  struct btrnbd_pool *pool;
  unsigned id, ops;
  uint64_t rng;
  uint8_t *model, *buf;        /* FILE_SIZE bytes each */
};

static uint64_t
rnd (struct worker *w, uint64_t n)
{
  w->rng = w->rng * UINT64_C (6364136223846793005) + 1442695040888963407;
  return (w->rng >> 20) % n;
}

static void
need (int r, const char *what)
{
  if (r == 0)
    return;
  fprintf (stderr, "stress: %s: %s\n", what, btrnbd_last_error (r));
  exit (1);
}

static void
own_file (struct worker *w, struct btrnbd_file *f)
{
  uint64_t offset = rnd (w, FILE_SIZE);
  uint64_t len = MIN (1 + rnd (w, 100000), FILE_SIZE - offset);
  int v = rnd (w, 256);

  switch (rnd (w, 6)) {
  case 0: case 1:
    memset (w->buf, v, len);
    need (btrnbd_pwrite (f, w->buf, len, offset,
                         rnd (w, 20) == 0 ? BTRNBD_FUA : 0), "write");
    memset (w->model + offset, v, len);
    break;
  case 2:
    need (btrnbd_zero (f, offset, len, rnd (w, 2) ? BTRNBD_MAY_TRIM : 0),
          "zero");
    memset (w->model + offset, 0, len);
    break;
  default:
    need (btrnbd_pread (f, w->buf, len, offset), "read");
    if (memcmp (w->buf, w->model + offset, len) != 0) {
      fprintf (stderr, "stress: thread %u reads something else\n", w->id);
      exit (1);
    }
  }
}

static void
shared_file (struct worker *w, struct btrnbd_file *f)
{
  uint64_t offset = round_down (rnd (w, SHARED_SIZE - 65536), SECTOR);
  uint64_t len = SECTOR * (1 + rnd (w, 16)), i;
  int v;

  if (rnd (w, 2) == 0) {
    v = 1 + rnd (w, 255);
    memset (w->buf, v, len);
    if (v % 2 == 0 || !btrnbd_try_pwrite (f, w->buf, len, offset))
      need (btrnbd_pwrite (f, w->buf, len, offset, 0), "shared write");
    return;
  }
  need (btrnbd_pread (f, w->buf, len, offset), "shared read");
  for (i = 0; i < len; i++)
    if (w->buf[i] != w->buf[round_down (i, SECTOR)]) {
      fprintf (stderr, "stress: a torn sector in the shared file\n");
      exit (1);
    }
}

static void
names (struct worker *w)
{
  char path[64], other[64];
  int r;

  snprintf (path, sizeof path, "dir/n%u-%llu", w->id,
            (unsigned long long) rnd (w, 5));
  snprintf (other, sizeof other, "dir/m%u", w->id);
  r = btrnbd_create (w->pool, path, 0600, false);
  if (r != -ERR_exists)
    need (r, "create");
  if (rnd (w, 2) == 0)
    need (btrnbd_rename (w->pool, path, other, 0), "rename");
  else
    need (btrnbd_unlink (w->pool, path), "unlink");
}

static void *
work (void *arg)
{
  struct worker *w = arg;
  struct btrnbd_file *own = NULL, *shared = NULL;
  char path[32];
  unsigned i;

  snprintf (path, sizeof path, "own%u", w->id);
  need (btrnbd_create (w->pool, path, 0600, w->id % 2), "create");
  need (btrnbd_file_open (w->pool, path, 0, &own), "open");
  need (btrnbd_truncate (own, FILE_SIZE), "truncate");
  for (i = 0; i < w->ops; i++) {
    if (shared == NULL)
      need (btrnbd_file_open (w->pool, "shared", 0, &shared), "open");
    switch (rnd (w, 40)) {
    case 0: case 1: names (w); break;
    case 2: need (btrnbd_flush (own), "flush"); break;
    case 3: need (btrnbd_flush (shared), "flush"); break;
    case 4: need (btrnbd_prefetch (own, 0, FILE_SIZE), "prefetch"); break;
    case 5:
      btrnbd_file_close (shared);
      shared = NULL;
      break;
    case 6:
      if (rnd (w, 10) == 0)
        need (btrnbd_pool_sync (w->pool), "sync");
      break;
    case 7: case 8: case 9: case 10: case 11: case 12: case 13: case 14:
      shared_file (w, shared);
      break;
    default: own_file (w, own); break;
    }
  }
  need (btrnbd_pread (own, w->buf, FILE_SIZE, 0), "read");
  if (memcmp (w->buf, w->model, FILE_SIZE) != 0) {
    fprintf (stderr, "stress: thread %u: wrong at the end\n", w->id);
    exit (1);
  }
  btrnbd_file_close (own);
  btrnbd_file_close (shared);
  return NULL;
}

int
main (int argc, char **argv)
{
  struct btrnbd_open_opts opts = {
    .cache_size = 8 << 20, .commit_interval = 1, .workers = 2,
  };
  struct btrnbd_mkfs_opts mkfs = { .size = UINT64_C (1) << 30 };
  const char *image = "stress.img";
  unsigned threads = 4, n = 2000, i;
  struct btrnbd_file *shared = NULL;
  struct btrnbd_pool *pool = NULL;
  bool write_early = false;
  struct early early;
  struct worker *w;
  uint64_t seed;
  int c;

  while ((c = getopt (argc, argv, "t:n:d:W")) != -1)
    switch (c) {
    case 't': threads = atoi (optarg); break;
    case 'n': n = atoi (optarg); break;
    case 'd': image = optarg; break;
    case 'W': write_early = true; break;
    default: return 2;
    }
  seed = optind < argc ? strtoull (argv[optind], NULL, 0) : 1;
  mkfs.force = true;
  need (btrnbd_mkfs (image, &mkfs), "mkfs");
  need (btrnbd_pool_open (&image, 1, &opts, &pool), "open");
  need (btrnbd_mkdir (pool, "dir", 0755), "mkdir");
  need (btrnbd_create (pool, "shared", 0600, false), "create");
  need (btrnbd_file_open (pool, "shared", 0, &shared), "open");
  need (btrnbd_truncate (shared, SHARED_SIZE), "truncate");
  w = calloc (threads, sizeof *w);
  if (write_early)
    early_start (&early, pool);
  for (i = 0; i < threads; i++) {
    w[i] = (struct worker) {
      .pool = pool, .id = i, .ops = n, .rng = seed * 1000 + i,
      .model = calloc (1, FILE_SIZE), .buf = malloc (FILE_SIZE),
    };
    if (pthread_create (&w[i].thread, NULL, work, &w[i]) != 0)
      abort ();
  }
  for (i = 0; i < threads; i++) {
    pthread_join (w[i].thread, NULL);
    free (w[i].model);
    free (w[i].buf);
  }
  free (w);
  if (write_early)
    early_stop (&early);
  btrnbd_file_close (shared);
  need (btrnbd_pool_close (pool), "close");
  return 0;
}
