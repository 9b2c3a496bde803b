/* What a pool holds, as lines of text; and what a replay does to it.
 *
 *   look IMAGE      open read-only (a log is replayed in memory) and list
 *   look -w IMAGE   open for writing, which replays, wait for nothing, close
 *   look -d IMAGE SUBVOLUME   destroy the root of its log (0: of the log root
 *                   tree)
 *   look -c IMAGE   replay a copy in memory, cut the power at every write of
 *                   it, and open each of what may be left: it must hold what
 *                   the whole replay gives.  IMAGE is not changed.
 *
 * A line: path, mode, uid:gid, links, inode, time of change, size, checksum of
 * what is in it (of a symlink: the target), attributes.  replay.py makes the same of
 * a mounted pool.
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

#include "base/csum.h"
#include "base/math.h"
#include "crash/shield.h"
#include "io/record.h"
#include "lib/rawimg.h"

/* Nobody makes larger files here. */
#define FILE_MAX (UINT64_C (256) << 20)
#define XATTR_MAX 65536

static void
die (int r, const char *what)
{
  fprintf (stderr, "look: %s: %s\n", what, btrnbd_last_error (r));
  exit (1);
}

/* --- listing --- */

struct list {
  struct btrnbd_pool *pool;
  FILE *out;
  char **paths;                /* still to be looked at */
  size_t n, max;
};

struct in_dir {
  struct list *l;
  const char *dir;
};

static int
add_path (void *opaque, const char *name, const struct btrnbd_stat *st)
{
  struct in_dir *in = opaque;
  struct list *l = in->l;

  (void) st;
  if (l->n == l->max) {
    l->max = 2 * l->max + 16;
    l->paths = reallocarray (l->paths, l->max, sizeof *l->paths);
  }
  if (l->paths == NULL || asprintf (&l->paths[l->n++], "%s%s%s", in->dir,
                                    in->dir[0] ? "/" : "", name) < 0)
    abort ();
  return 0;
}

static void
put_sum (FILE *out, const void *data, size_t len)
{
  uint8_t sum[CSUM_SIZE_MAX];

  csum_data (CSUM_SHA256, data, len, sum);
  for (unsigned i = 0; i < 8; ++i)
    fprintf (out, "%02x", sum[i]);
}

static int
put_file (struct list *l, const char *path, uint64_t size)
{
  struct btrnbd_file *f;
  uint8_t *buf = malloc (MAX (size, UINT64_C (1)));
  int r = btrnbd_file_open (l->pool, path, BTRNBD_OPEN_RDONLY, &f);

  if (r == 0 && size <= FILE_MAX && buf != NULL) {
    r = btrnbd_pread (f, buf, size, 0);
    if (r == 0)
      put_sum (l->out, buf, size);
  }
  if (r == 0)
    btrnbd_file_close (f);
  free (buf);
  return r;
}

static int
put_link (struct list *l, const char *path)
{
  char *target;
  int r = btrnbd_readlink (l->pool, path, &target);

  if (r < 0)
    return r;
  put_sum (l->out, target, strlen (target));
  free (target);
  return 0;
}

static int
by_text (const void *a, const void *b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

static int
put_xattrs (struct list *l, const char *path)
{
  static char value[XATTR_MAX];
  char *names, *v[256], *p;
  size_t len, n = 0, size;
  int r = btrnbd_listxattr (l->pool, path, &names, &len);

  if (r < 0)
    return r;
  for (p = names; p < names + len && n < 256; p += strlen (p) + 1)
    v[n++] = p;
  qsort (v, n, sizeof *v, by_text);
  for (size_t i = 0; i < n && r == 0; ++i) {
    r = btrnbd_getxattr (l->pool, path, v[i], value, sizeof value, &size);
    fprintf (l->out, " %s=", v[i]);
    put_sum (l->out, value, r == 0 ? MIN (size, sizeof value) : 0);
  }
  free (names);
  return r;
}

static int
put_path (struct list *l, const char *path)
{
  struct btrnbd_stat st;
  int r = btrnbd_stat (l->pool, path, &st);

  if (r < 0)
    return r;
  fprintf (l->out, "%s %o %u:%u %u %" PRIu64 " %" PRId64 ".%ld ", path,
           st.mode, st.uid, st.gid, st.nlink, st.ino,
           (int64_t) st.mtime.tv_sec, st.mtime.tv_nsec);
  if (S_ISREG (st.mode) || S_ISLNK (st.mode))
    fprintf (l->out, "%" PRIu64 " ", st.size);
  if (S_ISREG (st.mode))
    r = put_file (l, path, st.size);
  else if (S_ISLNK (st.mode))
    r = put_link (l, path);
  else if (S_ISDIR (st.mode)) {
    struct in_dir in = { .l = l, .dir = path };

    r = btrnbd_readdir (l->pool, path, add_path, &in);
  }
  if (r == 0 && !S_ISLNK (st.mode) && !st.is_subvol)
    r = put_xattrs (l, path);
  fputc ('\n', l->out);
  return r;
}

static int
by_line (const void *a, const void *b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

/* Lines of TEXT in order. */
static char *
sorted (char *text, size_t len)
{
  char **v = calloc (len + 1, sizeof *v), *p = text, *out, *to;
  size_t n = 0;

  for (; v != NULL && p < text + len; p = strchr (p, '\0') + 1) {
    char *end = strchr (p, '\n');

    *end = '\0';
    v[n++] = p;
  }
  out = to = malloc (len + 1);
  if (v == NULL || out == NULL)
    abort ();
  qsort (v, n, sizeof *v, by_line);
  for (size_t i = 0; i < n; ++i) {
    to = stpcpy (to, v[i]);
    *to++ = '\n';
  }
  *to = '\0';
  free (v);
  return out;
}

/* The whole pool, or NULL and the text of an error. */
static char *
list_pool (struct btrnbd_pool *pool, char *why, size_t why_size)
{
  struct list l = { .pool = pool };
  struct in_dir in = { .l = &l, .dir = "" };
  char *text, *out;
  size_t len;
  int r;

  l.out = open_memstream (&text, &len);
  r = btrnbd_readdir (pool, "", add_path, &in);
  while (r == 0 && l.n > 0) {
    char *path = l.paths[--l.n];

    r = put_path (&l, path);
    if (r < 0)
      snprintf (why, why_size, "%s: %s", path, btrnbd_last_error (r));
    free (path);
  }
  while (l.n > 0)
    free (l.paths[--l.n]);
  free (l.paths);
  fclose (l.out);
  out = r == 0 ? sorted (text, len) : NULL;
  free (text);
  return out;
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
