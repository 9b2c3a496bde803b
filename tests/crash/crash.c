/* Crash test: a random load on a recording device, then power cuts.
 *
 *   crash [-s SEED] [-n OPS] [-t THREADS] [-c CUTS] [-k CHECKS] [-d DIR] [-v]
 *         [-S MIB] [-N NODESIZE] [-C CSUM] [-f FEATURES] [-M] [-X] [-E] [-D]
 *         [-I] [-L] [-V SUBVOLUMES] [-p MS] [-K EVERY] [-T CUTS] [-W] [-A]
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
 * -E: the pool is expected to fill up; -D: what became free is discarded;
 * -W: tree blocks are written early all the time; -A: snapshots of volumes are
 * taken, cloned, gone back to and removed; -I: images of the pool are open
 * most of the time.
 *
 * -L: a load of names and fsyncs that commits seldom, so that logs are what
 * most cuts leave; on every tenth our replay is cut, too, wherever it writes.
 * -V: the threads' files are in so many subvolumes; -p: a commit runs every so
 * many milliseconds.  -K: every so many cuts, of replays also, one is mounted
 * by Linux, which replays: what comes out must be clean, and a state that the
 * journal allows.  -T: at most so many cuts (and those of replays), taken at
 * random.
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
#include "crash/image.h"
#include "crash/load.h"
#include "crash/shield.h"
#include "format/super.h"
#include "fs/api_priv.h"
#include "io/record.h"

struct plan {
  struct record_cut *cuts;     /* by place */
  size_t n;
};

struct test {
  uint64_t seed;
  unsigned ops, threads, subvols, cuts, checks, commit_ms, most;
  unsigned mount_every;
  uint64_t size;
  const char *dir;
  bool verbose, full, discard, log, early, snapshots, images;
  struct btrnbd_mkfs_opts mkfs;

  struct device *recorder;
  struct journal *journal;
  size_t begin;                /* first event after mkfs */
  struct plan plan;
  struct btrnbd_pool_stats stats;

  unsigned full_answers, opened, failed, torn_supers, logs;
  unsigned checked, check_failed, continued;
  unsigned replays, replay_cuts, mounted;
  uint64_t uncertain;
};

/* --- the recording --- */

/* Commits every so often, beside everything else. */
struct committer {
  struct btrnbd_pool *pool;
  unsigned ms;
  bool end;                    /* atomic */
  pthread_t thread;
};

static void *
commit_main (void *opaque)
{
  struct committer *c = opaque;

  while (!__atomic_load_n (&c->end, __ATOMIC_ACQUIRE)) {
    usleep (c->ms * 1000);
    if (trans_commit (c->pool->fs->trans, NULL) < 0)
      break; /* whoever flushes is told */
  }
  return NULL;
}

/* Images, one after the other: what they hold back and then give back must
 * make no difference to who finds the disk after a crash.
 */
static void *
image_main (void *opaque)
{
  struct committer *c = opaque;
  struct btrnbd_file *f;
  uint8_t buf[4096];
  unsigned i;
  int r;

  for (i = 0; !__atomic_load_n (&c->end, __ATOMIC_ACQUIRE); i++) {
    r = btrnbd_export_open (c->pool, "@pool", 0, &f);
    if (r == -ERR_image_ended || r == -ERR_nospace)
      continue;
    if (r < 0)
      break; /* whoever flushes is told */
    usleep (1000 << i % 8);
    r = btrnbd_pread (f, buf, sizeof buf, super_offset (0));
    if (r == 0 && memcmp (buf + 64, "_BHRfS_M", 8) != 0)
      abort ();
    btrnbd_file_close (f);
  }
  return NULL;
}

static bool
run_with_images (const struct test *t, struct load *load,
                 bool (*run) (const struct test *, struct load *))
{
  struct committer c = { .pool = load->pool };
  bool ok;

  if (!t->images)
    return run (t, load);
  if (pthread_create (&c.thread, NULL, image_main, &c) != 0)
    abort ();
  ok = run (t, load);
  __atomic_store_n (&c.end, true, __ATOMIC_RELEASE);
  pthread_join (c.thread, NULL);
  return ok;
}

static bool
run_load (const struct test *t, struct load *load)
{
  struct committer c = { .pool = load->pool, .ms = t->commit_ms };
  bool ok;

  if (c.ms == 0)
    return load_run (load);
  if (pthread_create (&c.thread, NULL, commit_main, &c) != 0)
    abort ();
  ok = load_run (load);
  __atomic_store_n (&c.end, true, __ATOMIC_RELEASE);
  pthread_join (c.thread, NULL);
  return ok;
}

static bool
record_load (struct test *t)
{
  struct btrnbd_open_opts opts = {
    .commit_interval = t->log ? UINT_MAX : 1, .no_lock = true,
    .cache_size = 16 << 20, .discard = t->discard };
  struct load load = { .seed = t->seed, .ops = t->ops, .threads = t->threads,
                       .subvols = t->subvols, .log = t->log,
                       .snapshots = t->snapshots,
                       .file_max = t->full ? 8 << 20 : 1 << 20,
                       .verbose = t->verbose,
                       .full_allowed = t->full, .early = t->early };
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
  ok = run_with_images (t, &load, run_load);
  t->full_answers = load.full;
  btrnbd_pool_get_stats (load.pool, &t->stats);
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

static struct record_cut *
add_cut (struct plan *p, size_t at, enum record_keep keep, uint64_t *rng)
{
  p->cuts = reallocarray (p->cuts, p->n + 1, sizeof *p->cuts);
  if (p->cuts == NULL)
    abort ();
  p->cuts[p->n] = (struct record_cut) {
    .at = at, .keep = keep, .seed = load_rand (rng),
    .sector = load_rand (rng) % 2 ? 512 : 4096,
  };
  return &p->cuts[p->n++];
}

static int
cut_cmp (const void *a, const void *b)
{
  const struct record_cut *x = a, *y = b;

  return x->at < y->at ? -1 : x->at > y->at;
}

/* MORE: sampled places beside flushes and superblocks. */
static void
plan_cuts (struct plan *p, struct device *recorder, size_t begin,
           unsigned more, uint64_t rng)
{
  size_t end = record_count (recorder);
  struct record_event ev;

  for (size_t i = begin; i < end; ++i) {
    record_get (recorder, i, &ev);
    if (ev.kind == RECORD_FLUSH) {
      add_cut (p, i, RECORD_KEEP_RANDOM, &rng);
      add_cut (p, i + 1, RECORD_KEEP_NONE, &rng);
    }
    /* The superblock is under way. */
    if (ev.kind == RECORD_WRITE && ev.offset == super_offset (0))
      add_cut (p, i + 1, RECORD_KEEP_TORN, &rng)->sector = 512;
  }
  for (unsigned i = 0; i < more; ++i) {
    static const enum record_keep keeps[] = {
      RECORD_KEEP_NONE, RECORD_KEEP_ALL, RECORD_KEEP_RANDOM,
      RECORD_KEEP_RANDOM, RECORD_KEEP_TORN, RECORD_KEEP_TORN };
    size_t at = begin + load_rand (&rng) % (end - begin + 1);

    add_cut (p, at, keeps[load_rand (&rng) % ARRAY_SIZE (keeps)], &rng);
  }
  qsort (p->cuts, p->n, sizeof *p->cuts, cut_cmp);
}

/* Of many, N. */
static void
thin_out (struct plan *p, size_t n, uint64_t rng)
{
  while (p->n > n) {
    const size_t i = load_rand (&rng) % p->n;

    memmove (&p->cuts[i], &p->cuts[i + 1],
             (--p->n - i) * sizeof p->cuts[0]);
  }
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

/* It failed: keep it. */
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
  image_dump (image, path);
  printf ("# seed %llu cut %zu (event %zu, keep %d, sector %u, seed %llu): "
          "%s\n# kept in %s\n", (unsigned long long) t->seed, index, c->at,
          c->keep, c->sector, (unsigned long long) c->seed, why, path);
  fflush (stdout);
}

/* Linux replays, and we look at what it made of it. */
static bool
mount_image_now (struct test *t, struct device *image,
                 const struct record_cut *c, char why[JWHY_MAX])
{
  char path[PATH_MAX], top[PATH_MAX], said[JWHY_MAX - 20];
  struct btrnbd_open_opts opts = { .read_only = true, .workers = 1,
                                   .cache_size = 8 << 20 };
  const char *device = path;
  struct btrnbd_pool *pool;
  bool ok;
  int r;

  snprintf (path, sizeof path, "%s/crash-mount-%d.img", t->dir,
            (int) getpid ());
  snprintf (top, sizeof top, "%s/crash-mount-%d", t->dir, (int) getpid ());
  image_dump (image, path);
  t->mounted++;
  if (!image_mount (path, top, why))
    return false;
  if (!image_check (path, 0)) {
    snprintf (why, JWHY_MAX, "btrfs check after Linux had replayed");
    return false;
  }
  r = btrnbd_pool_open (&device, 1, &opts, &pool);
  if (r < 0) {
    snprintf (why, JWHY_MAX, "after Linux: %s", btrnbd_last_error (r));
    return false;
  }
  ok = journal_allows (t->journal, c->at, pool, why);
  btrnbd_pool_kill (pool);
  if (!ok) {
    snprintf (said, sizeof said, "%.*s", (int) sizeof said - 1, why);
    snprintf (why, JWHY_MAX, "after Linux: %s", said);
    return false;
  }
  unlink (path);
  return true;
}

/* When it is its turn.  Linux does not look at other superblocks than the
 * first.
 */
static bool
mount_image (struct test *t, struct device *image, const struct record_cut *c,
             char why[JWHY_MAX])
{
  const unsigned point = t->opened + t->replay_cuts;

  if (t->mount_every == 0 || point % t->mount_every != 0 ||
      image_first_super_is_bad (image))
    return true;
  return mount_image_now (t, image, c, why);
}

/* Cuts inside our own replay and the commit that ends it: whatever they leave
 * is to be replayed again.
 */
static bool
replay_image (struct test *t, struct device *replayed,
              struct device *image, const struct record_cut *c,
              char why[JWHY_MAX])
{
  struct record_player *player;
  struct plan plan = { NULL, 0 };
  bool ok = true;

  plan_cuts (&plan, replayed, 0, 12, c->seed);
  if (record_player_new (replayed, image, &player) < 0)
    exit (99);
  for (size_t i = 0; i < plan.n && ok; ++i) {
    const struct record_cut again = { .at = c->at, .seed = i };
    struct device *cut;
    unsigned copy;

    if (record_image (player, &plan.cuts[i], &cut) < 0)
      exit (99);
    copy = image_first_super_is_bad (cut);
    t->torn_supers += copy;
    t->replay_cuts++;
    ok = mount_image (t, cut, c, why) &&
      judge_image (t, cut, &again, copy, false, why);
    if (!ok)
      report (t, cut, i, &plan.cuts[i], "in replay");
    device_close (cut);
  }
  record_player_free (player);
  free (plan.cuts);
  return ok;
}

static bool
cut_replay (struct test *t, struct record_player *player,
            const struct record_cut *c, char why[JWHY_MAX])
{
  struct device *image, *recorder;
  struct btrnbd_pool *pool;
  bool ok;
  int r;

  if (record_image (player, c, &image) < 0 ||
      record_new (shield_new (image), &recorder) < 0)
    exit (99);
  r = open_image (recorder, 0, false, &pool);
  if (r == 0)
    btrnbd_pool_kill (pool);
  device_close (image);
  if (r < 0) {
    snprintf (why, JWHY_MAX, "replay: %s", btrnbd_last_error (r));
    t->failed++;
    return false;
  }
  if (record_image (player, c, &image) < 0)
    exit (99);
  t->replays++;
  ok = replay_image (t, recorder, image, c, why);
  device_close (recorder);
  return ok;
}

static bool
check_cut (struct test *t, struct device *image, unsigned copy)
{
  char path[PATH_MAX];
  bool ok;

  snprintf (path, sizeof path, "%s/crash-check-%d.img", t->dir,
            (int) getpid ());
  image_dump (image, path);
  t->checked++;
  ok = image_check (path, copy);
  t->check_failed += !ok;
  unlink (path);
  return ok;
}

static bool
is_turn (const struct test *t, size_t index, unsigned times)
{
  return times > 0 && index % MAX (t->plan.n / times, (size_t) 1) == 0;
}

static void
one_cut (struct test *t, struct record_player *player, size_t index)
{
  const struct record_cut *c = &t->plan.cuts[index];
  char why[JWHY_MAX] = "";
  unsigned copy = 0;
  struct device *image;
  bool ok, log;
  int r = record_image (player, c, &image);

  if (r < 0) {
    fprintf (stderr, "image: %s\n", btrnbd_last_error (r));
    exit (99);
  }
  t->uncertain += record_uncertain (player);
  log = image_has_log (image);
  t->logs += log;
  /* A torn first copy is refused, and the pool opens from the second when
   * somebody says so.
   */
  if (image_first_super_is_bad (image)) {
    struct btrnbd_pool *pool;

    copy = 1;
    t->torn_supers++;
    r = open_image (image, 0, true, &pool);
    if (r == 0) {
      report (t, image, index, c, "opened with a torn superblock");
      btrnbd_pool_kill (pool);
    }
  }
  if (is_turn (t, index, t->checks) && !check_cut (t, image, copy))
    report (t, image, index, c, "btrfs check");
  ok = mount_image (t, image, c, why) &&
    judge_image (t, image, c, copy, false, why);
  if (ok && index % 10 == 0) {
    t->continued++;
    ok = judge_image (t, image, c, copy, true, why) &&
      judge_image (t, image, c, 0, false, why) &&
      (!is_turn (t, index, t->checks) || check_cut (t, image, 0));
  }
  t->opened++;
  if (!ok)
    report (t, image, index, c, why);
  device_close (image);
  if (ok && log && t->log && index % 10 == 5 &&
      !cut_replay (t, player, c, why))
    printf ("# cut %zu, in its replay: %s\n", index, why);
}

static void
run_cuts (struct test *t)
{
  struct record_player *player;
  struct device *start;

  if (device_mem_new ("start", t->size, &start) < 0 ||
      record_player_new (t->recorder, start, &player) < 0)
    exit (99);
  for (size_t i = 0; i < t->plan.n && t->failed < 50; ++i)
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

static const char options[] = "s:n:t:c:k:S:d:N:C:f:MXEDvLV:p:K:T:WAI";

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

  while ((c = getopt (argc, argv, options)) != -1)
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
    case 'W': t->early = true; break;
    case 'A': t->snapshots = true; break;
    case 'I': t->images = true; break;
    case 'v': t->verbose = true; break;
    case 'L': t->log = true; break;
    case 'V': t->subvols = atoi (optarg); break;
    case 'p': t->commit_ms = atoi (optarg); break;
    case 'K': t->mount_every = atoi (optarg); break;
    case 'T': t->most = atoi (optarg); break;
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

  printf ("1..5\n");
  ok = record_load (&t);
  if (!ok) {
    result (1, false, "the load runs");
    printf ("Bail out! nothing to cut\n");
    return 1;
  }
  plan_cuts (&t.plan, t.recorder, t.begin, t.cuts, t.seed ^ 0xc0ffee);
  if (t.most > 0)
    thin_out (&t.plan, t.most, t.seed);
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
  result (2, t.failed == 0 && t.opened == t.plan.n && t.uncertain > 0, text);
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
  snprintf (text, sizeof text, "%u logs; %u replays cut at %u places; %u "
            "mounted by Linux; %llu flushes, %llu syncs of the log, %llu "
            "flushes became commits, %llu commits", t.logs, t.replays,
            t.replay_cuts, t.mounted, (unsigned long long) t.stats.log_flushes,
            (unsigned long long) t.stats.log_syncs,
            (unsigned long long) t.stats.log_commits,
            (unsigned long long) t.stats.commits);
  result (5, !t.log || (t.logs > t.opened / 4 && t.replay_cuts > 0), text);
  journal_free (t.journal);
  device_close (t.recorder);
  free (t.plan.cuts);
  return t.failed != 0 || overlaps > 0 || (t.full && t.full_answers == 0);
}
