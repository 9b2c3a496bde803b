/* When a sync goes through the log, when it becomes a commit, and what it
 * costs, told by the engine's counters.
 */
#include <config.h>

#include <btrnbd/engine.h>

#include "inode_help.h"

#include "fs/api_priv.h"
#include "io/fault.h"

struct lab {
  struct image im;
  struct device *dev;          /* fails on demand */
  struct btrnbd_pool *pool;
  struct btrnbd_pool_stats at; /* since `mark` */
};

static void
lab_open (struct lab *l)
{
  const struct device_open_opts dopts = { .read_only = false };
  const struct btrnbd_open_opts opts = { .commit_interval = UINT_MAX,
    .cache_size = 256 << 20, .workers = 1 };

  ok (device_open (l->im.path, &dopts, &l->dev));
  ok (fault_new (l->dev, &l->dev));
  ok (btrnbd_pool_open_devices (&l->dev, 1, &opts, &l->pool));
  btrnbd_pool_get_stats (l->pool, &l->at);
}

/* One copy of everything: a write that fails is one too many. */
static void
lab_make (struct lab *l, const char *mkfs_opts)
{
  char opts[64];

  snprintf (opts, sizeof opts, "-m single %s", mkfs_opts);
  image_make (&l->im, opts, 512);
  lab_open (l);
}

static void
lab_end (struct lab *l)
{
  ok (btrnbd_pool_close (l->pool));
  image_check (&l->im);
  image_remove (&l->im);
}

static void
mark (struct lab *l)
{
  btrnbd_pool_get_stats (l->pool, &l->at);
}

static uint64_t
blocks (struct lab *l)
{
  struct btrnbd_pool_stats st;

  btrnbd_pool_get_stats (l->pool, &st);
  return st.log_blocks - l->at.log_blocks;
}

/* Since the mark: so many syncs of logs, so many commits instead. */
static void
expect (struct lab *l, unsigned syncs, unsigned commits)
{
  struct btrnbd_pool_stats st;

  btrnbd_pool_get_stats (l->pool, &st);
  assert_int_equal (st.log_syncs - l->at.log_syncs, syncs);
  assert_int_equal (st.log_commits - l->at.log_commits, commits);
  assert_int_equal (st.commits - l->at.commits, commits);
  l->at = st;
}

static void
create (struct lab *l, const char *path)
{
  ok (btrnbd_create (l->pool, path, 0644, false));
}

static void
create_many (struct lab *l, const char *dir, unsigned first, unsigned n)
{
  char s[64];
  unsigned i;

  for (i = first; i < first + n; ++i) {
    snprintf (s, sizeof s, "%s/%u", dir, i);
    create (l, s);
  }
}

static void
put (struct lab *l, const char *path, uint64_t offset, unsigned len)
{
  static char buf[65536];
  struct btrnbd_file *f;

  ok (btrnbd_file_open (l->pool, path, 0, &f));
  if (btrnbd_file_size (f) < offset + len)
    ok (btrnbd_truncate (f, offset + len));
  memset (buf, 'x', len);
  ok (btrnbd_pwrite (f, buf, len, offset, 0));
  ok (btrnbd_flush (f));
  btrnbd_file_close (f);
}

static void
test_what_is_logged (void **state)
{
  struct lab l;

  (void) state;
  lab_make (&l, "");
  ok (btrnbd_fsync (l.pool, ""));
  expect (&l, 0, 0);            /* nothing to do */
  create (&l, "f");
  ok (btrnbd_fsync (l.pool, "f"));
  expect (&l, 1, 0);
  ok (btrnbd_fsync (l.pool, "f"));
  expect (&l, 0, 0);
  put (&l, "f", 0, 10000);
  expect (&l, 1, 0);
  ok (btrnbd_mkdir (l.pool, "d", 0755));
  ok (btrnbd_symlink (l.pool, "t", "d/s"));
  ok (btrnbd_fsync (l.pool, "d/s"));
  expect (&l, 1, 0);
  ok (btrnbd_rename (l.pool, "f", "d/g", 0));
  ok (btrnbd_link (l.pool, "d/g", "h"));
  ok (btrnbd_fsync (l.pool, "d"));
  expect (&l, 1, 0);
  ok (btrnbd_unlink (l.pool, "d/g"));
  ok (btrnbd_fsync (l.pool, ""));
  expect (&l, 1, 0);
  ok (btrnbd_setxattr (l.pool, "d", "user.a", "1", 1));
  ok (btrnbd_fsync (l.pool, "d"));
  expect (&l, 1, 0);
  /* A commit empties the log; the next sync begins one. */
  ok (btrnbd_pool_sync (l.pool));
  mark (&l);
  ok (btrnbd_fsync (l.pool, "d"));
  expect (&l, 0, 0);
  create (&l, "d/n");
  ok (btrnbd_fsync (l.pool, "d/n"));
  expect (&l, 1, 0);
  lab_end (&l);
}

/* A flush of data does not carry names that it does not need. */
static void
test_names_of_others (void **state)
{
  struct lab l;
  uint64_t alone;

  (void) state;
  lab_make (&l, "");
  create (&l, "f");
  put (&l, "f", 0, 65536);
  ok (btrnbd_mkdir (l.pool, "d", 0755));
  ok (btrnbd_pool_sync (l.pool));
  mark (&l);
  put (&l, "f", 0, 4096);
  alone = blocks (&l);
  assert_int_equal (alone, 2);  /* a leaf, and the root that points to it */
  ok (btrnbd_pool_sync (l.pool));
  create_many (&l, "d", 0, 1000);
  mark (&l);
  put (&l, "f", 4096, 4096);
  assert_int_equal (blocks (&l), alone);
  expect (&l, 1, 0);
  ok (btrnbd_fsync (l.pool, "d"));
  assert_true (blocks (&l) > 5);
  expect (&l, 1, 0);
  lab_end (&l);
}

/* An fsync of a directory costs what is new in it. */
static void
test_flat_in_directory_size (void **state)
{
  struct lab l;
  uint64_t small;

  (void) state;
  lab_make (&l, "");
  ok (btrnbd_mkdir (l.pool, "small", 0755));
  ok (btrnbd_mkdir (l.pool, "large", 0755));
  create_many (&l, "small", 0, 100);
  create_many (&l, "large", 0, 5000);
  ok (btrnbd_pool_sync (l.pool));
  create_many (&l, "small", 100, 10);
  mark (&l);
  ok (btrnbd_fsync (l.pool, "small"));
  small = blocks (&l);
  expect (&l, 1, 0);
  ok (btrnbd_pool_sync (l.pool));
  create_many (&l, "large", 5000, 10);
  mark (&l);
  ok (btrnbd_fsync (l.pool, "large"));
  assert_int_equal (blocks (&l), small);
  expect (&l, 1, 0);
  lab_end (&l);
}

/* More changed names than are remembered. */
static void
test_too_many_names (void **state)
{
  struct lab l;
  unsigned i;

  (void) state;
  lab_make (&l, "");
  ok (btrnbd_mkdir (l.pool, "d", 0755));
  create (&l, "d/old");
  ok (btrnbd_pool_sync (l.pool));
  for (i = 0; i <= NAMES_CHANGED_MAX / 2; ++i) {
    ok (btrnbd_rename (l.pool, "d/old", "d/odd", 0));
    ok (btrnbd_rename (l.pool, "d/odd", "d/old", 0));
  }
  mark (&l);
  ok (btrnbd_fsync (l.pool, "d"));
  expect (&l, 0, 1);
  /* Forgotten with that transaction. */
  create (&l, "d/new");
  ok (btrnbd_fsync (l.pool, "d"));
  expect (&l, 1, 0);
  lab_end (&l);
}

/* 26, 27: what an uncommitted subvolume is named by is not logged. */
static void
test_26_subvolumes (void **state)
{
  const struct btrnbd_volume_opts opts = { .size = 1 << 20 };
  struct lab l;

  (void) state;
  lab_make (&l, "");
  ok (btrnbd_volume_create (l.pool, "old", &opts));
  create (&l, "old/f");
  ok (btrnbd_pool_sync (l.pool));
  ok (btrnbd_volume_create (l.pool, "new", &opts));
  create (&l, "f");
  mark (&l);
  /* A subvolume that the last commit knows is as before. */
  ok (btrnbd_rename (l.pool, "old/f", "old/g", 0));
  ok (btrnbd_fsync (l.pool, "old/g"));
  expect (&l, 1, 0);
  ok (btrnbd_fsync (l.pool, "f"));
  expect (&l, 0, 1);
  ok (btrnbd_volume_create (l.pool, "newer", &opts));
  mark (&l);
  put (&l, "newer/disk", 0, 4096);
  expect (&l, 0, 1);
  create (&l, "old/h");
  ok (btrnbd_volume_remove (l.pool, "newer"));
  create (&l, "g");
  mark (&l);
  ok (btrnbd_fsync (l.pool, "g"));
  expect (&l, 0, 1);
  lab_end (&l);
}

/* 17, 18: a log block cannot be written. */
static void
test_17_18_write_error (void **state)
{
  struct btrnbd_stat st;
  struct lab l;

  (void) state;
  lab_make (&l, "");
  create (&l, "a");
  ok (btrnbd_fsync (l.pool, "a"));
  expect (&l, 1, 0);
  create (&l, "b");
  fault_arm (l.dev, IO_WRITE, FAULT_ONCE, 1);
  ok (btrnbd_fsync (l.pool, "b"));
  assert_int_equal (fault_hits (l.dev, IO_WRITE), 1);
  expect (&l, 0, 1);
  assert_false (l.pool->fs->read_only);
  create (&l, "c");
  ok (btrnbd_fsync (l.pool, "c"));
  expect (&l, 1, 0);
  btrnbd_pool_kill (l.pool);
  lab_open (&l);
  ok (btrnbd_stat (l.pool, "a", &st));
  ok (btrnbd_stat (l.pool, "b", &st));
  ok (btrnbd_stat (l.pool, "c", &st));
  lab_end (&l);
}

/* The flush of the devices fails: the log is never pointed to. */
static void
test_17_18_flush_error (void **state)
{
  struct btrnbd_stat st;
  struct lab l;

  (void) state;
  lab_make (&l, "");
  create (&l, "b");
  fault_arm (l.dev, IO_FLUSH, FAULT_ONCE, 1);
  ok (btrnbd_fsync (l.pool, "b"));
  assert_int_equal (fault_hits (l.dev, IO_FLUSH), 1);
  expect (&l, 0, 1);
  create (&l, "c");
  ok (btrnbd_fsync (l.pool, "c"));
  expect (&l, 1, 0);
  btrnbd_pool_kill (l.pool);
  lab_open (&l);
  ok (btrnbd_stat (l.pool, "b", &st));
  ok (btrnbd_stat (l.pool, "c", &st));
  lab_end (&l);
}

/* The number of a file that was deleted is not given out again. */
static void
test_numbers_stay_unused (void **state)
{
  struct btrnbd_stat old, new;
  struct lab l;

  (void) state;
  lab_make (&l, "");
  create (&l, "a");
  create (&l, "b");
  ok (btrnbd_stat (l.pool, "b", &old));
  ok (btrnbd_pool_close (l.pool));
  lab_open (&l);
  ok (btrnbd_unlink (l.pool, "b"));
  create (&l, "c");
  ok (btrnbd_stat (l.pool, "c", &new));
  assert_true (new.ino > old.ino);
  lab_end (&l);
}

/* Zeroes over data take its checksums away, which no log can say. */
static void
test_zeroes_over_data (void **state)
{
  struct btrnbd_file *f;
  struct lab l;

  (void) state;
  lab_make (&l, "");
  create (&l, "f");
  put (&l, "f", 0, 65536);
  ok (btrnbd_pool_sync (l.pool));
  ok (btrnbd_file_open (l.pool, "f", 0, &f));
  ok (btrnbd_zero (f, 16384, 8192, 0)); /* of one extent */
  mark (&l);
  ok (btrnbd_flush (f));
  expect (&l, 0, 1);
  btrnbd_file_close (f);
  lab_end (&l);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_what_is_logged),
    cmocka_unit_test (test_names_of_others),
    cmocka_unit_test (test_flat_in_directory_size),
    cmocka_unit_test (test_too_many_names),
    cmocka_unit_test (test_26_subvolumes),
    cmocka_unit_test (test_17_18_write_error),
    cmocka_unit_test (test_17_18_flush_error),
    cmocka_unit_test (test_numbers_stay_unused),
    cmocka_unit_test (test_zeroes_over_data),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
