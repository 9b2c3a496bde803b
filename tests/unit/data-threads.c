/* data: many threads on one file.
 *
 * Each sector holds a stamp in every 512-byte piece: its number and a
 * version.  Writers of a piece raise its version; readers check that what
 * they see belongs to that place and is not older than what they saw there
 * before; holes and zeroes count as version 0 of a new life.  Meanwhile data
 * is written out, flushed, punched, zeroed and committed.
 */
#include <config.h>

#include "unit/test.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

#include <btrnbd/engine.h>

#define PIECE 512
#define PIECES 8192            /* 4 MiB */
#define THREADS 6

struct stamp {
  uint64_t place, version, check;
};

struct env {
  struct btrnbd_pool *pool;
  struct btrnbd_file *file;
  /* Raised before a write of that version is given to the file, and after. */
  uint64_t begun[PIECES], done[PIECES];
  uint64_t lives[PIECES];      /* punches and zeroes begun */
  unsigned loops;
  int broken;
};

static void
check (int r, const char *what)
{
  if (r < 0) {
    fprintf (stderr, "# %s: %s\n", what, btrnbd_last_error (r));
    fail ();
  }
}

static uint64_t
rnd (uint64_t *seed, uint64_t n)
{
  *seed = *seed * UINT64_C (6364136223846793005) + 1442695040888963407;
  return (*seed >> 33) % n;
}

static void
broken (struct env *e, const char *what, uint64_t piece)
{
  fprintf (stderr, "# piece %llu: %s\n", (unsigned long long) piece, what);
  __atomic_store_n (&e->broken, 1, __ATOMIC_RELAXED);
}

static uint64_t
load (const uint64_t *p)
{
  return __atomic_load_n (p, __ATOMIC_SEQ_CST);
}

/* Only thread T writes pieces that are T modulo THREADS, so versions of a
 * piece are written in order; writers of different pieces share sectors.
 */
static void
write_some (struct env *e, unsigned t, uint64_t *seed)
{
  const uint64_t piece = rnd (seed, PIECES / THREADS - 1) * THREADS + t;
  uint8_t buf[PIECE] = { 0 };
  struct stamp s = { .place = piece };
  unsigned flags;

  s.version = load (&e->begun[piece]) + 1;
  s.check = s.place ^ s.version ^ UINT64_C (0x5bd1e995);
  memcpy (buf, &s, sizeof s);
  memcpy (buf + PIECE - sizeof s, &s, sizeof s);
  __atomic_store_n (&e->begun[piece], s.version, __ATOMIC_SEQ_CST);
  flags = rnd (seed, 50) == 0 ? BTRNBD_FUA : 0;
  if (flags != 0
      || !btrnbd_try_pwrite (e->file, buf, PIECE, piece * PIECE))
    check (btrnbd_pwrite (e->file, buf, PIECE, piece * PIECE, flags),
           "write");
  __atomic_store_n (&e->done[piece], s.version, __ATOMIC_SEQ_CST);
}

static void
read_some (struct env *e, uint64_t *seed)
{
  uint8_t buf[64 * PIECE];
  uint64_t done[64], lives[64];
  const uint64_t n = 1 + rnd (seed, 63);
  const uint64_t first = rnd (seed, PIECES - n);
  uint64_t i;

  for (i = 0; i < n; ++i) {
    done[i] = load (&e->done[first + i]);
    lives[i] = load (&e->lives[first + i]);
  }
  check (btrnbd_pread (e->file, buf, n * PIECE, first * PIECE), "read");
  for (i = 0; i < n; ++i) {
    struct stamp a, b;

    memcpy (&a, buf + i * PIECE, sizeof a);
    memcpy (&b, buf + (i + 1) * PIECE - sizeof b, sizeof b);
    if (a.version == 0 && a.place == 0 && a.check == 0) {
      if (done[i] > 0 && lives[i] == 0 && load (&e->lives[first + i]) == 0)
        broken (e, "zeroes where something was written", first + i);
      continue;
    }
    if (a.place != first + i
        || a.check != (a.place ^ a.version ^ UINT64_C (0x5bd1e995)))
      broken (e, "holds something else", first + i);
    else if (memcmp (&a, &b, sizeof a) != 0
             && load (&e->begun[first + i]) == done[i]
             && load (&e->lives[first + i]) == lives[i])
      broken (e, "torn without a writer", first + i);
    else if (a.version < done[i]
             && load (&e->lives[first + i]) == lives[i])
      broken (e, "older than what was acknowledged", first + i);
    else if (a.version > load (&e->begun[first + i]))
      broken (e, "from the future", first + i);
  }
}

static void
clear_some (struct env *e, uint64_t *seed)
{
  const uint64_t n = 1 + rnd (seed, 200);
  const uint64_t first = rnd (seed, PIECES - n);
  uint64_t i;

  for (i = 0; i < n; ++i)
    __atomic_fetch_add (&e->lives[first + i], 1, __ATOMIC_SEQ_CST);
  check (btrnbd_zero (e->file, first * PIECE, n * PIECE,
                      rnd (seed, 2) ? BTRNBD_MAY_TRIM : 0), "zero");
}

struct thread {
  pthread_t id;
  struct env *e;
  unsigned t;
};

static void *
work (void *opaque)
{
  struct thread *th = opaque;
  struct env *e = th->e;
  uint64_t seed = th->t * 7919 + 1;
  unsigned i;

  for (i = 0; i < e->loops; ++i)
    switch (rnd (&seed, 100)) {
    case 0:
      check (btrnbd_flush (e->file), "flush");
      break;
    case 1:
      if (th->t == 0)
        check (btrnbd_pool_sync (e->pool), "sync");
      break;
    case 2:
    case 3:
      clear_some (e, &seed);
      break;
    case 4 ... 45:
      read_some (e, &seed);
      break;
    default:
      write_some (e, th->t, &seed);
    }
  return NULL;
}

static void
on_pool (bool nocow)
{
  const struct btrnbd_mkfs_opts mkfs = { .size = 256 << 20, .force = true };
  const struct btrnbd_open_opts opts = { .cache_size = 16 << 20,
                                         .commit_interval = UINT_MAX };
  const char *dir = getenv ("TMPDIR");
  struct env *e = calloc (1, sizeof *e);
  struct thread th[THREADS];
  char path[4096], cmd[8192];
  const char *paths[] = { path };
  unsigned i;

  snprintf (path, sizeof path, "%s/data-threads.XXXXXX",
            dir != NULL ? dir : "/tmp");
  close (mkstemp (path));
  check (btrnbd_mkfs (path, &mkfs), "mkfs");
  check (btrnbd_pool_open (paths, 1, &opts, &e->pool), "open");
  check (btrnbd_create (e->pool, "f", 0644, nocow), "create");
  check (btrnbd_file_open (e->pool, "f", 0, &e->file), "open file");
  check (btrnbd_truncate (e->file, PIECES * PIECE), "truncate");
  e->loops = 4000;
  for (i = 0; i < THREADS; ++i) {
    th[i] = (struct thread) { .e = e, .t = i };
    assert_int_equal (pthread_create (&th[i].id, NULL, work, &th[i]), 0);
  }
  for (i = 0; i < THREADS; ++i)
    pthread_join (th[i].id, NULL);
  assert_int_equal (e->broken, 0);
  btrnbd_file_close (e->file);
  check (btrnbd_pool_close (e->pool), "close");
  snprintf (cmd, sizeof cmd, "btrfs check --force %s >/dev/null 2>&1 "
            "|| [ $? -eq 127 ]", path);
  assert_int_equal (system (cmd), 0);
  unlink (path);
  free (e);
}

static void
cow (void **state)
{
  (void) state;
  on_pool (false);
}

static void
nocow (void **state)
{
  (void) state;
  on_pool (true);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (cow),
    cmocka_unit_test (nocow),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
