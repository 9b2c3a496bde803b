/* Random files in one directory of a pool, by several threads, for the judges
 * to look at afterwards.
 *
 *   churn [KEY=VALUE...] IMAGE
 *   dir=PATH (default: the top), ops=N, seed=N, threads=N, names=N, len=BYTES
 *   (most of one write), kill=1: end without closing, discard=1
 *
 * Writes, punches, unlinks, write-outs, commits.  A full pool is fine, any
 * other error is not.  Prints counters.
 */
#include <config.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/math.h"
#include "fs/core.h"

static struct fs *fs;
static struct inode *dir;
static unsigned ops = 300, threads = 1, names = 100, killed, discard;
static uint64_t seed = 1, max_len = 262144;
static const char *path = "";

static void
die (int r, const char *what)
{
  fprintf (stderr, "churn: %s: %s\n", what, err_text (r));
  _Exit (1);
}

/* True when it worked, false when the pool is full. */
static bool
fits (int r, const char *what)
{
  if (r == 0)
    return true;
  if (r != -ERR_nospace && r != -ERR_nospace_meta)
    die (r, what);
  return false;
}

static void
must (int r, const char *what)
{
  if (r < 0)
    die (r, what);
}

static void
change (struct inode *in, unsigned *rnd)
{
  uint64_t len = (rand_r (rnd) % (max_len / 512) + 1) * 512;
  uint64_t off = (uint64_t) rand_r (rnd) % (4 * max_len);
  uint8_t *buf = malloc (len);

  if (buf == NULL)
    exit (1);
  memset (buf, rand_r (rnd), len);
  if (off + len <= in->size ||
      fits (data_set_size (fs->data, in, off + len), "size")) {
    if (rand_r (rnd) % 6 == 0)
      fits (data_punch (fs->data, in, off, len), "punch");
    else
      fits (data_write (fs->data, in, buf, len, off), "write");
  }
  free (buf);
  if (rand_r (rnd) % 8 == 0)
    must (data_write_out (fs->data, in, 0, in->size), "write out");
}

static void
step (unsigned thread, unsigned *rnd)
{
  struct inode_new new = { .mode = S_IFREG | 0644 };
  struct inode *in;
  char name[64];
  int r;

  snprintf (name, sizeof name, "file%u.%u", thread, rand_r (rnd) % names);
  r = inode_lookup (dir, name, strlen (name), &in);
  if (r == 0 && rand_r (rnd) % 4 == 0) {
    inode_put (in);
    /* Must work on a full pool, too. */
    must (inode_unlink (dir, name, strlen (name)), "unlink");
  }
  else if (r == 0 ||
           fits (inode_create (dir, name, strlen (name), &new, &in),
                 "create")) {
    change (in, rnd);
    inode_put (in);
  }
  if (rand_r (rnd) % 60 == 0)
    must (fs_commit (fs), "commit");
}

static void *
worker (void *opaque)
{
  unsigned thread = (uintptr_t) opaque, rnd = seed * 1000 + thread, i;

  for (i = 0; i < ops; i++)
    step (thread, &rnd);
  return NULL;
}

static void
parse (const char *arg)
{
  const char *value = strchr (arg, '=');
  size_t n = value ? (size_t) (value - arg) : 0;

  if (value == NULL)
    die (err_new (ERR_invalid, "%s", arg), "usage");
  value++;
#define IS(s) (n == strlen (s) && strncmp (arg, s, n) == 0)
  if (IS ("dir"))
    path = value;
  else if (IS ("ops"))
    ops = atoi (value);
  else if (IS ("seed"))
    seed = atoi (value);
  else if (IS ("threads"))
    threads = MIN (atoi (value), 32);
  else if (IS ("names"))
    names = atoi (value);
  else if (IS ("len"))
    max_len = atoi (value);
  else if (IS ("kill"))
    killed = atoi (value);
  else if (IS ("discard"))
    discard = atoi (value);
  else
    die (err_new (ERR_invalid, "%s", arg), "usage");
}

int
main (int argc, char **argv)
{
  struct device_open_opts dopts = { 0 };
  struct fs_opts opts = { .commit_interval = 1, .cache_size = 32 << 20 };
  struct commit_stats commits;
  struct fst_stats fst;
  struct device *dev;
  struct inode *top;
  pthread_t tid[32];
  unsigned i;

  for (i = 1; (int) i < argc - 1; i++)
    parse (argv[i]);
  opts.discard = discard;
  must (device_open (argv[argc - 1], &dopts, &dev), "device");
  must (fs_open (&dev, 1, &opts, &fs), "open");
  if (fs->read_only)
    die (err_new (ERR_readonly, "%s", fs_why_read_only (fs)), "open");
  must (inode_top (fs->inodes, &top), "top");
  must (inode_walk (top, path, &dir), path);
  for (i = 0; i < threads; i++)
    if (pthread_create (&tid[i], NULL, worker, (void *) (uintptr_t) i) != 0)
      exit (1);
  for (i = 0; i < threads; i++)
    pthread_join (tid[i], NULL);
  must (fs_commit (fs), "commit");
  commit_get_stats (fs, &commits);
  space_fst_get_stats (fs->space, &fst);
  printf ("commits %" PRIu64 " longest %" PRIu64 " us, shut %" PRIu64
          " us; free space: %" PRIu64 " changes, %" PRIu64 " applied, %"
          PRIu64 " to bitmaps, %" PRIu64 " to extents\n",
          commits.commits, commits.ns_max / 1000, commits.ns_shut_max / 1000,
          fst.changes, fst.applied, fst.to_bitmaps, fst.to_extents);
  if (killed)
    _Exit (0);
  inode_put (dir);
  inode_put (top);
  must (fs_close (fs), "close");
  return 0;
}
