/* data: writes for which there is just enough space, or just not.
 *
 * A refused write has no effect, an accepted one is never lost, also when what
 * it overwrites is written out at the same moment.
 */
#include <config.h>

#include "unit/test.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

#include <btrnbd/engine.h>

#include "base/err.h"
#include "base/math.h"
#include "crash/shield.h"
#include "data/data_priv.h"
#include "fs/api_priv.h"

#define SIZE (UINT64_C (256) << 20)
#define PS 4096
#define HANG_S 120

struct env {
  struct device *disk;
  struct btrnbd_pool *pool;
  struct btrnbd_file *f;
  struct space *space;
  struct file_data *data;
  /* Data space that the test holds. */
  struct { uint64_t start, len; } taken[4096];
  size_t n;
};

static void
check (int r, const char *what)
{
  if (r < 0) {
    fprintf (stderr, "# %s: %s\n", what, btrnbd_last_error (r));
    fail ();
  }
}

static void
put (struct env *e, uint64_t sector, unsigned n, uint8_t byte)
{
  uint8_t buf[8 * PS];

  memset (buf, byte, n * PS);
  check (btrnbd_pwrite (e->f, buf, n * PS, sector * PS, 0), "write");
}

static void
open_pool (struct env *e)
{
  const struct btrnbd_open_opts opts = { .cache_size = 16 << 20,
    .commit_interval = UINT_MAX, .no_lock = true };
  struct device *dev = shield_new (e->disk);

  check (btrnbd_pool_open_devices (&dev, 1, &opts, &e->pool), "open");
}

static void
setup (struct env *e)
{
  const struct btrnbd_mkfs_opts mkfs = { .metadata_profile = "single" };

  alarm (HANG_S);
  check (device_mem_new ("disk", SIZE, &e->disk), "disk");
  check (btrnbd_mkfs_device (e->disk, &mkfs), "mkfs");
  open_pool (e);
  check (btrnbd_create (e->pool, "f", 0644, false), "create");
  check (btrnbd_file_open (e->pool, "f", 0, &e->f), "open file");
  check (btrnbd_truncate (e->f, 64 * PS), "truncate");
  put (e, 0, 8, 'a');
  check (btrnbd_flush (e->f), "flush");
  e->space = e->pool->fs->space;
  e->data = e->f->inode->data;
  e->n = 0;
}

static void
teardown (struct env *e)
{
  while (e->n-- > 0)
    space_data_free (e->space, e->taken[e->n].start, e->taken[e->n].len);
  btrnbd_file_close (e->f);
  btrnbd_pool_kill (e->pool);
  device_close (e->disk);
  alarm (0);
}

static void
take_space (struct env *e, uint64_t bytes)
{
  while (bytes > 0) {
    assert_true (e->n < ARRAY_SIZE (e->taken));
    check (space_data_alloc (e->space, PS, bytes, 0, &e->taken[e->n].start,
                             &e->taken[e->n].len), "allocate");
    space_data_settled (e->space, e->taken[e->n].len);
    bytes -= e->taken[e->n++].len;
  }
}

/* Leave N sectors of data space. */
static void
leave_space (struct env *e, unsigned n)
{
  uint64_t step;

  for (step = SIZE; step >= PS; step /= 2)
    while (space_data_reserve (e->space, step) == 0)
      take_space (e, step);
  err_clear ();
  while (n-- > 0) {
    e->taken[e->n - 1].len -= PS;
    space_data_free (e->space, e->taken[e->n - 1].start
                     + e->taken[e->n - 1].len, PS);
    e->n -= e->taken[e->n - 1].len == 0;
  }
}

static void
holds (struct env *e, uint64_t sector, uint8_t byte)
{
  uint8_t buf[PS];

  check (btrnbd_pread (e->f, buf, PS, sector * PS), "read");
  for (unsigned i = 0; i < PS; ++i)
    assert_int_equal (buf[i], byte);
}

struct writer {
  struct env *e;
  uint64_t sector;
  unsigned n;
  int r;
};

static void *
write_thread (void *opaque)
{
  struct writer *w = opaque;
  uint8_t buf[8 * PS];

  memset (buf, 'z', w->n * PS);
  w->r = btrnbd_pwrite (w->e->f, buf, w->n * PS, w->sector * PS, 0);
  return NULL;
}

static void
moment (void)
{
  const struct timespec ts = { .tv_nsec = 50000000 };

  nanosleep (&ts, NULL);
}

/* Sector 1 is dirty when the write of 0 and 1 comes, and is not any more when
 * its turn has come: space for one of them is not enough.
 */
static void
refused_as_a_whole (void **state)
{
  static struct env e;
  struct writer w = { .e = &e, .sector = 0, .n = 2 };
  struct range_lock lock;
  pthread_t t;

  (void) state;
  setup (&e);
  leave_space (&e, 2);
  put (&e, 1, 1, 'b');
  range_lock (&e.data->ranges, &lock, 0, 2 * PS);
  pthread_create (&t, NULL, write_thread, &w);
  moment ();
  check (btrnbd_flush (e.f), "flush");
  range_unlock (&e.data->ranges, &lock);
  pthread_join (t, NULL);
  assert_int_equal (w.r, -ERR_nospace);
  holds (&e, 0, 'a');
  holds (&e, 1, 'b');
  teardown (&e);
}

/* Sectors that are dirty need no more space, whatever their order. */
static void
over_dirty_sectors (void **state)
{
  static struct env e;
  uint8_t buf[3 * PS];
  unsigned i;

  (void) state;
  setup (&e);
  leave_space (&e, 3);
  put (&e, 1, 1, 'b');
  put (&e, 3, 1, 'b');
  memset (buf, 'c', sizeof buf);
  /* 0 and 2 would need two. */
  assert_int_equal (btrnbd_pwrite (e.f, buf, 3 * PS, 0, 0), -ERR_nospace);
  holds (&e, 0, 'a');
  holds (&e, 1, 'b');
  holds (&e, 2, 'a');
  /* Part of 1, all of 2, part of 3. */
  check (btrnbd_pwrite (e.f, buf, 2 * PS, PS + 512, 0), "write");
  check (btrnbd_flush (e.f), "flush");
  check (btrnbd_pread (e.f, buf, 3 * PS, PS), "read");
  for (i = 0; i < 3 * PS; ++i)
    assert_int_equal (buf[i], i < 512 || i >= 2 * PS + 512 ? 'b' : 'c');
  holds (&e, 4, 'a');
  teardown (&e);
}

/* A sector of a prealloc extent is written a second time while it is being
 * written out.  The second copy finds no prealloc extent any more.
 */
static void
prealloc_twice (void **state)
{
  static struct env e;
  struct writer w = { .e = &e, .sector = 1, .n = 1 };
  struct dirty_page page[1];
  struct dirty_batch batch;
  pthread_t t;

  (void) state;
  setup (&e);
  check (btrnbd_zero (e.f, 0, 8 * PS, 0), "zero");
  check (btrnbd_pool_sync (e.pool), "sync");
  leave_space (&e, 0);
  put (&e, 1, 1, 'b');
  assert_int_equal (dirty_collect (e.data, PS, 2 * PS, UINT64_MAX, page, 1,
                                   &batch), 1);
  pthread_create (&t, NULL, write_thread, &w);
  moment ();
  dirty_return (e.data, page, 1, &batch);
  dirty_batch_end (e.data, &batch);
  pthread_join (t, NULL);
  check (btrnbd_flush (e.f), "flush");
  holds (&e, 1, w.r == 0 ? 'z' : 'b');
  /* Now it is a regular extent. */
  assert_int_equal (btrnbd_pwrite (e.f, "x", 1, PS, 0), -ERR_nospace);
  holds (&e, 1, w.r == 0 ? 'z' : 'b');
  check (btrnbd_flush (e.f), "flush");
  teardown (&e);
}

/* The same with the first write done in between: nothing may be accepted that
 * cannot be written then.
 */
static void
prealloc_behind (void **state)
{
  static struct env e;
  struct writer w = { .e = &e, .sector = 1, .n = 1 };
  struct range_lock lock;
  pthread_t t;

  (void) state;
  setup (&e);
  check (btrnbd_zero (e.f, 0, 8 * PS, 0), "zero");
  check (btrnbd_pool_sync (e.pool), "sync");
  leave_space (&e, 0);
  put (&e, 1, 1, 'b');
  range_lock (&e.data->ranges, &lock, PS, 2 * PS);
  pthread_create (&t, NULL, write_thread, &w);
  moment ();
  check (btrnbd_flush (e.f), "flush");
  range_unlock (&e.data->ranges, &lock);
  pthread_join (t, NULL);
  assert_int_equal (w.r, -ERR_nospace);
  check (btrnbd_flush (e.f), "flush");
  holds (&e, 1, 'b');
  teardown (&e);
}

/* What a snapshot has taken over and not begun to write is not durable: a
 * flush that finds nothing else has to wait for it.
 */
static void
frozen_is_dirty (void **state)
{
  static struct env e;
  struct gate *g;
  uint64_t seq;

  (void) state;
  setup (&e);
  g = file_gate (e.data);
  gate_close_operations (g);
  gate_close_batches (g);
  put (&e, 1, 1, 'b');
  seq = dirty_now (e.data);
  assert_true (dirty_any (e.data, 0, DATA_FILE_END, seq));
  gate_switch_begin (g);
  dirty_freeze (e.data);
  gate_switch_end (g);
  assert_true (dirty_any (e.data, 0, DATA_FILE_END, seq));
  assert_false (dirty_any (e.data, 2 * PS, DATA_FILE_END, seq));
  check (file_write_out_frozen (e.data), "write-out");
  assert_false (dirty_any (e.data, 0, DATA_FILE_END, seq));
  gate_open (g);
  check (btrnbd_flush (e.f), "flush");
  holds (&e, 1, 'b');
  teardown (&e);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (refused_as_a_whole),
    cmocka_unit_test (over_dirty_sectors),
    cmocka_unit_test (prealloc_twice),
    cmocka_unit_test (prealloc_behind),
    cmocka_unit_test (frozen_is_dirty),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
