/* Volumes made, written, renamed, removed by several threads through the
 * public API, with everything that runs in the background.
 */
#include <config.h>

#include <pthread.h>

#include <btrnbd/engine.h>

#include "inode_help.h"

#define THREADS 4
#define VOLUMES 4              /* of each thread */
#define PIECE 16384
#define PIECES 64

/* What a volume holds: which pattern each piece was written with. */
struct volume_model {
  bool exists;
  uint32_t pieces[PIECES];     /* 0: zeroes */
};

struct worker {
  struct btrnbd_pool *pool;
  unsigned n, steps, done[6];
  uint64_t seed;
  uint32_t next;
  struct volume_model v[VOLUMES];
  char failure[256];
  pthread_t thread;
};

static unsigned
rnd (struct worker *w, unsigned below)
{
  w->seed = w->seed * UINT64_C (6364136223846793005) + 1442695040888963407;
  return (w->seed >> 33) % below;
}

static void
fill_piece (uint8_t *buf, uint32_t pattern)
{
  uint32_t i, x = pattern * 2654435761u;

  memset (buf, 0, PIECE);
  for (i = 0; pattern != 0 && i < PIECE; i += 4) {
    x = x * 1664525 + 1013904223;
    memcpy (buf + i, &x, 4);
  }
}

#define try(expr)                                                       \
  do {                                                                  \
    int try_ = (expr);                                                  \
    if (try_ != 0) {                                                    \
      snprintf (w->failure, sizeof w->failure, "%s: %s", #expr,         \
                btrnbd_last_error (try_));                              \
      return;                                                           \
    }                                                                   \
  } while (0)

static void
use_volume (struct worker *w, struct volume_model *v, const char *name)
{
  static _Thread_local uint8_t buf[PIECE], want[PIECE];
  struct btrnbd_file *f;
  unsigned k, i, p;

  try (btrnbd_export_open (w->pool, name, 0, &f));
  for (k = 0; k < 12 && w->failure[0] == '\0'; ++k) {
    p = rnd (w, PIECES);
    switch (rnd (w, 4)) {
    case 0:
    case 1:
      fill_piece (buf, ++w->next);
      if (btrnbd_pwrite (f, buf, PIECE, p * PIECE, rnd (w, 8) == 0
                         ? BTRNBD_FUA : 0) < 0)
        snprintf (w->failure, sizeof w->failure, "write");
      v->pieces[p] = w->next;
      break;
    case 2:
      if (btrnbd_trim (f, p * PIECE, PIECE, 0) < 0)
        snprintf (w->failure, sizeof w->failure, "trim");
      v->pieces[p] = 0;
      break;
    default:
      if (btrnbd_flush (f) < 0)
        snprintf (w->failure, sizeof w->failure, "flush");
    }
  }
  for (i = 0; i < PIECES && w->failure[0] == '\0'; ++i) {
    fill_piece (want, v->pieces[i]);
    if (btrnbd_pread (f, buf, PIECE, i * PIECE) < 0 ||
        memcmp (buf, want, PIECE) != 0)
      snprintf (w->failure, sizeof w->failure, "%s: piece %u is wrong", name,
                i);
  }
  if (rnd (w, 3) == 0 &&
      btrnbd_volume_remove (w->pool, name) != -ERR_busy)
    snprintf (w->failure, sizeof w->failure, "removed while open");
  btrnbd_file_close (f);
}

static void
step (struct worker *w)
{
  const unsigned k = rnd (w, VOLUMES);
  struct volume_model *v = &w->v[k];
  char name[32], other[32];

  snprintf (name, sizeof name, "t%u-v%u", w->n, k);
  snprintf (other, sizeof other, "t%u-other", w->n);
  if (!v->exists) {
    const struct btrnbd_volume_opts opts = { .size = PIECE * PIECES,
      .nocow = rnd (w, 2), .description = rnd (w, 2) ? "text" : NULL };

    try (btrnbd_volume_create (w->pool, name, &opts));
    memset (v, 0, sizeof *v);
    v->exists = true;
    ++w->done[0];
  }
  else if (rnd (w, 4) == 0) {
    try (btrnbd_volume_remove (w->pool, name));
    v->exists = false;
    ++w->done[1];
  }
  else if (rnd (w, 6) == 0) {
    try (btrnbd_volume_rename (w->pool, name, other));
    use_volume (w, v, other);
    if (w->failure[0] == '\0')
      try (btrnbd_volume_rename (w->pool, other, name));
    ++w->done[2];
  }
  else {
    use_volume (w, v, name);
    ++w->done[3];
  }
}

static void *
work (void *opaque)
{
  struct worker *w = opaque;
  unsigned i;

  for (i = 0; i < w->steps && w->failure[0] == '\0'; ++i)
    step (w);
  return NULL;
}

static void
verify (struct worker *w)
{
  char name[32];
  unsigned k;

  for (k = 0; k < VOLUMES; ++k)
    if (w->v[k].exists) {
      snprintf (name, sizeof name, "t%u-v%u", w->n, k);
      use_volume (w, &w->v[k], name);
      if (w->failure[0] != '\0')
        fail_msg ("%s", w->failure);
    }
}

static void
test_volumes (void **state)
{
  const struct btrnbd_open_opts opts = { .commit_interval = 1,
    .cache_size = 16 << 20 };
  const char *seed = getenv ("BTRNBD_SEED");
  static struct worker w[THREADS];
  struct btrnbd_pool *pool;
  struct image im;
  const char *path = im.path;
  unsigned i, round;

  (void) state;
  image_make (&im, "-n 4096 -s 4096", 512);
  for (i = 0; i < THREADS; ++i)
    w[i] = (struct worker) { .n = i, .steps = 60,
      .seed = 77 + i + (seed == NULL ? 0 : 100 * strtoull (seed, NULL, 0)) };
  for (round = 0; round < 3; ++round) {
    ok (btrnbd_pool_open (&path, 1, &opts, &pool));
    for (i = 0; i < THREADS; ++i) {
      w[i].pool = pool;
      verify (&w[i]);
      assert_int_equal (pthread_create (&w[i].thread, NULL, work, &w[i]), 0);
    }
    for (i = 0; i < THREADS; ++i)
      pthread_join (w[i].thread, NULL);
    for (i = 0; i < THREADS; ++i)
      if (w[i].failure[0] != '\0')
        fail_msg ("thread %u: %s", i, w[i].failure);
    ok (btrnbd_pool_close (pool));
    image_check (&im);
  }
  for (i = 0; i < THREADS; ++i)
    assert_true (w[i].done[0] > 0 && w[i].done[1] > 0 && w[i].done[3] > 0);
  image_remove (&im);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_volumes),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
