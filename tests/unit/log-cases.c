/* Hard cases of the log that need threads, a slow disk or a full pool.  Each
 * is named after its number in the list of what went wrong elsewhere.
 */
#include <config.h>

#include <pthread.h>
#include <stdatomic.h>

#include "log_help.h"

#include "fs/api_priv.h"
#include "space/space.h"

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

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_5_slices_of_one_extent),
    cmocka_unit_test (test_11_write_fails),
    cmocka_unit_test (test_13_commit_meets_write),
    cmocka_unit_test (test_19_metadata_is_short),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
