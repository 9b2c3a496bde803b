/* An NBD export as a device, served by nbdkit's memory plugin. */
#include "unit/io_help.h"

#include <pthread.h>
#include <signal.h>

#define MIB (1024 * 1024)

static char dir[] = "/tmp/btrnbd-nbd-XXXXXX";
static char uri[128], pidfile[64];

static bool
have_nbdkit (void)
{
  return system ("nbdkit --version >/dev/null 2>&1") == 0;
}

static pid_t server;

static void
start (const char *how)
{
  char cmd[512];

  unlink (pidfile);
  snprintf (cmd, sizeof cmd, "%s/sock", dir);
  unlink (cmd);
  snprintf (cmd, sizeof cmd, "exec nbdkit -f -P %s -U %s/sock %s", pidfile,
            dir, how);
  server = fork ();
  assert_true (server >= 0);
  if (server == 0) {
    execl ("/bin/sh", "sh", "-c", cmd, NULL);
    _exit (127);
  }
  for (unsigned i = 0; i < 1000 && access (pidfile, F_OK) != 0; ++i)
    usleep (10000);
}

static void
stop (int sig)
{
  kill (server, sig);
  assert_int_equal (waitpid (server, NULL, 0), server);
}

#define NEED_NBDKIT()                                   \
  do {                                                  \
    if (!have_nbdkit ())                                \
      lacks ("nbdkit");                                 \
  } while (0)

static struct device *
open_or_die (bool read_only)
{
  struct device_open_opts opts = { .read_only = read_only };
  struct device *dev;
  int r = device_open (uri, &opts, &dev);

  if (r < 0)
    fail_msg ("%s", err_text (r));
  return dev;
}

static void
test_memory (void **state)
{
  struct device *dev;

  (void) state;
  NEED_NBDKIT ();
  start ("memory 4M");
  dev = open_or_die (false);
  assert_int_equal (device_get_info (dev)->size, 4 * MIB);
  exercise (dev, 4 * MIB, 512, 80, 6);
  exercise_errors (dev);
  device_close (dev);
  stop (SIGTERM);
}

/* More than one command's worth. */
static void
test_large (void **state)
{
  const size_t len = 80 * MIB;
  uint8_t *a, *b;
  struct device *dev;
  uint64_t seed = 7;

  (void) state;
  NEED_NBDKIT ();
  start ("memory 100M");
  a = malloc (len);
  b = calloc (1, len);
  test_fill (a, len, &seed);
  dev = open_or_die (false);
  assert_int_equal (device_write_fua (dev, MIB, a, len), 0);
  assert_int_equal (device_read (dev, MIB, b, len), 0);
  assert_memory_equal (a, b, len);
  device_close (dev);
  free (a);
  free (b);
  stop (SIGTERM);
}

static void *
hammer (void *opaque)
{
  struct device *dev = opaque;
  char buf[4096];

  for (unsigned i = 0; i < 200; ++i)
    if (device_read (dev, i * 4096, buf, sizeof buf) < 0 ||
        (i % 50 == 0 && device_flush (dev) < 0))
      return (void *) 1;
  return NULL;
}

static void
test_threads (void **state)
{
  pthread_t t[8];
  struct device *dev;
  void *bad;

  (void) state;
  NEED_NBDKIT ();
  start ("memory 4M");
  dev = open_or_die (false);
  for (unsigned i = 0; i < ARRAY_SIZE (t); ++i)
    assert_int_equal (pthread_create (&t[i], NULL, hammer, dev), 0);
  for (unsigned i = 0; i < ARRAY_SIZE (t); ++i) {
    pthread_join (t[i], &bad);
    assert_null (bad);
  }
  device_close (dev);
  stop (SIGTERM);
}

static void
test_no_fua_no_trim (void **state)
{
  struct device *dev;

  (void) state;
  NEED_NBDKIT ();
  start ("--filter=fua --filter=nozero memory 4M");
  dev = open_or_die (false);
  exercise (dev, 4 * MIB, 4096, 20, 8);
  device_close (dev);
  stop (SIGTERM);
}

static void
test_read_only (void **state)
{
  struct device *dev;

  (void) state;
  NEED_NBDKIT ();
  start ("-r memory 4M");
  assert_int_equal (device_open (uri, NULL, &dev), -ERR_dev_readonly);
  dev = open_or_die (true);
  assert_int_equal (device_write (dev, 0, "x", 1), -ERR_dev_readonly);
  device_close (dev);
  stop (SIGTERM);
}

static void
test_server_errors (void **state)
{
  struct device *dev;
  char buf[4096] = "";

  (void) state;
  NEED_NBDKIT ();
  start ("--filter=error memory 4M error-pwrite-rate=100% "
         "error-pwrite=ENOSPC");
  dev = open_or_die (false);
  assert_int_equal (device_write (dev, 0, buf, sizeof buf), -ERR_dev_write);
  assert_int_equal (device_read (dev, 0, buf, sizeof buf), 0);
  device_close (dev);
  stop (SIGTERM);
}

/* A lost server is an error for good: no reconnection could tell whether
 * unflushed writes are still there.
 */
static void
test_lost (void **state)
{
  struct device *dev;
  char buf[4096] = "";

  (void) state;
  NEED_NBDKIT ();
  start ("memory 4M");
  dev = open_or_die (false);
  assert_int_equal (device_write (dev, 0, buf, sizeof buf), 0);
  stop (SIGKILL);
  assert_int_equal (device_flush (dev), -ERR_dev_flush);
  start ("memory 4M");
  assert_int_equal (device_flush (dev), -ERR_dev_flush);
  assert_int_equal (device_read (dev, 0, buf, sizeof buf), -ERR_dev_read);
  device_close (dev);
  stop (SIGTERM);
  assert_int_equal (device_open (uri, NULL, &dev), -ERR_dev_open);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_memory),
    cmocka_unit_test (test_large),
    cmocka_unit_test (test_threads),
    cmocka_unit_test (test_no_fua_no_trim),
    cmocka_unit_test (test_read_only),
    cmocka_unit_test (test_server_errors),
    cmocka_unit_test (test_lost),
  };
  char cmd[128];
  int r;

  if (mkdtemp (dir) == NULL)
    return 99;
  snprintf (uri, sizeof uri, "nbd+unix:///?socket=%s/sock", dir);
  snprintf (pidfile, sizeof pidfile, "%s/pid", dir);
  r = cmocka_run_group_tests_name ("io-nbd", tests, NULL, NULL);
  snprintf (cmd, sizeof cmd, "rm -rf %s", dir);
  if (system (cmd) != 0)
    return 99;
  return r;
}
