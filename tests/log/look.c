/* What a pool holds, as lines of text; and what a replay does to it.
 *
 *   look IMAGE      open read-only (a log is replayed in memory) and list
 *   look -w IMAGE   open for writing, which replays, wait for nothing, close
 *   look -d IMAGE SUBVOLUME   destroy the root of its log (0: of the log root
 *                   tree)
 *   look -c IMAGE   replay a copy in memory, cut the power at every write of
 *                   it, and open each of what may be left: it must hold what
 *                   the whole replay gives.  IMAGE is not changed.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <btrnbd/engine.h>

#include "base/math.h"
#include "crash/shield.h"
#include "io/record.h"
#include "lib/rawimg.h"
#include "log/list.h"

static void
die (int r, const char *what)
{
  fprintf (stderr, "look: %s: %s\n", what, btrnbd_last_error (r));
  exit (1);
}

static struct btrnbd_pool *
open_name (const char *name, bool read_only)
{
  const struct btrnbd_open_opts opts = { .read_only = read_only,
    .commit_interval = UINT_MAX };
  struct btrnbd_pool *pool;
  int r = btrnbd_pool_open (&name, 1, &opts, &pool);

  if (r < 0)
    die (r, name);
  return pool;
}

static int
cmd_list (const char *name)
{
  char why[1024] = "?";
  struct btrnbd_pool *pool = open_name (name, true);
  char *text = list_pool (pool, why, sizeof why);

  btrnbd_pool_kill (pool);
  if (text == NULL) {
    fprintf (stderr, "look: %s\n", why);
    return 1;
  }
  fputs (text, stdout);
  free (text);
  return 0;
}

static int
cmd_replay (const char *name)
{
  struct btrnbd_pool *pool = open_name (name, false);
  struct btrnbd_pool_info info;
  int r = btrnbd_pool_get_info (pool, &info);

  if (r < 0)
    die (r, name);
  if (info.read_only) {
    fprintf (stderr, "look: read-only: %s\n", info.read_only_reason);
    return 1;
  }
  r = btrnbd_pool_close (pool);
  if (r < 0)
    die (r, name);
  return 0;
}

/* --- power cuts inside a replay --- */

/* The file in memory; holes stay holes. */
static struct device *
load (const char *name)
{
  const size_t chunk = 1 << 20;
  uint8_t *buf = io_alloc (chunk);
  int fd = open (name, O_RDONLY | O_CLOEXEC), r;
  struct device *dev;
  struct stat st;
  off_t at, end;

  if (fd < 0 || buf == NULL || fstat (fd, &st) < 0) {
    fprintf (stderr, "look: %s: %s\n", name, strerror (errno));
    exit (1);
  }
  r = device_mem_new (name, st.st_size, &dev);
  for (at = 0; r == 0 && (at = lseek (fd, at, SEEK_DATA)) >= 0; ) {
    end = lseek (fd, at, SEEK_HOLE);
    for (; r == 0 && at < end; at += chunk) {
      size_t n = MIN ((size_t) (end - at), chunk);

      if (pread (fd, buf, n, at) != (ssize_t) n)
        abort ();
      r = device_write (dev, at, buf, n);
    }
    at = end;
  }
  if (r < 0)
    die (r, name);
  close (fd);
  free (buf);
  return dev;
}

static int
open_device (struct device *dev, bool read_only, struct btrnbd_pool **ret)
{
  const struct btrnbd_open_opts opts = { .read_only = read_only,
    .commit_interval = UINT_MAX, .cache_size = 16 << 20, .workers = 1 };

  return btrnbd_pool_open_devices (&dev, 1, &opts, ret);
}

/* What DEV holds, which is consumed; a torn first superblock is no loss: the
 * pool says so, and opens from the second.
 */
static char *
list_device (struct device *dev, bool read_only, char *why, size_t size)
{
  struct btrnbd_pool *pool;
  char *text;
  int r = open_device (dev, read_only, &pool);

  if (r < 0) {
    snprintf (why, size, "open: %s", btrnbd_last_error (r));
    return NULL;
  }
  text = list_pool (pool, why, size);
  btrnbd_pool_kill (pool);
  return text;
}

static unsigned
try_cuts (struct record_player *player, size_t events, const char *want,
          unsigned *ret_tried)
{
  static const enum record_keep keeps[] = {
    RECORD_KEEP_NONE, RECORD_KEEP_ALL, RECORD_KEEP_RANDOM,
  };
  struct record_cut cut = { .sector = 4096 };
  unsigned bad = 0;

  for (cut.at = 0; cut.at <= events; ++cut.at)
    for (unsigned k = 0; k < 3; ++k) {
      char why[1024] = "differs", *got;
      struct device *image;

      cut.keep = keeps[k];
      cut.seed = cut.at;
      if (record_image (player, &cut, &image) < 0)
        abort ();
      got = list_device (image, k == 1, why, sizeof why);
      if (got == NULL || strcmp (got, want) != 0) {
        printf ("cut %zu of %zu, writes kept: %u: %s\n%s", cut.at, events, k,
                why, got ? got : "");
        bad++;
      }
      ++*ret_tried;
      free (got);
    }
  return bad;
}

static int
cmd_cuts (const char *name)
{
  char why[1024] = "?", *want = list_device (load (name), true, why,
                                             sizeof why);
  struct record_player *player;
  struct btrnbd_pool *pool;
  struct device *recorder;
  unsigned tried = 0, bad;
  size_t events;
  int r = record_new (load (name), &recorder);

  if (want == NULL) {
    fprintf (stderr, "look: %s\n", why);
    return 1;
  }
  if (r == 0)
    r = open_device (shield_new (recorder), false, &pool);
  if (r < 0)
    die (r, name);
  btrnbd_pool_kill (pool);
  events = record_count (recorder);
  r = record_player_new (recorder, load (name), &player);
  if (r < 0)
    die (r, name);
  bad = try_cuts (player, events, want, &tried);
  printf ("%u cuts, %u bad\n", tried, bad);
  record_player_free (player);
  device_close (recorder);
  free (want);
  return bad > 0;
}

/* --- damage --- */

static int
find_log (void *opaque, const void *block, const struct rawimg_root *root)
{
  uint64_t *want = opaque;

  if (root->id == BTRFS_TREE_LOG && root->offset == want[0]
      && tb_bytenr (block) == root->bytenr)
    want[1] = root->bytenr;
  return 0;
}

static int
cmd_damage (const char *name, const char *subvol)
{
  uint64_t want[2] = { strtoull (subvol, NULL, 0), 0 };
  struct rawimg img;
  unsigned i;

  if (rawimg_open (name, true, &img) < 0 || rawimg_load (&img) < 0)
    return 1;
  if (want[0] == 0)
    want[1] = le64_get (img.super->log_root);
  else if (rawimg_walk_all (&img, find_log, want) < 0)
    return 1;
  for (i = 0; want[1] != 0 && i < rawimg_copies (&img, want[1]); ++i)
    memset ((uint8_t *) rawimg_block (&img, want[1], i) + 200, 0x5a, 100);
  rawimg_close (&img);
  return want[1] == 0;
}

static void
silence (void *opaque, int level, const char *line)
{
  (void) opaque;
  (void) level;
  (void) line;
}

static void
to_stderr (void *opaque, int level, const char *line)
{
  (void) opaque;
  (void) level;
  fprintf (stderr, "%s\n", line);
}

int
main (int argc, char **argv)
{
  if (argc == 2) {
    btrnbd_set_log (to_stderr, NULL, 1);
    return cmd_list (argv[1]);
  }
  if (argc == 3 && strcmp (argv[1], "-w") == 0) {
    btrnbd_set_log (to_stderr, NULL, 1);
    return cmd_replay (argv[2]);
  }
  if (argc == 3 && strcmp (argv[1], "-c") == 0) {
    btrnbd_set_log (silence, NULL, 0);
    return cmd_cuts (argv[2]);
  }
  if (argc == 4 && strcmp (argv[1], "-d") == 0)
    return cmd_damage (argv[2], argv[3]);
  fprintf (stderr, "usage: look [-w | -c | -d] IMAGE [SUBVOLUME]\n");
  return 2;
}
