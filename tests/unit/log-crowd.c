/* Threads that change and sync the same things, until the disk takes nothing
 * any more.  Tests with a number are hard cases: log-cases.c.
 */
#include <config.h>

#include <pthread.h>
#include <stdatomic.h>

#include "log_help.h"

#include "fs/api_priv.h"

#define THREADS_MAX 6
#define BLOCKS 16

struct worker {
  struct lab *l;
  unsigned n;
  struct btrnbd_file *f;
  atomic_uint rounds;          /* that were acknowledged */
  atomic_bool ended;
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
  atomic_store (&w->ended, true);
  return NULL;
}

static bool
all_began (struct worker *w, unsigned n)
{
  while (n > 0 && atomic_load (&w[n - 1].rounds) > 0)
    --n;
  assert_false (n > 0 && atomic_load (&w[n - 1].ended));
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
  for (i = 0; i < n; ++i) {
    w[i].rounds = 0;
    w[i].ended = false;
    assert_int_equal (pthread_create (&w[i].thread, NULL, work, &w[i]), 0);
  }
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

/* --- 16 --- */

static pthread_barrier_t together;

static void *
sync_first (void *opaque)
{
  struct worker *w = opaque;

  pthread_barrier_wait (&together);
  ok (write_version (w, 0, 0));
  ok (btrnbd_flush (w->f));
  atomic_store (&w->acked[0], w->written[0]);
  return NULL;
}

/* Two threads flush, and nobody has yet in this subvolume and transaction:
 * each finds the other's log, or none, and both are in it.
 */
static void
test_16_first_sync_by_two (void **state)
{
  struct btrnbd_pool_stats before, after;
  static struct worker w[2];
  unsigned i, k;
  struct lab l;
  char s[32];

  (void) state;
  lab_make (&l, "", 512);
  pthread_barrier_init (&together, NULL, 2);
  for (k = 0; k < 12; ++k) {
    for (i = 0; i < 2; ++i) {
      snprintf (s, sizeof s, "f%u", i);
      w[i].l = &l;
      w[i].n = i;
      w[i].f = file_of (&l, s, BLOCKS * BLOCK);
    }
    ok (btrnbd_pool_sync (l.pool));
    btrnbd_pool_get_stats (l.pool, &before);
    for (i = 0; i < 2; ++i)
      assert_int_equal (pthread_create (&w[i].thread, NULL, sync_first,
                                        &w[i]), 0);
    for (i = 0; i < 2; ++i)
      pthread_join (w[i].thread, NULL);
    btrnbd_pool_get_stats (l.pool, &after);
    assert_int_equal (after.commits, before.commits);
    assert_in_range (after.log_syncs - before.log_syncs, 1, 2);
    for (i = 0; i < 2; ++i)
      btrnbd_file_close (w[i].f);
    lab_kill (&l);
    check_versions (&l, "f0", &w[0]);
    check_versions (&l, "f1", &w[1]);
  }
  pthread_barrier_destroy (&together);
  lab_end (&l);
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

/* --- 40 --- */

/* A file whose last user goes right after its last name. */
static int
passing_round (struct worker *w)
{
  struct btrnbd_pool *p = w->l->pool;
  struct btrnbd_file *f = NULL;
  struct inode *in = NULL;
  char s[32];
  int r;

  snprintf (s, sizeof s, "d/%u", w->n);
  r = btrnbd_create (p, s, 0644, false);
  if (r == 0)
    r = btrnbd_file_open (p, s, 0, &f);
  if (r == 0) {
    r = btrnbd_truncate (f, BLOCK);
    if (r == 0)
      r = btrnbd_pwrite (f, "x", 1, 0, w->rounds % 3 ? 0 : BTRNBD_FUA);
    btrnbd_file_close (f);
  }
  if (r == 0)
    r = api_walk (p, s, &in);
  if (r == 0) {
    r = btrnbd_unlink (p, s);
    if (r == 0 && w->rounds % 4 == 1)
      r = api_sync_inode (p, in);
    inode_put (in);
  }
  return r;
}

static int
sync_d_round (struct worker *w)
{
  return btrnbd_fsync (w->l->pool, "d");
}

/* The sync of a directory has files in its hands that have just lost their
 * last name, and may be their last user: what has to be done for them then
 * needs transactions, which who syncs must not wait for.
 */
static void
test_40_last_user_is_a_sync (void **state)
{
  static struct worker w[THREADS_MAX];
  struct btrnbd_stat st;
  struct lab l;
  char s[32];
  unsigned i;

  (void) state;
  lab_make (&l, "", 512);
  ok (btrnbd_mkdir (l.pool, "d", 0755));
  ok (btrnbd_pool_sync (l.pool));
  for (i = 0; i < THREADS_MAX; ++i)
    w[i] = (struct worker) { .l = &l, .n = i,
      .round = i % 2 ? sync_d_round : passing_round };
  run_and_cut (&l, w, THREADS_MAX, 500);
  lab_kill (&l);
  /* None is there but with its contents, and nothing of the others is. */
  for (i = 0; i < THREADS_MAX; ++i) {
    snprintf (s, sizeof s, "d/%u", i);
    if (btrnbd_stat (l.pool, s, &st) == 0) {
      assert_int_equal (st.nlink, 1);
      ok (btrnbd_unlink (l.pool, s));
    }
    err_clear ();
  }
  ok (btrnbd_unlink (l.pool, "d"));
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

/* --- threads that flush over and over --- */

#define THINK_US 500
static int
own_round (struct worker *w)
{
  const unsigned b = w->rounds % BLOCKS;
  int r = write_version (w, b, 0);

  if (r == 0)
    r = btrnbd_flush (w->f);
  usleep (THINK_US);
  return r;
}

/* They come to share every sync, instead of taking turns in two groups.  How
 * soon is up to the machine; that they stay like that for a while is not.
 */
static void
test_flushers_meet (void **state)
{
  static struct worker w[THREADS_MAX];
  struct btrnbd_pool_stats before, now;
  struct lab l;
  char s[32];
  unsigned i, k;
  bool met = false;

  (void) state;
  lab_make (&l, "", 512);
  for (i = 0; i < THREADS_MAX; ++i) {
    snprintf (s, sizeof s, "f%u", i);
    w[i] = (struct worker) { .l = &l, .n = i, .round = own_round,
      .f = file_of (&l, s, BLOCKS * BLOCK) };
  }
  ok (btrnbd_pool_sync (l.pool));
  l.slow->flush_us = THINK_US;
  atomic_store (&stop, false);
  for (i = 0; i < THREADS_MAX; ++i)
    assert_int_equal (pthread_create (&w[i].thread, NULL, work, &w[i]), 0);
  for (k = 0; k < 600 && !met; ++k) {
    btrnbd_pool_get_stats (l.pool, &before);
    nap (50);
    btrnbd_pool_get_stats (l.pool, &now);
    met = now.log_syncs - before.log_syncs >= 4 &&
      now.log_flushes - before.log_flushes
        >= (THREADS_MAX - 1) * (now.log_syncs - before.log_syncs);
  }
  atomic_store (&stop, true);
  for (i = 0; i < THREADS_MAX; ++i)
    pthread_join (w[i].thread, NULL);
  l.slow->flush_us = 0;
  for (i = 0; i < THREADS_MAX; ++i)
    btrnbd_file_close (w[i].f);
  assert_true (met);
  lab_end (&l);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_16_first_sync_by_two),
    cmocka_unit_test (test_33_rename_beside_sync),
    cmocka_unit_test (test_40_last_user_is_a_sync),
    cmocka_unit_test (test_41_leaf_logged_and_changed),
    cmocka_unit_test (test_43_one_handle),
    cmocka_unit_test (test_flushers_meet),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
