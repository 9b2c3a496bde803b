/* Copies that are bad, devices that fail: what is repaired, what is an error.
 */
#include "unit/volume_help.h"

#include <pthread.h>
#include <time.h>

#include "base/err.h"

#define LOGICAL (UINT64_C (1) << 30)
#define LEN 16384
#define COPY1 (100 * MIB)
#define COPY2 (300 * MIB)

static void
open_dup (struct pool *p)
{
  pool_open (p, 1);
  pool_add_chunk (p, LOGICAL, BTRFS_BG_METADATA | BTRFS_BG_DUP, 64 * MIB, 2,
                  (const uint64_t[][2]) { { 1, COPY1 }, { 1, COPY2 } });
}

static void
open_mirror (struct pool *p, unsigned n)
{
  static const uint64_t types[] = { 0, 0, BTRFS_BG_RAID1, BTRFS_BG_RAID1C3,
                                    BTRFS_BG_RAID1C4 };

  pool_open (p, n);
  pool_add_chunk (p, LOGICAL, BTRFS_BG_DATA | types[n], 64 * MIB, n,
                  (const uint64_t[][2]) { { 1, COPY1 }, { 2, COPY1 },
                    { 3, COPY1 }, { 4, COPY1 } });
}

/* Good data is all 'g'. */
static int
verify (void *opaque, const void *buf, size_t len)
{
  const uint8_t *b = buf;
  unsigned *calls = opaque;

  ++*calls;
  for (size_t i = 0; i < len; ++i)
    if (b[i] != 'g')
      return err_new (ERR_block_csum, "byte %zu", i);
  return 0;
}

static void
write_good (struct pool *p)
{
  char buf[LEN];

  memset (buf, 'g', LEN);
  assert_int_equal (volume_write (p->v, LOGICAL, buf, LEN), 0);
}

static void
spoil (struct pool *p, unsigned dev, uint64_t at)
{
  assert_int_equal (device_write (p->mem[dev - 1], at + 5000, "BAD", 3), 0);
}

static bool
is_good (struct pool *p, unsigned dev, uint64_t at)
{
  char buf[LEN];

  assert_int_equal (device_read (p->mem[dev - 1], at, buf, LEN), 0);
  for (unsigned i = 0; i < LEN; ++i)
    if (buf[i] != 'g')
      return false;
  return true;
}

static void
test_dup_repair (void **state)
{
  struct pool p;
  char buf[LEN];
  unsigned calls = 0;

  (void) state;
  open_dup (&p);
  write_good (&p);
  spoil (&p, 1, COPY1);
  fault_arm (p.dev[0], IO_WRITE, FAULT_OFF, 0);
  assert_int_equal (volume_read_verified (p.v, LOGICAL, buf, LEN, 0, verify,
                                          &calls), 0);
  assert_int_equal (calls, 3); /* twice of the good copy */
  assert_int_equal (buf[5000], 'g');
  assert_true (is_good (&p, 1, COPY1));
  assert_true (is_good (&p, 1, COPY2));
  assert_int_equal (fault_count (p.dev[0], IO_WRITE), 1);
  assert_int_equal (volume_dev_stat (p.v, 0, DEV_STAT_CORRUPTION), 1);

  /* Nothing to do any more. */
  calls = 0;
  assert_int_equal (volume_read_verified (p.v, LOGICAL, buf, LEN, 0, verify,
                                          &calls), 0);
  assert_int_equal (calls, 1);
  volume_close (p.v);
}

/* The caller has tried a copy itself. */
static void
test_first_given (void **state)
{
  struct pool p;
  char buf[LEN];
  unsigned calls = 0;

  (void) state;
  open_dup (&p);
  write_good (&p);
  spoil (&p, 1, COPY2);
  assert_int_equal (volume_read_verified (p.v, LOGICAL, buf, LEN, 2, verify,
                                          &calls), 0);
  assert_int_equal (calls, 2);
  assert_true (is_good (&p, 1, COPY2));
  volume_close (p.v);
}

/* The range is written anew just when a good copy of what it held before has
 * been read.
 */
struct late {
  struct pool *p;
  uint8_t byte, want;          /* want 0: everything is right */
  unsigned calls;
};

static int
verify_late (void *opaque, const void *buf, size_t len)
{
  struct late *l = opaque;
  const uint8_t *b = buf;
  char again[LEN];

  for (size_t i = 0; i < len && l->want != 0; ++i)
    if (b[i] != l->want)
      return err_new (ERR_block_csum, "byte %zu", i);
  if (l->calls++ == 0) {
    memset (again, l->byte, LEN);
    assert_int_equal (volume_write (l->p->v, LOGICAL, again, LEN), 0);
  }
  return 0;
}

static void
holds_byte (struct pool *p, uint64_t at, char byte)
{
  char buf[LEN];

  assert_int_equal (device_read (p->mem[0], at, buf, LEN), 0);
  for (unsigned i = 0; i < LEN; ++i)
    assert_int_equal (buf[i], byte);
}

static void
test_overwritten_meanwhile (void **state)
{
  struct late l = { .byte = 'n', .want = 'g' };
  struct pool p;
  char buf[LEN];

  (void) state;
  open_dup (&p);
  write_good (&p);
  spoil (&p, 1, COPY1);
  l.p = &p;
  assert_int_equal (volume_read_verified (p.v, LOGICAL, buf, LEN, 0,
                                          verify_late, &l), 0);
  assert_int_equal (buf[5000], 'g');
  holds_byte (&p, COPY1, 'n');
  holds_byte (&p, COPY2, 'n');

  /* Data without checksums, a copy that could not be read. */
  l = (struct late) { .p = &p, .byte = 'm' };
  fault_arm (p.dev[0], IO_READ, FAULT_ONCE, 1);
  assert_int_equal (volume_read_verified (p.v, LOGICAL, buf, LEN, 0,
                                          verify_late, &l), 0);
  assert_int_equal (l.calls, 2);
  holds_byte (&p, COPY1, 'm');
  holds_byte (&p, COPY2, 'm');
  volume_close (p.v);
}

/* Nor may it be written between the second look and the repair. */
static void *
write_newer (void *opaque)
{
  struct pool *p = opaque;
  char buf[LEN];

  memset (buf, 'n', LEN);
  assert_int_equal (volume_write (p->v, LOGICAL, buf, LEN), 0);
  return NULL;
}

struct racing {
  struct pool *p;
  pthread_t thread;
  unsigned calls;
};

static int
verify_racing (void *opaque, const void *buf, size_t len)
{
  const struct timespec ts = { .tv_nsec = 30000000 };
  struct racing *x = opaque;
  const uint8_t *b = buf;

  if (b[5000] != 'g' || len != LEN)
    return err_new (ERR_block_csum, "byte 5000");
  if (++x->calls == 2) {
    pthread_create (&x->thread, NULL, write_newer, x->p);
    nanosleep (&ts, NULL);
  }
  return 0;
}

static void
test_repair_shuts_writers_out (void **state)
{
  struct racing x = { .calls = 0 };
  struct pool p;
  char buf[LEN];

  (void) state;
  open_dup (&p);
  write_good (&p);
  spoil (&p, 1, COPY1);
  x.p = &p;
  assert_int_equal (volume_read_verified (p.v, LOGICAL, buf, LEN, 0,
                                          verify_racing, &x), 0);
  assert_int_equal (x.calls, 2);
  pthread_join (x.thread, NULL);
  holds_byte (&p, COPY1, 'n');
  holds_byte (&p, COPY2, 'n');
  volume_close (p.v);
}

static void
test_both_bad (void **state)
{
  struct pool p;
  char buf[LEN];
  unsigned calls = 0;

  (void) state;
  open_dup (&p);
  write_good (&p);
  spoil (&p, 1, COPY1);
  spoil (&p, 1, COPY2);
  fault_arm (p.dev[0], IO_WRITE, FAULT_OFF, 0);
  assert_int_equal (volume_read_verified (p.v, LOGICAL, buf, LEN, 0, verify,
                                          &calls), -ERR_no_mirror);
  assert_non_null (strstr (err_text (-ERR_no_mirror), "byte 5000"));
  assert_int_equal (calls, 2);
  assert_int_equal (fault_count (p.dev[0], IO_WRITE), 0);
  assert_int_equal (volume_dev_stat (p.v, 0, DEV_STAT_CORRUPTION), 2);
  volume_close (p.v);
}

static void
test_read_only (void **state)
{
  struct pool p;
  char buf[LEN];
  unsigned calls = 0;

  (void) state;
  open_dup (&p);
  write_good (&p);
  spoil (&p, 1, COPY1);
  volume_set_read_only (p.v);
  fault_arm (p.dev[0], IO_WRITE, FAULT_OFF, 0);
  assert_int_equal (volume_read_verified (p.v, LOGICAL, buf, LEN, 0, verify,
                                          &calls), 0);
  assert_int_equal (buf[5000], 'g');
  assert_false (is_good (&p, 1, COPY1));
  assert_int_equal (volume_write (p.v, LOGICAL, buf, LEN),
                    -ERR_dev_readonly);
  assert_int_equal (volume_flush (p.v), -ERR_dev_readonly);
  assert_int_equal (volume_write_supers (p.v, volume_super (p.v), SUPER_ALL),
                    -ERR_dev_readonly);
  assert_int_equal (fault_count (p.dev[0], IO_WRITE), 0);
  volume_close (p.v);
}

/* A copy that cannot be read is rewritten too; a repair that fails does not
 * fail the read.
 */
static void
test_read_error (void **state)
{
  struct pool p;
  char buf[LEN];
  unsigned calls = 0;

  (void) state;
  open_mirror (&p, 2);
  write_good (&p);
  fault_arm (p.dev[0], IO_READ, FAULT_ONCE, 1);
  fault_arm (p.dev[0], IO_WRITE, FAULT_ONCE, 1);
  assert_int_equal (volume_read_verified (p.v, LOGICAL, buf, LEN, 0, verify,
                                          &calls), 0);
  assert_int_equal (calls, 2);
  assert_int_equal (fault_hits (p.dev[0], IO_WRITE), 1);
  assert_int_equal (volume_dev_stat (p.v, 0, DEV_STAT_READ), 1);
  assert_int_equal (volume_dev_stat (p.v, 0, DEV_STAT_WRITE), 1);
  assert_int_equal (volume_dev_stat (p.v, 0, DEV_STAT_CORRUPTION), 0);

  /* A plain read turns to the other copy by itself. */
  fault_arm (p.dev[0], IO_READ, FAULT_FROM, 1);
  for (unsigned i = 0; i < 4; ++i)
    assert_int_equal (volume_read (p.v, LOGICAL, 0, buf, LEN), 0);
  assert_int_equal (volume_read (p.v, LOGICAL, 1, buf, LEN), -ERR_dev_read);
  fault_arm (p.dev[1], IO_READ, FAULT_FROM, 1);
  assert_int_equal (volume_read (p.v, LOGICAL, 0, buf, LEN), -ERR_dev_read);
  assert_int_equal (volume_read_verified (p.v, LOGICAL, buf, LEN, 0, verify,
                                          &calls), -ERR_no_mirror);
  volume_close (p.v);
}

/* N copies survive N - 1 failing writes; single survives none. */
static void
test_write_rule (void **state)
{
  char buf[LEN];

  (void) state;
  memset (buf, 'g', LEN);
  for (unsigned n = 2; n <= 4; ++n) {
    struct pool p;

    open_mirror (&p, n);
    for (unsigned failing = 0; failing <= n; ++failing) {
      for (unsigned i = 0; i < failing; ++i)
        fault_arm (p.dev[i], IO_WRITE, FAULT_FROM, 1);
      assert_int_equal (volume_write (p.v, LOGICAL, buf, LEN),
                        failing == n ? -ERR_dev_write : 0);
      for (unsigned i = failing; i < n; ++i)
        assert_true (is_good (&p, i + 1, COPY1));
    }
    assert_true (volume_dev_stat (p.v, 0, DEV_STAT_WRITE) > 0);
    volume_close (p.v);
  }

  struct pool p;

  pool_open (&p, 1);
  pool_add_chunk (&p, LOGICAL, BTRFS_BG_DATA, 64 * MIB, 1,
                  (const uint64_t[][2]) { { 1, COPY1 } });
  fault_arm (p.dev[0], IO_WRITE, FAULT_ONCE, 1);
  assert_int_equal (volume_write (p.v, LOGICAL, buf, LEN), -ERR_dev_write);
  volume_close (p.v);

  /* DUP: one of the two, not both. */
  open_dup (&p);
  fault_arm (p.dev[0], IO_WRITE, FAULT_ONCE, 2);
  assert_int_equal (volume_write (p.v, LOGICAL, buf, LEN), 0);
  fault_arm (p.dev[0], IO_WRITE, FAULT_FROM, 1);
  assert_int_equal (volume_write (p.v, LOGICAL, buf, LEN), -ERR_dev_write);
  volume_close (p.v);
}

/* RAID0 and RAID10 judge each stripe by itself. */
static void
test_write_rule_striped (void **state)
{
  static char buf[1048576];
  struct pool p;

  (void) state;
  pool_open (&p, 4);
  pool_add_chunk (&p, LOGICAL, BTRFS_BG_DATA | BTRFS_BG_RAID10, 64 * MIB, 4,
                  (const uint64_t[][2]) { { 1, COPY1 }, { 2, COPY1 },
                    { 3, COPY1 }, { 4, COPY1 } });
  fault_arm (p.dev[0], IO_WRITE, FAULT_FROM, 1);
  fault_arm (p.dev[3], IO_WRITE, FAULT_FROM, 1);
  assert_int_equal (volume_write (p.v, LOGICAL, buf, sizeof buf), 0);
  fault_arm (p.dev[1], IO_WRITE, FAULT_FROM, 1);
  assert_int_equal (volume_write (p.v, LOGICAL, buf, sizeof buf),
                    -ERR_dev_write);
  /* The other group is not concerned. */
  assert_int_equal (volume_write (p.v, LOGICAL + 65536, buf, 65536), 0);
  volume_close (p.v);
}

static void
test_batch_results (void **state)
{
  char buf[4][4096];
  struct iovec iov[4];
  struct volume_op ops[4];
  struct pool p;

  (void) state;
  pool_open (&p, 1);
  pool_add_chunk (&p, LOGICAL, BTRFS_BG_DATA, 64 * MIB, 1,
                  (const uint64_t[][2]) { { 1, COPY1 } });
  for (unsigned i = 0; i < 4; ++i) {
    iov[i] = (struct iovec) { buf[i], 4096 };
    ops[i] = (struct volume_op) { .kind = IO_WRITE, .len = 4096,
                                  .logical = LOGICAL + i * 4096,
                                  .iov = &iov[i], .iovcnt = 1 };
  }
  ops[2].logical = 5; /* nowhere */
  fault_arm (p.dev[0], IO_WRITE, FAULT_ONCE, 2);
  assert_int_equal (volume_run (p.v, ops, 4), -ERR_dev_write);
  assert_int_equal (ops[0].result, 0);
  assert_int_equal (ops[1].result, -ERR_dev_write);
  assert_int_equal (ops[2].result, -ERR_unmapped);
  assert_int_equal (ops[3].result, 0);
  volume_close (p.v);
}

static void
test_flush (void **state)
{
  struct pool p;

  (void) state;
  pool_open (&p, 1);
  assert_int_equal (volume_flush (p.v), 0);
  fault_arm (p.dev[0], IO_FLUSH, FAULT_ONCE, 1);
  assert_int_equal (volume_flush (p.v), -ERR_dev_flush);
  assert_int_equal (volume_dev_stat (p.v, 0, DEV_STAT_FLUSH), 1);
  volume_close (p.v);

  /* Two devices.  The system chunk is single on device 1: losing 2 is
   * survived until a chunk needs it.
   */
  open_mirror (&p, 2);
  fault_arm (p.dev[1], IO_FLUSH, FAULT_FROM, 1);
  assert_int_equal (volume_flush (p.v), 0);
  fault_arm (p.dev[0], IO_FLUSH, FAULT_FROM, 1);
  assert_int_equal (volume_flush (p.v), -ERR_dev_flush);
  fault_arm (p.dev[0], IO_FLUSH, FAULT_OFF, 0);
  assert_int_equal (volume_flush (p.v), 0);
  pool_add_chunk (&p, 2 * LOGICAL, BTRFS_BG_DATA, 64 * MIB, 1,
                  (const uint64_t[][2]) { { 2, 200 * MIB } });
  assert_int_equal (volume_flush (p.v), -ERR_dev_flush);
  volume_close (p.v);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_dup_repair),
    cmocka_unit_test (test_first_given),
    cmocka_unit_test (test_overwritten_meanwhile),
    cmocka_unit_test (test_repair_shuts_writers_out),
    cmocka_unit_test (test_both_bad),
    cmocka_unit_test (test_read_only),
    cmocka_unit_test (test_read_error),
    cmocka_unit_test (test_write_rule),
    cmocka_unit_test (test_write_rule_striped),
    cmocka_unit_test (test_batch_results),
    cmocka_unit_test (test_flush),
  };

  return cmocka_run_group_tests_name ("volume-repair", tests, NULL, NULL);
}
