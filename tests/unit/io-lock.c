/* A device that somebody else uses is refused, and the message says by whom.
 */
#include "unit/io_help.h"

#define MIB (1024 * 1024)

static void
expect_busy (const char *name, bool read_only, const char *who)
{
  struct device_open_opts opts = { .read_only = read_only };
  struct device *dev;
  int r = device_open (name, &opts, &dev);

  assert_int_equal (r, -ERR_dev_busy);
  if (strstr (err_text (r), who) == NULL)
    fail_msg ("\"%s\" does not tell \"%s\"", err_text (r), who);
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
test_same_process (void **state)
{
  char *name = test_file (MIB);
  struct device *dev = open_or_die (name, false);

  (void) state;
  expect_busy (name, false, "this same process");
  expect_busy (name, true, "this same process");
  device_close (dev);
  /* Readers share, and keep writers away. */
  dev = open_or_die (name, true);
  device_close (open_or_die (name, true));
  expect_busy (name, false, "this same process");
  device_close (dev);
  device_close (open_or_die (name, false));
  unlink (name);
  free (name);
}

/* A child holds NAME until it is told to end; returns its pid. */
static pid_t
hold_in_child (const char *name, int *ret_end)
{
  int up[2], down[2];
  char byte;
  pid_t pid;

  assert_int_equal (pipe (up), 0);
  assert_int_equal (pipe (down), 0);
  pid = fork ();
  assert_true (pid >= 0);
  if (pid == 0) {
    struct device *dev;

    close (down[1]);
    if (device_open (name, NULL, &dev) < 0 || write (up[1], "", 1) != 1)
      _exit (1);
    if (read (down[0], &byte, 1) < 0)
      _exit (1);
    _exit (0);
  }
  close (up[1]);
  close (down[0]);
  assert_int_equal (read (up[0], &byte, 1), 1);
  close (up[0]);
  *ret_end = down[1];
  return pid;
}

static void
release_child (pid_t pid, int end)
{
  int status;

  close (end);
  assert_int_equal (waitpid (pid, &status, 0), pid);
  assert_int_equal (status, 0);
}

static void
test_other_process (void **state)
{
  char *name = test_file (MIB), who[64];
  int end;
  pid_t pid = hold_in_child (name, &end);

  (void) state;
  snprintf (who, sizeof who, "process %d (", (int) pid);
  expect_busy (name, false, who);
  release_child (pid, end);
  device_close (open_or_die (name, false));
  unlink (name);
  free (name);
}

static void
test_loop_behind (void **state)
{
  char *name, *loop;

  (void) state;
  NEED_ROOT ();
  name = test_file (MIB);
  loop = test_losetup (name);
  if (loop == NULL) {
    unlink (name);
    lacks ("loop devices");
  }
  expect_busy (name, false, loop);
  expect_busy (name, true, loop);
  test_losetup_detach (loop);
  device_close (open_or_die (name, false));
  unlink (name);
  free (name);
}

static void
test_block_other_process (void **state)
{
  char *name, *loop, who[64];
  int end;
  pid_t pid;

  (void) state;
  NEED_ROOT ();
  name = test_file (MIB);
  loop = test_losetup (name);
  if (loop == NULL) {
    unlink (name);
    lacks ("loop devices");
  }
  pid = hold_in_child (loop, &end);
  snprintf (who, sizeof who, "process %d (", (int) pid);
  expect_busy (loop, false, who);
  release_child (pid, end);
  device_close (open_or_die (loop, false));
  test_losetup_detach (loop);
  unlink (name);
  free (name);
}

static void
test_kernel_mount (void **state)
{
  char *name, *loop, dir[] = "/tmp/btrnbd-mnt-XXXXXX", cmd[512];

  (void) state;
  NEED_ROOT ();
  name = test_file (128 * MIB);
  snprintf (cmd, sizeof cmd, "mkfs.btrfs -q %s >/dev/null 2>&1", name);
  if (system (cmd) != 0) {
    unlink (name);
    lacks ("mkfs.btrfs");
  }
  loop = test_losetup (name);
  assert_non_null (loop);
  assert_non_null (mkdtemp (dir));
  snprintf (cmd, sizeof cmd, "mount %s %s", loop, dir);
  if (system (cmd) != 0) {
    test_losetup_detach (loop);
    unlink (name);
    rmdir (dir);
    lacks ("a mount of btrfs");
  }
  expect_busy (loop, false, dir);
  expect_busy (loop, true, dir);
  expect_busy (name, false, dir);
  snprintf (cmd, sizeof cmd, "umount %s", dir);
  assert_int_equal (system (cmd), 0);
  rmdir (dir);
  device_close (open_or_die (loop, false));
  test_losetup_detach (loop);
  unlink (name);
  free (name);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_same_process),
    cmocka_unit_test (test_other_process),
    cmocka_unit_test (test_loop_behind),
    cmocka_unit_test (test_block_other_process),
    cmocka_unit_test (test_kernel_mount),
  };

  return cmocka_run_group_tests_name ("io-lock", tests, NULL, NULL);
}
