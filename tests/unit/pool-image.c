/* The image of the pool: what it shows stays, whatever is done to the pool
 * meanwhile, and what it keeps is free when it is closed, or needed.
 */
#include <config.h>

#include <fcntl.h>

#include "snap_help.h"

#include "fs/api_priv.h"

#define BLOCKS 4096
#define MIB (UINT64_C (1) << 20)

/* --- the pool and its image --- */

struct lab {
  struct image im;
  struct btrnbd_pool *p;
  uint64_t seed;
  uint32_t seq;
  char ended[128];             /* what the host was told */
  unsigned ends;
};

static void
on_end (void *opaque, uint64_t generation, const char *why)
{
  struct lab *l = opaque;

  assert_true (generation > 0);
  snprintf (l->ended, sizeof l->ended, "%s", why);
  __atomic_add_fetch (&l->ends, 1, __ATOMIC_RELEASE);
}

static void
lab_open (struct lab *l, uint64_t reserve)
{
  const struct btrnbd_open_opts o = { .commit_interval = UINT_MAX,
    .workers = 2, .discard = true, .image_reserve = reserve,
    .image_ended = on_end, .image_ended_opaque = l };
  const char *path = l->im.path;

  pool_ok (btrnbd_pool_open (&path, 1, &o, &l->p));
}

static void
lab_init (struct lab *l, const char *mkfs_opts, unsigned mib,
          uint64_t reserve)
{
  memset (l, 0, sizeof *l);
  l->seed = 7;
  image_make (&l->im, mkfs_opts, mib);
  lab_open (l, reserve);
}

static void
lab_done (struct lab *l)
{
  pool_ok (btrnbd_pool_close (take (l->p)));
  image_check (&l->im);
  image_remove (&l->im);
}

static void
make (struct lab *l, const char *name, unsigned blocks, bool nocow)
{
  const struct btrnbd_volume_opts o = { .size = (uint64_t) blocks * BLK,
    .nocow = nocow };

  pool_ok (btrnbd_volume_create (l->p, name, &o));
}

static void
scribble (struct lab *l, const char *name, struct model *m, unsigned writes)
{
  struct btrnbd_file *f = open_export (l->p, name);
  unsigned i;

  for (i = 0; i < writes; ++i) {
    const unsigned n = 1 + snap_rnd (&l->seed, 20);
    const unsigned at = snap_rnd (&l->seed, m->blocks - n);

    switch (snap_rnd (&l->seed, 24)) {
    case 0:
      pool_ok (btrnbd_trim (f, (uint64_t) at * BLK, n * BLK, 0));
      memset (m->v + at, 0, n * sizeof *m->v);
      break;
    case 1:
      pool_ok (btrnbd_zero (f, (uint64_t) at * BLK, n * BLK, 0));
      memset (m->v + at, 0, n * sizeof *m->v);
      break;
    case 2:
      pool_ok (btrnbd_flush (f));
      break;
    default:
      disk_write (f, m, at, n, &l->seq);
    }
  }
  btrnbd_file_close (f);
}

static struct btrnbd_pool_info
info (struct lab *l)
{
  struct btrnbd_pool_info i;

  pool_ok (btrnbd_pool_get_info (l->p, &i));
  return i;
}

static uint64_t
in_place_bytes (struct lab *l)
{
  struct btrnbd_pool_stats s;

  btrnbd_pool_get_stats (l->p, &s);
  return s.data_nocow_bytes;
}

/* --- looking at it from the outside --- */

struct copy {
  struct btrnbd_file *f;
  int fd;
  uint64_t pos;
};

static int
copy_extent (void *opaque, uint64_t offset, uint64_t len, unsigned type)
{
  struct copy *c = opaque;
  uint8_t *buf = malloc (MIB);
  uint64_t n;

  assert_int_equal (offset, c->pos);
  for (c->pos += len; len > 0; offset += n, len -= n) {
    n = MIN (len, MIB);
    /* What is said to be zero is. */
    pool_ok (btrnbd_pread (c->f, buf, n, offset));
    if (buf[0] != 0 || memcmp (buf, buf + 1, n - 1) != 0) {
      assert_int_equal (type & BTRNBD_EXTENT_ZERO, 0);
      assert_int_equal (pwrite (c->fd, buf, n, offset), n);
    }
  }
  free (buf);
  return 0;
}

/* The image, with everything that somebody who has only it can do. */
static void
judge (struct lab *l, struct btrnbd_file *f, const char *const *names,
       const struct model *const *models, size_t n)
{
  char path[PATH_MAX + 32];
  const char *dev = path;
  const struct btrnbd_open_opts o = { .read_only = true, .no_lock = true };
  struct copy c = { .f = f };
  struct btrnbd_pool *p;
  size_t i;

  snprintf (path, sizeof path, "%s/copy", l->im.dir);
  c.fd = open (path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  assert_true (c.fd >= 0);
  assert_int_equal (ftruncate (c.fd, btrnbd_file_size (f)), 0);
  pool_ok (btrnbd_extents (f, 0, btrnbd_file_size (f), copy_extent, &c));
  assert_int_equal (c.pos, btrnbd_file_size (f));
  assert_int_equal (close (c.fd), 0);
  if (run ("btrfs check --readonly --check-data-csum %s >%s/log 2>&1", path,
           l->im.dir) != 0) {
    run ("cat %s/log >&2", l->im.dir);
    fail_msg ("btrfs check does not like the image");
  }
  for (i = 0; i < 3; i++)
    assert_int_equal (run ("btrfs inspect-internal dump-super -s %zu %s "
                           "| grep -q '^log_root[[:space:]]*0$' "
                           "|| test %zu = 2", i, path, i), 0);
  pool_ok (btrnbd_pool_open (&dev, 1, &o, &p));
  for (i = 0; i < n; i++)
    export_compare (p, names[i], models[i]);
  pool_ok (btrnbd_pool_close (p));
  unlink (path);
}

/* --- tests --- */

/* Everything that gives space back or writes over something. */
static void
churn (struct lab *l, struct model *cow, struct model *nocow, unsigned rounds)
{
  const char *both[] = { "cow", "nocow" };
  unsigned i;

  for (i = 0; i < rounds; i++) {
    scribble (l, "cow", cow, 150);
    scribble (l, "nocow", nocow, 150);
    if (i % 2 == 0)
      pool_ok (btrnbd_volume_snapshot (l->p, both, 2, "s"));
    else {
      pool_ok (btrnbd_volume_remove (l->p, "cow@s"));
      pool_ok (btrnbd_volume_remove (l->p, "nocow@s"));
    }
    pool_ok (btrnbd_pool_sync (l->p));
  }
}

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

static void
expect_end (struct lab *l, struct btrnbd_file *f, const char *why)
{
  struct btrnbd_pool_info i = info (l);
  uint8_t buf[512];
  unsigned k;

  if (strcmp (i.image.ended, why) != 0)
    fail_msg ("ended: \"%s\", not \"%s\"", i.image.ended, why);
  assert_int_equal (i.image.held, 0);
  pool_fails (btrnbd_pread (f, buf, sizeof buf, 0), ERR_image_ended);
  assert_non_null (strstr (btrnbd_last_error (-ERR_image_ended), why));
  for (k = 0; k < 30 && __atomic_load_n (&l->ends, __ATOMIC_ACQUIRE) == 0; k++)
    usleep (100000);
  assert_int_equal (l->ends, 1);
  assert_string_equal (l->ended, why);
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
    cmocka_unit_test (test_reserve),
    cmocka_unit_test (test_full),
    cmocka_unit_test (test_full_in_place),
    cmocka_unit_test (test_not_written),
    cmocka_unit_test (test_devices),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
