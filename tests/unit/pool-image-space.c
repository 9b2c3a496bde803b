/* The image of the pool and space: what it shows of free space, what it holds,
 * and that who writes goes first.
 */
#include <config.h>

#include "pool_image_help.h"

#include "base/csum.h"

struct sum {
  struct btrnbd_file *f;
  uint64_t data;               /* bytes that are not told to be zero */
};

static int
sum_extent (void *opaque, uint64_t offset, uint64_t len, unsigned type)
{
  struct sum *s = opaque;

  (void) offset;
  s->data += type & BTRNBD_EXTENT_ZERO ? 0 : len;
  return 0;
}

/* All bytes of the device, whatever they are. */
static uint32_t
crc_of (struct btrnbd_file *f)
{
  uint8_t *buf = malloc (MIB);
  uint64_t at, size = btrnbd_file_size (f);
  uint32_t crc = 0;

  for (at = 0; at < size; at += MIB) {
    /* In requests of odd places and sizes. */
    uint64_t seed = at, n = MIN (MIB, size - at), cut = snap_rnd (&seed, n);

    pool_ok (btrnbd_pread (f, buf, cut, at));
    pool_ok (btrnbd_pread (f, buf + cut, n - cut, at + cut));
    crc = crc32c_raw (crc, buf, n);
  }
  free (buf);
  return crc;
}

/* What is free in the image is told to be zero, and is; and not a byte of it
 * changes while the pool does.
 */
static void
test_thin (void **state)
{
  static const char *const opts[] = { "", "--mixed -n 4096" };
  struct btrnbd_pool_info i;
  struct model cow, nocow;
  struct sum s, later;
  struct lab l;
  uint64_t used;
  uint32_t crc;
  unsigned k;

  (void) state;
  for (k = 0; k < ARRAY_SIZE (opts); k++) {
    lab_init (&l, opts[k], 256, UINT64_MAX);
    make (&l, "cow", BLOCKS, false);
    make (&l, "nocow", BLOCKS, true);
    model_init (&cow, BLOCKS);
    model_init (&nocow, BLOCKS);
    churn (&l, &cow, &nocow, 2);
    s = later = (struct sum) { .f = open_export (l.p, "@pool") };
    i = info (&l);
    used = i.data.used + 2 * (i.metadata.used + i.system.used);
    pool_ok (btrnbd_extents (s.f, 0, btrnbd_file_size (s.f), sum_extent, &s));
    if (s.data < i.data.used || s.data > used + 2 * MIB)
      fail_msg ("%llu bytes are data, %llu are used",
                (unsigned long long) s.data, (unsigned long long) used);
    crc = crc_of (s.f);
    churn (&l, &cow, &nocow, 2);
    pool_ok (btrnbd_extents (s.f, 0, btrnbd_file_size (s.f), sum_extent,
                             &later));
    assert_true (later.data <= s.data);
    assert_int_equal (crc_of (s.f), crc);
    btrnbd_file_close (s.f);
    free (cow.v);
    free (nocow.v);
    lab_done (&l);
  }
}

static void
test_reserve (void **state)
{
  struct btrnbd_file *f, *g;
  struct model m;
  const char *name = "vm";
  const struct model *model = &m;
  struct lab l;
  unsigned i;

  (void) state;
  lab_init (&l, "", 512, 16 * MIB);
  make (&l, name, 2 * BLOCKS, false);
  model_init (&m, 2 * BLOCKS);
  g = open_export (l.p, name);
  for (i = 0; i < 8; i++) {     /* an extent each */
    disk_write (g, &m, i * 1024, 1024, &l.seq);
    pool_ok (btrnbd_flush (g));
  }
  f = open_export (l.p, "@pool");
  assert_int_equal (info (&l).image.limit, 16 * MIB);
  /* Space that is taken and freed again after the commit costs nothing. */
  for (i = 0; i < 8; i++) {
    disk_write (g, &m, 0, 2048, &l.seq);
    pool_ok (btrnbd_pool_sync (l.p));
  }
  assert_true (info (&l).image.held >= 8 * MIB);
  assert_true (info (&l).image.held < 16 * MIB);
  assert_string_equal (info (&l).image.ended, "");
  disk_write (g, &m, 2048, 3072, &l.seq);
  pool_ok (btrnbd_pool_sync (l.p));
  btrnbd_file_close (g);
  expect_end (&l, f, "it held more than image-reserve allows");

  /* Beside the dead one there can be a new one, and only that counts. */
  g = open_export (l.p, "@pool");
  assert_string_equal (info (&l).image.ended, "");
  scribble (&l, name, &m, 2);
  pool_ok (btrnbd_pool_sync (l.p));
  btrnbd_file_close (f);
  assert_true (info (&l).image.held > 0);
  btrnbd_file_close (g);
  f = open_export (l.p, "@pool");
  judge (&l, f, &name, &model, 1);
  btrnbd_file_close (f);
  free (m.v);
  lab_done (&l);
}

/* The pool is as large for who writes as if there was no image. */
static void
test_full (void **state)
{
  struct btrnbd_file *f, *d;
  uint8_t *buf = malloc (MIB);
  struct model m;
  struct lab l;
  unsigned n;
  int r = 0;

  (void) state;
  lab_init (&l, "-m single", 256, UINT64_MAX);
  make (&l, "fill", 256 * 256, false);
  make (&l, "vm", BLOCKS, false);
  model_init (&m, BLOCKS);
  scribble (&l, "vm", &m, 200);
  d = open_export (l.p, "fill");
  memset (buf, 0x5a, MIB);
  for (n = 0; r == 0; n++) {    /* an extent each */
    r = btrnbd_pwrite (d, buf, MIB, n * MIB, 0);
    pool_ok (btrnbd_flush (d));
  }
  assert_int_equal (r, -ERR_nospace);
  pool_ok (btrnbd_trim (d, 0, 24 * MIB, 0));
  pool_ok (btrnbd_pool_sync (l.p));

  f = open_export (l.p, "@pool");
  for (n = 0; n < 40 && info (&l).image.ended[0] == '\0'; n++) {
    pool_ok (btrnbd_pwrite (d, buf, MIB, (40 + n) * MIB, 0));
    pool_ok (btrnbd_flush (d));
    pool_ok (btrnbd_pool_sync (l.p));
  }
  expect_end (&l, f, "the pool is full");
  btrnbd_file_close (f);
  scribble (&l, "vm", &m, 50);
  btrnbd_file_close (d);
  export_compare (l.p, "vm", &m);
  free (m.v);
  free (buf);
  lab_done (&l);
}

/* A full pool whose image holds nothing that would help anybody: the write is
 * refused, as it would be without the image, and the image stays.  When it
 * does hold something, it goes.
 */
static void
test_full_little (void **state)
{
  static const char *const opts[] = { "-m single", "--mixed" };
  const char *const names[] = { "vm" };
  struct btrnbd_file *f, *d;
  uint8_t *buf = malloc (MIB);
  struct lab l;
  unsigned n, i, k;
  int r;

  (void) state;
  memset (buf, 0x5a, MIB);
  for (k = 0; k < ARRAY_SIZE (opts); k++) {
    struct model m;
    const struct model *model = &m;

    lab_init (&l, opts[k], 200, UINT64_MAX);
    make (&l, "fill", 256 * 256, false);
    make (&l, "vm", BLOCKS, false);
    model_init (&m, BLOCKS);
    scribble (&l, "vm", &m, 50);
    d = open_export (l.p, "fill");
    for (i = 0, n = 0; i < 4; i++) { /* promises that were not needed */
      while ((r = btrnbd_pwrite (d, buf, MIB, n * MIB, 0)) == 0)
        n++;
      assert_int_equal (r, -ERR_nospace);
      pool_ok (btrnbd_pool_sync (l.p));
    }
    f = open_export (l.p, "@pool");
    for (n = 0; n < 6; n++)
      pool_fails (btrnbd_pwrite (d, buf, MIB, (200 + n) * MIB, 0),
                  ERR_nospace);
    assert_string_equal (info (&l).image.ended, "");
    judge (&l, f, names, &model, 1);
    pool_ok (btrnbd_trim (d, 0, 24 * MIB, 0));
    pool_ok (btrnbd_pool_sync (l.p));
    assert_true (info (&l).image.held >= 24 * MIB);
    assert_string_equal (info (&l).image.ended, "");
    for (n = 0; n < 16; n++)
      pool_ok (btrnbd_pwrite (d, buf, MIB, n * MIB, 0));
    pool_ok (btrnbd_flush (d));
    expect_end (&l, f, "the pool is full");
    btrnbd_file_close (f);
    btrnbd_file_close (d);
    export_compare (l.p, "vm", &m);
    free (m.v);
    lab_done (&l);
  }
  free (buf);
}

static uint64_t
taken (const struct btrnbd_space *s)
{
  return s->used + s->reserved + s->pinned + s->held + s->may_use
    + s->readonly;
}

/* `df` of a pool whose groups are for both: what is held is told once, is not
 * free meanwhile, and free again afterwards.
 */
static void
test_df_mixed (void **state)
{
  const char *const names[] = { "vm" };
  struct btrnbd_pool_info before, held, after;
  const struct model *model;
  struct btrnbd_file *f, *g;
  struct model m, then;
  struct lab l;

  (void) state;
  lab_init (&l, "--mixed", 256, UINT64_MAX);
  make (&l, "vm", BLOCKS, false);
  model_init (&m, BLOCKS);
  g = open_export (l.p, "vm");
  disk_write (g, &m, 0, BLOCKS, &l.seq);
  pool_ok (btrnbd_pool_sync (l.p));
  f = open_export (l.p, "@pool");
  then = model_clone (&m);
  model = &then;
  before = info (&l);
  assert_int_equal (taken (&before.data), 0);
  assert_true (before.free_estimate > 150 * MIB);
  assert_true (before.free_estimate >= before.writable);
  assert_true (before.free_estimate + before.metadata.used
               <= before.metadata.total + before.unallocated);
  disk_write (g, &m, 0, BLOCKS, &l.seq);
  pool_ok (btrnbd_pool_sync (l.p));
  held = info (&l);
  assert_true (held.image.held >= BLOCKS * BLK);
  assert_int_equal (held.image.held, held.metadata.held);
  assert_int_equal (held.data.held, 0);
  assert_true (taken (&held.metadata) <= held.metadata.total);
  assert_true (held.free_estimate <= before.free_estimate - 15 * MIB);
  assert_true (held.free_estimate >= held.writable);
  judge (&l, f, names, &model, 1);
  btrnbd_file_close (f);
  after = info (&l);
  assert_int_equal (after.image.held, 0);
  assert_true (after.free_estimate >= held.free_estimate + held.image.held);
  btrnbd_file_close (g);
  export_compare (l.p, "vm", &m);
  free (m.v);
  free (then.v);
  lab_done (&l);
}

/* Writes in place need no space, with or without an image. */
static void
test_full_in_place (void **state)
{
  struct btrnbd_file *f, *d, *v;
  struct btrnbd_pool_info i;
  struct model m;
  uint8_t *buf = malloc (MIB);
  struct lab l;
  uint64_t n = 0;
  int r = 0;

  (void) state;
  lab_init (&l, "-m single", 256, UINT64_MAX);
  make (&l, "vm", BLOCKS, true);
  model_init (&m, BLOCKS);
  v = open_export (l.p, "vm");
  disk_write (v, &m, 0, BLOCKS, &l.seq);
  pool_ok (btrnbd_pool_sync (l.p));
  make (&l, "fill", 256 * 256, false);
  d = open_export (l.p, "fill");
  memset (buf, 0x5a, MIB);
  for (; r == 0; n += MIB)
    r = btrnbd_pwrite (d, buf, MIB, n, 0);
  assert_int_equal (r, -ERR_nospace);
  for (r = 0; r == 0 && n < 256 * MIB; n += BLK)
    r = btrnbd_pwrite (d, buf, BLK, n, 0);
  pool_ok (btrnbd_pool_sync (l.p));

  f = open_export (l.p, "@pool");
  disk_write (v, &m, 0, BLOCKS, &l.seq);
  pool_ok (btrnbd_flush (v));
  i = info (&l);
  assert_true (i.image.ended[0] != '\0');
  expect_end (&l, f, i.image.ended);
  disk_compare (v, &m, "vm");
  btrnbd_file_close (f);

  /* Taken in before there was an image, written out after. */
  disk_write (v, &m, 0, BLOCKS, &l.seq);
  r = btrnbd_export_open (l.p, "@pool", 0, &f);
  pool_ok (btrnbd_flush (v));
  if (r == 0)
    btrnbd_file_close (f);
  else
    assert_int_equal (r, -ERR_image_ended);
  btrnbd_file_close (v);
  btrnbd_file_close (d);
  export_compare (l.p, "vm", &m);
  free (m.v);
  free (buf);
  lab_done (&l);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_thin),
    cmocka_unit_test (test_reserve),
    cmocka_unit_test (test_full),
    cmocka_unit_test (test_full_little),
    cmocka_unit_test (test_df_mixed),
    cmocka_unit_test (test_full_in_place),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
