/* What a snapshot and a clone cost: of a small image and of a big one, both
 * fragmented to single blocks, beside Linux on the same pool.
 *
 *   snapshots DIR [MIB]
 *
 * Ours: the call, which returns when it is durable.  Linux: the ioctl and a
 * sync of the filesystem; and a reflink of the image with a sync, which is
 * what copies without subvolumes cost.  Needs root for Linux's part.
 */
#include <config.h>

#include <fcntl.h>
#include <limits.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <btrnbd/engine.h>

#define ROUNDS 15
#define BLK 4096u

static char pool_path[PATH_MAX], mnt[PATH_MAX];

static void
die (const char *what, int r)
{
  fprintf (stderr, "%s: %s\n", what, r < 0 ? btrnbd_last_error (r) : "failed");
  exit (1);
}

#define OK(expr)                                \
  do {                                          \
    int ok_ = (expr);                           \
    if (ok_ < 0)                                \
      die (#expr, ok_);                         \
  } while (0)

static double
now_ms (void)
{
  struct timespec t;

  clock_gettime (CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static int
by_value (const void *a, const void *b)
{
  const double *x = a, *y = b;

  return *x < *y ? -1 : *x > *y;
}

static double
median (double *v)
{
  qsort (v, ROUNDS, sizeof *v, by_value);
  return v[ROUNDS / 2];
}

/* Every block once, in an order that leaves no two together. */
static void
fill (struct btrnbd_pool *p, const char *name, uint64_t size)
{
  const struct btrnbd_volume_opts o = { .size = size };
  const uint64_t n = size / BLK;
  uint8_t buf[BLK];
  struct btrnbd_file *f;

  OK (btrnbd_volume_create (p, name, &o));
  OK (btrnbd_export_open (p, name, 0, &f));
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t at = i * 7919 % n;

    memset (buf, i, sizeof buf);
    OK (btrnbd_pwrite (f, buf, sizeof buf, at * BLK, 0));
  }
  OK (btrnbd_flush (f));
  btrnbd_file_close (f);
}

/* As a guest does meanwhile. */
static void
touch (struct btrnbd_pool *p, const char *name, unsigned i)
{
  struct btrnbd_file *f;
  uint8_t buf[BLK];

  memset (buf, i, sizeof buf);
  OK (btrnbd_export_open (p, name, 0, &f));
  OK (btrnbd_pwrite (f, buf, sizeof buf, (uint64_t) i * 37 * BLK, 0));
  btrnbd_file_close (f);
}

static double
our_snapshots (struct btrnbd_pool *p, const char *name)
{
  double v[ROUNDS];
  char tag[16];

  for (unsigned i = 0; i < ROUNDS; ++i) {
    touch (p, name, i);
    snprintf (tag, sizeof tag, "t%u", i);
    v[i] = now_ms ();
    OK (btrnbd_volume_snapshot (p, &name, 1, tag));
    v[i] = now_ms () - v[i];
  }
  return median (v);
}

static double
our_clones (struct btrnbd_pool *p, const char *name)
{
  double v[ROUNDS];
  char from[64], to[64];

  snprintf (from, sizeof from, "%s@t0", name);
  for (unsigned i = 0; i < ROUNDS; ++i) {
    snprintf (to, sizeof to, "%s-c%u", name, i);
    v[i] = now_ms ();
    OK (btrnbd_volume_clone (p, from, to));
    v[i] = now_ms () - v[i];
  }
  return median (v);
}

static int
shell (const char *fmt, const char *a, const char *b)
{
  char cmd[3 * PATH_MAX];

  snprintf (cmd, sizeof cmd, fmt, a, b);
  return system (cmd);
}

static void
kernel_touch (const char *name, unsigned i)
{
  char path[PATH_MAX + 64], buf[BLK];
  int fd;

  snprintf (path, sizeof path, "%s/%s/disk", mnt, name);
  memset (buf, i, sizeof buf);
  fd = open (path, O_WRONLY);
  if (fd < 0 || pwrite (fd, buf, sizeof buf, (off_t) i * 37 * BLK) != BLK)
    die ("write", 0);
  close (fd);
}

static double
kernel_snapshots (const char *name)
{
  struct btrfs_ioctl_vol_args_v2 args = { .flags = BTRFS_SUBVOL_RDONLY };
  char path[PATH_MAX + 64];
  double v[ROUNDS];
  int top = open (mnt, O_RDONLY);

  snprintf (path, sizeof path, "%s/%s", mnt, name);
  args.fd = open (path, O_RDONLY);
  for (unsigned i = 0; i < ROUNDS; ++i) {
    kernel_touch (name, i);
    snprintf (args.name, sizeof args.name, "%s-k%u", name, i);
    v[i] = now_ms ();
    if (ioctl (top, BTRFS_IOC_SNAP_CREATE_V2, &args) < 0 || syncfs (top) < 0)
      die ("snapshot by Linux", 0);
    v[i] = now_ms () - v[i];
  }
  close (args.fd);
  close (top);
  return median (v);
}

static double
kernel_reflink (const char *name)
{
  char from[PATH_MAX + 64], to[PATH_MAX + 64];
  double t = now_ms ();
  int a, b;

  snprintf (from, sizeof from, "%s/%s/disk", mnt, name);
  snprintf (to, sizeof to, "%s/%s-copy", mnt, name);
  a = open (from, O_RDONLY);
  b = open (to, O_RDWR | O_CREAT, 0600);
  if (a < 0 || b < 0 || ioctl (b, FICLONE, a) < 0 || syncfs (b) < 0)
    die ("reflink by Linux", 0);
  close (a);
  close (b);
  return now_ms () - t;
}

int
main (int argc, char *argv[])
{
  const uint64_t big = (argc > 2 ? strtoull (argv[2], NULL, 0) : 4096) << 20;
  const char *names[] = { "small", "big" }, *dev = pool_path;
  const struct btrnbd_mkfs_opts mkfs = {
    .size = 4 * big + (UINT64_C (4) << 30), .force = true };
  const struct btrnbd_open_opts opts = { .cache_size = 512 << 20 };
  double ours[2], clones[2], theirs[2];
  struct btrnbd_pool *p;

  if (argc < 2)
    die ("snapshots DIR [MIB]", 0);
  snprintf (pool_path, sizeof pool_path, "%s/pool", argv[1]);
  snprintf (mnt, sizeof mnt, "%s/mnt", argv[1]);
  OK (btrnbd_mkfs (pool_path, &mkfs));
  OK (btrnbd_pool_open (&dev, 1, &opts, &p));
  fill (p, "small", 64 << 20);
  fill (p, "big", big);
  for (unsigned i = 0; i < 2; ++i) {
    ours[i] = our_snapshots (p, names[i]);
    clones[i] = our_clones (p, names[i]);
  }
  OK (btrnbd_pool_close (p));
  printf ("snapshot: 64 MiB %.2f ms, %llu MiB %.2f ms (%.2fx)\n", ours[0],
          (unsigned long long) big >> 20, ours[1], ours[1] / ours[0]);
  printf ("clone:    64 MiB %.2f ms, %llu MiB %.2f ms (%.2fx)\n", clones[0],
          (unsigned long long) big >> 20, clones[1], clones[1] / clones[0]);
  if (shell ("mkdir -p %s%s", mnt, "") != 0 ||
      shell ("mount -t btrfs -o loop,subvolid=5 %s %s", pool_path, mnt) != 0) {
    printf ("Linux: not measured, no mount\n");
    return 0;
  }
  for (unsigned i = 0; i < 2; ++i)
    theirs[i] = kernel_snapshots (names[i]);
  printf ("Linux, snapshot and sync: %.2f ms, %.2f ms; ours is %.2fx, %.2fx\n",
          theirs[0], theirs[1], ours[0] / theirs[0], ours[1] / theirs[1]);
  {
    const double r = kernel_reflink ("big");

    printf ("Linux, reflink of the big image: %.0f ms, %.0f clones of ours\n",
            r, r / clones[1]);
  }
  return shell ("umount %s%s", mnt, "") != 0;
}
