/* Where bytes go: the chunk map, every profile, reverse mapping, discards. */
#include "unit/volume_help.h"

#include "volume/profile.h"

#define LOGICAL (UINT64_C (1) << 30)
#define K64 UINT64_C (65536)

/* Write one recognisable sector at LOGICAL + OFF and look where it went. */
struct want { unsigned dev; uint64_t physical; };

static void
expect_at (struct pool *p, uint64_t off, unsigned n, const struct want *want)
{
  uint8_t buf[4096], back[4096];
  static uint8_t value;

  memset (buf, ++value, sizeof buf);
  assert_int_equal (volume_write (p->v, LOGICAL + off, buf, sizeof buf), 0);
  for (unsigned i = 0; i < n; ++i) {
    assert_int_equal (device_read (p->mem[want[i].dev - 1], want[i].physical,
                                   back, sizeof back), 0);
    assert_memory_equal (back, buf, sizeof buf);
    memset (back, 0, sizeof back);
    assert_int_equal (volume_read (p->v, LOGICAL + off, i + 1, back,
                                   sizeof back), 0);
    assert_memory_equal (back, buf, sizeof buf);
  }
  memset (back, 0, sizeof back);
  assert_int_equal (volume_read (p->v, LOGICAL + off, 0, back, sizeof back),
                    0);
  assert_memory_equal (back, buf, sizeof buf);
  assert_int_equal (volume_num_mirrors (p->v, LOGICAL + off), n);
}

static uint64_t
writes (struct pool *p)
{
  uint64_t count = 0;

  for (unsigned i = 0; i < p->n; ++i)
    count += fault_count (p->dev[i], IO_WRITE);
  return count;
}

static void
test_single (void **state)
{
  struct pool p;

  (void) state;
  pool_open (&p, 1);
  pool_add_chunk (&p, LOGICAL, BTRFS_BG_DATA, 64 * MIB, 1,
                  (const uint64_t[][2]) { { 1, 100 * MIB } });
  expect_at (&p, 0, 1, (struct want[]) { { 1, 100 * MIB } });
  expect_at (&p, 64 * MIB - 4096, 1,
             (struct want[]) { { 1, 164 * MIB - 4096 } });
  assert_int_equal (writes (&p), 2);
  volume_close (p.v);
}

static void
test_dup (void **state)
{
  struct pool p;

  (void) state;
  pool_open (&p, 1);
  pool_add_chunk (&p, LOGICAL, BTRFS_BG_METADATA | BTRFS_BG_DUP, 64 * MIB, 2,
                  (const uint64_t[][2]) { { 1, 100 * MIB },
                                          { 1, 300 * MIB } });
  expect_at (&p, 3 * K64 + 4096, 2,
             (struct want[]) { { 1, 100 * MIB + 3 * K64 + 4096 },
                               { 1, 300 * MIB + 3 * K64 + 4096 } });
  assert_int_equal (writes (&p), 2);
  volume_close (p.v);
}

static void
test_raid1 (void **state)
{
  static const uint64_t types[] = { BTRFS_BG_RAID1, BTRFS_BG_RAID1C3,
                                    BTRFS_BG_RAID1C4 };

  (void) state;
  for (unsigned t = 0; t < 3; ++t) {
    unsigned n = t + 2;
    struct pool p;

    pool_open (&p, 4);
    pool_add_chunk (&p, LOGICAL, BTRFS_BG_DATA | types[t], 64 * MIB, n,
                    (const uint64_t[][2]) { { 2, 100 * MIB },
                      { 1, 200 * MIB }, { 4, 300 * MIB }, { 3, 64 * MIB } });
    expect_at (&p, 5 * MIB, n,
               (struct want[]) { { 2, 105 * MIB }, { 1, 205 * MIB },
                                 { 4, 305 * MIB }, { 3, 69 * MIB } });
    assert_int_equal (writes (&p), n);
    volume_close (p.v);
  }
}

static void
test_raid0 (void **state)
{
  struct pool p;

  (void) state;
  pool_open (&p, 3);
  pool_add_chunk (&p, LOGICAL, BTRFS_BG_DATA | BTRFS_BG_RAID0, 96 * MIB, 3,
                  (const uint64_t[][2]) { { 1, 100 * MIB },
                    { 2, 200 * MIB }, { 3, 300 * MIB } });
  /* nr 0, 1, 2, 3, 7: stripe nr % 3, row nr / 3 */
  expect_at (&p, 0, 1, (struct want[]) { { 1, 100 * MIB } });
  expect_at (&p, K64, 1, (struct want[]) { { 2, 200 * MIB } });
  expect_at (&p, 2 * K64, 1, (struct want[]) { { 3, 300 * MIB } });
  expect_at (&p, 3 * K64, 1, (struct want[]) { { 1, 100 * MIB + K64 } });
  expect_at (&p, 7 * K64 + 8192, 1,
             (struct want[]) { { 2, 200 * MIB + 2 * K64 + 8192 } });
  volume_close (p.v);
}

static void
test_raid10 (void **state)
{
  struct pool p;

  (void) state;
  pool_open (&p, 6);
  pool_add_chunk (&p, LOGICAL, BTRFS_BG_DATA | BTRFS_BG_RAID10, 96 * MIB, 6,
                  (const uint64_t[][2]) { { 1, 10 * MIB }, { 2, 20 * MIB },
                    { 3, 70 * MIB }, { 4, 110 * MIB }, { 5, 150 * MIB },
                    { 6, 190 * MIB } });
  /* f = 3 groups: group nr % 3, row nr / 3 */
  expect_at (&p, 0, 2, (struct want[]) { { 1, 10 * MIB }, { 2, 20 * MIB } });
  expect_at (&p, K64, 2,
             (struct want[]) { { 3, 70 * MIB }, { 4, 110 * MIB } });
  expect_at (&p, 5 * K64 + 4096, 2,
             (struct want[]) { { 5, 150 * MIB + K64 + 4096 },
                               { 6, 190 * MIB + K64 + 4096 } });
  volume_close (p.v);
}

/* Long ranges of every profile, in odd pieces and vectors, come back. */
static void
test_long (void **state)
{
  static const struct { uint64_t type; unsigned n; } all[] = {
    { 0, 1 }, { BTRFS_BG_RAID0, 3 }, { BTRFS_BG_RAID1, 2 },
    { BTRFS_BG_RAID10, 4 }, { BTRFS_BG_RAID1C3, 3 },
  };
  uint8_t *a = malloc (4 * MIB), *b = malloc (4 * MIB);
  uint64_t seed = 3;

  (void) state;
  for (unsigned t = 0; t < ARRAY_SIZE (all); ++t) {
    struct pool p;
    uint64_t at = LOGICAL + 3 * K64 + 12288;

    pool_open (&p, 4);
    pool_add_chunk (&p, LOGICAL, BTRFS_BG_DATA | all[t].type,
                    12 * MIB, all[t].n,
                    (const uint64_t[][2]) { { 1, 10 * MIB }, { 2, 20 * MIB },
                      { 3, 70 * MIB }, { 4, 110 * MIB } });
    test_fill (a, 4 * MIB, &seed);
    for (unsigned i = 0; i < 4; ++i) {
      struct iovec iov[3] = { { a, MIB + 4096 },
                              { a + MIB + 4096, MIB },
                              { a + 2 * MIB + 4096, 2 * MIB - 4096 } };
      struct volume_op ops[2] = {
        { .kind = IO_WRITE, .logical = at, .len = 4 * MIB, .iov = iov,
          .iovcnt = 3 },
        { .kind = IO_WRITE, .logical = LOGICAL, .len = 4096, .iov = iov,
          .iovcnt = 1 },
      };

      iov[0].iov_len = ops[1].len = 4096;
      iov[1] = (struct iovec) { a + 4096, 2 * MIB };
      iov[2] = (struct iovec) { a + 2 * MIB + 4096, 2 * MIB - 4096 };
      assert_int_equal (volume_run (p.v, ops, 2), 0);
    }
    assert_int_equal (volume_read (p.v, at, 0, b, 4 * MIB), 0);
    assert_memory_equal (a, b, 4 * MIB);
    assert_int_equal (volume_read (p.v, LOGICAL, 0, b, 4096), 0);
    assert_memory_equal (a, b, 4096);
    volume_close (p.v);
  }
  free (a);
  free (b);
}

static void
test_bounds (void **state)
{
  struct pool p;
  struct chunk_info info;
  char buf[8192];

  (void) state;
  pool_open (&p, 1);
  pool_add_chunk (&p, LOGICAL, BTRFS_BG_DATA, MIB, 1,
                  (const uint64_t[][2]) { { 1, 100 * MIB } });
  pool_add_chunk (&p, LOGICAL + MIB, BTRFS_BG_DATA, MIB, 1,
                  (const uint64_t[][2]) { { 1, 200 * MIB } });
  assert_int_equal (volume_read (p.v, LOGICAL - 4096, 0, buf, 4096),
                    -ERR_unmapped);
  assert_int_equal (volume_read (p.v, LOGICAL + 2 * MIB, 0, buf, 4096),
                    -ERR_unmapped);
  /* Not past the end of a chunk, even where another begins. */
  assert_int_equal (volume_read (p.v, LOGICAL + MIB - 4096, 0, buf, 8192),
                    -ERR_unmapped);
  assert_int_equal (volume_read (p.v, LOGICAL, 2, buf, 4096), -ERR_invalid);
  assert_int_equal (volume_num_mirrors (p.v, LOGICAL - 1), 0);

  assert_true (volume_next_chunk (p.v, 0, &info));
  assert_int_equal (info.logical, SYS_LOGICAL);
  assert_true (volume_next_chunk (p.v, 10 * MIB, &info));
  assert_int_equal (info.logical, LOGICAL);
  assert_true (volume_next_chunk (p.v, LOGICAL + MIB, &info));
  assert_int_equal (info.logical, LOGICAL + MIB);
  assert_int_equal (info.stripes[0].physical, 200 * MIB);
  assert_false (volume_next_chunk (p.v, LOGICAL + 2 * MIB, &info));
  volume_remove_chunk (p.v, LOGICAL + MIB);
  assert_int_equal (volume_read (p.v, LOGICAL + MIB, 0, buf, 4096),
                    -ERR_unmapped);
  volume_close (p.v);
}

static void
test_bad_chunks (void **state)
{
  union chunk_buf c;
  struct pool p;

  (void) state;
  pool_open (&p, 1);
  make_chunk (&c, BTRFS_BG_DATA, 8 * MIB, 1,
              (const uint64_t[][2]) { { 1, 100 * MIB } });
  assert_int_equal (volume_add_chunk (p.v, LOGICAL, &c.chunk), 0);
  assert_int_equal (volume_add_chunk (p.v, LOGICAL, &c.chunk), 0);
  assert_int_equal (volume_add_chunk (p.v, LOGICAL + MIB, &c.chunk),
                    -ERR_chunk_overlap);
  assert_int_equal (volume_add_chunk (p.v, LOGICAL - MIB, &c.chunk),
                    -ERR_chunk_overlap);
  make_chunk (&c, BTRFS_BG_DATA, 8 * MIB, 1,
              (const uint64_t[][2]) { { 1, 101 * MIB } });
  assert_int_equal (volume_add_chunk (p.v, LOGICAL, &c.chunk),
                    -ERR_chunk_overlap);
  /* Around another one. */
  make_chunk (&c, BTRFS_BG_DATA, 32 * MIB, 1,
              (const uint64_t[][2]) { { 1, 101 * MIB } });
  assert_int_equal (volume_add_chunk (p.v, LOGICAL - 8 * MIB, &c.chunk),
                    -ERR_chunk_overlap);

  make_chunk (&c, BTRFS_BG_DATA, 8 * MIB, 1,
              (const uint64_t[][2]) { { 9, 100 * MIB } });
  assert_int_equal (volume_add_chunk (p.v, 2 * LOGICAL, &c.chunk),
                    -ERR_chunk_device);
  make_chunk (&c, BTRFS_BG_DATA, 8 * MIB, 1,
              (const uint64_t[][2]) { { 1, DEV_SIZE - MIB } });
  assert_int_equal (volume_add_chunk (p.v, 2 * LOGICAL, &c.chunk),
                    -ERR_chunk_device);
  make_chunk (&c, BTRFS_BG_DATA, 8 * MIB, 1,
              (const uint64_t[][2]) { { 1, 100 * MIB } });
  c.chunk.stripes[0].dev_uuid[3] ^= 1;
  assert_int_equal (volume_add_chunk (p.v, 2 * LOGICAL, &c.chunk),
                    -ERR_chunk_device);
  make_chunk (&c, BTRFS_BG_DATA | BTRFS_BG_DUP, 8 * MIB, 1,
              (const uint64_t[][2]) { { 1, 100 * MIB } });
  assert_int_equal (volume_add_chunk (p.v, 2 * LOGICAL, &c.chunk),
                    -ERR_chunk_format);
  volume_close (p.v);
}

static void
test_raid56_not_yet (void **state)
{
  struct pool p;
  char buf[4096] = "";

  (void) state;
  pool_open (&p, 3);
  pool_add_chunk (&p, LOGICAL, BTRFS_BG_DATA | BTRFS_BG_RAID5, 128 * MIB, 3,
                  (const uint64_t[][2]) { { 1, 100 * MIB },
                    { 2, 100 * MIB }, { 3, 100 * MIB } });
  assert_int_equal (volume_read (p.v, LOGICAL, 0, buf, 4096), -ERR_profile);
  assert_int_equal (volume_write (p.v, LOGICAL, buf, 4096), -ERR_profile);
  volume_close (p.v);
}

static void
expect_ranges (struct pool *p, unsigned n, const struct volume_extent *want)
{
  struct volume_extent got[16];

  assert_int_equal (volume_super_ranges (p->v, LOGICAL, got, 16), n);
  for (unsigned i = 0; i < n; ++i) {
    assert_int_equal (got[i].start, want[i].start);
    assert_int_equal (got[i].len, want[i].len);
  }
}

static void
test_super_ranges (void **state)
{
  struct pool p;

  (void) state;
  pool_open (&p, 2);
  pool_add_chunk (&p, LOGICAL, BTRFS_BG_DATA, 64 * MIB, 1,
                  (const uint64_t[][2]) { { 1, 32 * MIB } });
  expect_ranges (&p, 1, (struct volume_extent[]) { { LOGICAL + 32 * MIB,
                                                     K64 } });
  volume_remove_chunk (p.v, LOGICAL);

  /* A stripe that is not aligned to 64K: both rows that it touches. */
  pool_add_chunk (&p, LOGICAL, BTRFS_BG_DATA, 64 * MIB, 1,
                  (const uint64_t[][2]) { { 1, 32 * MIB + 4096 } });
  expect_ranges (&p, 2, (struct volume_extent[]) {
      { LOGICAL + 32 * MIB - K64, K64 }, { LOGICAL + 32 * MIB, K64 } });
  volume_remove_chunk (p.v, LOGICAL);

  /* DUP: each stripe has its own place in the chunk. */
  pool_add_chunk (&p, LOGICAL, BTRFS_BG_DATA | BTRFS_BG_DUP, 32 * MIB, 2,
                  (const uint64_t[][2]) { { 1, 34 * MIB }, { 1, 66 * MIB }
                  });
  expect_ranges (&p, 1, (struct volume_extent[]) { { LOGICAL + 30 * MIB,
                                                     K64 } });
  volume_remove_chunk (p.v, LOGICAL);

  /* RAID0: row 16 MiB / 64K = 256 of stripe 1: stripe number 513. */
  pool_add_chunk (&p, LOGICAL, BTRFS_BG_DATA | BTRFS_BG_RAID0, 64 * MIB, 2,
                  (const uint64_t[][2]) { { 1, 100 * MIB }, { 2, 48 * MIB }
                  });
  expect_ranges (&p, 1, (struct volume_extent[]) { { LOGICAL + 513 * K64,
                                                     K64 } });
  volume_remove_chunk (p.v, LOGICAL);

  pool_add_chunk (&p, LOGICAL, BTRFS_BG_DATA, 64 * MIB, 1,
                  (const uint64_t[][2]) { { 1, 65 * MIB } });
  expect_ranges (&p, 0, NULL);
  volume_close (p.v);
}

/* Nothing of the first MiB and of superblock copies is ever discarded. */
static void
test_discard (void **state)
{
  struct volume_op op = { .kind = IO_DISCARD, .logical = LOGICAL,
                          .len = 64 * MIB };
  uint8_t *ones = malloc (130 * MIB), *back = malloc (130 * MIB);
  struct pool p;

  (void) state;
  pool_open (&p, 1);
  pool_add_chunk (&p, LOGICAL, BTRFS_BG_DATA, 64 * MIB, 1,
                  (const uint64_t[][2]) { { 1, 32 * MIB } });
  pool_add_chunk (&p, 2 * LOGICAL, BTRFS_BG_DATA, MIB, 1,
                  (const uint64_t[][2]) { { 1, MIB / 2 } });
  memset (ones, 1, 130 * MIB);
  assert_int_equal (device_write (p.mem[0], 0, ones, 130 * MIB), 0);
  assert_int_equal (volume_run (p.v, &op, 1), 0);
  op.logical = 2 * LOGICAL;
  op.len = MIB;
  assert_int_equal (volume_run (p.v, &op, 1), 0);
  memset (ones + 32 * MIB, 0, 64 * MIB);
  memset (ones + 64 * MIB, 1, K64);
  memset (ones + MIB, 0, MIB / 2);
  assert_int_equal (device_read (p.mem[0], 0, back, 130 * MIB), 0);
  assert_memory_equal (ones, back, 130 * MIB);
  free (ones);
  free (back);
  volume_close (p.v);
}

static void
test_profiles (void **state)
{
  (void) state;
  assert_string_equal (profile_of (BTRFS_BG_DATA)->name, "single");
  assert_ptr_equal (profile_by_name ("DUP"), profile_of (BTRFS_BG_DUP));
  assert_null (profile_of (BTRFS_BG_RAID0 | BTRFS_BG_DUP));
  assert_null (profile_by_name ("raid7"));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_single),
    cmocka_unit_test (test_dup),
    cmocka_unit_test (test_raid1),
    cmocka_unit_test (test_raid0),
    cmocka_unit_test (test_raid10),
    cmocka_unit_test (test_long),
    cmocka_unit_test (test_bounds),
    cmocka_unit_test (test_bad_chunks),
    cmocka_unit_test (test_raid56_not_yet),
    cmocka_unit_test (test_super_ranges),
    cmocka_unit_test (test_discard),
    cmocka_unit_test (test_profiles),
  };

  return cmocka_run_group_tests_name ("volume-map", tests, NULL, NULL);
}
