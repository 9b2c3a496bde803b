/* Replay when something goes wrong, over a kept image with a log that Linux
 * left behind: the power is cut inside it, I/O or an allocation fails, the log
 * is of an older kind or lacks a part.
 *
 *   odd IMAGE LIST   prints TAP; LIST is what Linux made of the image
 */
#include <config.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <btrnbd/engine.h>

#include "base/err.h"
#include "base/math.h"
#include "crash/shield.h"
#include "fault/alloc.h"
#include "format/names.h"
#include "io/fault.h"
#include "io/record.h"
#include "lib/imagedev.h"
#include "lib/rawimg.h"
#include "lib/sparse.h"
#include "log/list.h"

static uint8_t *base;
static uint64_t base_size;
static struct device *healthy;
static char *want;             /* as the log promises */
static char *before;           /* the last commit */
static unsigned count, failures;

static void
result (bool ok, const char *name)
{
  printf ("%sok %u - %s\n", ok ? "" : "not ", ++count, name);
  fflush (stdout);
  failures += !ok;
}

static void
die (const char *what)
{
  fprintf (stderr, "odd: %s\n", what);
  exit (99);
}

static struct device *
fresh (void)
{
  struct device *dev;

  if (imagedev_overlay (healthy, base, NULL, 0, &dev) < 0)
    die ("image");
  return dev;
}

static int
open_device (struct device *dev, bool read_only, bool ignore_log,
             struct btrnbd_pool **ret)
{
  const struct btrnbd_open_opts opts = { .read_only = read_only,
    .ignore_log = ignore_log, .commit_interval = UINT_MAX,
    .cache_size = 16 << 20, .workers = 1 };

  return btrnbd_pool_open_devices (&dev, 1, &opts, ret);
}

static char *
list_device (struct device *dev, bool read_only, bool ignore_log)
{
  char why[1024] = "?", *text;
  struct btrnbd_pool *pool;
  int r = open_device (dev, read_only, ignore_log, &pool);

  if (r < 0) {
    printf ("# open: %s\n", btrnbd_last_error (r));
    return NULL;
  }
  text = list_pool (pool, why, sizeof why);
  if (text == NULL)
    printf ("# %s\n", why);
  btrnbd_pool_kill (pool);
  return text;
}

/* Consumes both. */
static bool
is (char *got, const char *expected, const char *what)
{
  const bool same = got != NULL && strcmp (got, expected) == 0;

  if (!same)
    printf ("# %s: got\n%s", what, got ? got : "nothing\n");
  free (got);
  return same;
}

/* --- power cuts inside a replay --- */

static void
test_cuts (void)
{
  static const enum record_keep keeps[] = {
    RECORD_KEEP_NONE, RECORD_KEEP_ALL, RECORD_KEEP_RANDOM,
  };
  struct record_cut cut = { .sector = 4096 };
  struct record_player *player;
  struct device *recorder, *image;
  struct btrnbd_pool *pool;
  bool ok = true;
  size_t events;

  if (record_new (fresh (), &recorder) < 0 ||
      open_device (shield_new (recorder), false, false, &pool) < 0)
    die ("recorder");
  btrnbd_pool_kill (pool);
  events = record_count (recorder);
  if (record_player_new (recorder, fresh (), &player) < 0)
    die ("player");
  for (cut.at = 0; cut.at <= events; ++cut.at)
    for (unsigned k = 0; k < 6; ++k) {
      cut.keep = keeps[k / 2];
      cut.seed = cut.at;
      if (record_image (player, &cut, &image) < 0)
        die ("cut");
      ok &= is (list_device (image, k % 2 == 0, false), want, "after a cut");
    }
  record_player_free (player);
  device_close (recorder);
  printf ("# %zu events\n", events);
  result (ok && events >= 4, "power cuts inside the replay");
}

/* --- failures --- */

/* Opened for writing while something fails; DEV stays with the caller.  What
 * it shows must be whole, what is left must hold all that the log promised.
 */
static uint64_t hits;          /* of the last open_failing */

static bool
open_failing (struct device *dev, enum io_kind kind)
{
  char why[1024] = "?", *got;
  struct btrnbd_pool_info info;
  struct btrnbd_pool *pool;
  bool ok;
  int r = open_device (shield_new (dev), false, false, &pool);

  hits = fault_hits (dev, kind) + alloc_hits ();
  fault_arm (dev, IO_READ, FAULT_OFF, 0);
  alloc_arm (0, false);
  if (r < 0)
    return true; /* and said so */
  btrnbd_pool_identify (pool, &info);
  got = list_pool (pool, why, sizeof why);
  /* Read-only: without the log, or since something failed after the replay. */
  ok = (info.read_only && got != NULL && strcmp (got, before) == 0) ||
    (got != NULL && strcmp (got, want) == 0);
  if (!ok)
    printf ("# %s: got\n%s", info.read_only ? info.read_only_reason
            : "writable", got ? got : why);
  free (got);
  btrnbd_pool_kill (pool);
  return ok;
}

static void
test_faults (enum io_kind kind, enum fault_mode mode, const char *name)
{
  unsigned hit = 0, n;
  bool ok = true, more = true;

  for (n = 1; more; ++n) {
    struct device *below = fresh (), *dev;

    if (fault_new (shield_new (below), &dev) < 0)
      die ("fault");
    fault_arm (dev, kind, mode, n);
    ok &= open_failing (dev, kind);
    more = hits > 0;
    hit += more;
    device_close (dev);
    ok &= is (list_device (below, n % 2 == 0, false), want, name);
  }
  printf ("# %u failures\n", hit);
  result (ok && hit > 0, name);
}

static void
test_allocations (bool from, const char *name)
{
  unsigned hit = 0, n = 1, step = getenv ("BTRNBD_FULL") ? 1 : 7;
  bool ok = true, more = true;

  for (; more; n += step) {
    struct device *below = fresh (), *dev;

    if (fault_new (shield_new (below), &dev) < 0)
      die ("fault");
    alloc_arm (n, from);
    ok &= open_failing (dev, IO_READ);
    more = hits > 0;
    hit += more;
    device_close (dev);
    if (!is (list_device (below, n % 2 == 0, false), want, name)) {
      printf ("# after allocation %u\n", n);
      ok = false;
    }
  }
  printf ("# %u failures\n", hit);
  result (ok && hit > 0, name);
}

/* --- other logs --- */

static struct rawimg img;

/* All copies of a block, and its checksum. */
static void
write_block (void *block)
{
  const uint64_t bytenr = tb_bytenr (block);

  tb_set_csum (block, img.info.nodesize, img.info.csum_type);
  for (unsigned i = 0; i < rawimg_copies (&img, bytenr); ++i)
    memmove (rawimg_block (&img, bytenr, i), block, img.info.nodesize);
}

/* Put an item before SLOT, if there is room. */
static bool
insert_item (uint8_t *block, uint32_t slot, struct key key, const void *data,
             uint32_t size)
{
  const uint32_t n = tb_nritems (block);
  struct btrfs_item *items = (void *) tb_item_c (block, 0);
  const uint32_t end = slot == 0 ? tb_leaf_data_size (img.info.nodesize)
    : le32_get (items[slot - 1].offset);
  const uint32_t low = n == 0 ? tb_leaf_data_size (img.info.nodesize)
    : le32_get (items[n - 1].offset);
  uint8_t *area = (uint8_t *) items;

  if (low < (n + 1) * sizeof *items + size)
    return false;
  memmove (area + low - size, area + low, end - low);
  for (uint32_t i = slot; i < n; ++i)
    items[i].offset = le32_make (le32_get (items[i].offset) - size);
  memmove (&items[slot + 1], &items[slot], (n - slot) * sizeof *items);
  memcpy (area + end - size, data, size);
  items[slot] = (struct btrfs_item) { .key = key_to_disk (key),
    .offset = le32_make (end - size), .size = le32_make (size) };
  tb_header (block)->nritems = le32_make (n + 1);
  return true;
}

static unsigned changed;

/* As kernels before 5.17 did: ranges and entries by hash, too. */
static int
add_legacy (void *opaque, const void *b, const struct rawimg_root *root)
{
  const le64 last = le64_make (UINT64_MAX);
  uint8_t *block = (uint8_t *) b;

  (void) opaque;
  if (root->id != BTRFS_TREE_LOG || tb_level (b) > 0)
    return 0;
  for (uint32_t i = 1; i < tb_nritems (b); ++i) {
    const struct key key = tb_item_key (b, i);
    uint8_t copy[300];
    const uint32_t size = MIN (tb_item_size (b, i), sizeof copy);
    const char *name = (char *) copy + sizeof (struct btrfs_dir_item);

    if (key.type != BTRFS_DIR_INDEX ||
        tb_item_key (b, i - 1).type != BTRFS_DIR_LOG_INDEX)
      continue;
    memcpy (copy, tb_item_data_c (b, i), size);
    if (!insert_item (block, i, KEY (key.objectid, BTRFS_DIR_ITEM,
                                     name_hash (name, size - (name -
                                                (char *) copy))),
                      copy, size))
      break;
    while (tb_item_key (b, i - 1).type == BTRFS_DIR_LOG_INDEX)
      --i;
    changed += insert_item (block, i, KEY (key.objectid, BTRFS_DIR_LOG_ITEM,
                                           0), &last, sizeof last);
    break;
  }
  write_block (block);
  return 0;
}

/* Checksums are the last items of a log. */
static int
drop_sums (void *opaque, const void *b, const struct rawimg_root *root)
{
  uint8_t *block = (uint8_t *) b;
  uint32_t n = tb_nritems (b);

  (void) opaque;
  if (root->id != BTRFS_TREE_LOG || tb_level (b) > 0)
    return 0;
  while (n > 1 && tb_item_key (b, n - 1).type == BTRFS_EXTENT_CSUM) {
    --n;
    changed++;
  }
  tb_header (block)->nritems = le32_make (n);
  write_block (block);
  return 0;
}

static void
set_flags (uint64_t flags)
{
  for (unsigned i = 0; i < BTRFS_SUPER_COPIES; ++i)
    if (super_offset (i) + BTRFS_SUPER_SIZE <= base_size) {
      struct btrfs_super *sb = (void *) (base + super_offset (i));

      sb->flags = le64_make (le64_get (sb->flags) | flags);
      super_seal (sb);
    }
}

/* The image with its log changed by FN, and FLAGS in its superblocks, as a
 * device.
 */
static struct device *
with_log (rawimg_fn fn, uint64_t flags)
{
  uint8_t *old = base;
  struct device *dev;

  base = malloc (base_size);
  if (base == NULL)
    die ("memory");
  memcpy (base, old, base_size);
  rawimg_attach (base, base_size, &img);
  changed = 0;
  if (rawimg_load (&img) < 0 || rawimg_walk_all (&img, fn, NULL) < 0)
    die ("walk");
  rawimg_close (&img);
  set_flags (flags);
  if (imagedev_new (base, base_size, &dev) < 0)
    die ("device");
  free (base);
  base = old;
  return dev;
}

static void
test_legacy (void)
{
  bool ok = is (list_device (with_log (add_legacy, 0), true, false), want,
                "old log") &&
    is (list_device (with_log (add_legacy, 0), false, false), want, "old log");

  result (ok && changed > 0, "hc57: entries and ranges by hash say nothing");
}

/* What has no checksum cannot be read, and all else can. */
static void
test_no_sums (void)
{
  struct btrnbd_pool *pool;
  struct btrnbd_file *f;
  char buf[4096];
  int r = open_device (with_log (drop_sums, 0), false, false, &pool);
  bool ok = r == 0;

  if (ok) {
    ok = btrnbd_file_open (pool, "v/a", BTRNBD_OPEN_RDONLY, &f) == 0;
    r = ok ? btrnbd_pread (f, buf, sizeof buf, 0) : 0;
    ok = ok && r == -ERR_data_csum_missing &&
      btrnbd_pread (f, buf, sizeof buf, 16384) == 0;
    if (ok)
      btrnbd_file_close (f);
    ok &= btrnbd_mkdir (pool, "new", 0755) == 0 &&
      btrnbd_pool_close (pool) == 0;
  }
  if (!ok)
    printf ("# %s\n", btrnbd_last_error (r));
  result (ok && changed > 0, "hc61: a checksum that the log lacks");
}

static void
test_seed (void)
{
  struct btrnbd_pool_info info;
  struct btrnbd_pool *pool;
  struct device *dev = with_log (NULL, BTRFS_SUPER_FLAG_SEEDING), *recorder;
  char why[1024];
  bool ok;

  if (record_new (dev, &recorder) < 0)
    die ("recorder");
  ok = open_device (shield_new (recorder), false, false, &pool) == 0;
  if (ok) {
    btrnbd_pool_identify (pool, &info);
    ok = is (list_pool (pool, why, sizeof why), before, "seed") &&
      info.read_only && btrnbd_mkdir (pool, "new", 0755) < 0;
    ok &= btrnbd_pool_close (pool) == 0 && record_count (recorder) == 0;
  }
  device_close (recorder);
  result (ok, "hc60: the log of a seed device stays");
}

static void
silence (void *opaque, int level, const char *line)
{
  (void) opaque;
  (void) level;
  (void) line;
}

static char *
read_text (const char *path)
{
  FILE *f = fopen (path, "r");
  char *text = NULL;
  size_t size = 0;

  if (f == NULL || getdelim (&text, &size, '\0', f) < 0)
    die (path);
  fclose (f);
  return text;
}

int
main (int argc, char **argv)
{
  if (argc != 3) {
    fprintf (stderr, "usage: odd IMAGE LIST\n");
    return 2;
  }
  btrnbd_set_log (silence, NULL, 0);
  if (sparse_load (argv[1], &base, &base_size) < 0 ||
      imagedev_new (base, base_size, &healthy) < 0)
    die (argv[1]);
  want = read_text (argv[2]);
  before = list_device (fresh (), true, true);
  if (before == NULL || strcmp (before, want) == 0)
    die ("the log says nothing");
  result (is (list_device (fresh (), true, false), want, "in memory"),
          "hc44: read-only: in memory");
  result (is (list_device (fresh (), false, false), want, "on disk"),
          "for writing: on disk");
  test_cuts ();
  test_faults (IO_READ, FAULT_ONCE, "hc55: a read fails");
  test_faults (IO_READ, FAULT_FROM, "hc55: all reads fail");
  test_faults (IO_WRITE, FAULT_ONCE, "hc55: a write fails");
  test_faults (IO_WRITE, FAULT_FROM, "hc55: all writes fail");
  test_faults (IO_FLUSH, FAULT_ONCE, "hc55: a flush fails");
  test_allocations (false, "hc55: an allocation fails");
  test_allocations (true, "hc55: all allocations fail");
  test_legacy ();
  test_no_sums ();
  test_seed ();
  device_close (healthy);
  sparse_free (base, base_size);
  free (want);
  free (before);
  printf ("1..%u\n", count);
  return failures > 0;
}
