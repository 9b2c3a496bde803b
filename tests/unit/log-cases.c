/* Hard cases of the log that need threads, a slow disk or a full pool.  Each
 * is named after its number in the list of what went wrong elsewhere.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include <btrnbd/engine.h>

#include "inode_help.h"

#include "base/lock.h"
#include "fs/api_priv.h"
#include "io/device_impl.h"
#include "io/fault.h"
#include "space/space.h"

#define BLOCK 4096
#define SLOW 'y'               /* data of which the disk takes its time */

static void
nap (unsigned ms)
{
  const struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };

  nanosleep (&ts, NULL);
}

/* --- a disk that holds back some writes, or fails one --- */

struct slow {
  struct device base;          /* must be first */
  struct device *inner;
  struct mutex lock;           /* protects everything below */
  struct cond changed;
  bool armed, held;
  char fails;                  /* the next write that begins with such data */
};

static bool
is_block_of (const struct io_op *op, char what)
{
  return op->kind == IO_WRITE && op->len > 0 && op->len <= 2 * BLOCK &&
    *(const char *) op->iov[0].iov_base == what;
}

static bool
is_to_fail (struct slow *s, const struct io_op *op)
{
  SCOPED_LOCK (&s->lock);
  if (s->fails == '\0' || !is_block_of (op, s->fails))
    return false;
  s->fails = '\0';
  return true;
}

static void
slow_run (struct device *dev, struct io_op *ops, size_t n)
{
  struct slow *s = (struct slow *) dev;
  size_t i;

  for (i = 0; i < n; ++i) {
    if (!is_block_of (&ops[i], SLOW))
      continue;
    mutex_lock (&s->lock);
    s->held = s->armed;
    cond_broadcast (&s->changed);
    while (s->armed)
      cond_wait (&s->changed, &s->lock);
    s->held = false;
    mutex_unlock (&s->lock);
  }
  device_run (s->inner, ops, n);
  for (i = 0; i < n; ++i)
    if (is_to_fail (s, &ops[i]))
      ops[i].result = device_error (dev, &ops[i], EIO);
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
slow_arm (struct slow *s, bool armed)
{
  SCOPED_LOCK (&s->lock);
  s->armed = armed;
  cond_broadcast (&s->changed);
}

static void
slow_fail (struct slow *s, char what)
{
  SCOPED_LOCK (&s->lock);
  s->fails = what;
}

static void
slow_wait_held (struct slow *s)
{
  SCOPED_LOCK (&s->lock);
  while (!s->held)
    cond_wait (&s->changed, &s->lock);
}

/* --- the pool --- */

struct lab {
  struct image im;
  struct slow *slow;
  struct device *fault;        /* above the slow one */
  struct btrnbd_pool *pool;
};

static void
lab_open (struct lab *l)
{
  const struct device_open_opts dopts = { .read_only = false };
  const struct btrnbd_open_opts opts = { .commit_interval = UINT_MAX,
    .cache_size = 64 << 20, .workers = 1 };
  struct device *dev;

  ok (device_open (l->im.path, &dopts, &dev));
  l->slow = slow_new (dev);
  ok (fault_new (&l->slow->base, &l->fault));
  ok (btrnbd_pool_open_devices (&l->fault, 1, &opts, &l->pool));
}

static void
lab_make (struct lab *l, const char *mkfs_opts, unsigned mib)
{
  image_make (&l->im, mkfs_opts, mib);
  lab_open (l);
}

/* The process dies; what has not been written is lost. */
static void
lab_kill (struct lab *l)
{
  btrnbd_pool_kill (l->pool);
  lab_open (l);
}

static void
lab_end (struct lab *l)
{
  ok (btrnbd_pool_close (l->pool));
  image_check (&l->im);
  image_remove (&l->im);
}

static struct btrnbd_file *
file_of (struct lab *l, const char *path, uint64_t size)
{
  struct btrnbd_file *f;
  struct btrnbd_stat st;

  if (btrnbd_stat (l->pool, path, &st) < 0)
    ok (btrnbd_create (l->pool, path, 0644, false));
  ok (btrnbd_file_open (l->pool, path, 0, &f));
  if (size > 0)
    ok (btrnbd_truncate (f, size));
  return f;
}

static void
put (struct btrnbd_file *f, char what, uint64_t block)
{
  char buf[BLOCK];

  memset (buf, what, sizeof buf);
  ok (btrnbd_pwrite (f, buf, sizeof buf, block * BLOCK, 0));
}

static void
holds (struct btrnbd_file *f, char what, uint64_t block)
{
  char buf[BLOCK], want[BLOCK];

  memset (want, what, sizeof want);
  ok (btrnbd_pread (f, buf, sizeof buf, block * BLOCK));
  assert_memory_equal (buf, want, sizeof want);
}

/* --- 5 --- */

/* The log has an extent, of which one part after the other is replaced: at its
 * begin, at its end, in the middle, beside others.
 */
static void
test_5_slices_of_one_extent (void **state)
{
  static const uint64_t at[] = { 0, 31, 15, 16, 15, 14, 20, 17 };
  char want[32];
  struct btrnbd_file *f;
  struct lab l;
  unsigned i;

  (void) state;
  lab_make (&l, "", 512);
  f = file_of (&l, "f", 32 * BLOCK);
  ok (btrnbd_pool_sync (l.pool));
  memset (want, 'a', sizeof want);
  for (i = 0; i < 32; ++i)
    put (f, 'a', i);
  ok (btrnbd_flush (f));
  for (i = 0; i < ARRAY_SIZE (at); ++i) {
    want[at[i]] = 'b' + i;
    put (f, want[at[i]], at[i]);
    ok (btrnbd_flush (f));
  }
  btrnbd_file_close (f);
  btrnbd_pool_kill (l.pool);
  if (have_kernel ()) {
    char cmd[128] = "";

    /* Linux replays a copy. */
    assert_int_equal (run ("cp %s %s/ours", l.im.path, l.im.dir), 0);
    image_mount (&l.im, "rw");
    for (i = 0; i < 32; ++i) {
      snprintf (cmd, sizeof cmd, "dd status=none bs=4096 count=1 skip=%u", i);
      assert_int_equal (run ("test \"$(%s if=%s/f | tr -d %c | wc -c)\" = 0",
                             cmd, l.im.mnt, want[i]), 0);
    }
    image_umount (&l.im);
    image_check (&l.im);
    assert_int_equal (run ("mv %s/ours %s", l.im.dir, l.im.path), 0);
  }
  lab_open (&l);
  f = file_of (&l, "f", 0);
  for (i = 0; i < 32; ++i)
    holds (f, want[i], i);
  btrnbd_file_close (f);
  lab_end (&l);
}

/* --- 13 --- */

struct flush {
  struct lab *l;
  struct btrnbd_file *f;
  uint64_t block;
  atomic_bool acked;
};

static void *
flush_slowly (void *opaque)
{
  struct flush *x = opaque;

  put (x->f, SLOW, x->block);
  ok (btrnbd_flush (x->f));
  atomic_store (&x->acked, true);
  return NULL;
}

static void *
commit (void *opaque)
{
  struct flush *x = opaque;

  ok (trans_commit (x->l->pool->fs->trans, NULL));
  return NULL;
}

/* While the disk has not written what X flushes, a commit comes, and the power
 * is cut: `cut` is what the disk holds then.
 */
static void
commit_meets_write (struct flush *x)
{
  pthread_t flusher, committer;

  slow_arm (x->l->slow, true);
  assert_int_equal (pthread_create (&flusher, NULL, flush_slowly, x), 0);
  slow_wait_held (x->l->slow);
  assert_int_equal (pthread_create (&committer, NULL, commit, x), 0);
  nap (100);
  assert_int_equal (run ("cp %s %s/cut", x->l->im.path, x->l->im.dir), 0);
  assert_false (atomic_load (&x->acked));
  slow_arm (x->l->slow, false);
  pthread_join (flusher, NULL);
  pthread_join (committer, NULL);
  assert_true (atomic_load (&x->acked));
}

/* Afterwards, after a kill and after a power cut. */
static void
looks_like (struct lab *l, uint64_t block, char what)
{
  struct btrnbd_file *f;

  assert_int_equal (run ("btrfs check --readonly --check-data-csum %s "
                         ">/dev/null 2>&1", l->im.path), 0);
  lab_open (l);
  f = file_of (l, "f", 0);
  holds (f, 'b', 1);
  holds (f, what, block);
  holds (f, 'a', 3);
  btrnbd_file_close (f);
  ok (btrnbd_pool_close (l->pool));
  image_check (&l->im);
}

/* A commit comes between the write of a FLUSH and its extent, where others
 * were (block 2) and where nothing was (20): what it makes durable does not
 * lead to blocks that have not been written, and the FLUSH is answered only
 * when its own data is safe.
 */
static void
test_13_commit_meets_write (void **state)
{
  static const uint64_t blocks[] = { 2, 20 };
  struct lab l;
  unsigned i, k;

  (void) state;
  for (k = 0; k < ARRAY_SIZE (blocks); ++k) {
    struct flush x = { .l = &l, .block = blocks[k] };

    lab_make (&l, "", 512);
    x.f = file_of (&l, "f", 32 * BLOCK);
    for (i = 0; i < 16; ++i)
      put (x.f, 'a', i);
    ok (btrnbd_pool_sync (l.pool));
    /* The transaction that the FLUSH will be in has something of its own. */
    put (x.f, 'b', 1);
    ok (btrnbd_flush (x.f));
    commit_meets_write (&x);
    btrnbd_file_close (x.f);
    btrnbd_pool_kill (l.pool);
    looks_like (&l, blocks[k], SLOW);
    assert_int_equal (run ("mv %s/cut %s", l.im.dir, l.im.path), 0);
    looks_like (&l, blocks[k], k == 0 ? 'a' : '\0');
    image_remove (&l.im);
  }
}

/* --- 11 --- */

/* The write of a FLUSH that goes out beside the log fails: the FLUSH tells,
 * the log does not have the extent, and the data is not lost.
 */
static void
test_11_write_fails (void **state)
{
  struct btrnbd_pool_stats before, after;
  struct btrnbd_file *f;
  struct lab l;
  unsigned i;

  (void) state;
  lab_make (&l, "", 512);
  f = file_of (&l, "f", 32 * BLOCK);
  for (i = 0; i < 16; ++i)
    put (f, 'a', i);
  ok (btrnbd_pool_sync (l.pool));
  put (f, 'b', 1);
  ok (btrnbd_flush (f));
  btrnbd_pool_get_stats (l.pool, &before);
  put (f, 'c', 2);
  put (f, 'x', 7);              /* in the same write */
  slow_fail (l.slow, 'c');
  assert_true (btrnbd_flush (f) < 0);
  err_clear ();
  holds (f, 'c', 2);           /* from memory */
  holds (f, 'x', 7);
  btrnbd_pool_get_stats (l.pool, &after);
  assert_int_equal (after.log_syncs, before.log_syncs);
  /* The next one writes it elsewhere; a commit, as the log is void. */
  ok (btrnbd_flush (f));
  btrnbd_pool_get_stats (l.pool, &after);
  assert_int_equal (after.log_syncs, before.log_syncs);
  assert_int_equal (after.log_commits, before.log_commits + 1);
  put (f, 'd', 3);
  ok (btrnbd_flush (f));
  btrnbd_file_close (f);
  lab_kill (&l);
  f = file_of (&l, "f", 0);
  holds (f, 'b', 1);
  holds (f, 'c', 2);
  holds (f, 'd', 3);
  holds (f, 'x', 7);
  btrnbd_file_close (f);
  /* What is left when the power goes right after the failure. */
  put (f = file_of (&l, "f", 0), 'e', 2);
  slow_fail (l.slow, 'e');
  assert_true (btrnbd_flush (f) < 0);
  err_clear ();
  fault_arm (l.fault, IO_WRITE, FAULT_FROM, 1);
  btrnbd_file_close (f);
  lab_kill (&l);
  f = file_of (&l, "f", 0);
  holds (f, 'c', 2);
  btrnbd_file_close (f);
  lab_end (&l);
}

/* --- 19 --- */

/* Promise whatever metadata space there is to somebody. */
static size_t
promise_all (struct space *sp, uint64_t bytes[64])
{
  unsigned items = 1 << 20;
  size_t n = 0;
  int r;

  while (items > 0 && n < 64) {
    r = space_reserve (sp, items, &bytes[n]);
    if (r == 0) {
      ++n;
      continue;
    }
    assert_int_equal (r, -ERR_nospace_meta);
    err_clear ();
    items /= 2;
  }
  assert_int_equal (items, 0);
  return n;
}

/* All metadata space is promised.  The log does not take what was promised to
 * others or is kept for the last: the fsync is a commit, which works.
 */
static void
test_19_metadata_is_short (void **state)
{
  static uint64_t bytes[64];
  struct btrnbd_pool_stats before, after;
  struct btrnbd_stat st;
  struct space *sp;
  char s[32];
  struct lab l;
  unsigned i;
  size_t n;

  (void) state;
  lab_make (&l, "-m single", 128);
  sp = l.pool->fs->space;
  ok (btrnbd_mkdir (l.pool, "d", 0755));
  for (i = 0; i < 10; ++i) {
    snprintf (s, sizeof s, "d/%u", i);
    ok (btrnbd_create (l.pool, s, 0644, false));
  }
  ok (btrnbd_pool_sync (l.pool));
  n = promise_all (sp, bytes);
  assert_true (n > 0);
  btrnbd_pool_get_stats (l.pool, &before);
  for (i = 0; i < 5; ++i) {
    snprintf (s, sizeof s, "d/%u", i);
    ok (btrnbd_unlink (l.pool, s));
    ok (btrnbd_fsync (l.pool, "d"));
  }
  btrnbd_pool_get_stats (l.pool, &after);
  assert_int_equal (after.log_blocks, before.log_blocks);
  assert_int_equal (after.log_syncs, before.log_syncs);
  assert_int_equal (after.log_commits, before.log_commits + 5);
  while (n > 0)
    space_release (sp, bytes[--n]);
  /* With room again the log is, too. */
  ok (btrnbd_create (l.pool, "d/new", 0644, false));
  ok (btrnbd_fsync (l.pool, "d"));
  btrnbd_pool_get_stats (l.pool, &after);
  assert_int_equal (after.log_syncs, before.log_syncs + 1);
  lab_kill (&l);
  for (i = 0; i < 10; ++i) {
    snprintf (s, sizeof s, "d/%u", i);
    assert_int_equal (btrnbd_stat (l.pool, s, &st) == 0, i >= 5);
  }
  ok (btrnbd_stat (l.pool, "d/new", &st));
  lab_end (&l);
}

/* --- threads, until the disk takes nothing any more --- */

#define THREADS_MAX 6
#define BLOCKS 16

struct worker {
  struct lab *l;
  unsigned n;
  struct btrnbd_file *f;
  atomic_uint rounds;          /* that were acknowledged */
  atomic_uint written[BLOCKS]; /* newest version that was accepted */
  atomic_uint acked[BLOCKS];   /* of which durability was acknowledged */
  int (*round) (struct worker *);
  pthread_t thread;
};

static atomic_bool stop;

static void *
work (void *opaque)
{
  struct worker *w = opaque;

  while (!atomic_load (&stop) && w->round (w) == 0)
    ++w->rounds;
  err_clear ();
  return NULL;
}

static bool
all_began (struct worker *w, unsigned n)
{
  while (n > 0 && atomic_load (&w[n - 1].rounds) > 0)
    --n;
  return n == 0;
}

/* Let N of them run for MS, then cut.  Commits come in between. */
static void
run_and_cut (struct lab *l, struct worker *w, unsigned n, unsigned ms)
{
  unsigned i;

  atomic_store (&stop, false);
  /* A deadlock shall end the test, not stop it. */
  alarm (120);
  for (i = 0; i < n; ++i)
    assert_int_equal (pthread_create (&w[i].thread, NULL, work, &w[i]), 0);
  for (i = 0; i < ms; i += 50) {
    nap (50);
    ok (trans_commit (l->pool->fs->trans, NULL));
  }
  do
    nap (20);
  while (!all_began (w, n));
  fault_arm (l->fault, IO_WRITE, FAULT_FROM, 1);
  fault_arm (l->fault, IO_FLUSH, FAULT_FROM, 1);
  atomic_store (&stop, true);
  for (i = 0; i < n; ++i)
    pthread_join (w[i].thread, NULL);
  alarm (0);
}

static void
fill (uint32_t *buf, unsigned file, unsigned block, uint32_t version)
{
  unsigned i;

  for (i = 0; i < BLOCK / 4; i += 4) {
    buf[i] = version;
    buf[i + 1] = file;
    buf[i + 2] = block;
    buf[i + 3] = i;
  }
}

static int
write_version (struct worker *w, unsigned block, unsigned flags)
{
  const unsigned version = atomic_load (&w->written[block]) + 1;
  uint32_t buf[BLOCK / 4];
  int r;

  fill (buf, w->n, block, version);
  r = btrnbd_pwrite (w->f, buf, sizeof buf, (uint64_t) block * BLOCK, flags);
  if (r == 0)
    atomic_store (&w->written[block], version);
  return r;
}

/* A version between what was acknowledged and what was tried. */
static void
check_versions (struct lab *l, const char *path, const struct worker *w)
{
  uint32_t buf[BLOCK / 4], want[BLOCK / 4] = { 0 };
  struct btrnbd_file *f = file_of (l, path, 0);
  unsigned b;

  for (b = 0; b < BLOCKS; ++b) {
    ok (btrnbd_pread (f, buf, sizeof buf, (uint64_t) b * BLOCK));
    if (buf[0] < w->acked[b] || buf[0] > w->written[b] + 1)
      fail_msg ("%s block %u: version %u, acknowledged was %u, tried %u",
                path, b, buf[0], w->acked[b], w->written[b] + 1);
    memset (want, 0, sizeof want);
    if (buf[0] != 0)
      fill (want, w->n, b, buf[0]);
    assert_memory_equal (buf, want, sizeof want);
  }
  btrnbd_file_close (f);
}

/* --- 33 --- */

static int
rename_round (struct worker *w)
{
  static const char *const at[] = { "a/f", "b/f", "a/g" };
  const unsigned i = w->rounds % 3;

  return btrnbd_rename (w->l->pool, at[i], at[(i + 1) % 3], 0);
}

static int
sync_dir_round (struct worker *w)
{
  return btrnbd_fsync (w->l->pool, w->n % 2 ? "a" : "b");
}

/* A file moves from directory to directory while both are synced over and
 * over: it is never in none of them, nor in two places.
 */
static void
test_33_rename_beside_sync (void **state)
{
  static const char *const at[] = { "a/f", "b/f", "a/g" };
  struct btrnbd_file *f;
  struct btrnbd_stat st;
  unsigned i, k, found;
  struct lab l;

  (void) state;
  lab_make (&l, "", 512);
  ok (btrnbd_mkdir (l.pool, "a", 0755));
  ok (btrnbd_mkdir (l.pool, "b", 0755));
  f = file_of (&l, "a/f", BLOCK);
  put (f, 'a', 0);
  btrnbd_file_close (f);
  ok (btrnbd_pool_sync (l.pool));
  for (k = 0; k < 4; ++k) {
    struct worker w[3] = { { .round = rename_round },
      { .round = sync_dir_round }, { .round = sync_dir_round } };

    for (i = 0; i < 3; ++i) {
      w[i].l = &l;
      w[i].n = i;
    }
    run_and_cut (&l, w, 3, k * 50);
    lab_kill (&l);
    for (i = found = 0; i < 3; ++i)
      if (btrnbd_stat (l.pool, at[i], &st) == 0) {
        ++found;
        f = file_of (&l, at[i], 0);
        holds (f, 'a', 0);
        btrnbd_file_close (f);
        assert_int_equal (st.nlink, 1);
        if (i != 0)
          ok (btrnbd_rename (l.pool, at[i], "a/f", 0));
      }
    assert_int_equal (found, 1);
    ok (btrnbd_pool_sync (l.pool));
  }
  lab_end (&l);
}

/* --- 41 --- */

/* Everybody's items are in the same few leaves, and all of it has checksums,
 * which the log looks up and the next round takes away again.
 */
static int
crowd_round (struct worker *w)
{
  const unsigned b = w->rounds % BLOCKS;
  char s[32];
  int r;

  r = write_version (w, b, 0);
  if (r == 0)
    r = btrnbd_flush (w->f);
  if (r == 0)
    atomic_store (&w->acked[b], w->written[b]);
  snprintf (s, sizeof s, "d/%u", w->n);
  if (r == 0)
    r = w->rounds % 2 ? btrnbd_unlink (w->l->pool, s)
      : btrnbd_create (w->l->pool, s, 0644, false);
  if (r == 0 && w->rounds % 4 < 2)
    r = btrnbd_fsync (w->l->pool, "d");
  return r;
}

/* Leaves that are logged are changed, split and committed by others at once:
 * nobody waits for ever, and the log has what it was told to hold.
 */
static void
test_41_leaf_logged_and_changed (void **state)
{
  static struct worker w[THREADS_MAX];
  char s[32];
  struct lab l;
  unsigned i;

  (void) state;
  lab_make (&l, "-n 4096 -s 4096", 512);
  ok (btrnbd_mkdir (l.pool, "d", 0755));
  for (i = 0; i < THREADS_MAX; ++i) {
    snprintf (s, sizeof s, "f%u", i);
    w[i] = (struct worker) { .l = &l, .n = i, .round = crowd_round,
      .f = file_of (&l, s, BLOCKS * BLOCK) };
  }
  ok (btrnbd_pool_sync (l.pool));
  run_and_cut (&l, w, THREADS_MAX, 500);
  for (i = 0; i < THREADS_MAX; ++i)
    btrnbd_file_close (w[i].f);
  lab_kill (&l);
  for (i = 0; i < THREADS_MAX; ++i) {
    snprintf (s, sizeof s, "f%u", i);
    check_versions (&l, s, &w[i]);
  }
  lab_end (&l);
}

/* --- 43 --- */

static struct worker *shared;  /* the one who writes */

static int
fua_round (struct worker *w)
{
  const unsigned b = w->rounds % BLOCKS;
  const unsigned fua = w->rounds % 3 == 0 ? BTRNBD_FUA : 0;
  int r = write_version (w, b, fua);

  if (r == 0 && fua)
    atomic_store (&w->acked[b], w->written[b]);
  return r;
}

/* What had been accepted before the flush is durable after it. */
static int
flush_round (struct worker *w)
{
  unsigned before[BLOCKS], b, old;
  int r;

  for (b = 0; b < BLOCKS; ++b)
    before[b] = atomic_load (&shared->written[b]);
  r = btrnbd_flush (w->f);
  for (b = 0; b < BLOCKS && r == 0; ++b) {
    old = atomic_load (&shared->acked[b]);
    while (old < before[b] &&
           !atomic_compare_exchange_weak (&shared->acked[b], &old,
                                          before[b]))
      ;
  }
  return r;
}

/* One handle: a thread writes through it, now and then with FUA, while others
 * flush it.
 */
static void
test_43_one_handle (void **state)
{
  static struct worker w[4];
  struct btrnbd_file *f;
  struct lab l;
  unsigned i, k;

  (void) state;
  lab_make (&l, "", 512);
  for (k = 0; k < 3; ++k) {
    btrnbd_unlink (l.pool, "f");
    err_clear ();
    f = file_of (&l, "f", BLOCKS * BLOCK);
    for (i = 0; i < 4; ++i)
      w[i] = (struct worker) { .l = &l, .n = i, .f = f,
        .round = i == 0 ? fua_round : flush_round };
    shared = &w[0];
    ok (btrnbd_pool_sync (l.pool));
    run_and_cut (&l, w, 4, 50 + 100 * k);
    btrnbd_file_close (f);
    lab_kill (&l);
    check_versions (&l, "f", &w[0]);
  }
  lab_end (&l);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_5_slices_of_one_extent),
    cmocka_unit_test (test_11_write_fails),
    cmocka_unit_test (test_13_commit_meets_write),
    cmocka_unit_test (test_19_metadata_is_short),
    cmocka_unit_test (test_33_rename_beside_sync),
    cmocka_unit_test (test_41_leaf_logged_and_changed),
    cmocka_unit_test (test_43_one_handle),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
