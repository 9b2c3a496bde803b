/* Eight threads write, rename and sync in three subvolumes while commits run;
 * then the device stops taking writes, and what was acknowledged must be
 * there.  BTRNBD_SEED chooses another run, BTRNBD_FULL=1 takes a minute.
 *
 * Each thread has a file of BLOCKS blocks and a directory.  Step S of its
 * names: 3u creates c<u> and syncs it, 3u+1 renames it to r<u> and syncs the
 * directory, 3u+2 removes r<u-1> and syncs the directory.
 */
#include <config.h>

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include <btrnbd/engine.h>

#include "inode_help.h"

#include "fs/api_priv.h"
#include "io/fault.h"

#define THREADS 8
#define SUBVOLS 3
#define BLOCKS 64
#define BLOCK 4096

struct worker {
  unsigned n;
  uint64_t seed;
  struct btrnbd_pool *pool;
  char dir[32], file[32];
  /* What was acknowledged, and what was attempted. */
  uint32_t acked[BLOCKS], newest[BLOCKS];
  uint64_t step;               /* the last one that was acknowledged, + 1 */
  bool ended;
  pthread_t thread;
};

static atomic_bool stop;

static unsigned
rnd (struct worker *w, unsigned below)
{
  w->seed = w->seed * UINT64_C (6364136223846793005) + 1442695040888963407;
  return (w->seed >> 33) % below;
}

static void
fill (uint32_t *buf, unsigned thread, unsigned block, uint32_t version)
{
  unsigned i;

  for (i = 0; i < BLOCK / 4; i += 4) {
    buf[i] = version;
    buf[i + 1] = thread;
    buf[i + 2] = block;
    buf[i + 3] = i;
  }
}

/* Some blocks, and a flush. */
static int
write_some (struct worker *w, struct btrnbd_file *f)
{
  uint32_t buf[BLOCK / 4];
  unsigned i, b[3];
  int r = 0;

  for (i = 0; i < 3 && r == 0; ++i) {
    b[i] = rnd (w, BLOCKS);
    fill (buf, w->n, b[i], ++w->newest[b[i]]);
    r = btrnbd_pwrite (f, buf, sizeof buf, (uint64_t) b[i] * BLOCK, 0);
  }
  if (r == 0)
    r = btrnbd_flush (f);
  for (i = 0; i < 3 && r == 0; ++i)
    w->acked[b[i]] = w->newest[b[i]];
  return r;
}

static void
name (char s[64], const struct worker *w, char kind, uint64_t u)
{
  snprintf (s, 64, "%s/%c%llu", w->dir, kind, (unsigned long long) u);
}

static int
name_step (struct worker *w)
{
  const uint64_t u = w->step / 3;
  char a[64], b[64];
  int r = 0;

  name (a, w, 'c', u);
  name (b, w, 'r', w->step % 3 == 1 ? u : u - 1);
  switch (w->step % 3) {
  case 0:
    r = btrnbd_create (w->pool, a, 0644, false);
    return r < 0 ? r : btrnbd_fsync (w->pool, a);
  case 1:
    r = btrnbd_rename (w->pool, a, b, 0);
    break;
  case 2:
    if (u > 0)
      r = btrnbd_unlink (w->pool, b);
    break;
  }
  return r < 0 ? r : btrnbd_fsync (w->pool, w->dir);
}

static void *
work (void *opaque)
{
  struct worker *w = opaque;
  struct btrnbd_file *f;
  int r = btrnbd_file_open (w->pool, w->file, 0, &f);

  if (r < 0)
    return NULL;
  w->ended = true;
  while (r == 0 && !atomic_load (&stop)) {
    r = write_some (w, f);
    if (r == 0)
      r = name_step (w);
    if (r == 0)
      ++w->step;
  }
  btrnbd_file_close (f);
  return NULL;
}

static void
nap (unsigned ms)
{
  const struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };

  nanosleep (&ts, NULL);
}

/* Would NAME be there after STEPS steps? */
static bool
has (uint64_t steps, char kind, uint64_t u)
{
  const uint64_t created = 3 * u, renamed = 3 * u + 1, removed = 3 * u + 5;

  if (kind == 'c')
    return steps > created && steps <= renamed;
  return steps > renamed && steps <= removed;
}

struct listing {
  uint64_t steps;
  unsigned found;
  bool wrong;
};

static int
look (void *opaque, const char *s, const struct btrnbd_stat *st)
{
  struct listing *l = opaque;

  (void) st;
  ++l->found;
  l->wrong |= !has (l->steps, s[0], strtoull (s + 1, NULL, 10));
  return 0;
}

static bool
names_are (struct btrnbd_pool *pool, const struct worker *w, uint64_t steps)
{
  struct listing l = { .steps = steps };
  const uint64_t u = steps / 3;
  unsigned want = 0;
  uint64_t i;

  ok (btrnbd_readdir (pool, w->dir, look, &l));
  for (i = u > 3 ? u - 3 : 0; i <= u; ++i)
    want += has (steps, 'c', i) + has (steps, 'r', i);
  return !l.wrong && l.found == want;
}

static void
check_blocks (struct btrnbd_pool *pool, const struct worker *w)
{
  struct btrnbd_file *f;
  uint32_t buf[BLOCK / 4], want[BLOCK / 4] = { 0 };
  unsigned b;

  ok (btrnbd_file_open (pool, w->file, BTRNBD_OPEN_RDONLY, &f));
  for (b = 0; b < BLOCKS; ++b) {
    ok (btrnbd_pread (f, buf, sizeof buf, (uint64_t) b * BLOCK));
    if (buf[0] < w->acked[b] || buf[0] > w->newest[b])
      fail_msg ("thread %u block %u: version %u, acknowledged was %u, the "
                "newest is %u", w->n, b, buf[0], w->acked[b], w->newest[b]);
    memset (want, 0, sizeof want);
    if (buf[0] != 0)
      fill (want, w->n, b, buf[0]);
    assert_memory_equal (buf, want, sizeof want);
  }
  btrnbd_file_close (f);
}

static void
open_pool (struct image *im, bool faults, struct device **ret_dev,
           struct btrnbd_pool **ret)
{
  const struct device_open_opts dopts = { .read_only = false };
  const struct btrnbd_open_opts opts = { .commit_interval = UINT_MAX,
    .cache_size = 64 << 20, .workers = 2 };
  struct device *dev;

  ok (device_open (im->path, &dopts, &dev));
  if (faults)
    ok (fault_new (dev, &dev));
  *ret_dev = dev;
  ok (btrnbd_pool_open_devices (&dev, 1, &opts, ret));
}

static void
prepare (struct btrnbd_pool *pool, struct worker *w, unsigned n)
{
  const struct btrnbd_volume_opts vol = { .size = BLOCK };
  struct btrnbd_file *f;
  char s[16];

  snprintf (s, sizeof s, "s%u", n % SUBVOLS);
  if (n < SUBVOLS)
    ok (btrnbd_volume_create (pool, s, &vol));
  *w = (struct worker) { .n = n, .seed = n, .pool = pool };
  snprintf (w->dir, sizeof w->dir, "%s/d%u", s, n);
  snprintf (w->file, sizeof w->file, "%s/f%u", s, n);
  ok (btrnbd_mkdir (pool, w->dir, 0755));
  ok (btrnbd_create (pool, w->file, 0644, n == 7));
  ok (btrnbd_file_open (pool, w->file, 0, &f));
  ok (btrnbd_truncate (f, BLOCKS * BLOCK));
  btrnbd_file_close (f);
}

/* Commits every 100 ms until the writes have stopped arriving. */
static void
run_load (struct btrnbd_pool *pool, struct device *dev, struct worker *w,
          unsigned ms)
{
  unsigned i;

  atomic_store (&stop, false);
  for (i = 0; i < THREADS; ++i)
    assert_int_equal (pthread_create (&w[i].thread, NULL, work, &w[i]), 0);
  for (i = 0; i + 100 <= ms; i += 100) {
    nap (100);
    ok (btrnbd_pool_sync (pool));
  }
  nap (ms % 100);
  fault_arm (dev, IO_WRITE, FAULT_FROM, 1);
  fault_arm (dev, IO_FLUSH, FAULT_FROM, 1);
  atomic_store (&stop, true);
  for (i = 0; i < THREADS; ++i)
    pthread_join (w[i].thread, NULL);
}

static void
one_cut (unsigned ms)
{
  static struct worker w[THREADS];
  struct btrnbd_pool_stats st;
  struct btrnbd_pool *pool;
  struct device *dev;
  struct image im;
  unsigned i;

  image_make (&im, "", 512);
  open_pool (&im, true, &dev, &pool);
  for (i = 0; i < THREADS; ++i)
    prepare (pool, &w[i], i);
  ok (btrnbd_pool_sync (pool));
  run_load (pool, dev, w, ms);
  btrnbd_pool_get_stats (pool, &st);
  printf ("# %u ms: %llu flushes, %llu syncs, %llu commits of them\n", ms,
          (unsigned long long) st.log_flushes,
          (unsigned long long) st.log_syncs,
          (unsigned long long) st.log_commits);
  assert_true (st.log_syncs > 0);
  btrnbd_pool_kill (pool);
  open_pool (&im, false, &dev, &pool);
  for (i = 0; i < THREADS; ++i) {
    assert_true (w[i].ended);
    check_blocks (pool, &w[i]);
    if (!names_are (pool, &w[i], w[i].step) &&
        !names_are (pool, &w[i], w[i].step + 1))
      fail_msg ("thread %u: names after %llu steps", i,
                (unsigned long long) w[i].step);
  }
  ok (btrnbd_pool_close (pool));
  image_check (&im);
  image_remove (&im);
}

static void
test_cuts (void **state)
{
  const char *seed = getenv ("BTRNBD_SEED");
  unsigned i, x = seed ? strtoul (seed, NULL, 0) : 1;

  (void) state;
  for (i = 0; i < (getenv ("BTRNBD_FULL") ? 60 : 4); ++i) {
    x = x * 1103515245 + 12345;
    one_cut (150 + (x >> 16) % 700);
  }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_cuts),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
