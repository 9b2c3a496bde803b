/* mkfs when the device fails, and when the power does. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <btrnbd/engine.h>
#include <btrnbd/ondisk.h>

#include "base/err.h"
#include "format/super.h"
#include "io/device.h"
#include "io/fault.h"
#include "io/record.h"

#define SIZE (UINT64_C (80) << 20)   /* room for two superblocks */

static const struct btrnbd_mkfs_opts opts = {
  .nodesize = 4096,
  .uuid = "12345678-9abc-def0-1234-56789abcdef0",
};

static struct device *
mem (void)
{
  struct device *dev;

  assert_int_equal (device_mem_new ("mem", SIZE, &dev), 0);
  return dev;
}

/* The primary superblock is a whole one. */
static bool
has_pool (struct device *dev)
{
  struct btrfs_super *s = io_alloc (sizeof *s);
  bool yes;

  assert_non_null (s);
  assert_int_equal (device_read (dev, super_offset (0), s, sizeof *s), 0);
  yes = super_check (s, super_offset (0)) == 0;
  err_clear ();
  free (s);
  return yes;
}

static void *
contents (struct device *dev)
{
  void *p = io_alloc (SIZE);

  assert_non_null (p);
  assert_int_equal (device_read (dev, 0, p, SIZE), 0);
  return p;
}

static void
test_fault (void **state, enum io_kind kind)
{
  uint64_t n;

  (void) state;
  for (n = 1; ; n++) {
    struct device *dev;
    int r;

    assert_int_equal (fault_new (mem (), &dev), 0);
    fault_arm (dev, kind, FAULT_ONCE, n);
    r = btrnbd_mkfs_device (dev, &opts);
    if (fault_hits (dev, kind) == 0) {
      assert_int_equal (r, 0);
      device_close (dev);
      break;
    }
    fault_arm (dev, kind, FAULT_OFF, 0);
    if (r == 0)
      fail_msg ("failure %llu was not told", (unsigned long long) n);
    /* A second try makes what the first did not. */
    assert_int_equal (btrnbd_mkfs_device (dev, &(struct btrnbd_mkfs_opts) {
                                            .force = true }), 0);
    assert_true (has_pool (dev));
    device_close (dev);
  }
  assert_true (n > 2);
}

static void
test_fault_read (void **state)
{
  struct device *dev;

  (void) state;
  assert_int_equal (fault_new (mem (), &dev), 0);
  fault_arm (dev, IO_READ, FAULT_ONCE, 1);
  assert_int_equal (btrnbd_mkfs_device (dev, &opts), -ERR_dev_read);
  device_close (dev);
}

static void
test_fault_write (void **state)
{
  test_fault (state, IO_WRITE);
}

static void
test_fault_flush (void **state)
{
  test_fault (state, IO_FLUSH);
}

/* Wherever the power fails there is no pool, or all of it. */
static void
test_power (void **state)
{
  struct record_player *player;
  struct device *recorder;
  size_t with = 0, without = 0;
  void *want;

  (void) state;
  assert_int_equal (record_new (mem (), &recorder), 0);
  assert_int_equal (btrnbd_mkfs_device (recorder, &opts), 0);
  want = contents (recorder);
  assert_int_equal (record_player_new (recorder, mem (), &player), 0);
  for (size_t at = 0; at <= record_count (recorder); at++)
    for (uint64_t seed = 0; seed < 4; seed++) {
      const struct record_cut cut = {
        .at = at,
        .keep = seed == 0 ? RECORD_KEEP_NONE : seed == 1 ? RECORD_KEEP_ALL
          : seed == 2 ? RECORD_KEEP_RANDOM : RECORD_KEEP_TORN,
        .seed = seed + 10 * at,
      };
      struct device *dev;

      assert_int_equal (record_image (player, &cut, &dev), 0);
      if (has_pool (dev)) {
        void *got = contents (dev);

        assert_memory_equal (got, want, SIZE);
        free (got);
        with++;
      }
      else
        without++;
      device_close (dev);
    }
  assert_true (with > 0 && without > 0);
  record_player_free (player);
  device_close (recorder);
  free (want);
}

static void
test_refuse (void **state)
{
  struct device *dev = mem ();

  (void) state;
  assert_int_equal (btrnbd_mkfs_device (dev, &opts), 0);
  assert_int_equal (btrnbd_mkfs_device (dev, &opts), -ERR_has_filesystem);
  assert_int_equal (btrnbd_mkfs_device (dev, &(struct btrnbd_mkfs_opts) {
                                          .size = SIZE + 1 }),
                    -ERR_dev_range);
  assert_int_equal (btrnbd_mkfs_device (dev, &(struct btrnbd_mkfs_opts) {
                                          .size = 1 << 20 }),
                    -ERR_too_small);
  device_close (dev);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_fault_read),
    cmocka_unit_test (test_fault_write),
    cmocka_unit_test (test_fault_flush),
    cmocka_unit_test (test_power),
    cmocka_unit_test (test_refuse),
  };

  return cmocka_run_group_tests_name ("mkfs", tests, NULL, NULL);
}
