/* Files, block devices, memory, the failing wrapper. */
#include "unit/io_help.h"

#include "io/device_impl.h"
#include "io/fault.h"

#define MIB (1024 * 1024)

static void
test_mem (void **state)
{
  struct device *dev;

  (void) state;
  assert_int_equal (device_mem_new ("m", 4 * MIB, &dev), 0);
  assert_int_equal (device_get_info (dev)->size, 4 * MIB);
  exercise (dev, 4 * MIB, 512, 150, 1);
  exercise_errors (dev);
  device_close (dev);
}

static void
test_mem_sparse (void **state)
{
  struct device *dev;
  char buf[8] = "x";

  (void) state;
  assert_int_equal (device_mem_new ("m", UINT64_C (1) << 40, &dev), 0);
  assert_int_equal (device_write (dev, (UINT64_C (1) << 40) - 8, "abcdefg",
                                  8), 0);
  assert_int_equal (device_read (dev, UINT64_C (1) << 39, buf, 8), 0);
  assert_memory_equal (buf, "\0\0\0\0\0\0\0\0", 8);
  assert_int_equal (device_read (dev, (UINT64_C (1) << 40) - 8, buf, 8), 0);
  assert_string_equal (buf, "abcdefg");
  assert_int_equal (device_discard (dev, (UINT64_C (1) << 40) - 65536,
                                    65536), 0);
  assert_int_equal (device_read (dev, (UINT64_C (1) << 40) - 8, buf, 8), 0);
  assert_memory_equal (buf, "\0\0\0\0\0\0\0\0", 8);
  device_close (dev);
}

static void
test_overlay (void **state)
{
  struct device *base, *top;
  char buf[4] = "";

  (void) state;
  assert_int_equal (device_mem_new ("base", MIB, &base), 0);
  assert_int_equal (device_write (base, 1000, "old", 4), 0);
  assert_int_equal (device_write (base, 70000, "two", 4), 0);
  assert_int_equal (device_mem_overlay ("top", base, &top), 0);
  assert_int_equal (device_read (top, 1000, buf, 4), 0);
  assert_string_equal (buf, "old");
  assert_int_equal (device_write (top, 2000, "new", 4), 0);
  assert_int_equal (device_read (top, 1000, buf, 4), 0);
  assert_string_equal (buf, "old");
  assert_int_equal (device_read (base, 2000, buf, 4), 0);
  assert_string_equal (buf, "");
  assert_int_equal (device_discard (top, 65536, 65536), 0);
  assert_int_equal (device_read (top, 70000, buf, 4), 0);
  assert_string_equal (buf, "");
  assert_int_equal (device_read (base, 70000, buf, 4), 0);
  assert_string_equal (buf, "two");
  device_close (top);
  device_close (base);
}

static struct device *
open_or_die (const char *name, bool read_only)
{
  struct device_open_opts opts = { .read_only = read_only };
  struct device *dev;
  int r = device_open (name, &opts, &dev);

  if (r < 0)
    fail_msg ("%s", err_text (r));
  return dev;
}

static void
test_file_device (void **state)
{
  char *name = test_file (4 * MIB);
  struct device *dev = open_or_die (name, false);

  (void) state;
  assert_string_equal (device_get_info (dev)->name, name);
  exercise (dev, 4 * MIB, 4096, 60, 2);
  device_close (dev);
  /* Off every alignment: the buffered way. */
  assert_int_equal (truncate (name, 0), 0);
  assert_int_equal (truncate (name, 4 * MIB), 0);
  dev = open_or_die (name, false);
  exercise (dev, 4 * MIB, 16, 60, 3);
  exercise_errors (dev);
  device_close (dev);
  unlink (name);
  free (name);
}

static void
test_file_odd_size (void **state)
{
  char *name = test_file (2 * MIB + 777);
  struct device *dev = open_or_die (name, false);
  char buf[777];
  struct stat st;

  (void) state;
  assert_int_equal (device_get_info (dev)->size, 2 * MIB + 777);
  memset (buf, 'z', sizeof buf);
  assert_int_equal (device_write_fua (dev, 2 * MIB, buf, 777), 0);
  /* Growing behind our back changes nothing. */
  assert_int_equal (truncate (name, 3 * MIB), 0);
  assert_int_equal (device_get_info (dev)->size, 2 * MIB + 777);
  assert_int_equal (device_write (dev, 2 * MIB + 777, buf, 1),
                    -ERR_dev_range);
  /* Shrinking does: what is gone reads as an error, not as zeroes. */
  assert_int_equal (truncate (name, MIB), 0);
  assert_int_equal (device_read (dev, 2 * MIB, buf, 777), -ERR_dev_read);
  device_close (dev);
  assert_int_equal (stat (name, &st), 0);
  assert_int_equal (st.st_size, MIB);
  unlink (name);
  free (name);
}

static void
test_file_punch (void **state)
{
  char *name = test_file (0);
  struct device *dev;
  struct stat before, after;
  uint8_t *buf = io_alloc (4 * MIB);

  (void) state;
  assert_int_equal (truncate (name, 4 * MIB), 0);
  dev = open_or_die (name, false);
  memset (buf, 7, 4 * MIB);
  assert_int_equal (device_write (dev, 0, buf, 4 * MIB), 0);
  assert_int_equal (device_flush (dev), 0);
  assert_int_equal (stat (name, &before), 0);
  assert_int_equal (device_discard (dev, MIB, 2 * MIB), 0);
  assert_int_equal (stat (name, &after), 0);
  assert_true (after.st_blocks < before.st_blocks);
  assert_int_equal (after.st_size, 4 * MIB);
  device_close (dev);
  free (buf);
  unlink (name);
  free (name);
}

static void
test_file_read_only (void **state)
{
  char *name = test_file (MIB);
  struct device *dev = open_or_die (name, true);
  char buf[512] = "";

  (void) state;
  assert_true (device_get_info (dev)->read_only);
  assert_int_equal (device_read (dev, 0, buf, sizeof buf), 0);
  assert_int_equal (device_write (dev, 0, buf, sizeof buf),
                    -ERR_dev_readonly);
  assert_int_equal (device_discard (dev, 0, 512), -ERR_dev_readonly);
  assert_int_equal (device_flush (dev), -ERR_dev_readonly);
  device_close (dev);
  unlink (name);
  free (name);
}

static void
test_open_errors (void **state)
{
  struct device *dev;

  (void) state;
  assert_int_equal (device_open ("/nonexistent/x", NULL, &dev),
                    -ERR_dev_open);
  assert_non_null (strstr (err_text (-ERR_dev_open), "/nonexistent/x"));
  assert_int_equal (device_open ("/dev/null", NULL, &dev), -ERR_dev_open);
  assert_int_equal (device_open ("/", NULL, &dev), -ERR_dev_open);
}

/* More operations than one ring holds. */
static void
test_file_big_batch (void **state)
{
  enum { N = 1000 };
  char *name = test_file (N * 4096);
  struct device *dev = open_or_die (name, false);
  struct io_op *ops = calloc (N, sizeof *ops);
  struct iovec *iov = calloc (N, sizeof *iov);
  uint8_t *buf = io_alloc (N * 4096), *back = io_alloc (N * 4096);
  uint64_t seed = 5;

  (void) state;
  test_fill (buf, N * 4096, &seed);
  for (unsigned i = 0; i < N; ++i) {
    iov[i] = (struct iovec) { buf + i * 4096, 4096 };
    ops[i] = (struct io_op) { .kind = IO_WRITE, .offset = i * 4096,
                              .len = 4096, .iov = &iov[i], .iovcnt = 1 };
  }
  assert_int_equal (device_run (dev, ops, N), 0);
  assert_int_equal (device_read (dev, 0, back, N * 4096), 0);
  assert_memory_equal (back, buf, N * 4096);
  memset (back, 0, N * 4096);
  for (unsigned i = 0; i < N; ++i) {
    iov[i].iov_base = back + i * 4096;
    ops[i].kind = IO_READ;
  }
  assert_int_equal (device_run (dev, ops, N), 0);
  assert_memory_equal (back, buf, N * 4096);
  device_close (dev);
  free (ops);
  free (iov);
  free (buf);
  free (back);
  unlink (name);
  free (name);
}

static void
test_block_device (void **state)
{
  char *name, *loop;
  struct device *dev;

  (void) state;
  NEED_ROOT ();
  name = test_file (4 * MIB);
  loop = test_losetup (name);
  if (loop == NULL) {
    unlink (name);
    lacks ("loop devices");
  }
  dev = open_or_die (loop, false);
  assert_int_equal (device_get_info (dev)->size, 4 * MIB);
  assert_true (device_get_info (dev)->block_size >= 512);
  exercise (dev, 4 * MIB, 4096, 60, 4);
  exercise_errors (dev);
  device_close (dev);
  test_losetup_detach (loop);
  unlink (name);
  free (name);
}

static void
test_fault (void **state)
{
  struct device *mem, *dev;
  char buf[512] = "";
  struct iovec iov = { buf, sizeof buf };
  struct io_op ops[5];

  (void) state;
  assert_int_equal (device_mem_new ("m", MIB, &mem), 0);
  assert_int_equal (fault_new (mem, &dev), 0);
  assert_int_equal (device_write (dev, 0, buf, 512), 0);
  assert_int_equal (fault_count (dev, IO_WRITE), 1);

  fault_arm (dev, IO_WRITE, FAULT_ONCE, 2);
  strcpy (buf, "new");
  for (unsigned i = 0; i < 5; ++i)
    ops[i] = (struct io_op) { .kind = IO_WRITE, .offset = i * 512,
                              .len = 512, .iov = &iov, .iovcnt = 1 };
  assert_int_equal (device_run (dev, ops, 5), -ERR_dev_write);
  for (unsigned i = 0; i < 5; ++i) {
    assert_int_equal (ops[i].result, i == 1 ? -ERR_dev_write : 0);
    assert_int_equal (device_read (mem, i * 512, buf, 512), 0);
    assert_string_equal (buf, i == 1 ? "" : "new");
  }
  assert_int_equal (fault_count (dev, IO_WRITE), 5);
  assert_int_equal (fault_hits (dev, IO_WRITE), 1);

  fault_arm (dev, IO_FLUSH, FAULT_FROM, 2);
  assert_int_equal (device_flush (dev), 0);
  assert_int_equal (device_flush (dev), -ERR_dev_flush);
  assert_int_equal (device_flush (dev), -ERR_dev_flush);
  fault_arm (dev, IO_FLUSH, FAULT_OFF, 0);
  assert_int_equal (device_flush (dev), 0);

  fault_range (dev, 4096, 4096);
  fault_arm (dev, IO_READ, FAULT_FROM, 1);
  assert_int_equal (device_read (dev, 0, buf, 512), 0);
  assert_int_equal (device_read (dev, 4096 + 512, buf, 512), -ERR_dev_read);
  device_close (dev);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_mem),
    cmocka_unit_test (test_mem_sparse),
    cmocka_unit_test (test_overlay),
    cmocka_unit_test (test_file_device),
    cmocka_unit_test (test_file_odd_size),
    cmocka_unit_test (test_file_punch),
    cmocka_unit_test (test_file_read_only),
    cmocka_unit_test (test_open_errors),
    cmocka_unit_test (test_file_big_batch),
    cmocka_unit_test (test_block_device),
    cmocka_unit_test (test_fault),
  };

  return cmocka_run_group_tests_name ("io-device", tests, NULL, NULL);
}
