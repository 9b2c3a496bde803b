/* Fault test: a short scenario in which the N-th read, write, flush or
 * allocation fails, for every N.
 *
 *   fault [-s SEED] [-k read|write|flush|alloc] [-F] [-a N] [-z N] [-m STRIDE]
 *         [-c EVERY] [-n OPS] [-N NODESIZE] [-d DIR] [-v]
 *
 * -F: it and all after it.  -a, -z, -m: from N to N in steps of STRIDE.
 * -c: `btrfs check` on every EVERY-th result.  -n: operations that made the
 * pool what it is before.
 *
 * After each round the pool is opened again without faults: that must work,
 * and what is there must be a state that the journal of the round allows
 * (tests/crash/journal.h): everything acknowledged, nothing but what was
 * written, names of one moment.
 *
 * Prints TAP.
 */
#include <config.h>

#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/math.h"
#include "crash/load.h"
#include "crash/shield.h"
#include "fault/alloc.h"
#include "io/fault.h"

#define SIZE (UINT64_C (256) << 20)
#define HANG_S 120

enum { ALLOC = IO_DISCARD }; /* as a kind of fault, beside enum io_kind */
static const char *const kind_names[] = { "read", "write", "flush", "alloc" };

struct test {
  uint64_t seed;
  int only;                    /* kind, or -1 */
  bool from, verbose;
  unsigned ops, nodesize;
  uint64_t first, last, stride, check_every;
  const char *dir;

  struct device *disk;         /* the pool before the scenario */
  struct journal *journal;
  unsigned failed, checked;
};

/* Where we are, for the handler of deadly signals. */
static struct { volatile sig_atomic_t kind; volatile uint64_t n; } place;

static void
deadly (int sig)
{
  char text[120];
  int len = snprintf (text, sizeof text,
                      "\nnot ok - signal %d (%s) with %s %llu failing\n", sig,
                      sig == SIGALRM ? "it hangs" : "it dies",
                      kind_names[place.kind], (unsigned long long) place.n);

  if (write (STDOUT_FILENO, text, len) < 0)
    _exit (98);
  signal (sig, SIG_DFL);
  raise (sig);
}

static void
handle_deadly (void)
{
  static const int sigs[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGALRM };

  for (unsigned i = 0; i < ARRAY_SIZE (sigs); ++i)
    signal (sigs[i], deadly);
}

static int
open_pool (struct device *dev, bool read_only, struct btrnbd_pool **ret)
{
  struct btrnbd_open_opts opts = {
    .commit_interval = UINT32_MAX, .no_lock = true, .workers = 1,
    .cache_size = 8 << 20, .read_only = read_only };

  return btrnbd_pool_open_devices (&dev, 1, &opts, ret);
}

/* A pool with some things in it, closed cleanly, and its journal. */
static bool
prepare (struct test *t)
{
  struct load load = { .seed = t->seed, .ops = t->ops, .file_max = 256 << 10,
                       .verbose = t->verbose };
  struct btrnbd_mkfs_opts mkfs = { .nodesize = t->nodesize };
  uint32_t seq;
  int r;

  r = device_mem_new ("disk", SIZE, &t->disk);
  if (r == 0)
    r = btrnbd_mkfs_device (t->disk, &mkfs);
  if (r == 0)
    r = open_pool (shield_new (t->disk), false, &load.pool);
  if (r < 0) {
    fprintf (stderr, "prepare: %s\n", btrnbd_last_error (r));
    return false;
  }
  t->journal = load.j = journal_new (NULL);
  if (!load_run (&load))
    return false;
  seq = journal_begin (t->journal);
  r = btrnbd_pool_close (load.pool);
  journal_ack_all (t->journal, seq);
  if (r < 0)
    fprintf (stderr, "close: %s\n", btrnbd_last_error (r));
  return r == 0;
}

static void
arm (struct device *fault, int kind, uint64_t n, bool from)
{
  if (kind == ALLOC)
    alloc_arm (n, from);
  else
    fault_arm (fault, kind, n == 0 ? FAULT_OFF : from ? FAULT_FROM
               : FAULT_ONCE, n);
}

static uint64_t
hits (struct device *fault, int kind)
{
  return kind == ALLOC ? alloc_hits () : fault_hits (fault, kind);
}

/* Open, do a few things, close, with faults. */
static void
scenario (struct test *t, struct device *fault, struct journal *j)
{
  struct load load = { .j = j, .seed = t->seed + 1, .file_max = 128 << 10,
                       .errors_allowed = true, .verbose = t->verbose,
                       /* Whoever cannot look what was made cannot tell. */
                       .snapshots = !(t->only == ALLOC && t->from) };
  struct device *dev = shield_new (fault);
  uint32_t seq;
  int r = open_pool (dev, false, &load.pool);

  if (r < 0) {
    if (t->verbose)
      fprintf (stderr, "open: %s\n", btrnbd_last_error (r));
    return;
  }
  load_scenario (&load);
  seq = journal_begin (j);
  r = btrnbd_pool_close (load.pool);
  if (t->verbose)
    fprintf (stderr, "close: %s\n", r < 0 ? btrnbd_last_error (r) : "ok");
  if (r == 0)
    journal_ack_all (j, seq);
}

static void
dump (struct device *image, const char *path)
{
  const size_t chunk = 4096;
  uint8_t *buf = io_alloc (chunk);
  int fd = open (path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

  if (fd < 0 || buf == NULL || ftruncate (fd, SIZE) < 0)
    exit (99);
  for (uint64_t off = 0; off < SIZE; off += chunk) {
    if (device_read (image, off, buf, chunk) < 0)
      exit (99);
    if ((buf[0] != 0 || memcmp (buf, buf + 1, chunk - 1) != 0) &&
        pwrite (fd, buf, chunk, off) != (ssize_t) chunk)
      exit (99);
  }
  close (fd);
  free (buf);
}

static bool
check_image (struct test *t, struct device *image)
{
  char path[PATH_MAX], cmd[3 * PATH_MAX + 200];
  int status;

  snprintf (path, sizeof path, "%s/fault-check-%d.img", t->dir,
            (int) getpid ());
  dump (image, path);
  snprintf (cmd, sizeof cmd, "btrfs check --readonly %s > %s.log 2>&1 || "
            "{ sed 's/^/# /' %s.log | head -n 30; false; }", path, path,
            path);
  fflush (stdout);
  status = system (cmd);
  unlink (path);
  snprintf (cmd, sizeof cmd, "%s.log", path);
  unlink (cmd);
  t->checked++;
  return WIFEXITED (status) && WEXITSTATUS (status) == 0;
}

static void
wrong (struct test *t, struct device *image, int kind, uint64_t n,
       const char *why)
{
  char path[PATH_MAX];

  if (t->failed++ >= 10)
    return;
  snprintf (path, sizeof path, "%s/fault-%s-%llu.img", t->dir,
            kind_names[kind], (unsigned long long) n);
  dump (image, path);
  printf ("# %s %llu%s: %s\n# kept in %s\n", kind_names[kind],
          (unsigned long long) n, t->from ? " and all after it" : "", why,
          path);
  fflush (stdout);
}

/* The disk after a round. */
static void
judge (struct test *t, struct device *image, struct journal *j, int kind,
       uint64_t n)
{
  char why[JWHY_MAX];
  struct btrnbd_pool *pool;
  int r;

  if (t->check_every > 0 && n % t->check_every == 0 &&
      !check_image (t, image))
    wrong (t, image, kind, n, "btrfs check");
  r = open_pool (shield_new (image), n % 2, &pool);
  if (r < 0) {
    snprintf (why, sizeof why, "open: %s", btrnbd_last_error (r));
    wrong (t, image, kind, n, why);
    return;
  }
  if (!journal_allows (j, 1, pool, why))
    wrong (t, image, kind, n, why);
  btrnbd_pool_kill (pool);
}

/* One round; false when the scenario ended before the N-th. */
static bool
one (struct test *t, int kind, uint64_t n)
{
  struct journal *j = journal_clone (t->journal);
  struct device *image, *fault;
  bool hit;

  place.kind = kind;
  place.n = n;
  alarm (HANG_S);
  if (device_mem_overlay ("image", t->disk, &image) < 0 ||
      fault_new (image, &fault) < 0)
    exit (99);
  arm (fault, kind, n, t->from);
  scenario (t, fault, j);
  hit = hits (fault, kind) > 0;
  arm (fault, kind, 0, false);
  if (hit || n == 0)
    judge (t, image, j, kind, n);
  device_close (fault);
  journal_free (j);
  alarm (0);
  return hit;
}

static void
quiet (void *opaque, int level, const char *line)
{
  (void) opaque;
  (void) level;
  (void) line;
}

static void
parse (struct test *t, int argc, char *argv[])
{
  int c;

  while ((c = getopt (argc, argv, "s:k:Fa:z:m:c:n:N:d:v")) != -1)
    switch (c) {
    case 's': t->seed = strtoull (optarg, NULL, 0); break;
    case 'k':
      for (unsigned i = 0; i < ARRAY_SIZE (kind_names); ++i)
        if (strcmp (optarg, kind_names[i]) == 0)
          t->only = i;
      break;
    case 'F': t->from = true; break;
    case 'a': t->first = strtoull (optarg, NULL, 0); break;
    case 'z': t->last = strtoull (optarg, NULL, 0); break;
    case 'm': t->stride = strtoull (optarg, NULL, 0); break;
    case 'c': t->check_every = strtoull (optarg, NULL, 0); break;
    case 'n': t->ops = atoi (optarg); break;
    case 'N': t->nodesize = atoi (optarg); break;
    case 'd': t->dir = optarg; break;
    case 'v': t->verbose = true; break;
    default: exit (2);
    }
}

int
main (int argc, char *argv[])
{
  struct test t = { .seed = 1, .only = -1, .first = 1, .last = UINT64_MAX,
                    .stride = 1, .ops = 60, .dir = getenv ("TMPDIR") };
  unsigned number = 0, all = 0;

  if (t.dir == NULL)
    t.dir = "/tmp";
  parse (&t, argc, argv);
  if (system ("btrfs --version >/dev/null 2>&1") != 0)
    t.check_every = 0;
  handle_deadly ();
  if (!t.verbose)
    btrnbd_set_log (quiet, NULL, 0);
  if (!prepare (&t)) {
    printf ("Bail out! the pool could not be prepared\n");
    return 1;
  }
  for (int kind = 0; kind <= ALLOC; ++kind) {
    uint64_t n, rounds = 0;

    if (t.only >= 0 && t.only != kind)
      continue;
    /* Without faults: the scenario itself must be right. */
    t.failed = 0;
    one (&t, kind, 0);
    for (n = t.first; n <= t.last && one (&t, kind, n); n += t.stride)
      rounds++;
    printf ("%sok %u - %s: %llu rounds, up to the %llu%s\n",
            t.failed == 0 && rounds > 0 ? "" : "not ", ++number,
            kind_names[kind], (unsigned long long) rounds,
            (unsigned long long) n - t.stride,
            t.from ? "th and all after it" : "th");
    fflush (stdout);
    all += t.failed;
  }
  printf ("1..%u\n# btrfs check on %u\n", number, t.checked);
  journal_free (t.journal);
  device_close (t.disk);
  return all != 0;
}
