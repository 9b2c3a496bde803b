/* The image of the pool is opened while a volume is written in place: each
 * block is one that was there at some moment of the opening, what was
 * acknowledged before is in, and it stays.
 */
#include <config.h>

#include <fcntl.h>
#include <pthread.h>

#include "snap_help.h"

#define BLOCKS 2048
#define MIB (UINT64_C (1) << 20)

struct writer {
  struct btrnbd_pool *p;
  const char *name;
  bool stop;                   /* atomic */
  uint32_t seq;
  /* Numbers of writes that have begun and that are done, per block; atomic. */
  uint32_t begun[BLOCKS], done[BLOCKS];
  pthread_t thread;
};

static void *
writer_main (void *opaque)
{
  struct writer *w = opaque;
  struct btrnbd_file *f = open_export (w->p, w->name);
  uint64_t seed = (uintptr_t) w->name;
  uint8_t buf[BLK];
  unsigned at, n;

  for (n = 0; !__atomic_load_n (&w->stop, __ATOMIC_ACQUIRE); n++) {
    at = n < BLOCKS ? n : snap_rnd (&seed, BLOCKS);
    blk_fill (buf, ++w->seq);
    __atomic_store_n (&w->begun[at], w->seq, __ATOMIC_SEQ_CST);
    pool_ok (btrnbd_pwrite (f, buf, BLK, (uint64_t) at * BLK, 0));
    __atomic_store_n (&w->done[at], w->seq, __ATOMIC_SEQ_CST);
    if (n % 64 == 0)
      pool_ok (btrnbd_flush (f));
  }
  btrnbd_file_close (f);
  return NULL;
}

static void
numbers (const uint32_t *from, uint32_t *to)
{
  unsigned i;

  for (i = 0; i < BLOCKS; i++)
    to[i] = __atomic_load_n (&from[i], __ATOMIC_SEQ_CST);
}

struct copy {
  struct btrnbd_file *f;
  int fd;
};

static int
copy_extent (void *opaque, uint64_t offset, uint64_t len, unsigned type)
{
  struct copy *c = opaque;
  uint8_t *buf = malloc (MIB);
  uint64_t n;

  for (; type == 0 && len > 0; offset += n, len -= n) {
    n = MIN (len, MIB);
    pool_ok (btrnbd_pread (c->f, buf, n, offset));
    if (buf[0] != 0 || memcmp (buf, buf + 1, n - 1) != 0)
      assert_int_equal (pwrite (c->fd, buf, n, offset), n);
  }
  free (buf);
  return 0;
}

/* What the image has of volume NAME. */
static void
read_volume (struct image *im, struct btrnbd_file *f, const char *name,
             uint32_t *ret)
{
  const struct btrnbd_open_opts o = { .read_only = true, .no_lock = true };
  struct copy c = { .f = f };
  char path[PATH_MAX + 32];
  const char *dev = path;
  uint8_t buf[BLK], want[BLK];
  struct btrnbd_file *v;
  struct btrnbd_pool *p;
  unsigned i;

  snprintf (path, sizeof path, "%s/copy", im->dir);
  c.fd = open (path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  assert_int_equal (ftruncate (c.fd, btrnbd_file_size (f)), 0);
  pool_ok (btrnbd_extents (f, 0, btrnbd_file_size (f), copy_extent, &c));
  close (c.fd);
  pool_ok (btrnbd_pool_open (&dev, 1, &o, &p));
  v = open_export (p, name);
  for (i = 0; i < BLOCKS; i++) {
    pool_ok (btrnbd_pread (v, buf, BLK, (uint64_t) i * BLK));
    memcpy (&ret[i], buf, sizeof ret[i]);
    blk_fill (want, ret[i]);
    assert_memory_equal (buf, want, BLK);
  }
  btrnbd_file_close (v);
  pool_ok (btrnbd_pool_close (p));
}

static void
look (struct image *im, struct writer *w)
{
  static uint32_t low[BLOCKS], high[BLOCKS], first[BLOCKS], then[BLOCKS];
  struct btrnbd_file *f;
  unsigned i;

  numbers (w->done, low);
  f = open_export (w->p, "@pool");
  numbers (w->begun, high);
  read_volume (im, f, w->name, first);
  pool_ok (btrnbd_pool_sync (w->p));
  usleep (100000);
  read_volume (im, f, w->name, then);
  btrnbd_file_close (f);
  for (i = 0; i < BLOCKS; i++) {
    if (first[i] < low[i] || first[i] > high[i])
      fail_msg ("block %u: write %u, not %u to %u", i, first[i], low[i],
                high[i]);
    if (first[i] != then[i])
      fail_msg ("block %u: write %u became %u", i, first[i], then[i]);
  }
}

/* Somebody else makes snapshots, whose gates the writers have to pass. */
static void *
snapshots_main (void *opaque)
{
  struct writer *w = opaque;
  const char *names[] = { "nocow", "cow" };

  while (!__atomic_load_n (&w->stop, __ATOMIC_ACQUIRE)) {
    pool_ok (btrnbd_volume_snapshot (w->p, names, 2, "s"));
    pool_ok (btrnbd_volume_remove (w->p, "cow@s"));
    pool_ok (btrnbd_volume_remove (w->p, "nocow@s"));
    usleep (20000);
  }
  return NULL;
}

static void
race (bool with_snapshots)
{
  const struct btrnbd_open_opts o = { .cache_size = 16 << 20,
    .commit_interval = 1, .workers = 2 };
  static struct writer nocow, cow, snaps;
  struct btrnbd_volume_opts v = { .size = BLOCKS * BLK };
  struct image im;
  const char *dev;
  unsigned i;

  image_make (&im, "", 512);
  dev = im.path;
  memset (&nocow, 0, sizeof nocow);
  memset (&cow, 0, sizeof cow);
  memset (&snaps, 0, sizeof snaps);
  nocow.name = "nocow";
  cow.name = "cow";
  pool_ok (btrnbd_pool_open (&dev, 1, &o, &nocow.p));
  snaps.p = cow.p = nocow.p;
  pool_ok (btrnbd_volume_create (cow.p, "cow", &v));
  v.nocow = true;
  pool_ok (btrnbd_volume_create (cow.p, "nocow", &v));
  assert_int_equal (pthread_create (&nocow.thread, NULL, writer_main, &nocow),
                    0);
  assert_int_equal (pthread_create (&cow.thread, NULL, writer_main, &cow), 0);
  if (with_snapshots)
    assert_int_equal (pthread_create (&snaps.thread, NULL, snapshots_main,
                                      &snaps), 0);
  for (i = 0; i < (getenv ("BTRNBD_FULL") ? 40 : 4); i++)
    look (&im, i % 2 ? &cow : &nocow);
  __atomic_store_n (&nocow.stop, true, __ATOMIC_RELEASE);
  __atomic_store_n (&cow.stop, true, __ATOMIC_RELEASE);
  __atomic_store_n (&snaps.stop, true, __ATOMIC_RELEASE);
  pthread_join (nocow.thread, NULL);
  pthread_join (cow.thread, NULL);
  if (with_snapshots)
    pthread_join (snaps.thread, NULL);
  pool_ok (btrnbd_pool_close (cow.p));
  image_check (&im);
  image_remove (&im);
}

static void
test_race (void **state)
{
  (void) state;
  race (false);
}

static void
test_snapshots (void **state)
{
  (void) state;
  race (true);
}

/* Many come and go: one image at a time, and nothing is left. */
static void *
client_main (void *opaque)
{
  struct writer *w = opaque;
  struct btrnbd_file *f;
  uint8_t buf[4096];
  unsigned i;

  for (i = 0; i < 15; i++) {
    f = open_export (w->p, "@pool");
    pool_ok (btrnbd_pread (f, buf, sizeof buf, 65536));
    usleep (i * 1000);
    pool_ok (btrnbd_pread (f, buf, sizeof buf, 65536));
    btrnbd_file_close (f);
  }
  return NULL;
}

static void
test_clients (void **state)
{
  const struct btrnbd_open_opts o = { .commit_interval = 1, .workers = 2 };
  const struct btrnbd_volume_opts v = { .size = BLOCKS * BLK, .nocow = true };
  static struct writer w;
  struct btrnbd_pool_info info;
  pthread_t clients[4];
  struct image im;
  const char *dev;
  unsigned i;

  (void) state;
  image_make (&im, "", 512);
  dev = im.path;
  memset (&w, 0, sizeof w);
  w.name = "vm";
  pool_ok (btrnbd_pool_open (&dev, 1, &o, &w.p));
  pool_ok (btrnbd_volume_create (w.p, "vm", &v));
  assert_int_equal (pthread_create (&w.thread, NULL, writer_main, &w), 0);
  for (i = 0; i < ARRAY_SIZE (clients); i++)
    assert_int_equal (pthread_create (&clients[i], NULL, client_main, &w), 0);
  for (i = 0; i < ARRAY_SIZE (clients); i++)
    pthread_join (clients[i], NULL);
  __atomic_store_n (&w.stop, true, __ATOMIC_RELEASE);
  pthread_join (w.thread, NULL);
  pool_ok (btrnbd_pool_get_info (w.p, &info));
  assert_int_equal (info.image.clients, 0);
  assert_int_equal (info.image.held, 0);
  pool_ok (btrnbd_pool_close (w.p));
  image_check (&im);
  image_remove (&im);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_race),
    cmocka_unit_test (test_snapshots),
    cmocka_unit_test (test_clients),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
