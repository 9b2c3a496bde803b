/* space: no memory for the map of a block group when something becomes free:
 * that is lost until the next open, nothing is given out twice, and what is
 * lost does not count as free.
 */
#include <config.h>

#include "unit/test.h"

#include <limits.h>

#include <btrnbd/engine.h>

#include "base/err.h"
#include "base/math.h"
#include "crash/shield.h"
#include "fs/api_priv.h"
#include "space/space_priv.h"

#define SIZE (UINT64_C (256) << 20)
#define PS 4096
#define BYTES (UINT64_C (1) << 20)

static size_t refused;         /* size of which nothing is allocated; atomic */
static _Atomic unsigned hits;

extern void *__real_malloc (size_t);
extern void *__wrap_malloc (size_t);
extern void *__real_calloc (size_t, size_t);
extern void *__wrap_calloc (size_t, size_t);

static bool
is_refused (size_t n)
{
  const bool is = n != 0 && n == __atomic_load_n (&refused, __ATOMIC_RELAXED);

  hits += is;
  return is;
}

/* Linked with --wrap: the engine's calls arrive here.  A compiler may turn one
 * into the other.
 */
void *
__wrap_malloc (size_t n)
{
  return is_refused (n) ? NULL : __real_malloc (n);
}

void *
__wrap_calloc (size_t n, size_t size)
{
  return is_refused (n * size) ? NULL : __real_calloc (n, size);
}

static struct { uint64_t start, len; } taken[4096];
static size_t num_taken;

static void
check (int r, const char *what)
{
  if (r < 0)
    fail_msg ("%s: %s", what, btrnbd_last_error (r));
}

/* Everything that is left in data block groups. */
static void
take_all (struct space *sp)
{
  uint64_t step;

  for (step = SIZE; step >= PS; step /= 2)
    while (space_data_reserve (sp, step) == 0) {
      uint64_t left = step;

      for (; left > 0; left -= taken[num_taken++].len) {
        assert_true (num_taken < ARRAY_SIZE (taken));
        check (space_data_alloc (sp, PS, left, 0, &taken[num_taken].start,
                                 &taken[num_taken].len), "allocate");
        space_data_settled (sp, taken[num_taken].len);
      }
    }
  err_clear ();
}

/* Size of the map of the data group that is full and has committed data. */
static size_t
words_of_used (struct space *sp)
{
  struct block_group *bg;

  SCOPED_LOCK (&sp->lock);
  RB_FOREACH (bg, groups, &sp->groups)
    if (bg->kind == SPACE_DATA && bg->used > 0) {
      assert_true (bg->loaded && bg->map.nset == 0);
      return div_round_up (bg->map.nbits, 64) * sizeof (uint64_t);
    }
  fail ();
  return 0;
}

static uint64_t
free_data (struct space *sp)
{
  struct space_numbers n;

  check (space_get_numbers (sp, SPACE_DATA, &n), "numbers");
  return n.total - n.used - n.reserved - n.pinned - n.readonly;
}

static struct btrnbd_pool *
make_pool (struct device **disk, bool discard)
{
  const struct btrnbd_open_opts opts = { .cache_size = 16 << 20,
    .commit_interval = UINT_MAX, .no_lock = true, .discard = discard };
  const struct btrnbd_mkfs_opts mkfs = { .metadata_profile = "single" };
  struct btrnbd_pool *pool;
  struct device *dev;

  check (device_mem_new ("disk", SIZE, disk), "disk");
  check (btrnbd_mkfs_device (*disk, &mkfs), "mkfs");
  dev = shield_new (*disk);
  check (btrnbd_pool_open_devices (&dev, 1, &opts, &pool), "open");
  return pool;
}

/* An extent that was allocated but not used after all. */
static void
lost_is_not_free (void **state)
{
  struct device *disk;
  struct btrnbd_pool *pool = make_pool (&disk, false);
  struct space *sp = pool->fs->space;
  uint64_t before, start, len;
  struct block_group *bg;

  (void) state;
  num_taken = 0;
  take_all (sp);
  start = taken[0].start;
  len = taken[0].len;
  mutex_lock (&sp->lock);
  bg = space_find (sp, start);
  assert_true (bg->loaded && bg->map.nset == 0);
  mutex_unlock (&sp->lock);
  before = free_data (sp);
  hits = 0;
  __atomic_store_n (&refused, div_round_up (bg->map.nbits, 64) * 8,
                    __ATOMIC_RELAXED);
  space_data_free (sp, start, len);
  __atomic_store_n (&refused, 0, __ATOMIC_RELAXED);
  assert_true (hits > 0);
  assert_int_equal (free_data (sp), before);
  /* With memory it is. */
  space_data_free (sp, taken[1].start, taken[1].len);
  assert_int_equal (free_data (sp), before + taken[1].len);
  btrnbd_pool_kill (pool);
  device_close (disk);
}

/* What was out of the map while it was discarded. */
static void
lost_while_discarded (void **state)
{
  struct device *disk;
  struct btrnbd_pool *pool = make_pool (&disk, true);
  struct space *sp = pool->fs->space;
  struct block_group *bg;
  uint64_t before, len;

  (void) state;
  num_taken = 0;
  take_all (sp);
  /* All that is free in the group, not all of it: when that is claimed the
   * map is empty and has no words.
   */
  len = taken[0].len / 2;
  space_data_free (sp, taken[0].start, len);
  mutex_lock (&sp->lock);
  bg = space_find (sp, taken[0].start);
  check (ranges_add (&sp->discards, taken[0].start, len), "queue");
  mutex_unlock (&sp->lock);
  before = free_data (sp);
  hits = 0;
  __atomic_store_n (&refused, div_round_up (bg->map.nbits, 64) * 8,
                    __ATOMIC_RELAXED);
  space_discard (sp);
  __atomic_store_n (&refused, 0, __ATOMIC_RELAXED);
  assert_true (hits > 0);
  assert_int_equal (free_data (sp), before - len);
  btrnbd_pool_kill (pool);
  device_close (disk);
}

static void
given_out_once (void **state)
{
  struct device *disk;
  struct btrnbd_pool *pool = make_pool (&disk, false);
  struct btrnbd_file *f;
  uint8_t *buf = calloc (1, BYTES);
  struct space *sp;
  uint64_t start, len, hint;
  size_t i;

  (void) state;
  num_taken = 0;
  check (btrnbd_create (pool, "f", 0644, false), "create");
  check (btrnbd_file_open (pool, "f", 0, &f), "open file");
  check (btrnbd_truncate (f, BYTES), "truncate");
  check (btrnbd_pwrite (f, buf, BYTES, 0, 0), "write");
  check (btrnbd_pool_sync (pool), "sync");
  sp = pool->fs->space;
  take_all (sp);
  for (hint = UINT64_MAX, i = 0; i < num_taken; ++i)
    hint = MIN (hint, taken[i].start);

  __atomic_store_n (&refused, words_of_used (sp), __ATOMIC_RELAXED);
  check (btrnbd_truncate (f, 0), "truncate");
  check (btrnbd_pool_sync (pool), "sync");
  __atomic_store_n (&refused, 0, __ATOMIC_RELAXED);
  assert_true (hits > 0);
  while (space_data_reserve (sp, PS) == 0) {
    if (space_data_alloc (sp, PS, PS, hint, &start, &len) < 0)
      break;
    space_data_settled (sp, len);
    for (i = 0; i < num_taken; ++i)
      assert_false (start < taken[i].start + taken[i].len
                    && taken[i].start < start + len);
  }
  err_clear ();
  btrnbd_file_close (f);
  btrnbd_pool_kill (pool);
  device_close (disk);
  free (buf);
}

/* Size of the maps of data groups, of which there is one. */
static size_t
words_of_data (struct space *sp)
{
  struct block_group *bg;
  size_t n = 0;

  SCOPED_LOCK (&sp->lock);
  RB_FOREACH (bg, groups, &sp->groups)
    if (bg->kind == SPACE_DATA)
      n = div_round_up (bg->length / PS, 64) * sizeof (uint64_t);
  assert_true (n > 0);
  return n;
}

/* What could not be allocated is promised to nobody afterwards. */
static void
promise_comes_back (void **state)
{
  struct device *disk;
  struct btrnbd_pool *pool = make_pool (&disk, false);
  struct space *sp = pool->fs->space;
  struct btrnbd_file *f;
  struct space_numbers n;
  unsigned i;

  (void) state;
  check (btrnbd_create (pool, "f", 0644, false), "create");
  check (btrnbd_file_open (pool, "f", 0, &f), "open file");
  check (btrnbd_truncate (f, BYTES), "truncate");
  check (space_data_reserve (sp, PS), "reserve");
  space_data_unreserve (sp, PS);
  for (i = 0; i < 2; ++i) {
    hits = 0;
    __atomic_store_n (&refused, i == 0 ? words_of_data (sp) : 0,
                      __ATOMIC_RELAXED);
    assert_int_equal (btrnbd_zero (f, 0, BYTES, 0),
                      i == 0 ? -ERR_nomem : 0);
    assert_int_equal (hits > 0, i == 0);
    check (space_get_numbers (sp, SPACE_DATA, &n), "numbers");
    assert_int_equal (n.may_use, 0);
    assert_int_equal (sp->data_promised + sp->data_owed, 0);
  }
  btrnbd_file_close (f);
  btrnbd_pool_kill (pool);
  device_close (disk);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (given_out_once),
    cmocka_unit_test (lost_is_not_free),
    cmocka_unit_test (lost_while_discarded),
    cmocka_unit_test (promise_comes_back),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
