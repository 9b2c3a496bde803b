/* Hard cases of file data, by their numbers: writes that end up elsewhere than
 * was promised, that fail half way, or that overtake each other; at the end of
 * each `btrfs check`, and Linux reads and scrubs.
 */
#include <config.h>

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "snap_help.h"

#include "base/lock.h"
#include "data/data_priv.h"
#include "fs/api_priv.h"
#include "io/device_impl.h"
#include "io/fault.h"
#include "space/space.h"

#define HANG_S 300

/* --- a disk that holds back operations on a range of addresses --- */

struct slow {
  struct device base;          /* must be first */
  struct device *inner;
  struct mutex lock;           /* protects everything below */
  struct cond changed;
  enum io_kind kind;
  uint64_t start, end;
  bool armed, held;
  unsigned nap_us;             /* each write takes longer by that */
};

static void
nap (unsigned us)
{
  const struct timespec ts = { us / 1000000, us % 1000000 * 1000L };

  nanosleep (&ts, NULL);
}

static void
slow_run (struct device *dev, struct io_op *ops, size_t n)
{
  struct slow *s = (struct slow *) dev;
  unsigned us = 0;
  size_t i;

  for (i = 0; i < n; ++i) {
    SCOPED_LOCK (&s->lock);
    us += ops[i].kind == IO_WRITE ? s->nap_us : 0;
    if (ops[i].kind != s->kind || ops[i].offset >= s->end
        || ops[i].offset + ops[i].len <= s->start)
      continue;
    while (s->armed) {
      s->held = true;
      cond_broadcast (&s->changed);
      cond_wait (&s->changed, &s->lock);
    }
    s->held = false;
  }
  if (us > 0)
    nap (us);
  device_run (s->inner, ops, n);
}

static void
slow_close (struct device *dev)
{
  struct slow *s = (struct slow *) dev;

  device_close (s->inner);
  cond_done (&s->changed);
  mutex_done (&s->lock);
  free (s);
}

static struct slow *
slow_new (struct device *inner)
{
  static const struct device_ops ops = {
    .run = slow_run, .close = slow_close };
  struct slow *s = calloc (1, sizeof *s);

  assert_non_null (s);
  s->base.ops = &ops;
  s->base.info = *device_get_info (inner);
  s->inner = inner;
  mutex_init (&s->lock, RANK_DEVICE);
  cond_init (&s->changed);
  return s;
}

static void
slow_arm (struct slow *s, enum io_kind kind, uint64_t start, uint64_t len)
{
  SCOPED_LOCK (&s->lock);
  s->kind = kind;
  s->start = start;
  s->end = start + len;
  s->armed = true;
}

static void
slow_release (struct slow *s)
{
  SCOPED_LOCK (&s->lock);
  s->armed = false;
  cond_broadcast (&s->changed);
}

static void
slow_wait_held (struct slow *s)
{
  SCOPED_LOCK (&s->lock);
  while (!s->held)
    cond_wait (&s->changed, &s->lock);
}

/* --- the pool: one file and what it should hold --- */

struct lab {
  struct image im;
  struct slow *slow;
  struct device *fault;        /* above the slow one */
  struct btrnbd_pool *pool;
  struct space *space;
  struct btrnbd_file *f;
  struct model m;
  uint32_t seq;
  atomic_bool halves_done;     /* of test 77 */
  /* Data space that the test holds. */
  struct { uint64_t start, len; } taken[1024];
  size_t n;
};

/* Of the pools that are opened.  Write-out begins by itself when an eighth of
 * what data has of it is dirty.
 */
static size_t cache_size = 16 << 20;

static void
lab_open (struct lab *l)
{
  const struct device_open_opts dopts = { .read_only = false };
  const struct btrnbd_open_opts opts = { .commit_interval = UINT_MAX,
    .cache_size = cache_size, .workers = 1, .no_regroup = true };
  struct device *dev;

  ok (device_open (l->im.path, &dopts, &dev));
  l->slow = slow_new (dev);
  ok (fault_new (&l->slow->base, &l->fault));
  pool_ok (btrnbd_pool_open_devices (&l->fault, 1, &opts, &l->pool));
  l->space = l->pool->fs->space;
}

static void
lab_make (struct lab *l, const char *mkfs_opts, bool nocow, unsigned blocks)
{
  memset (l, 0, sizeof *l);
  alarm (HANG_S);
  image_make (&l->im, mkfs_opts, 256);
  lab_open (l);
  pool_ok (btrnbd_create (l->pool, "f", 0644, nocow));
  pool_ok (btrnbd_file_open (l->pool, "f", 0, &l->f));
  pool_ok (btrnbd_truncate (l->f, (uint64_t) blocks * BLK));
  model_init (&l->m, blocks);
}

static void
lab_reopen (struct lab *l)
{
  btrnbd_file_close (l->f);
  pool_ok (btrnbd_pool_close (l->pool));
  lab_open (l);
  pool_ok (btrnbd_file_open (l->pool, "f", 0, &l->f));
}

/* Bytes as the model has them, in POOL, for Linux. */
static void
kernel_reads (struct lab *l)
{
  char path[PATH_MAX + 16];

  snprintf (path, sizeof path, "%s/want", l->im.dir);
  model_dump (&l->m, path);
  if (!have_kernel ())
    return;
  image_mount (&l->im, "subvolid=5");
  assert_int_equal (run ("cmp %s %s/f", path, l->im.mnt), 0);
  assert_int_equal (run ("btrfs scrub start -Bq %s", l->im.mnt), 0);
  image_umount (&l->im);
}

static void
lab_judge (struct lab *l)
{
  disk_compare (l->f, &l->m, "at the end");
  btrnbd_file_close (l->f);
  while (l->n > 0) {
    --l->n;
    space_data_free (l->space, l->taken[l->n].start, l->taken[l->n].len);
  }
  pool_ok (btrnbd_pool_close (l->pool));
  image_check (&l->im);
  kernel_reads (l);
  image_check (&l->im);
  image_remove (&l->im);
  free (l->m.v);
  alarm (0);
}

static void
put (struct lab *l, unsigned blk, unsigned n)
{
  disk_write (l->f, &l->m, blk, n, &l->seq);
}

static struct space_numbers
numbers (struct lab *l)
{
  struct space_numbers n;

  ok (space_get_numbers (l->space, SPACE_DATA, &n));
  assert_true (n.used + n.reserved + n.pinned + n.held + n.readonly
               + n.may_use <= n.total);
  return n;
}

/* Take all data space but the last LEAVE blocks. */
static void
take_space (struct lab *l, unsigned leave)
{
  uint64_t step = 64 << 20;

  for (; step >= BLK; step /= 2)
    while (space_data_reserve (l->space, step) == 0) {
      uint64_t left = step;

      for (; left > 0; left -= l->taken[l->n++].len) {
        assert_true (l->n < ARRAY_SIZE (l->taken));
        ok (space_data_alloc (l->space, BLK, left, 0, &l->taken[l->n].start,
                              &l->taken[l->n].len));
        space_data_settled (l->space, l->taken[l->n].len);
      }
    }
  err_clear ();
  while (leave-- > 0) {
    const size_t i = l->n - 1;

    l->taken[i].len -= BLK;
    space_data_free (l->space, l->taken[i].start + l->taken[i].len, BLK);
    l->n -= l->taken[i].len == 0;
  }
}

/* All that the counters call free can be had, once and not more often. */
static void
free_is_free (struct lab *l)
{
  struct space_numbers before, after;
  uint64_t got = 0, total;
  const size_t first = l->n;

  pool_ok (btrnbd_pool_sync (l->pool));
  before = numbers (l);
  assert_int_equal (before.reserved, 0);
  assert_int_equal (before.may_use, 0);
  take_space (l, 0);
  total = numbers (l).total;    /* chunks were made */
  while (l->n > first) {
    --l->n;
    got += l->taken[l->n].len;
    space_data_free (l->space, l->taken[l->n].start, l->taken[l->n].len);
  }
  after = numbers (l);
  assert_int_equal (after.used, before.used);
  assert_int_equal (after.reserved, 0);
  assert_int_equal (after.may_use, 0);
  assert_int_equal (got, total - after.used - after.pinned - after.readonly);
}

/* The address on the device of the block of the file. */
static uint64_t
device_address (struct lab *l, unsigned blk)
{
  struct file_data *f;
  struct chunk_info c;
  struct mapping m;

  ok (file_get (l->pool->fs->data, l->f->inode, &f));
  ok (map_lookup (f, (uint64_t) blk * BLK, &m));
  assert_int_equal (m.kind, MAP_REGULAR);
  ok (volume_get_chunk (l->pool->fs->volume, mapping_disk (
    &m, (uint64_t) blk * BLK), &c));
  return mapping_disk (&m, (uint64_t) blk * BLK) - c.logical
    + c.stripes[0].physical;
}

/* --- 73 --- */

/* Writes were taken in to go in place, without space of their own, and then
 * must not: they get space before they are written, and give none back that
 * they never had.
 */
static void
fall_back (bool nocow, bool mixed)
{
  struct space_numbers n;
  struct lab l;
  uint64_t id, used;

  lab_make (&l, mixed ? "--mixed" : "", nocow, 64);
  if (nocow)
    put (&l, 0, 32);
  else
    pool_ok (btrnbd_zero (l.f, 0, 32 * BLK, 0)); /* prealloc */
  pool_ok (btrnbd_pool_sync (l.pool));
  used = numbers (&l).used;
  put (&l, 2, 4);
  put (&l, 10, 1);
  put (&l, 31, 3);              /* two of them are new */
  if (!mixed)
    assert_int_equal (numbers (&l).may_use, 2 * BLK);
  ok (space_hold_begin (l.space, UINT64_MAX, &id));
  pool_ok (btrnbd_flush (l.f));
  assert_int_equal (numbers (&l).may_use, 0);
  space_hold_end (l.space, id);
  pool_ok (btrnbd_pool_sync (l.pool));
  n = numbers (&l);
  assert_int_equal (n.may_use, 0);
  assert_int_equal (n.reserved, 0);
  if (!mixed)
    assert_int_equal (n.used, used + 8 * BLK);
  /* In place again, where nothing is shared with the past. */
  put (&l, 0, 34);
  pool_ok (btrnbd_flush (l.f));
  if (!mixed)
    free_is_free (&l);
  lab_judge (&l);
}

/* The same without room for copies: the image goes, the writes stay. */
static void
fall_back_full (void)
{
  struct lab l;
  uint64_t id;

  lab_make (&l, "", true, 64);
  put (&l, 0, 32);
  pool_ok (btrnbd_pool_sync (l.pool));
  take_space (&l, 3);
  put (&l, 2, 4);
  put (&l, 10, 1);
  ok (space_hold_begin (l.space, UINT64_MAX, &id));
  pool_ok (btrnbd_flush (l.f));
  fails (space_hold_check (l.space, id), ERR_image_ended);
  assert_int_equal (numbers (&l).may_use, 0);
  disk_compare (l.f, &l.m, "after the image went");
  lab_judge (&l);
}

static void
test_73_fall_back (void **state)
{
  (void) state;
  fall_back (true, false);
  fall_back (false, false);
  fall_back (true, true);
  fall_back_full ();
}

/* --- 77 --- */

#define PREALLOC 256           /* blocks of the extent */

struct half {
  struct lab *l;
  unsigned first;
};

/* One block of every other pair, so that the extent goes to pieces, then of
 * those between, so that it comes together again.
 */
static void *
half_thread (void *opaque)
{
  const struct half *h = opaque;
  uint8_t buf[BLK];
  unsigned i, k;

  for (k = 0; k < PREALLOC; k += 2) {
    i = k < PREALLOC / 2 ? 2 * k + h->first : 2 * k + h->first - PREALLOC + 2;
    h->l->m.v[i] = i + 1;
    blk_fill (buf, i + 1);
    pool_ok (btrnbd_pwrite (h->l->f, buf, BLK, i * BLK, 0));
    pool_ok (btrnbd_flush (h->l->f));
  }
  return NULL;
}

static int
goes_on (void *opaque, uint64_t offset, uint64_t len, unsigned flags)
{
  uint64_t *pos = opaque;

  (void) flags;
  assert_int_equal (offset, *pos);
  assert_true (len > 0);
  *pos += len;
  return 0;
}

static void *
walk_thread (void *opaque)
{
  struct lab *l = opaque;
  uint64_t pos;

  do {
    pos = 0;
    pool_ok (btrnbd_extents (l->f, 0, PREALLOC * BLK, goes_on, &pos));
    assert_true (pos >= PREALLOC * BLK);
  } while (!atomic_load (&l->halves_done));
  return NULL;
}

/* Two threads write parts of one prealloc extent, and a third walks over its
 * items: each walk ends, and has seen every byte once.
 */
static void
test_77_parts_and_a_walk (void **state)
{
  struct half h[2] = { { .first = 0 }, { .first = 1 } };
  pthread_t t[2], walker;
  struct lab l;
  unsigned i;

  (void) state;
  lab_make (&l, "", false, PREALLOC);
  pool_ok (btrnbd_zero (l.f, 0, PREALLOC * BLK, 0));
  pool_ok (btrnbd_pool_sync (l.pool));
  assert_int_equal (pthread_create (&walker, NULL, walk_thread, &l), 0);
  for (i = 0; i < 2; ++i) {
    h[i].l = &l;
    assert_int_equal (pthread_create (&t[i], NULL, half_thread, &h[i]), 0);
  }
  for (i = 0; i < 2; ++i)
    pthread_join (t[i], NULL);
  atomic_store (&l.halves_done, true);
  pthread_join (walker, NULL);
  lab_judge (&l);
}

/* --- 84 --- */

/* Blocks in turn: in place, of a hole, of prealloc. */
static void
mixed_file (struct lab *l)
{
  unsigned i;

  for (i = 0; i < l->m.blocks; i += 6) {
    put (l, i, 2);
    pool_ok (btrnbd_zero (l->f, (uint64_t) (i + 4) * BLK, 2 * BLK, 0));
  }
  pool_ok (btrnbd_pool_sync (l->pool));
}

/* The N-th write to the disk fails while all of the file is written: what is
 * dirty again holds what it held before, no more and no less.
 */
static bool
one_write_fails (struct lab *l, unsigned n)
{
  const unsigned blocks = l->m.blocks;
  struct space_numbers at;
  bool hit;
  int r;

  put (l, 0, blocks);
  assert_true (numbers (l).may_use <= (uint64_t) blocks * BLK);
  fault_arm (l->fault, IO_WRITE, FAULT_ONCE, n);
  r = file_write_out (l->f->inode->data, 0, DATA_FILE_END, UINT64_MAX);
  hit = fault_hits (l->fault, IO_WRITE) > 0;
  fault_arm (l->fault, IO_WRITE, FAULT_OFF, 0);
  assert_true (hit || r == 0);
  err_clear ();
  at = numbers (l);
  if (r == 0)
    assert_int_equal (at.may_use, 0);
  assert_true (at.reserved + at.may_use <= (uint64_t) blocks * BLK);
  disk_compare (l->f, &l->m, "after a failure");
  if (n % 2 == 0) {             /* once more over what is dirty */
    put (l, 0, blocks / 2);
    assert_true (numbers (l).may_use <= (uint64_t) blocks * BLK);
  }
  pool_ok (btrnbd_flush (l->f));
  assert_int_equal (numbers (l).may_use, 0);
  return hit;
}

static void
test_84_mixed_range_fails (void **state)
{
  struct lab l;
  unsigned n;

  (void) state;
  for (n = 1;; ++n) {
    bool hit;

    lab_make (&l, "", true, 24);
    mixed_file (&l);
    hit = one_write_fails (&l, n);
    disk_compare (l.f, &l.m, "after the flush");
    free_is_free (&l);
    lab_judge (&l);
    if (!hit)
      break;
  }
  assert_true (n > 4);
  /* No space for the part that is copied: it is refused before any of it is
   * taken in, and the file can go with what is dirty.
   */
  lab_make (&l, "", true, 48);
  mixed_file (&l);
  take_space (&l, 15);
  {
    uint8_t *buf = calloc (48, BLK);

    pool_fails (btrnbd_pwrite (l.f, buf, 48 * BLK, 0, 0), ERR_nospace);
    free (buf);
  }
  assert_int_equal (numbers (&l).may_use, 0);
  disk_compare (l.f, &l.m, "after it was refused");
  put (&l, 0, 24);
  fault_arm (l.fault, IO_WRITE, FAULT_FROM, 1);
  assert_true (file_write_out (l.f->inode->data, 0, DATA_FILE_END,
                               UINT64_MAX) < 0);
  err_clear ();
  fault_arm (l.fault, IO_WRITE, FAULT_OFF, 0);
  pool_ok (btrnbd_trim (l.f, 0, 24 * BLK, 0));
  memset (l.m.v, 0, 24 * sizeof *l.m.v);
  assert_int_equal (numbers (&l).may_use, 0);
  lab_judge (&l);
}

/* --- 191 --- */

/* An extent has been laid out, and then the write fails: it is free again,
 * once.
 */
static void
write_fails (void)
{
  struct lab l;
  unsigned n;

  lab_make (&l, "-n 4096", false, 1024);
  put (&l, 0, 512);
  pool_ok (btrnbd_pool_sync (l.pool));
  for (n = 1; one_write_fails (&l, n); ++n)
    free_is_free (&l);
  assert_true (n > 1);
  lab_judge (&l);
}

/* The write is done, but no leaf can be read to note it in: the transaction
 * is given up, with all that the batch held, and the file is what it was.
 */
static void
insert_fails (void)
{
  struct model was;
  struct lab l;
  unsigned n;

  lab_make (&l, "-n 4096 -m single", false, 1024);
  for (n = 0; n < 1024; n += 2)
    put (&l, n, 1);
  lab_reopen (&l);
  was = model_clone (&l.m);
  put (&l, 0, 1024);
  fault_arm (l.fault, IO_READ, FAULT_FROM, 1);
  assert_true (btrnbd_flush (l.f) < 0);
  assert_true (fault_hits (l.fault, IO_READ) > 0);
  fault_arm (l.fault, IO_READ, FAULT_OFF, 0);
  assert_int_equal (numbers (&l).may_use + numbers (&l).reserved,
                    1024 * BLK);
  disk_compare (l.f, &l.m, "after the failure");
  btrnbd_file_close (l.f);
  btrnbd_pool_kill (l.pool);
  free (l.m.v);
  l.m = was;
  lab_open (&l);
  pool_ok (btrnbd_file_open (l.pool, "f", 0, &l.f));
  disk_compare (l.f, &l.m, "as committed");
  put (&l, 0, 1024);
  pool_ok (btrnbd_flush (l.f));
  free_is_free (&l);
  lab_judge (&l);
}

static void
test_191_freed_once (void **state)
{
  (void) state;
  /* What shall fail is the test's own write-out. */
  cache_size = 64 << 20;
  write_fails ();
  insert_fails ();
  cache_size = 16 << 20;
}

/* --- 188 --- */

struct append {
  struct lab *l;
  unsigned blk, n;
  atomic_bool done;
};

static void *
append_thread (void *opaque)
{
  struct append *a = opaque;

  ok (file_write_out (a->l->f->inode->data, (uint64_t) a->blk * BLK,
                      (uint64_t) (a->blk + a->n) * BLK, UINT64_MAX));
  atomic_store (&a->done, true);
  return NULL;
}

/* What a power cut would leave: SIZE blocks, of which Linux and we read what
 * the model has, but zeroes for [HOLE, + N).
 */
static void
cut_holds (struct lab *l, unsigned hole, unsigned n)
{
  struct model m = model_clone (&l->m);
  struct image cut = l->im;
  struct btrnbd_pool *p;
  struct btrnbd_file *f;
  char want[PATH_MAX + 16];

  memset (m.v + hole, 0, n * sizeof *m.v);
  snprintf (cut.path, sizeof cut.path, "%s/cut", l->im.dir);
  snprintf (want, sizeof want, "%s/want", l->im.dir);
  assert_int_equal (run ("cp --sparse=always %s %s", l->im.path, cut.path),
                    0);
  model_dump (&m, want);
  image_check (&cut);
  if (have_kernel ()) {
    image_mount (&cut, "ro,subvolid=5");
    assert_int_equal (run ("cmp %s %s/f", want, cut.mnt), 0);
    image_umount (&cut);
  }
  p = pool_open_at (cut.path, 0);
  pool_ok (btrnbd_file_open (p, "f", 0, &f));
  assert_int_equal (btrnbd_file_size (f), (uint64_t) m.blocks * BLK);
  disk_compare (f, &m, "after the cut");
  btrnbd_file_close (f);
  pool_ok (btrnbd_pool_close (p));
  free (m.v);
}

static bool
is_regular (struct lab *l, unsigned blk)
{
  struct mapping m;

  ok (map_lookup (l->f->inode->data, (uint64_t) blk * BLK, &m));
  return m.kind == MAP_REGULAR;
}

/* An append is being written by a disk that takes its time; another behind it
 * is written and committed before it.
 */
static void
test_188_appends_overtake (void **state)
{
  static const char *const opts[] = { "", "-O ^no-holes" };
  struct append a = { .blk = 8, .n = 8 }, b = { .blk = 16, .n = 8 };
  struct lab l;
  pthread_t t, t2;
  unsigned k;

  (void) state;
  for (k = 0; k < ARRAY_SIZE (opts); ++k) {
    lab_make (&l, opts[k], false, 24);
    pool_ok (btrnbd_truncate (l.f, 8 * BLK));
    put (&l, 0, 8);
    pool_ok (btrnbd_flush (l.f));
    pool_ok (btrnbd_truncate (l.f, 16 * BLK));
    put (&l, 8, 8);
    a.l = b.l = &l;
    atomic_store (&a.done, false);
    slow_arm (l.slow, IO_WRITE, 0, UINT64_MAX / 2);
    assert_int_equal (pthread_create (&t, NULL, append_thread, &a), 0);
    slow_wait_held (l.slow);
    /* Only that one. */
    {
      SCOPED_LOCK (&l.slow->lock);
      l.slow->end = 0;
    }
    pool_ok (btrnbd_truncate (l.f, 24 * BLK));
    put (&l, 16, 8);
    assert_int_equal (pthread_create (&t2, NULL, append_thread, &b), 0);
    while (!is_regular (&l, 16))
      nap (1000);
    ok (trans_commit (l.pool->fs->trans, NULL));
    assert_false (atomic_load (&a.done));
    cut_holds (&l, 8, 8);
    slow_release (l.slow);
    pthread_join (t, NULL);
    pthread_join (t2, NULL);
    ok (trans_commit (l.pool->fs->trans, NULL));
    cut_holds (&l, 0, 0);
    assert_int_equal (btrnbd_file_size (l.f), 24 * BLK);
    lab_judge (&l);
  }
}

/* --- 195 --- */

#define READ 16                /* blocks */

struct reader {
  struct lab *l;
  uint8_t buf[READ * BLK];
};

static void *
reader_thread (void *opaque)
{
  struct reader *r = opaque;

  pool_ok (btrnbd_pread (r->l->f, r->buf, sizeof r->buf, 0));
  return NULL;
}

/* While the disk reads for a request over many mappings, these join and move,
 * and what was theirs is somebody else's: every block read is one that was in
 * just this place of the file.
 */
static void
test_195_map_changes_under_a_read (void **state)
{
  static struct reader rd;
  struct model before;
  struct btrnbd_file *g;
  struct lab l;
  pthread_t t;
  unsigned i;

  (void) state;
  lab_make (&l, "", false, READ);
  for (i = 0; i < READ; ++i)    /* each an extent of its own */
    if (i % 5 != 2) {
      put (&l, i, 1);
      pool_ok (btrnbd_flush (l.f));
    }
  pool_ok (btrnbd_pool_sync (l.pool));
  pool_ok (btrnbd_create (l.pool, "g", 0644, false));
  lab_reopen (&l);
  before = model_clone (&l.m);
  take_space (&l, 3);
  slow_arm (l.slow, IO_READ, device_address (&l, 6), BLK);
  rd.l = &l;
  assert_int_equal (pthread_create (&t, NULL, reader_thread, &rd), 0);
  slow_wait_held (l.slow);
  /* Holes on both sides of 3 and 8 join, 6 goes somewhere else. */
  pool_ok (btrnbd_trim (l.f, 3 * BLK, 4 * BLK, 0));
  pool_ok (btrnbd_trim (l.f, 8 * BLK, BLK, 0));
  for (i = 3; i < 9; ++i)
    l.m.v[i] = i == 7 ? l.m.v[i] : 0;
  put (&l, 6, 1);
  put (&l, 11, 1);
  pool_ok (btrnbd_flush (l.f));
  pool_ok (btrnbd_pool_sync (l.pool));
  /* What was theirs. */
  pool_ok (btrnbd_file_open (l.pool, "g", 0, &g));
  pool_ok (btrnbd_truncate (g, 6 * BLK));
  {
    uint8_t *buf = malloc (6 * BLK);

    memset (buf, 0xee, 6 * BLK);
    pool_ok (btrnbd_pwrite (g, buf, 6 * BLK, 0, 0));
    free (buf);
  }
  pool_ok (btrnbd_flush (g));
  btrnbd_file_close (g);
  slow_release (l.slow);
  pthread_join (t, NULL);
  for (i = 0; i < READ; ++i) {
    uint8_t old[BLK], new[BLK];

    blk_fill (old, before.v[i]);
    blk_fill (new, l.m.v[i]);
    if (memcmp (rd.buf + i * BLK, old, BLK) != 0
        && memcmp (rd.buf + i * BLK, new, BLK) != 0)
      fail_msg ("block %u was never in its place", i);
  }
  free (before.v);
  lab_judge (&l);
}

/* --- 86 --- */

struct storm {
  struct btrnbd_file *f;
  atomic_bool stop;
  atomic_ulong blocks;
};

static void *
storm_thread (void *opaque)
{
  struct storm *s = opaque;
  uint64_t seed = 86;
  uint8_t buf[BLK];

  while (!atomic_load (&s->stop)) {
    const uint32_t x = atomic_fetch_add (&s->blocks, 1) + 1;

    blk_fill (buf, x);
    pool_ok (btrnbd_pwrite (s->f, buf, BLK, snap_rnd (&seed, 8192) * BLK,
                            0));
  }
  return NULL;
}

/* A snapshot while writes queue up before a slow disk takes as long as what
 * was dirty when it was asked for, and is not held up by what comes later.
 */
static void
test_86_snapshot_under_load (void **state)
{
  const struct btrnbd_volume_opts v = { .size = 8192 * BLK };
  static const char *const names[] = { "v" };
  struct storm s = { .stop = false };
  unsigned long before, most = 0;
  struct lab l;
  pthread_t t;
  unsigned i;
  char tag[16];

  (void) state;
  lab_make (&l, "", false, 1);
  pool_ok (btrnbd_volume_create (l.pool, "v", &v));
  pool_ok (btrnbd_export_open (l.pool, "v", 0, &s.f));
  {
    SCOPED_LOCK (&l.slow->lock);
    l.slow->nap_us = 500;
  }
  assert_int_equal (pthread_create (&t, NULL, storm_thread, &s), 0);
  for (i = 0; i < 4; ++i) {
    while (__atomic_load_n (&l.pool->fs->data->dirty_pages, __ATOMIC_RELAXED)
           < l.pool->fs->data->dirty_limit / 2)
      nap (1000);
    before = atomic_load (&s.blocks);
    snprintf (tag, sizeof tag, "s%u", i);
    pool_ok (btrnbd_volume_snapshot (l.pool, names, 1, tag));
    most = MAX (most, atomic_load (&s.blocks) - before);
  }
  atomic_store (&s.stop, true);
  pthread_join (t, NULL);
  {
    SCOPED_LOCK (&l.slow->lock);
    l.slow->nap_us = 0;
  }
  print_message ("# at most %lu blocks went in during a snapshot, %zu may be "
                 "dirty\n", most, l.pool->fs->data->dirty_limit);
  assert_true (most <= 8 * l.pool->fs->data->dirty_limit);
  btrnbd_file_close (s.f);
  lab_judge (&l);
}

static void
no_log (void *opaque, int level, const char *line)
{
  (void) opaque;
  (void) level;
  (void) line;
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_73_fall_back),
    cmocka_unit_test (test_77_parts_and_a_walk),
    cmocka_unit_test (test_84_mixed_range_fails),
    cmocka_unit_test (test_86_snapshot_under_load),
    cmocka_unit_test (test_188_appends_overtake),
    cmocka_unit_test (test_191_freed_once),
    cmocka_unit_test (test_195_map_changes_under_a_read),
  };

  btrnbd_set_log (no_log, NULL, 0); /* errors are what is tested */
  return cmocka_run_group_tests (tests, NULL, NULL);
}
