/* Superblocks: which copy is the truth, which devices belong together, where
 * and how copies are written.
 */
#include "unit/volume_help.h"

#include "io/record.h"

static void
close_devices (struct pool *p)
{
  for (unsigned i = 0; i < p->n; ++i)
    device_close (p->dev[i]);
}

/* Opening must fail with CODE and a text that holds WORDS. */
static void
expect_refused (struct pool *p, unsigned n, int code, const char *words)
{
  struct volume *v;
  int r = volume_open (p->dev, n, false, &v);

  assert_int_equal (r, code);
  if (strstr (err_text (r), words) == NULL)
    fail_msg ("\"%s\" does not tell \"%s\"", err_text (r), words);
}

static void
test_open (void **state)
{
  struct pool p;
  const struct volume_device *d;

  (void) state;
  pool_open (&p, 2);
  assert_int_equal (volume_num_devices (p.v), 2);
  d = volume_device (p.v, 1);
  assert_int_equal (d->devid, 2);
  assert_int_equal (d->total_bytes, DEV_SIZE);
  assert_int_equal (d->bytes_used, 16 * MIB);
  assert_false (d->stale);
  assert_int_equal (le64_get (volume_super (p.v)->generation), 7);
  assert_int_equal (volume_format (p.v)->nodesize, 16384);
  assert_int_equal (volume_num_mirrors (p.v, SYS_LOGICAL), 1);
  volume_close (p.v);
}

static void
test_no_super (void **state)
{
  struct pool p;
  char zero[4096] = "";

  (void) state;
  pool_devices (&p, 1);
  assert_int_equal (device_write (p.mem[0], super_offset (0), zero, 4096),
                    0);
  /* The 64 MiB copy is still there: told, not used. */
  expect_refused (&p, 1, -ERR_super_magic, "copy 1 at 67108864 is intact");
  assert_int_equal (device_write (p.mem[0], super_offset (1), zero, 4096),
                    0);
  expect_refused (&p, 1, -ERR_no_super, "dev1");
  close_devices (&p);
}

static void
test_copy_on_request (void **state)
{
  struct btrfs_super s;
  struct pool p;
  struct volume *v;

  (void) state;
  pool_devices (&p, 1);
  make_super (&s, 1, 1, 9, DEV_SIZE);
  put_super (p.mem[0], &s, 1);
  /* A newer mirror means nothing. */
  assert_int_equal (volume_open (p.dev, 1, false, &v), 0);
  assert_int_equal (le64_get (volume_super (v)->generation), 7);
  volume_close (v);

  pool_devices (&p, 1);
  put_super (p.mem[0], &s, 1);
  assert_int_equal (device_write (p.mem[0], super_offset (0) + 300, "x", 1),
                    0);
  expect_refused (&p, 1, -ERR_super_csum, "of generation 9");
  assert_int_equal (volume_open_copy (p.dev, 1, false, 2, &v),
                    -ERR_super_magic);
  assert_int_equal (volume_open_copy (p.dev, 1, false, 1, &v), 0);
  assert_int_equal (le64_get (volume_super (v)->generation), 9);
  volume_close (v);
}

static void
test_generations (void **state)
{
  struct btrfs_super s;
  struct pool p;
  struct volume *v;

  (void) state;
  pool_devices (&p, 2);
  make_super (&s, 2, 2, 8, DEV_SIZE);
  put_super (p.mem[1], &s, 0);
  assert_int_equal (volume_open (p.dev, 2, false, &v), 0);
  assert_int_equal (le64_get (volume_super (v)->generation), 8);
  assert_true (volume_device (v, 0)->stale);
  assert_false (volume_device (v, 1)->stale);
  volume_close (v);
}

static void
test_missing_and_foreign (void **state)
{
  struct btrfs_super s;
  struct pool p;

  (void) state;
  pool_devices (&p, 3);
  expect_refused (&p, 2, -ERR_device_missing, "2 of 3");

  make_super (&s, 2, 3, 7, DEV_SIZE);
  memset (s.fsid, 0xee, BTRFS_UUID_SIZE);
  memset (s.dev_item.fsid, 0xee, BTRFS_UUID_SIZE);
  put_super (p.mem[1], &s, 0);
  expect_refused (&p, 3, -ERR_device_fsid, "dev2");

  make_super (&s, 1, 3, 7, DEV_SIZE);
  put_super (p.mem[1], &s, 0);
  expect_refused (&p, 3, -ERR_device_fsid, "both device 1");

  make_super (&s, 2, 3, 7, DEV_SIZE);
  put_super (p.mem[1], &s, 0);
  struct volume *v;
  assert_int_equal (volume_open (p.dev, 3, true, &v), 0);
  assert_true (volume_read_only (v));
  volume_close (v);
}

static void
test_metadata_uuid (void **state)
{
  struct btrfs_super s;
  struct pool p;
  struct volume *v;

  (void) state;
  pool_devices (&p, 2);
  for (unsigned i = 0; i < 2; ++i) {
    make_super (&s, i + 1, 2, 7, DEV_SIZE);
    memset (s.fsid, 0xaa, BTRFS_UUID_SIZE);
    memset (s.metadata_uuid, 0xf5 + i, BTRFS_UUID_SIZE);
    memset (s.dev_item.fsid, 0xf5 + i, BTRFS_UUID_SIZE);
    s.incompat_flags = le64_make (le64_get (s.incompat_flags) |
                                  BTRFS_INCOMPAT_METADATA_UUID);
    put_super (p.mem[i], &s, 0);
  }
  expect_refused (&p, 2, -ERR_device_fsid, "dev2");
  memset (s.metadata_uuid, 0xf5, BTRFS_UUID_SIZE);
  memset (s.dev_item.fsid, 0xf5, BTRFS_UUID_SIZE);
  put_super (p.mem[1], &s, 0);
  assert_int_equal (volume_open (p.dev, 2, false, &v), 0);
  assert_int_equal (volume_format (v)->fsid[0], 0xaa);
  assert_int_equal (volume_format (v)->metadata_uuid[0], 0xf5);
  volume_close (v);
}

static void
test_shrunk_device (void **state)
{
  struct btrfs_super s;
  struct pool p;

  (void) state;
  pool_devices (&p, 1);
  make_super (&s, 1, 1, 7, DEV_SIZE + 4096);
  put_super (p.mem[0], &s, 0);
  expect_refused (&p, 1, -ERR_too_small, "536870912");
  close_devices (&p);
}

static void
test_features (void **state)
{
  struct btrfs_super s;
  struct pool p;

  (void) state;
  pool_devices (&p, 1);
  make_super (&s, 1, 1, 7, DEV_SIZE);
  s.incompat_flags = le64_make (UINT64_C (1) << 40);
  put_super (p.mem[0], &s, 0);
  expect_refused (&p, 1, -ERR_feature_incompat, "");
  close_devices (&p);
}

/* What is on the disk after writing, and in which order it got there. */
static void
test_write (void **state)
{
  struct device *mem, *rec, *dev[1];
  struct btrfs_super s, back;
  struct record_event ev;
  struct volume *v;

  (void) state;
  assert_int_equal (device_mem_new ("m", DEV_SIZE, &mem), 0);
  make_super (&s, 1, 1, 7, DEV_SIZE);
  s.dev_item.dev_group = le32_make (77); /* kept as it was */
  put_super (mem, &s, 0);
  assert_int_equal (record_new (mem, &rec), 0);
  dev[0] = rec;
  assert_int_equal (volume_open (dev, 1, false, &v), 0);

  s = *volume_super (v);
  s.generation = le64_make (8);
  s.flags = le64_make (0);
  memset (&s.dev_item, 0, sizeof s.dev_item);
  memset (s.csum, 0, sizeof s.csum);
  volume_device_set_bytes (v, 0, DEV_SIZE - MIB, 32 * MIB);
  assert_int_equal (volume_write_supers (v, &s, SUPER_ALL), 0);

  for (unsigned i = 0; i < 2; ++i) {
    assert_int_equal (device_read (mem, super_offset (i), &back,
                                   sizeof back), 0);
    assert_int_equal (super_check (&back, super_offset (i)), 0);
    assert_int_equal (le64_get (back.generation), 8);
    assert_true (le64_get (back.flags) & BTRFS_SUPER_FLAG_WRITTEN);
    assert_int_equal (le64_get (back.dev_item.devid), 1);
    assert_int_equal (le64_get (back.dev_item.total_bytes), DEV_SIZE - MIB);
    assert_int_equal (le64_get (back.dev_item.bytes_used), 32 * MIB);
    assert_int_equal (le32_get (back.dev_item.dev_group), 77);
  }
  assert_int_equal (record_count (rec), 2);
  assert_true (record_get (rec, 0, &ev));
  assert_int_equal (ev.offset, super_offset (0));
  assert_true (ev.fua);
  assert_true (record_get (rec, 1, &ev));
  assert_int_equal (ev.offset, super_offset (1));
  assert_false (ev.fua);

  /* Only the first. */
  assert_int_equal (volume_write_supers (v, &s, SUPER_FIRST), 0);
  assert_int_equal (record_count (rec), 3);

  /* Only the others. */
  s.generation = le64_make (9);
  assert_int_equal (volume_write_supers (v, &s, SUPER_OTHERS), 0);
  assert_int_equal (record_count (rec), 4);
  assert_true (record_get (rec, 3, &ev));
  assert_int_equal (ev.offset, super_offset (1));

  /* A device that ends in the middle of a copy does not get it. */
  volume_device_set_bytes (v, 0, super_offset (1) + BTRFS_SUPER_SIZE - 1,
                           32 * MIB);
  assert_int_equal (volume_write_supers (v, &s, SUPER_ALL), 0);
  assert_int_equal (record_count (rec), 5);
  volume_close (v);
}

static void
test_write_refuses_nonsense (void **state)
{
  struct btrfs_super s;
  struct pool p;

  (void) state;
  pool_open (&p, 1);
  s = *volume_super (p.v);
  s.root_level = 8;
  fault_arm (p.dev[0], IO_WRITE, FAULT_OFF, 0);
  assert_int_equal (volume_write_supers (p.v, &s, SUPER_ALL),
                    -ERR_super_field);
  assert_int_equal (fault_count (p.dev[0], IO_WRITE), 0);
  volume_close (p.v);
}

static void
test_write_failures (void **state)
{
  struct pool p;

  (void) state;
  pool_open (&p, 1);
  /* The first copy counts, the others are a bonus. */
  fault_arm (p.dev[0], IO_WRITE, FAULT_ONCE, 1);
  assert_int_equal (volume_write_supers (p.v, volume_super (p.v), SUPER_ALL),
                    -ERR_dev_write);
  assert_int_equal (fault_count (p.dev[0], IO_WRITE), 1);
  fault_arm (p.dev[0], IO_WRITE, FAULT_ONCE, 2);
  assert_int_equal (volume_write_supers (p.v, volume_super (p.v), SUPER_ALL),
                    0);
  assert_int_equal (volume_dev_stat (p.v, 0, DEV_STAT_WRITE), 2);
  volume_close (p.v);

  pool_open (&p, 2);
  fault_arm (p.dev[0], IO_WRITE, FAULT_FROM, 1);
  assert_int_equal (volume_write_supers (p.v, volume_super (p.v), SUPER_ALL),
                    0);
  fault_arm (p.dev[1], IO_WRITE, FAULT_FROM, 1);
  assert_int_equal (volume_write_supers (p.v, volume_super (p.v), SUPER_ALL),
                    -ERR_dev_write);
  volume_close (p.v);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_open),
    cmocka_unit_test (test_no_super),
    cmocka_unit_test (test_copy_on_request),
    cmocka_unit_test (test_generations),
    cmocka_unit_test (test_missing_and_foreign),
    cmocka_unit_test (test_metadata_uuid),
    cmocka_unit_test (test_shrunk_device),
    cmocka_unit_test (test_features),
    cmocka_unit_test (test_write),
    cmocka_unit_test (test_write_refuses_nonsense),
    cmocka_unit_test (test_write_failures),
  };

  return cmocka_run_group_tests_name ("volume-super", tests, NULL, NULL);
}
