/* The README's table: what is durable after which reply, and what it costs.
 * One test, or more, for each line; each cuts the power right after the reply
 * and looks at what can be nothing but durable.
 */
#include <config.h>

#include "test.h"

#include <unistd.h>

#include <btrnbd/engine.h>

#include "crash/shield.h"
#include "format/super.h"
#include "io/record.h"

#define SIZE (UINT64_C (256) << 20)
#define BLK 4096

#define pool_ok(expr)                                                   \
  do {                                                                  \
    int ok_ = (expr);                                                   \
    if (ok_ < 0)                                                        \
      fail_msg ("%s: %s", #expr, btrnbd_last_error (ok_));              \
  } while (0)

struct lab {
  struct device *recorder;
  struct shield *shield;       /* above it; the pool's */
  struct btrnbd_pool *pool;
  struct device *image;        /* after the cut */
  struct record_player *player;
  size_t events;               /* what follows is counted from here */
  unsigned runs;
  struct btrnbd_pool_stats stats;
};

struct cost {
  unsigned barriers;           /* flushes of the device */
  unsigned supers;             /* first copies written, with FUA */
  unsigned trips;              /* times that the disk was waited for */
  uint64_t syncs, commits;
};

static void
mark (struct lab *l)
{
  l->events = record_count (l->recorder);
  l->runs = l->shield->runs;
  btrnbd_pool_get_stats (l->pool, &l->stats);
}

static void
open_on (struct lab *l, struct device *dev, bool read_only)
{
  const struct btrnbd_open_opts opts = {
    .commit_interval = UINT32_MAX, .no_lock = true, .workers = 1,
    .read_only = read_only };
  struct device *shield = shield_new (dev);

  l->shield = (struct shield *) shield;
  pool_ok (btrnbd_pool_open_devices (&shield, 1, &opts, &l->pool));
}

static struct btrnbd_file *
file (struct lab *l, const char *path)
{
  struct btrnbd_file *f;

  pool_ok (btrnbd_file_open (l->pool, path, 0, &f));
  return f;
}

static void
put (struct btrnbd_file *f, char what, size_t block)
{
  char buf[BLK];

  memset (buf, what, sizeof buf);
  pool_ok (btrnbd_pwrite (f, buf, sizeof buf, block * BLK, 0));
}

static int
setup (void **state)
{
  struct lab *l = calloc (1, sizeof *l);
  struct btrnbd_mkfs_opts mkfs = { .nodesize = 16384 };
  struct device *mem;
  unsigned i;

  assert_non_null (l);
  pool_ok (device_mem_new ("disk", SIZE, &mem));
  pool_ok (record_new (mem, &l->recorder));
  pool_ok (btrnbd_mkfs_device (l->recorder, &mkfs));
  open_on (l, l->recorder, false);
  pool_ok (btrnbd_create (l->pool, "cow", 0644, false));
  pool_ok (btrnbd_create (l->pool, "nocow", 0644, true));
  pool_ok (btrnbd_mkdir (l->pool, "dir", 0755));
  for (i = 0; i < 2; ++i) {
    struct btrnbd_file *f = file (l, i ? "cow" : "nocow");
    size_t b;

    pool_ok (btrnbd_truncate (f, 16 * BLK));
    for (b = 0; b < 16; ++b)
      put (f, 'a', b);
    btrnbd_file_close (f);
  }
  pool_ok (btrnbd_pool_sync (l->pool));
  mark (l);
  *state = l;
  return 0;
}

static int
teardown (void **state)
{
  struct lab *l = *state;

  btrnbd_pool_kill (l->pool);
  if (l->image != NULL)
    device_close (l->image);
  record_player_free (l->player);
  device_close (l->recorder);
  free (l);
  return 0;
}

static struct cost
cost_of (struct lab *l)
{
  struct btrnbd_pool_stats now;
  struct record_event ev;
  struct cost c = { 0 };
  size_t i;

  btrnbd_pool_get_stats (l->pool, &now);
  c.syncs = now.log_syncs - l->stats.log_syncs;
  c.commits = now.commits - l->stats.commits;
  c.trips = l->shield->runs - l->runs;
  for (i = l->events; record_get (l->recorder, i, &ev); ++i) {
    c.barriers += ev.kind == RECORD_FLUSH;
    c.supers += ev.kind == RECORD_WRITE && ev.offset == super_offset (0);
  }
  return c;
}

/* The power goes: nothing is left but what is certain. */
static void
cut (struct lab *l)
{
  struct record_cut at = { .keep = RECORD_KEEP_NONE };
  struct device *start;

  pool_ok (record_mark (l->recorder, 0));
  at.at = record_count (l->recorder);
  btrnbd_pool_kill (l->pool);
  pool_ok (device_mem_new ("start", SIZE, &start));
  pool_ok (record_player_new (l->recorder, start, &l->player));
  pool_ok (record_image (l->player, &at, &l->image));
  open_on (l, l->image, true);
}

#define is_cost(l, t, b, s, y, c)               \
  do {                                          \
    const struct cost cost_ = cost_of (l);      \
    assert_int_equal (cost_.trips, t);          \
    assert_int_equal (cost_.barriers, b);       \
    assert_int_equal (cost_.supers, s);         \
    assert_int_equal (cost_.syncs, y);          \
    assert_int_equal (cost_.commits, c);        \
  } while (0)
/* Data and log, the barrier, the superblock. */
#define costs_a_log_sync(l) is_cost (l, 3, 1, 1, 1, 0)

static void
costs_a_commit (struct lab *l)
{
  const struct cost c = cost_of (l);

  assert_true (c.commits >= 1);
  assert_int_equal (c.syncs, 0);
}

static void
holds (struct lab *l, const char *path, size_t block, char what)
{
  struct btrnbd_file *f = file (l, path);
  char buf[BLK], want[BLK];

  memset (want, what, sizeof want);
  pool_ok (btrnbd_pread (f, buf, sizeof buf, block * BLK));
  assert_memory_equal (buf, want, sizeof want);
  btrnbd_file_close (f);
}

static bool
exists (struct lab *l, const char *path)
{
  struct btrnbd_stat st;

  return btrnbd_stat (l->pool, path, &st) == 0;
}

/* --- blocks of a nocow file, written in place --- */

static void
nocow_in_place (void **state)
{
  struct lab *l = *state;
  struct btrnbd_file *f = file (l, "nocow");

  put (f, 'b', 3);
  pool_ok (btrnbd_flush (f));
  btrnbd_file_close (f);
  is_cost (l, 2, 1, 0, 0, 0);
  cut (l);
  holds (l, "nocow", 3, 'b');
  holds (l, "nocow", 4, 'a');
}

/* --- contents or size of a file --- */

static void
contents (void **state)
{
  struct lab *l = *state;
  struct btrnbd_file *f = file (l, "cow");

  put (f, 'b', 3);
  pool_ok (btrnbd_flush (f));
  costs_a_log_sync (l);
  mark (l);
  pool_ok (btrnbd_flush (f)); /* nothing is new */
  is_cost (l, 0, 0, 0, 0, 0);
  btrnbd_file_close (f);
  cut (l);
  holds (l, "cow", 3, 'b');
  holds (l, "cow", 4, 'a');
}

/* Of a file that nobody has looked at since the pool was opened. */
static void
contents_of_new_open (void **state)
{
  struct lab *l = *state;
  struct btrnbd_file *f;

  pool_ok (btrnbd_pool_close (l->pool));
  open_on (l, l->recorder, false);
  f = file (l, "cow");
  put (f, 'b', 3);
  pool_ok (btrnbd_flush (f));   /* reads what leads to the old extent */
  mark (l);
  put (f, 'c', 9);
  pool_ok (btrnbd_flush (f));
  btrnbd_file_close (f);
  costs_a_log_sync (l);
  cut (l);
  holds (l, "cow", 3, 'b');
  holds (l, "cow", 9, 'c');
}

/* Few pages, wherever they are, and whatever they take the place of. */
static void
contents_scattered (void **state)
{
  static const unsigned first[] = { 1, 2, 5, 9, 14 };
  struct lab *l = *state;
  struct btrnbd_file *f = file (l, "cow");
  unsigned i;

  pool_ok (btrnbd_truncate (f, 32 * BLK));
  pool_ok (btrnbd_trim (f, 10 * BLK, 2 * BLK, 0));
  pool_ok (btrnbd_flush (f));
  for (i = 0; i < 5; ++i)
    put (f, 'b', first[i]);
  put (f, 'b', 20);             /* where nothing was */
  mark (l);
  pool_ok (btrnbd_flush (f));
  costs_a_log_sync (l);
  for (i = 4; i < 18; ++i)      /* over old and new ones, and holes */
    if (i != 7)
      put (f, 'c', i);
  mark (l);
  pool_ok (btrnbd_flush (f));
  costs_a_log_sync (l);
  btrnbd_file_close (f);
  cut (l);
  for (i = 0; i < 22; ++i)
    holds (l, "cow", i, i >= 4 && i < 18 && i != 7 ? 'c'
           : i == 1 || i == 2 || i == 20 ? 'b' : i < 16 ? 'a' : '\0');
}

static void
fua (void **state)
{
  struct lab *l = *state;
  struct btrnbd_file *f = file (l, "cow");
  char buf[BLK];

  memset (buf, 'c', sizeof buf);
  pool_ok (btrnbd_pwrite (f, buf, sizeof buf, 0, BTRNBD_FUA));
  btrnbd_file_close (f);
  costs_a_log_sync (l);
  cut (l);
  holds (l, "cow", 0, 'c');
}

static void
size_and_holes (void **state)
{
  struct lab *l = *state;
  struct btrnbd_file *f = file (l, "cow");
  struct btrnbd_stat st;

  pool_ok (btrnbd_truncate (f, 12 * BLK));
  pool_ok (btrnbd_trim (f, 2 * BLK, 2 * BLK, 0));
  pool_ok (btrnbd_flush (f));
  btrnbd_file_close (f);
  costs_a_log_sync (l);
  cut (l);
  pool_ok (btrnbd_stat (l->pool, "cow", &st));
  assert_int_equal (st.size, 12 * BLK);
  holds (l, "cow", 2, '\0');
  holds (l, "cow", 4, 'a');
}

/* Of a FLUSH contents and size are, as of fdatasync; of an fsync times are. */
static void
times_are_of_fsync (void **state)
{
  struct lab *l = *state;
  struct btrnbd_file *f = file (l, "cow");
  struct btrnbd_stat before, after;

  put (f, 'b', 1);
  pool_ok (btrnbd_flush (f));
  usleep (2000);
  put (f, 'c', 1);
  pool_ok (btrnbd_flush (f));
  btrnbd_file_close (f);
  mark (l);
  pool_ok (btrnbd_fsync (l->pool, "cow"));
  costs_a_log_sync (l);
  pool_ok (btrnbd_stat (l->pool, "cow", &before));
  cut (l);
  pool_ok (btrnbd_stat (l->pool, "cow", &after));
  assert_memory_equal (&before.mtime, &after.mtime, sizeof before.mtime);
  holds (l, "cow", 1, 'c');
}

/* --- names --- */

static void
names (void **state)
{
  struct lab *l = *state;

  pool_ok (btrnbd_mkdir (l->pool, "dir/sub", 0755));
  pool_ok (btrnbd_create (l->pool, "dir/sub/new", 0644, false));
  pool_ok (btrnbd_link (l->pool, "cow", "dir/linked"));
  pool_ok (btrnbd_rename (l->pool, "cow", "dir/moved", 0));
  pool_ok (btrnbd_unlink (l->pool, "nocow"));
  mark (l);
  pool_ok (btrnbd_fsync (l->pool, "dir"));
  costs_a_log_sync (l);
  cut (l);
  assert_true (exists (l, "dir/sub/new"));
  assert_true (exists (l, "dir/linked"));
  assert_true (exists (l, "dir/moved"));
  assert_false (exists (l, "cow"));
  assert_false (exists (l, "nocow"));
  holds (l, "dir/moved", 5, 'a');
}

static void
new_file (void **state)
{
  struct lab *l = *state;
  struct btrnbd_file *f;

  pool_ok (btrnbd_create (l->pool, "dir/f", 0644, false));
  f = file (l, "dir/f");
  pool_ok (btrnbd_truncate (f, 2 * BLK));
  put (f, 'n', 1);
  mark (l);
  pool_ok (btrnbd_flush (f));
  btrnbd_file_close (f);
  costs_a_log_sync (l);
  cut (l);
  holds (l, "dir/f", 0, '\0');
  holds (l, "dir/f", 1, 'n');
}

/* --- subvolumes, zeroes written over data --- */

static void
subvolumes (void **state)
{
  const struct btrnbd_volume_opts opts = { .size = 16 * BLK };
  struct lab *l = *state;
  struct btrnbd_file *f;

  pool_ok (btrnbd_volume_create (l->pool, "vol", &opts));
  mark (l);
  f = file (l, "vol/disk");
  put (f, 'v', 0);
  pool_ok (btrnbd_flush (f));
  btrnbd_file_close (f);
  /* Either the making or the first flush was the commit. */
  if (cost_of (l).commits > 0)
    costs_a_commit (l);
  cut (l);
  holds (l, "vol/disk", 0, 'v');
}

static void
zeroes (void **state)
{
  struct lab *l = *state;
  struct btrnbd_file *f = file (l, "cow");

  pool_ok (btrnbd_zero (f, 4 * BLK, 4 * BLK, 0));
  pool_ok (btrnbd_flush (f));
  btrnbd_file_close (f);
  costs_a_commit (l);
  cut (l);
  holds (l, "cow", 4, '\0');
  holds (l, "cow", 8, 'a');
}

#define lab_test(f) cmocka_unit_test_setup_teardown (f, setup, teardown)

int
main (void)
{
  const struct CMUnitTest tests[] = {
    lab_test (nocow_in_place),
    lab_test (contents),
    lab_test (contents_of_new_open),
    lab_test (contents_scattered),
    lab_test (fua),
    lab_test (size_and_holes),
    lab_test (times_are_of_fsync),
    lab_test (names),
    lab_test (new_file),
    lab_test (subvolumes),
    lab_test (zeroes),
  };

  btrnbd_set_log (NULL, NULL, 0);
  return cmocka_run_group_tests (tests, NULL, NULL);
}
