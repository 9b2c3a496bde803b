/* Crash test: a random load on a recording device, then power cuts.
 *
 *   crash [-s SEED] [-n OPS] [-t THREADS] [-c CUTS] [-k CHECKS] [-d DIR] [-v]
 *         [-S MIB] [-N NODESIZE] [-C CSUM] [-f FEATURES] [-M] [-X] [-E] [-D]
 *
 * Every flush is a cut (just before and just after it completed), so is every
 * superblock write in the middle, and CUTS more places are sampled.  At each
 * cut some subset of the writes that were not flushed is on the disk, also
 * torn ones.  Each resulting disk is opened by the engine and must be a state
 * that the journal allows; on every tenth the engine then commits, crashes
 * again, and is looked at again.  CHECKS of them are judged by `btrfs check`.
 * Images that fail are kept in DIR.
 *
 * -S, -N, -C, -f: of the pool; -M: single metadata; -X: mixed block groups;
 * -E: the pool is expected to fill up; -D: what became free is discarded.
 *
 * Prints TAP.  The same seed gives the same load when THREADS is 0.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/math.h"
#include "crash/load.h"
#include "crash/shield.h"
#include "format/super.h"
#include "io/record.h"

struct test {
  uint64_t seed;
  unsigned ops, threads, cuts, checks;
  uint64_t size;
  const char *dir;
  bool verbose, full, discard;
  struct btrnbd_mkfs_opts mkfs;

  struct device *recorder;
  struct journal *journal;
  size_t begin;                /* first event after mkfs */
  struct record_cut *plan;
  size_t planned;

  unsigned full_answers, opened, failed, torn_supers;
  unsigned checked, check_failed, continued;
  uint64_t uncertain;
};

/* --- the recording --- */

static bool
record_load (struct test *t)
{
  struct btrnbd_open_opts opts = { .commit_interval = 1, .no_lock = true,
                                   .cache_size = 16 << 20,
                                   .discard = t->discard };
  struct load load = { .seed = t->seed, .ops = t->ops, .threads = t->threads,
                       .file_max = t->full ? 8 << 20 : 1 << 20,
                       .verbose = t->verbose,
                       .full_allowed = t->full };
  struct device *mem, *shield;
  bool ok;
  int r;

  r = device_mem_new ("recorded", t->size, &mem);
  if (r == 0)
    r = record_new (mem, &t->recorder);
  if (r == 0)
    r = btrnbd_mkfs_device (t->recorder, &t->mkfs);
  if (r == 0)
    r = device_flush (t->recorder);
  if (r < 0) {
    fprintf (stderr, "mkfs: %s\n", btrnbd_last_error (r));
    return false;
  }
  t->begin = record_count (t->recorder);
  t->journal = load.j = journal_new (t->recorder);
  shield = shield_new (t->recorder);
  r = btrnbd_pool_open_devices (&shield, 1, &opts, &load.pool);
  if (r < 0) {
    fprintf (stderr, "open: %s\n", btrnbd_last_error (r));
    return false;
  }
  ok = load_run (&load);
  t->full_answers = load.full;
  /* Half of the loads end with a clean close. */
  if (t->seed % 2 == 0) {
    uint32_t seq = journal_begin (t->journal);

    r = btrnbd_pool_close (load.pool);
    if (r < 0)
      fprintf (stderr, "close: %s\n", btrnbd_last_error (r));
    else
      journal_ack_all (t->journal, seq);
    ok = ok && r == 0;
  }
  else
    btrnbd_pool_kill (load.pool);
  return ok;
}

/* --- where to cut --- */

static void
add_cut (struct test *t, size_t at, enum record_keep keep, uint64_t *rng)
{
  t->plan = reallocarray (t->plan, t->planned + 1, sizeof *t->plan);
  if (t->plan == NULL)
    abort ();
  t->plan[t->planned++] = (struct record_cut) {
    .at = at, .keep = keep, .seed = load_rand (rng),
    .sector = load_rand (rng) % 2 ? 512 : 4096,
  };
}

static int
cut_cmp (const void *a, const void *b)
{
  const struct record_cut *x = a, *y = b;

  return x->at < y->at ? -1 : x->at > y->at;
}

static void
plan_cuts (struct test *t)
{
  size_t end = record_count (t->recorder);
  uint64_t rng = t->seed ^ 0xc0ffee;
  struct record_event ev;

  for (size_t i = t->begin; i < end; ++i) {
    record_get (t->recorder, i, &ev);
    if (ev.kind == RECORD_FLUSH) {
      add_cut (t, i, RECORD_KEEP_RANDOM, &rng);
      add_cut (t, i + 1, RECORD_KEEP_NONE, &rng);
    }
    /* The superblock is under way. */
    if (ev.kind == RECORD_WRITE && ev.offset == super_offset (0)) {
      add_cut (t, i + 1, RECORD_KEEP_TORN, &rng);
      t->plan[t->planned - 1].sector = 512;
    }
  }
  for (unsigned i = 0; i < t->cuts; ++i) {
    static const enum record_keep keeps[] = {
      RECORD_KEEP_NONE, RECORD_KEEP_ALL, RECORD_KEEP_RANDOM,
      RECORD_KEEP_RANDOM, RECORD_KEEP_TORN, RECORD_KEEP_TORN };
    size_t at = t->begin + load_rand (&rng) % (end - t->begin + 1);

    add_cut (t, at, keeps[load_rand (&rng) % ARRAY_SIZE (keeps)], &rng);
  }
  qsort (t->plan, t->planned, sizeof *t->plan, cut_cmp);
}

/* --- btrfs check --- */

/* Write the contents of IMAGE to a sparse file. */
static void
dump (struct device *image, const char *path)
{
  uint64_t size = device_get_info (image)->size;
  const size_t chunk = 65536;
  uint8_t *buf = io_alloc (chunk);
  int fd = open (path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

  if (fd < 0 || ftruncate (fd, size) < 0 || buf == NULL) {
    perror (path);
    exit (99);
  }
  for (uint64_t off = 0; off < size; off += chunk) {
    size_t len = MIN (size - off, (uint64_t) chunk);

    if (device_read (image, off, buf, len) < 0)
      exit (99);
    for (size_t in = 0; in < len; in += 4096) {
      size_t n = MIN (len - in, (size_t) 4096);

      if (memcmp (buf + in, buf + in + 1, n - 1) == 0 && buf[in] == 0)
        continue;
      if (pwrite (fd, buf + in, n, off + in) != (ssize_t) n) {
        perror (path);
        exit (99);
      }
    }
  }
  close (fd);
  free (buf);
}

/* Is `btrfs check` content with IMAGE?  With COPY its superblock copy. */
static bool
check_image (struct test *t, struct device *image, unsigned copy)
{
  char path[PATH_MAX], cmd[PATH_MAX * 2 + 200];
  int status;

  snprintf (path, sizeof path, "%s/crash-check-%d.img", t->dir,
            (int) getpid ());
  dump (image, path);
  snprintf (cmd, sizeof cmd,
            "btrfs check --readonly %s %s > %s.log 2>&1",
            copy ? "-s 1" : "", path, path);
  status = system (cmd);
  if (!WIFEXITED (status) || WEXITSTATUS (status) != 0) {
    snprintf (cmd, sizeof cmd, "sed 's/^/# /' %s.log | head -n 40", path);
    fflush (stdout);
    if (system (cmd) < 0)
      perror ("sed");
    return false;
  }
  unlink (path);
  snprintf (cmd, sizeof cmd, "%s.log", path);
  unlink (cmd);
  return true;
}

/* --- one cut --- */

static int
open_image (struct device *image, unsigned copy, bool read_only,
            struct btrnbd_pool **ret)
{
  struct btrnbd_open_opts opts = {
    .commit_interval = UINT32_MAX, .no_lock = true, .workers = 1,
    .cache_size = 8 << 20, .read_only = read_only, .super_copy = copy };
  struct device *dev = shield_new (image);

  return btrnbd_pool_open_devices (&dev, 1, &opts, ret);
}

static bool
first_super_is_bad (struct device *image)
{
  struct btrfs_super *s = io_alloc (sizeof *s);
  bool bad = s == NULL ||
    device_read (image, super_offset (0), s, sizeof *s) < 0 ||
    super_check (s, super_offset (0)) < 0;

  free (s);
  return bad;
}

/* Open, judge, and kill; COMMIT makes it write first. */
static bool
judge_image (struct test *t, struct device *image, const struct record_cut *c,
             unsigned copy, bool commit, char why[JWHY_MAX])
{
  struct btrnbd_pool *pool;
  bool ok;
  int r = open_image (image, copy, !commit && c->seed % 2, &pool);

  if (r < 0) {
    snprintf (why, JWHY_MAX, "open: %s", btrnbd_last_error (r));
    return false;
  }
  ok = journal_allows (t->journal, c->at, pool, why);
  if (ok && commit) {
    /* Something that the journal does not know, so that it does commit. */
    r = btrnbd_setxattr (pool, "", "user.crash", "again", 5);
    if (r == 0)
      r = btrnbd_pool_sync (pool);
    ok = r == 0;
    if (!ok)
      snprintf (why, JWHY_MAX, "sync: %s", btrnbd_last_error (r));
  }
  btrnbd_pool_kill (pool);
  return ok;
}

static void
report (struct test *t, struct device *image, size_t index,
        const struct record_cut *c, const char *why)
{
  char path[PATH_MAX];

  t->failed++;
  if (t->failed > 10)
    return;
  snprintf (path, sizeof path, "%s/crash-%llu-%zu.img", t->dir,
            (unsigned long long) t->seed, index);
  dump (image, path);
  printf ("# seed %llu cut %zu (event %zu, keep %d, sector %u, seed %llu): "
          "%s\n# kept in %s\n", (unsigned long long) t->seed, index, c->at,
          c->keep, c->sector, (unsigned long long) c->seed, why, path);
  fflush (stdout);
}

static void
one_cut (struct test *t, struct record_player *player, size_t index)
{
  const struct record_cut *c = &t->plan[index];
  char why[JWHY_MAX] = "";
  unsigned copy = 0;
  struct device *image;
  bool ok;
  int r = record_image (player, c, &image);

  if (r < 0) {
    fprintf (stderr, "image: %s\n", btrnbd_last_error (r));
    exit (99);
  }
  t->uncertain += record_uncertain (player);
  /* A torn first copy is refused, and the pool opens from the second when
   * somebody says so.
   */
  if (first_super_is_bad (image)) {
    struct btrnbd_pool *pool;

    copy = 1;
    t->torn_supers++;
    r = open_image (image, 0, true, &pool);
    if (r == 0) {
      report (t, image, index, c, "opened with a torn superblock");
      btrnbd_pool_kill (pool);
    }
  }
  if (t->checks > 0 && index % MAX (t->planned / t->checks, (size_t) 1) == 0) {
    t->checked++;
    if (!check_image (t, image, copy)) {
      t->check_failed++;
      report (t, image, index, c, "btrfs check");
    }
  }
  ok = judge_image (t, image, c, copy, false, why);
  if (ok && index % 10 == 0) {
    t->continued++;
    ok = judge_image (t, image, c, copy, true, why) &&
      judge_image (t, image, c, 0, false, why);
  }
  t->opened++;
  if (!ok)
    report (t, image, index, c, why);
  device_close (image);
}

static void
run_cuts (struct test *t)
{
  struct record_player *player;
  struct device *start;

  if (device_mem_new ("start", t->size, &start) < 0 ||
      record_player_new (t->recorder, start, &player) < 0)
    exit (99);
  for (size_t i = 0; i < t->planned && t->failed < 50; ++i)
    one_cut (t, player, i);
  record_player_free (player);
}

/* Killing a pool is an abort to the engine, which it reports. */
static void
quiet (void *opaque, int level, const char *line)
{
  (void) opaque;
  (void) level;
  (void) line;
}

static bool
have_btrfs (void)
{
  return system ("btrfs --version >/dev/null 2>&1") == 0;
}

static void
result (unsigned number, bool ok, const char *what)
{
  printf ("%sok %u - %s\n", ok ? "" : "not ", number, what);
  fflush (stdout);
}

static void
parse (struct test *t, int argc, char *argv[])
{
  int c;

  while ((c = getopt (argc, argv, "s:n:t:c:k:S:d:N:C:f:MXEDv")) != -1)
    switch (c) {
    case 's': t->seed = strtoull (optarg, NULL, 0); break;
    case 'n': t->ops = atoi (optarg); break;
    case 't': t->threads = atoi (optarg); break;
    case 'c': t->cuts = atoi (optarg); break;
    case 'k': t->checks = atoi (optarg); break;
    case 'S': t->size = strtoull (optarg, NULL, 0) << 20; break;
    case 'd': t->dir = optarg; break;
    case 'N': t->mkfs.nodesize = atoi (optarg); break;
    case 'C': t->mkfs.csum = optarg; break;
    case 'f': t->mkfs.features = optarg; break;
    case 'M': t->mkfs.metadata_profile = "single"; break;
    case 'X': t->mkfs.mixed = true; break;
    case 'E': t->full = true; break;
    case 'D': t->discard = true; break;
    case 'v': t->verbose = true; break;
    default: exit (2);
    }
}

int
main (int argc, char *argv[])
{
  struct test t = { .seed = 1, .ops = 400, .cuts = 500, .checks = 30,
                    .size = UINT64_C (512) << 20, .dir = getenv ("TMPDIR") };
  size_t overlaps, first = 0;
  char text[200];
  bool ok;

  if (t.dir == NULL)
    t.dir = "/tmp";
  parse (&t, argc, argv);
  if (!have_btrfs ())
    t.checks = 0;
  if (!t.verbose)
    btrnbd_set_log (quiet, NULL, 0);

  printf ("1..4\n");
  ok = record_load (&t);
  if (!ok) {
    result (1, false, "the load runs");
    printf ("Bail out! nothing to cut\n");
    return 1;
  }
  plan_cuts (&t);
  snprintf (text, sizeof text, "seed %llu: %u operations by %u threads, "
            "%zu events, %llu MiB written, %u times full",
            (unsigned long long) t.seed, t.journal->nops, t.threads + 1,
            record_count (t.recorder) - t.begin,
            (unsigned long long) record_bytes (t.recorder) >> 20,
            t.full_answers);
  result (1, !t.full || t.full_answers > 0, text);
  run_cuts (&t);
  snprintf (text, sizeof text, "%u cuts opened and as acknowledged, %u went "
            "on, %u torn superblocks, %.1f writes open on average",
            t.opened, t.continued, t.torn_supers,
            (double) t.uncertain / MAX (t.opened, 1u));
  result (2, t.failed == 0 && t.opened == t.planned && t.uncertain > 0, text);
  snprintf (text, sizeof text, "btrfs check clean on %u of %u",
            t.checked - t.check_failed, t.checked);
  overlaps = record_overlaps (t.recorder, &first);
  if (overlaps > 0)
    printf ("# %zu writes or discards raced with others to the same place, "
            "the first is event %zu\n", overlaps, first);
  result (3, overlaps == 0, "nothing was written twice at once");
  if (t.checks == 0)
    printf ("ok 4 # SKIP no btrfs\n");
  else
    result (4, t.check_failed == 0 && t.checked > 0, text);
  journal_free (t.journal);
  device_close (t.recorder);
  free (t.plan);
  return t.failed != 0 || overlaps > 0 || (t.full && t.full_answers == 0);
}
