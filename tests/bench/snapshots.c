/* What a snapshot and a clone cost: of a small image and of a big one, both
 * fragmented to single blocks, beside Linux on the same pool.
 *
 *   snapshots DIR [MIB]
 *
 * Small and big are measured in turn; beside the time, which the machine's
 * other work disturbs, stands what was written of tree blocks.  Ours: the
 * call, which returns when it is durable.  Linux: the ioctl and a sync of the
 * filesystem; and a reflink of the image with a sync, which is what copies
 * without subvolumes cost.  Needs root for Linux's part.
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

#define ROUNDS 41
#define BLK 4096u

static char pool_path[PATH_MAX], mnt[PATH_MAX];
static const char *const names[] = { "small", "big" };

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

/* What others do at the same time only adds to a round: the lower quartile
 * says more of its cost than the middle.
 */
static double
lower_quartile (double *v)
{
  qsort (v, ROUNDS, sizeof *v, by_value);
  return v[ROUNDS / 4];
}

/* Every block once, in an order that leaves no two together: 64 MiB after
 * 64 MiB, so that a leaf of the big image refers to as many places on disk as
 * one of the small.  A snapshot copies the leaves that were written since the
 * last one, and each item's reference is counted up where its extent is.
 */
static void
fill (struct btrnbd_pool *p, const char *name, uint64_t size)
{
  const struct btrnbd_volume_opts o = { .size = size };
  const uint64_t n = size / BLK, piece = (64 << 20) / BLK;
  uint8_t buf[BLK];
  struct btrnbd_file *f;

  OK (btrnbd_volume_create (p, name, &o));
  OK (btrnbd_export_open (p, name, 0, &f));
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t at = i / piece * piece + i % piece * 7919 % piece;

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

/* What a round costs, of the small image and of the big one. */
struct costs {
  double v[2][ROUNDS];         /* ms */
  double ms[2], mean[2], kib[2];
};

/* Both in turn, so that whatever else the machine does meets both.  ONE does
 * round I on the image; its cost in ms.
 */
static void
measure (struct costs *c, struct btrnbd_pool *p,
         double (*one) (void *ctx, unsigned image, unsigned i), void *ctx)
{
  *c = (struct costs) { .kib = { 0 } };
  for (unsigned i = 0; i < ROUNDS; ++i)
    for (unsigned k = 0; k < 2; ++k) {
      const unsigned image = (i + k) % 2;
      struct btrnbd_pool_stats before = { 0 }, after = { 0 };

      if (p != NULL)
        btrnbd_pool_get_stats (p, &before);
      c->v[image][i] = one (ctx, image, i);
      if (p != NULL)
        btrnbd_pool_get_stats (p, &after);
      c->mean[image] += c->v[image][i] / ROUNDS;
      c->kib[image] += (double) (after.block_writes_bytes
                                 - before.block_writes_bytes) / 1024 / ROUNDS;
    }
  for (unsigned k = 0; k < 2; ++k)
    c->ms[k] = lower_quartile (c->v[k]);
}

static double
our_snapshot (void *ctx, unsigned image, unsigned i)
{
  struct btrnbd_pool *p = ctx;
  double t;
  char tag[16];

  touch (p, names[image], i);
  snprintf (tag, sizeof tag, "t%u", i);
  t = now_ms ();
  OK (btrnbd_volume_snapshot (p, &names[image], 1, tag));
  return now_ms () - t;
}

static double
our_clone (void *ctx, unsigned image, unsigned i)
{
  struct btrnbd_pool *p = ctx;
  char from[64], to[64];
  double t;

  snprintf (from, sizeof from, "%s@t0", names[image]);
  snprintf (to, sizeof to, "%s-c%u", names[image], i);
  t = now_ms ();
  OK (btrnbd_volume_clone (p, from, to));
  return now_ms () - t;
}

/* One after the other, each durable. */
static double
our_fifty_clones (struct btrnbd_pool *p)
{
  char to[64];
  const double t = now_ms ();

  for (unsigned i = 0; i < 50; ++i) {
    snprintf (to, sizeof to, "fifty-%u", i);
    OK (btrnbd_volume_clone (p, "big@t0", to));
  }
  return now_ms () - t;
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

/* As `btrfs subvolume snapshot` and a sync of the filesystem. */
static double
kernel_snapshot (void *ctx, unsigned image, unsigned i)
{
  struct btrfs_ioctl_vol_args_v2 args = { .flags = BTRFS_SUBVOL_RDONLY };
  char path[PATH_MAX + 64];
  const int *top = ctx;
  double t;

  kernel_touch (names[image], i);
  snprintf (path, sizeof path, "%s/%s", mnt, names[image]);
  args.fd = open (path, O_RDONLY);
  snprintf (args.name, sizeof args.name, "%s-k%u", names[image], i);
  t = now_ms ();
  if (ioctl (*top, BTRFS_IOC_SNAP_CREATE_V2, &args) < 0 || syncfs (*top) < 0)
    die ("snapshot by Linux", 0);
  t = now_ms () - t;
  close (args.fd);
  return t;
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

static void
report (const char *what, const struct costs *c, uint64_t big)
{
  printf ("%-26s 64 MiB %6.2f ms, %llu MiB %6.2f ms: %.2fx (wanted: <= 1.2)",
          what, c->ms[0], (unsigned long long) big >> 20, c->ms[1],
          c->ms[1] / c->ms[0]);
  if (c->kib[0] > 0)
    printf ("; blocks written %.0f KiB, %.0f KiB: %.2fx", c->kib[0],
            c->kib[1], c->kib[1] / c->kib[0]);
  printf ("\n");
}

static void
measure_ours (const char *dev, uint64_t big, struct costs *snaps,
              struct costs *clones, double *ret_fifty)
{
  const struct btrnbd_open_opts opts = { .cache_size = 512 << 20 };
  struct btrnbd_pool *p;

  OK (btrnbd_pool_open (&dev, 1, &opts, &p));
  fill (p, names[0], 64 << 20);
  fill (p, names[1], big);
  measure (snaps, p, our_snapshot, p);
  measure (clones, p, our_clone, p);
  *ret_fifty = our_fifty_clones (p);
  OK (btrnbd_pool_close (p));
}

int
main (int argc, char *argv[])
{
  const uint64_t big = (argc > 2 ? strtoull (argv[2], NULL, 0) : 4096) << 20;
  const struct btrnbd_mkfs_opts mkfs = {
    .size = 4 * big + (UINT64_C (4) << 30), .force = true };
  struct costs snaps, clones, linux_snaps;
  double fifty, reflink;
  int top;

  if (argc < 2)
    die ("snapshots DIR [MIB]", 0);
  snprintf (pool_path, sizeof pool_path, "%s/pool", argv[1]);
  snprintf (mnt, sizeof mnt, "%s/mnt", argv[1]);
  OK (btrnbd_mkfs (pool_path, &mkfs));
  measure_ours (pool_path, big, &snaps, &clones, &fifty);
  report ("snapshot", &snaps, big);
  report ("clone", &clones, big);
  printf ("%-26s %.0f ms, %.1f times what those cost on average (wanted: <= "
          "50)\n", "50 clones at once", fifty, fifty / clones.mean[1]);
  if (shell ("mkdir -p %s%s", mnt, "") != 0 ||
      shell ("mount -t btrfs -o loop,ssd,subvolid=5 %s %s", pool_path,
             mnt) != 0) {
    printf ("Linux: not measured, no mount\n");
    return 0;
  }
  top = open (mnt, O_RDONLY);
  measure (&linux_snaps, NULL, kernel_snapshot, &top);
  close (top);
  report ("Linux, snapshot and sync", &linux_snaps, big);
  for (unsigned k = 0; k < 2; ++k)
    printf ("%-26s %.2fx Linux's (wanted: <= 1.0)\n",
            k == 0 ? "our snapshot of 64 MiB" : "our snapshot of the big",
            snaps.ms[k] / linux_snaps.ms[k]);
  reflink = kernel_reflink ("big");
  printf ("%-26s %.0f ms, %.0f clones of ours (wanted: >= 20)\n",
          "Linux, cp --reflink", reflink, reflink / clones.ms[1]);
  return shell ("umount %s%s", mnt, "") != 0;
}
