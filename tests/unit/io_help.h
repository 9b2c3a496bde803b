/* Helpers of the io tests: scratch files, loop devices, an exerciser that
 * compares any device with a flat buffer.
 */
#ifndef BTRNBD_TESTS_IO_HELP_H
#define BTRNBD_TESTS_IO_HELP_H

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#include "base/err.h"
#include "base/math.h"
#include "io/device.h"

#define NEED_ROOT()                             \
  do {                                          \
    if (geteuid () != 0)                        \
      lacks ("root");                           \
  } while (0)

static inline uint64_t
test_rand (uint64_t *state)
{
  uint64_t z = *state += UINT64_C (0x9e3779b97f4a7c15);

  z = (z ^ (z >> 30)) * UINT64_C (0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C (0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static inline void
test_fill (void *buf, size_t len, uint64_t *state)
{
  uint8_t *p = buf;

  for (size_t i = 0; i < len; ++i)
    p[i] = test_rand (state);
}

/* An empty file of SIZE bytes; the caller unlinks and frees the name. */
static inline char *
test_file (uint64_t size)
{
  const char *dir = getenv ("TMPDIR");
  char *name;
  int fd;

  assert_true (asprintf (&name, "%s/btrnbd-io-XXXXXX",
                         dir ? dir : "/var/tmp") > 0);
  fd = mkstemp (name);
  assert_true (fd >= 0);
  assert_int_equal (ftruncate (fd, size), 0);
  close (fd);
  return name;
}

/* The first line that COMMAND prints, malloc'd; NULL when it fails. */
static inline char *
test_command (const char *command)
{
  FILE *fp = popen (command, "r");
  char *line = NULL;
  size_t cap = 0;

  assert_non_null (fp);
  if (getline (&line, &cap, fp) > 0)
    line[strcspn (line, "\n")] = '\0';
  if (pclose (fp) != 0) {
    free (line);
    return NULL;
  }
  return line ? line : strdup ("");
}

static inline char *
test_losetup (const char *file)
{
  char cmd[512];

  snprintf (cmd, sizeof cmd, "losetup -f --show %s 2>/dev/null", file);
  return test_command (cmd);
}

static inline void
test_losetup_detach (char *loop)
{
  char cmd[512];

  snprintf (cmd, sizeof cmd, "losetup -d %s", loop);
  assert_int_equal (system (cmd), 0);
  free (loop);
}

/* Random batches of reads, writes, discards and flushes against a buffer;
 * STEP is the granularity of ranges, SKEW moves memory off its alignment.
 * Discarded ranges are rewritten at once: their contents are not defined.
 */
#define EXERCISE_OPS 12
static inline void
exercise (struct device *dev, uint64_t size, uint32_t step, unsigned rounds,
          uint64_t seed)
{
  uint8_t *model = calloc (1, size);
  uint8_t *bufs[EXERCISE_OPS];
  const size_t max = 160 * 1024;

  assert_non_null (model);
  for (unsigned i = 0; i < EXERCISE_OPS; ++i) {
    bufs[i] = io_alloc (max + 4096);
    assert_non_null (bufs[i]);
  }
  for (unsigned round = 0; round < rounds; ++round) {
    struct io_op ops[EXERCISE_OPS];
    struct iovec iov[EXERCISE_OPS][3];
    unsigned n = 1 + test_rand (&seed) % EXERCISE_OPS;
    uint64_t zone = round_down (size / EXERCISE_OPS, step);

    for (unsigned i = 0; i < n; ++i) {
      /* One zone each: the ranges of a batch must not overlap. */
      uint64_t start = i * zone;
      uint64_t off = start + round_down (test_rand (&seed) % zone, step);
      uint64_t room = MIN (start + zone - off, (uint64_t) max);
      uint64_t len = MIN (round_down (test_rand (&seed) % max, step) + step,
                          round_down (room, step));
      unsigned skew = test_rand (&seed) % 4 == 0 ? 8 : 0;
      uint64_t cut = round_down (len / 3, skew ? 1 : step);

      iov[i][0] = (struct iovec) { bufs[i] + skew, cut };
      iov[i][1] = (struct iovec) { bufs[i] + skew + cut, len - 2 * cut };
      iov[i][2] = (struct iovec) { bufs[i] + skew + len - cut, cut };
      ops[i] = (struct io_op) {
        .kind = test_rand (&seed) % 2 ? IO_READ : IO_WRITE,
        .offset = off, .len = len, .iov = iov[i], .iovcnt = 3,
        .result = -1,
      };
      if (test_rand (&seed) % 16 == 0)
        ops[i] = (struct io_op) { .kind = IO_FLUSH, .result = -1 };
      if (ops[i].kind == IO_WRITE) {
        test_fill (bufs[i] + skew, len, &seed);
        ops[i].fua = test_rand (&seed) % 3 == 0;
        memcpy (model + off, bufs[i] + skew, len);
      }
    }
    assert_int_equal (device_run (dev, ops, n), 0);
    for (unsigned i = 0; i < n; ++i) {
      assert_int_equal (ops[i].result, 0);
      if (ops[i].kind == IO_READ)
        assert_memory_equal (iov[i][0].iov_base, model + ops[i].offset,
                             ops[i].len);
    }
    if (round % 8 == 7) {
      uint64_t off = round_down (test_rand (&seed) % (size - max), step);

      assert_int_equal (device_discard (dev, off, max), 0);
      assert_int_equal (device_write (dev, off, model + off, max), 0);
    }
  }
  for (uint64_t off = 0; off < size; off += max) {
    uint64_t len = MIN (size - off, (uint64_t) max);

    assert_int_equal (device_read (dev, off, bufs[0], len), 0);
    assert_memory_equal (bufs[0], model + off, len);
  }
  for (unsigned i = 0; i < EXERCISE_OPS; ++i)
    free (bufs[i]);
  free (model);
}

/* What every writable device must answer to bad requests. */
static inline void
exercise_errors (struct device *dev)
{
  uint64_t size = device_get_info (dev)->size;
  uint8_t buf[4096] = { 0 };
  struct iovec iov = { buf, sizeof buf };

  assert_int_equal (device_read (dev, size - 2048, buf, 4096),
                    -ERR_dev_range);
  assert_int_equal (device_write (dev, UINT64_MAX - 100, buf, 4096),
                    -ERR_dev_range);
  assert_int_equal (device_discard (dev, size, 1), -ERR_dev_range);
  assert_int_equal (device_read (dev, size, buf, 0), 0);

  /* One bad operation does not keep the others from being done. */
  struct io_op ops[] = {
    { .kind = IO_READ, .offset = 0, .len = 4096, .iov = &iov, .iovcnt = 1,
      .result = 1 },
    { .kind = IO_READ, .offset = size, .len = 4096, .iov = &iov,
      .iovcnt = 1, .result = 1 },
    { .kind = IO_READ, .offset = 0, .len = 8192, .iov = &iov, .iovcnt = 1,
      .result = 1 },
  };

  assert_int_equal (device_run (dev, ops, 3), -ERR_dev_range);
  assert_int_equal (ops[0].result, 0);
  assert_int_equal (ops[1].result, -ERR_dev_range);
  assert_int_equal (ops[2].result, -ERR_invalid);
}

#endif /* BTRNBD_TESTS_IO_HELP_H */
