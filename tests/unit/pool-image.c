/* The image of the pool: what it shows stays, whatever is done to the pool
 * meanwhile, and what it keeps is free when it is closed, or needed.
 */
#include <config.h>

#include "pool_image_help.h"

static void
test_stays (void **state)
{
  const char *const names[] = { "cow", "nocow", "gone", "gone@old" };
  struct model cow, nocow, gone, old, then[4];
  const struct model *models[] = { &then[0], &then[1], &then[2], &then[3] };
  struct btrnbd_file *f;
  struct lab l;
  unsigned i;

  (void) state;
  lab_init (&l, "", 512, 0);
  make (&l, "cow", BLOCKS, false);
  make (&l, "nocow", BLOCKS, true);
  make (&l, "gone", BLOCKS, false);
  model_init (&cow, BLOCKS);
  model_init (&nocow, BLOCKS);
  model_init (&gone, BLOCKS);
  scribble (&l, "gone", &gone, 100);
  old = model_clone (&gone);
  pool_ok (btrnbd_volume_snapshot (l.p, &names[2], 1, "old"));
  scribble (&l, "gone", &gone, 100);
  churn (&l, &cow, &nocow, 2);
  /* Not durable, not even written out: opening sees to that. */
  scribble (&l, "cow", &cow, 50);
  scribble (&l, "nocow", &nocow, 50);

  for (i = 0; i < 2; i++) {
    f = open_export (l.p, "@pool");
    assert_true (btrnbd_file_read_only (f));
    then[0] = model_clone (&cow);
    then[1] = model_clone (&nocow);
    then[2] = model_clone (&gone);
    then[3] = old;
    judge (&l, f, names, models, i == 0 ? 4 : 2);
    churn (&l, &cow, &nocow, 4);
    if (i == 0)
      pool_ok (btrnbd_volume_remove_all (l.p, "gone"));
    sleep (2);                  /* the cleaner, and discards */
    churn (&l, &cow, &nocow, 4);
    judge (&l, f, names, models, i == 0 ? 4 : 2);
    assert_true (info (&l).image.held > 4 * MIB);
    assert_int_equal (info (&l).image.clients, 1);
    btrnbd_file_close (f);
    assert_int_equal (info (&l).image.held, 0);
    assert_int_equal (info (&l).image.clients, 0);
    free (then[0].v);
    free (then[1].v);
    free (then[2].v);
  }
  export_compare (l.p, "cow", &cow);
  export_compare (l.p, "nocow", &nocow);
  assert_int_equal (l.ends, 0);
  free (cow.v);
  free (nocow.v);
  free (gone.v);
  free (old.v);
  lab_done (&l);
}

/* What the image has is copied, once; what is younger is written in place. */
static void
test_in_place (void **state)
{
  struct btrnbd_pool_stats s, t;
  struct btrnbd_file *f, *d;
  struct model m, then;
  const char *name = "vm";
  const struct model *model = &then;
  struct lab l;
  uint64_t n;

  (void) state;
  lab_init (&l, "", 512, 0);
  make (&l, name, BLOCKS, true);
  model_init (&m, BLOCKS);
  d = open_export (l.p, name);
  disk_write (d, &m, 0, 1024, &l.seq);
  pool_ok (btrnbd_zero (d, 2048 * BLK, 1024 * BLK, 0)); /* prealloc */
  pool_ok (btrnbd_pool_sync (l.p));
  n = in_place_bytes (&l);
  disk_write (d, &m, 0, 1024, &l.seq);
  pool_ok (btrnbd_flush (d));
  assert_int_equal (in_place_bytes (&l), n + 1024 * BLK);

  f = open_export (l.p, "@pool");
  then = model_clone (&m);
  n = in_place_bytes (&l);
  disk_write (d, &m, 0, 1024, &l.seq);
  disk_write (d, &m, 2048, 512, &l.seq);
  pool_ok (btrnbd_flush (d));
  assert_int_equal (in_place_bytes (&l), n);
  disk_write (d, &m, 0, 1024, &l.seq);
  pool_ok (btrnbd_flush (d));
  assert_int_equal (in_place_bytes (&l), n + 1024 * BLK);
  /* Zeroed in place: the item is young, the extent is not. */
  pool_ok (btrnbd_zero (d, 1024 * BLK, 1024 * BLK, 0));
  pool_ok (btrnbd_zero (d, 0, 512 * BLK, 0));
  memset (m.v, 0, 512 * sizeof *m.v);
  pool_ok (btrnbd_pool_sync (l.p));
  disk_write (d, &m, 0, 512, &l.seq);
  pool_ok (btrnbd_pool_sync (l.p));
  judge (&l, f, &name, &model, 1);
  btrnbd_file_close (f);

  /* What was known before is known again. */
  disk_write (d, &m, 0, 1024, &l.seq);
  pool_ok (btrnbd_flush (d));
  btrnbd_pool_get_stats (l.p, &s);
  disk_write (d, &m, 0, 1024, &l.seq);
  pool_ok (btrnbd_flush (d));
  btrnbd_pool_get_stats (l.p, &t);
  assert_int_equal (t.data_nocow_bytes, s.data_nocow_bytes + 1024 * BLK);
  assert_int_equal (t.data_extent_searches, s.data_extent_searches);
  btrnbd_file_close (d);
  export_compare (l.p, name, &m);
  free (m.v);
  free (then.v);
  lab_done (&l);
}

/* An extent of the image whose item is made anew must not count as young. */
static void
test_flipped (void **state)
{
  struct btrnbd_file *f, *d;
  struct model m, then;
  const char *name = "vm";
  const struct model *model = &then;
  struct lab l;
  uint64_t n;

  (void) state;
  lab_init (&l, "", 512, 0);
  make (&l, name, BLOCKS, true);
  model_init (&m, BLOCKS);
  d = open_export (l.p, name);
  disk_write (d, &m, 0, 1024, &l.seq);
  f = open_export (l.p, "@pool");
  then = model_clone (&m);
  pool_ok (btrnbd_zero (d, 0, 1024 * BLK, 0));
  memset (m.v, 0, 1024 * sizeof *m.v);
  pool_ok (btrnbd_pool_sync (l.p));
  n = in_place_bytes (&l);
  disk_write (d, &m, 0, 1024, &l.seq);
  pool_ok (btrnbd_pool_sync (l.p));
  assert_int_equal (in_place_bytes (&l), n);
  judge (&l, f, &name, &model, 1);
  btrnbd_file_close (f);
  btrnbd_file_close (d);
  export_compare (l.p, name, &m);
  free (m.v);
  free (then.v);
  lab_done (&l);
}

static void
test_clients (void **state)
{
  struct btrnbd_file *a, *b, *c;
  struct model m, then;
  const char *name = "vm";
  const struct model *model = &then;
  struct btrnbd_pool_info i, k;
  uint8_t buf[512];
  struct lab l;

  (void) state;
  lab_init (&l, "", 512, 0);
  make (&l, name, BLOCKS, false);
  model_init (&m, BLOCKS);
  scribble (&l, name, &m, 100);
  then = model_clone (&m);
  a = open_export (l.p, "@pool");
  i = info (&l);
  assert_true (i.image.generation > 0 && i.image.clients == 1);
  scribble (&l, name, &m, 100);
  pool_ok (btrnbd_pool_sync (l.p));
  b = open_export (l.p, "/@pool/1");
  k = info (&l);
  assert_int_equal (k.image.generation, i.image.generation);
  assert_int_equal (k.image.clients, 2);
  assert_true (k.image.held > 0);
  btrnbd_file_close (a);
  scribble (&l, name, &m, 100);
  pool_ok (btrnbd_pool_sync (l.p));
  judge (&l, b, &name, &model, 1);
  btrnbd_file_close (b);
  assert_int_equal (info (&l).image.held, 0);

  /* The next one has a commit of its own. */
  c = open_export (l.p, "@pool");
  assert_true (info (&l).image.generation > i.image.generation);
  model = &m;
  judge (&l, c, &name, &model, 1);

  /* Reads of any alignment; what cannot be done. */
  pool_ok (btrnbd_pread (c, buf, 100, 65536 + 64 - 20));
  assert_memory_equal (buf + 20, "_BHRfS_M", 8);
  pool_fails (btrnbd_pread (c, buf, 2, btrnbd_file_size (c) - 1),
              ERR_file_range);
  pool_fails (btrnbd_pwrite (c, buf, 512, 0, 0), ERR_inode_readonly);
  pool_fails (btrnbd_trim (c, 0, 4096, 0), ERR_inode_readonly);
  pool_fails (btrnbd_zero (c, 0, 4096, 0), ERR_inode_readonly);
  pool_fails (btrnbd_truncate (c, 0), ERR_inode_readonly);
  pool_ok (btrnbd_flush (c));
  assert_false (btrnbd_try_pread (c, buf, 512, 0));
  btrnbd_file_close (c);
  free (m.v);
  free (then.v);
  lab_done (&l);
}

/* Groups that the image has stay, and their places on the disk. */
static void
test_chunks (void **state)
{
  struct model big, then, vm;
  const char *const names[] = { "big" };
  const struct model *models[] = { &then };
  struct btrnbd_file *f, *d;
  struct btrnbd_pool_info i;
  uint64_t total;
  struct lab l;
  unsigned n;

  (void) state;
  lab_init (&l, "", 1024, UINT64_MAX);
  make (&l, "big", 100000, false);
  model_init (&big, 100000);
  d = open_export (l.p, "big");
  disk_write (d, &big, 0, 100000, &l.seq);
  btrnbd_file_close (d);
  /* Opened anew: maps are loaded when something is held already. */
  pool_ok (btrnbd_pool_close (l.p));
  lab_open (&l, UINT64_MAX);
  then = model_clone (&big);
  f = open_export (l.p, "@pool");
  total = info (&l).data.total;
  pool_ok (btrnbd_volume_remove (l.p, "big"));
  sleep (2);
  pool_ok (btrnbd_pool_sync (l.p));
  pool_ok (btrnbd_pool_sync (l.p));
  i = info (&l);
  assert_int_equal (i.data.total, total);
  assert_true (i.data.held >= 100000 * UINT64_C (4096));
  /* What is written now has to go elsewhere. */
  make (&l, "vm", 50000, false);
  model_init (&vm, 50000);
  d = open_export (l.p, "vm");
  disk_write (d, &vm, 0, 50000, &l.seq);
  btrnbd_file_close (d);
  pool_ok (btrnbd_pool_sync (l.p));
  judge (&l, f, names, models, 1);
  total = info (&l).data.total;
  assert_true (total > i.data.total);
  btrnbd_file_close (f);
  /* Not a group of which something is just being discarded. */
  for (n = 0; n < 50 && info (&l).data.total >= total; n++) {
    usleep (100000);
    scribble (&l, "vm", &vm, 1);
    pool_ok (btrnbd_pool_sync (l.p));
  }
  assert_true (info (&l).data.total < total);
  export_compare (l.p, "vm", &vm);
  free (big.v);
  free (then.v);
  free (vm.v);
  lab_done (&l);
}

static int
note_name (void *opaque, const struct btrnbd_export *e)
{
  struct text *t = opaque;

  assert_true (e->read_only && !e->is_volume && e->description != NULL);
  text_add (t, "%s ", e->name);
  return 0;
}

static void
expect_names (struct btrnbd_pool *p, const char *want)
{
  struct text t = { NULL };

  text_add (&t, "%s", "");
  pool_ok (btrnbd_images (p, note_name, &t));
  assert_string_equal (t.s, want);
  free (t.s);
}

static void
test_names (void **state)
{
  static const char *const bad[] = { "@", "@pool2", "@pool/", "@pool/0",
    "@pool/01", "@pool/1x", "@pool/1/", "@pools", "@Pool",
    "@pool/99999999999999999999" };
  const struct btrnbd_volume_opts o = { .size = MIB };
  struct btrnbd_file *f;
  char name[32];
  struct lab l;
  size_t i;

  (void) state;
  lab_init (&l, "", 256, 0);
  for (i = 0; i < ARRAY_SIZE (bad); i++)
    pool_fails (btrnbd_export_open (l.p, bad[i], 0, &f), ERR_name_bad);
  pool_fails (btrnbd_export_open (l.p, "@pool/2", 0, &f), ERR_not_found);
  pool_ok (btrnbd_export_name (l.p, "//@pool/1", name, sizeof name));
  assert_string_equal (name, "@pool");
  pool_fails (btrnbd_volume_create (l.p, "@pool", &o), ERR_name_bad);
  pool_fails (btrnbd_volume_create (l.p, "@x", &o), ERR_name_bad);
  make (&l, "vm", BLOCKS, false);
  pool_fails (btrnbd_volume_rename (l.p, "vm", "@pool"), ERR_name_bad);
  pool_fails (btrnbd_volume_clone (l.p, "vm", "@pool"), ERR_name_bad);
  expect_names (l.p, "@pool ");
  lab_done (&l);
}

/* Of a pool that is read-only, of one that has failed, of none at all. */
static void
test_not_written (void **state)
{
  const char *name = "vm";
  struct btrnbd_open_opts o = { .read_only = true };
  const char *dev;
  struct btrnbd_file *f, *d;
  struct model m, then;
  const struct model *model = &m;
  struct lab l;

  (void) state;
  lab_init (&l, "", 256, 0);
  make (&l, name, BLOCKS, false);
  model_init (&m, BLOCKS);
  scribble (&l, name, &m, 100);
  pool_ok (btrnbd_pool_sync (l.p));
  then = model_clone (&m);
  d = open_export (l.p, name);
  disk_write (d, &m, 0, 4, &l.seq);
  pool_ok (btrnbd_flush (d));   /* a log */
  trans_fail (l.p->fs->trans,
              err_new (ERR_dev_write, "the test"));
  err_clear ();
  f = open_export (l.p, "@pool");
  model = &then;
  judge (&l, f, &name, &model, 1);
  btrnbd_file_close (f);
  btrnbd_file_close (d);
  btrnbd_pool_kill (l.p);

  /* The log is replayed in memory, and that is what the image shows. */
  dev = l.im.path;
  pool_ok (btrnbd_pool_open (&dev, 1, &o, &l.p));
  f = open_export (l.p, "@pool");
  model = &m;
  judge (&l, f, &name, &model, 1);
  btrnbd_file_close (f);
  pool_ok (btrnbd_pool_close (l.p));

  o.no_image = true;
  pool_ok (btrnbd_pool_open (&dev, 1, &o, &l.p));
  pool_fails (btrnbd_export_open (l.p, "@pool", 0, &f), ERR_not_found);
  expect_names (l.p, "");
  pool_ok (btrnbd_pool_close (l.p));
  lab_open (&l, 0);
  export_compare (l.p, name, &m);
  free (m.v);
  free (then.v);
  lab_done (&l);
}

/* FD is the device itself, which nobody writes to. */
static int
same_bytes (void *opaque, uint64_t offset, uint64_t len, unsigned type)
{
  struct copy *c = opaque;
  uint8_t *buf = malloc (2 * MIB);
  uint64_t n;

  for (c->pos += len; len > 0; offset += n, len -= n) {
    n = MIN (len, MIB);
    pool_ok (btrnbd_pread (c->f, buf, n, offset));
    memset (buf + MIB, 0, n);
    if (type == 0)
      assert_int_equal (pread (c->fd, buf + MIB, n, offset), n);
    assert_memory_equal (buf, buf + MIB, n);
  }
  free (buf);
  return 0;
}

static void
test_devices (void **state)
{
  const struct btrnbd_open_opts o = { .read_only = true };
  char two[PATH_MAX + 32];
  struct btrnbd_pool *p;
  const char *devs[2];
  struct image im;
  struct copy c;
  unsigned i;
  char name[32];

  (void) state;
  image_make (&im, "", 256);
  snprintf (two, sizeof two, "%s/two", im.dir);
  assert_int_equal (run ("truncate -s 300M %s && mkfs.btrfs -qf -d raid1 "
                         "-m raid1 %s %s", two, im.path, two), 0);
  devs[0] = im.path;
  devs[1] = two;
  pool_ok (btrnbd_pool_open (devs, 2, &o, &p));
  expect_names (p, "@pool/1 @pool/2 ");
  pool_fails (btrnbd_export_open (p, "@pool", 0, &c.f), ERR_not_found);
  pool_ok (btrnbd_export_name (p, "/@pool/2", name, sizeof name));
  assert_string_equal (name, "@pool/2");
  for (i = 0; i < 2; i++) {
    snprintf (name, sizeof name, "@pool/%u", i + 1);
    c = (struct copy) { .f = open_export (p, name),
      .fd = open (devs[i], O_RDONLY) };
    assert_int_equal (btrnbd_file_size (c.f), (i ? 300 : 256) * MIB);
    pool_ok (btrnbd_extents (c.f, 0, btrnbd_file_size (c.f), same_bytes, &c));
    assert_int_equal (c.pos, btrnbd_file_size (c.f));
    close (c.fd);
    btrnbd_file_close (c.f);
  }
  pool_ok (btrnbd_pool_close (p));
  image_remove (&im);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_names),
    cmocka_unit_test (test_stays),
    cmocka_unit_test (test_in_place),
    cmocka_unit_test (test_flipped),
    cmocka_unit_test (test_clients),
    cmocka_unit_test (test_chunks),
    cmocka_unit_test (test_not_written),
    cmocka_unit_test (test_devices),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
