/* data: what cannot be written stays, is what readers see, makes every flush
 * fail, and is written as soon as that is possible.
 */
#include <config.h>

#include "unit/test.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <btrnbd/engine.h>

#include "base/math.h"
#include "crash/shield.h"
#include "io/fault.h"

#define SIZE (UINT64_C (256) << 20)
#define LEN (256 * 1024)
#define HANG_S 120

struct env {
  struct device *disk, *fault;
  struct btrnbd_pool *pool;
  struct btrnbd_file *f, *other;
  uint8_t buf[LEN];
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
open_pool (struct env *e)
{
  const struct btrnbd_open_opts opts = { .cache_size = 16 << 20,
    .commit_interval = UINT_MAX, .no_lock = true };
  struct device *dev;

  assert_int_equal (fault_new (shield_new (e->disk), &e->fault), 0);
  dev = e->fault;
  check (btrnbd_pool_open_devices (&dev, 1, &opts, &e->pool), "open");
}

static void
open_files (struct env *e)
{
  check (btrnbd_file_open (e->pool, "f", 0, &e->f), "open file");
  check (btrnbd_file_open (e->pool, "f", 0, &e->other), "open file");
}

static void
setup (struct env *e, bool nocow)
{
  const struct btrnbd_mkfs_opts mkfs = { .metadata_profile = "single" };

  alarm (HANG_S);
  check (device_mem_new ("disk", SIZE, &e->disk), "disk");
  check (btrnbd_mkfs_device (e->disk, &mkfs), "mkfs");
  open_pool (e);
  check (btrnbd_create (e->pool, "f", 0644, nocow), "create");
  open_files (e);
  check (btrnbd_truncate (e->f, SIZE), "truncate");
  memset (e->buf, 'a', LEN);
  check (btrnbd_pwrite (e->f, e->buf, LEN, 0, 0), "write");
  check (btrnbd_flush (e->f), "flush");
}

static void
close_files (struct env *e)
{
  btrnbd_file_close (e->f);
  btrnbd_file_close (e->other);
}

static void
teardown (struct env *e)
{
  close_files (e);
  btrnbd_pool_kill (e->pool);
  device_close (e->disk);
  alarm (0);
}

/* What a crash leaves. */
static void
crash (struct env *e)
{
  close_files (e);
  btrnbd_pool_kill (e->pool);
  open_pool (e);
  open_files (e);
}

static void
break_writes (struct env *e, bool broken)
{
  fault_arm (e->fault, IO_WRITE, broken ? FAULT_FROM : FAULT_OFF, 1);
}

static void
holds (struct env *e, struct btrnbd_file *f, uint64_t at, uint8_t byte)
{
  size_t i;

  memset (e->buf, 0, LEN);
  check (btrnbd_pread (f, e->buf, LEN, at), "read");
  for (i = 0; i < LEN; ++i)
    assert_int_equal (e->buf[i], byte);
}

static void
put (struct env *e, uint64_t at, uint8_t byte)
{
  memset (e->buf, byte, LEN);
  check (btrnbd_pwrite (e->f, e->buf, LEN, at, 0), "write");
}

/* Whose failure a flush meets, its own or that of write-out in the background,
 * is a matter of chance.
 */
static void
must_fail (int r)
{
  if (r != -ERR_dev_write)
    assert_int_equal (r, -ERR_write_lost);
}

static void
every_flush_fails (struct env *e)
{
  unsigned i;

  put (e, 0, 'b');
  break_writes (e, true);
  for (i = 0; i < 3; ++i) {
    must_fail (btrnbd_flush (e->f));
    must_fail (btrnbd_flush (e->other));
    holds (e, e->f, 0, 'b');
    holds (e, e->other, 0, 'b');
  }
  /* Newer bytes over some that wait. */
  memset (e->buf, 'c', LEN);
  check (btrnbd_pwrite (e->f, e->buf, 8192, 4096, 0), "write");
  must_fail (btrnbd_pwrite (e->other, e->buf, 512, 700, BTRNBD_FUA));
  break_writes (e, false);
  check (btrnbd_flush (e->other), "flush");
  crash (e);
  check (btrnbd_pread (e->f, e->buf, LEN, 0), "read");
  for (unsigned k = 0; k < LEN; ++k)
    assert_int_equal (e->buf[k], (k >= 4096 && k < 12288)
                      || (k >= 700 && k < 1212) ? 'c' : 'b');
}

static void
cow (void **state)
{
  static struct env e;

  (void) state;
  setup (&e, false);
  every_flush_fails (&e);
  teardown (&e);
}

static void
in_place (void **state)
{
  static struct env e;

  (void) state;
  setup (&e, true);
  every_flush_fails (&e);
  teardown (&e);
}

static void
prealloc (void **state)
{
  static struct env e;

  (void) state;
  setup (&e, false);
  check (btrnbd_zero (e.f, 0, LEN, 0), "zero");
  check (btrnbd_flush (e.f), "flush");
  every_flush_fails (&e);
  teardown (&e);
}

/* The last handle goes while nothing can be written: who opens the file next
 * sees the bytes, and is told that they are not durable.
 */
static void
closed_and_opened (void **state)
{
  static struct env e;

  (void) state;
  setup (&e, false);
  put (&e, 0, 'b');
  break_writes (&e, true);
  close_files (&e);
  open_files (&e);
  holds (&e, e.f, 0, 'b');
  must_fail (btrnbd_flush (e.f));
  close_files (&e);
  break_writes (&e, false);
  open_files (&e);
  check (btrnbd_flush (e.f), "flush");
  crash (&e);
  holds (&e, e.f, 0, 'b');
  teardown (&e);
}

/* What waits can be removed, and one bad place on the disk does no harm. */
static void
punched (void **state)
{
  static struct env e;
  int r;

  (void) state;
  setup (&e, false);
  put (&e, 0, 'b');
  fault_arm (e.fault, IO_WRITE, FAULT_ONCE, 1);
  r = btrnbd_flush (e.f);
  if (r < 0)
    must_fail (r);
  check (btrnbd_flush (e.f), "flush");
  put (&e, 0, 'c');
  break_writes (&e, true);
  must_fail (btrnbd_flush (e.f));
  check (btrnbd_zero (e.f, 0, LEN, BTRNBD_MAY_TRIM), "punch");
  break_writes (&e, false);
  check (btrnbd_flush (e.f), "flush");
  crash (&e);
  holds (&e, e.f, 0, 0);
  teardown (&e);
}

/* Nobody waits for ever for room among pages that cannot be written, and what
 * was acknowledged up to then is kept.
 */
static void
no_room (void **state)
{
  static struct env e;
  uint64_t at = 0, end;
  int r = 0;

  (void) state;
  setup (&e, false);
  break_writes (&e, true);
  memset (e.buf, 'b', LEN);
  while (r == 0) {
    assert_true (at < SIZE);
    r = btrnbd_pwrite (e.f, e.buf, LEN, at, 0);
    at += LEN;
  }
  assert_int_equal (r, -ERR_write_lost);
  end = at - LEN;
  assert_true (end > LEN);
  break_writes (&e, false);
  check (btrnbd_flush (e.f), "flush");
  crash (&e);
  for (at = 0; at < end; at += LEN)
    holds (&e, e.f, at, 'b');
  teardown (&e);
}

/* The longest stretch of the disk that is full of BYTE. */
static void
find_stretch (struct env *e, uint8_t byte, uint64_t *ret_start,
              uint64_t *ret_len)
{
  uint64_t at, start = 0;

  *ret_start = *ret_len = 0;
  for (at = 0; at < SIZE; at += 4096) {
    check (device_read (e->disk, at, e->buf, 4096), "read the disk");
    if (e->buf[0] != byte || memcmp (e->buf, e->buf + 1, 4095) != 0)
      start = at + 4096;
    else if (at + 4096 - start > *ret_len) {
      *ret_start = start;
      *ret_len = at + 4096 - start;
    }
  }
}

/* Promises of space outlast failures: what a full pool has acknowledged fits
 * when the device works again.
 */
static void
full_pool (void **state)
{
  static struct env e;
  uint64_t at, end = 0, again = LEN, start, len;
  int r = 0;

  (void) state;
  setup (&e, false);
  for (at = LEN; at < SIZE && r == 0; at += LEN) {
    memset (e.buf, 'b', LEN);
    r = btrnbd_pwrite (e.f, e.buf, LEN, at, 0);
    end = r == 0 ? at + LEN : end;
    check (btrnbd_flush (e.f), "flush"); /* extents of this length */
  }
  assert_int_equal (r, -ERR_nospace);
  find_stretch (&e, 'b', &start, &len);
  check (btrnbd_zero (e.f, LEN, SIZE / 4, BTRNBD_MAY_TRIM), "punch");
  check (btrnbd_pool_sync (e.pool), "sync");
  /* Only data lies there. */
  fault_range (e.fault, start, len);
  break_writes (&e, true);
  for (r = 0; r == 0 && again < SIZE; again += LEN) {
    memset (e.buf, 'c', LEN);
    r = btrnbd_pwrite (e.f, e.buf, LEN, again, 0);
  }
  again -= LEN;
  if (r != -ERR_nospace)
    must_fail (r);
  assert_true (again > LEN);
  for (unsigned i = 0; i < 3; ++i)
    must_fail (btrnbd_flush (e.f));
  break_writes (&e, false);
  check (btrnbd_flush (e.f), "flush");
  crash (&e);
  /* The last one may have been taken in part before there was no room. */
  for (at = LEN; at < again; at += LEN)
    holds (&e, e.f, at, 'c');
  for (at = MAX (again + LEN, SIZE / 4 + LEN); at < end; at += LEN)
    holds (&e, e.f, at, 'b');
  teardown (&e);
}

static void
quiet (void *opaque, int level, const char *line)
{
  (void) opaque;
  (void) level;
  (void) line;
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (cow),
    cmocka_unit_test (in_place),
    cmocka_unit_test (prealloc),
    cmocka_unit_test (closed_and_opened),
    cmocka_unit_test (punched),
    cmocka_unit_test (no_room),
    cmocka_unit_test (full_pool),
  };

  btrnbd_set_log (quiet, NULL, 0);
  return cmocka_run_group_tests (tests, NULL, NULL);
}
