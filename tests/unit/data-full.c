/* data: a full pool.
 *
 * Rounds of writing until there is no space, on files that exist: what was
 * acknowledged is there after a reopen, nothing is lost, and removing or
 * punching always works and gives the space back.  What is refused has no
 * effect.
 *
 *   data-full [SEED...]: small writes with these seeds.
 */
#include <config.h>

#include "unit/test.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <btrnbd/engine.h>

#define FILE_SIZE (UINT64_C (400) << 20)
#define BLOCK 4096

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

struct env {
  struct btrnbd_pool *pool;
  struct btrnbd_file *file;
  uint8_t *version;            /* of each block; 0: zeroes */
  uint8_t *buf;
  char path[4096];
};

static void
open_pool (struct env *e)
{
  const struct btrnbd_open_opts opts = { .cache_size = 32 << 20,
                                         .commit_interval = UINT_MAX };
  const char *paths[] = { e->path };

  check (btrnbd_pool_open (paths, 1, &opts, &e->pool), "open");
  check (btrnbd_file_open (e->pool, "f", 0, &e->file), "open file");
}

static void
close_pool (struct env *e)
{
  btrnbd_file_close (e->file);
  check (btrnbd_pool_close (e->pool), "close");
}

static void
compare_all (struct env *e)
{
  uint64_t i, k;

  for (i = 0; i < FILE_SIZE / BLOCK; i += 64) {
    check (btrnbd_pread (e->file, e->buf, 64 * BLOCK, i * BLOCK), "read");
    for (k = 0; k < 64; ++k)
      if (e->buf[k * BLOCK] != e->version[i + k]
          || e->buf[k * BLOCK + BLOCK - 1] != e->version[i + k]) {
        fprintf (stderr, "# block %llu: %u, not %u\n",
                 (unsigned long long) (i + k), e->buf[k * BLOCK],
                 e->version[i + k]);
        fail ();
      }
  }
}

/* Write until it does not fit; the number of blocks written. */
static uint64_t
fill (struct env *e, uint64_t *seed, unsigned max_blocks)
{
  unsigned refused = 0;
  uint64_t done = 0;

  while (refused < 20) {
    const uint64_t n = 1 + rnd (seed, max_blocks);
    const uint64_t at = rnd (seed, FILE_SIZE / BLOCK - n);
    const uint8_t v = 1 + rnd (seed, 255);
    int r;

    memset (e->buf, v, n * BLOCK);
    r = btrnbd_pwrite (e->file, e->buf, n * BLOCK, at * BLOCK, 0);
    if (r == -ERR_nospace || r == -ERR_nospace_meta) {
      ++refused;
      continue;
    }
    check (r, "write");
    memset (e->version + at, v, n);
    done += n;
  }
  return done;
}

static void
rounds (const struct btrnbd_mkfs_opts *mkfs, unsigned max_blocks,
        uint64_t seed)
{
  const char *dir = getenv ("TMPDIR");
  struct env e = { .version = calloc (1, FILE_SIZE / BLOCK),
                   .buf = malloc (1 << 20) };
  uint64_t first = 0, done;
  char cmd[8192];
  unsigned i;

  snprintf (e.path, sizeof e.path, "%s/data-full.XXXXXX",
            dir != NULL ? dir : "/tmp");
  close (mkstemp (e.path));
  check (btrnbd_mkfs (e.path, mkfs), "mkfs");
  {
    const char *paths[] = { e.path };
    const struct btrnbd_open_opts opts = { .cache_size = 0 };

    check (btrnbd_pool_open (paths, 1, &opts, &e.pool), "open");
    check (btrnbd_create (e.pool, "f", 0644, false), "create");
    check (btrnbd_file_open (e.pool, "f", 0, &e.file), "open file");
    check (btrnbd_truncate (e.file, FILE_SIZE), "truncate");
    close_pool (&e);
  }
  open_pool (&e);
  for (i = 0; i < 5; ++i) {
    done = fill (&e, &seed, max_blocks);
    check (btrnbd_flush (e.file), "flush of a full pool");
    printf ("# round %u: %llu blocks\n", i, (unsigned long long) done);
    if (i == 0)
      first = done;
    assert_true (done >= first / 4);
    compare_all (&e);
    if (i % 2 == 0) {
      close_pool (&e);
      open_pool (&e);
      compare_all (&e);
    }
    /* Make room: all of it, or a part. */
    if (i % 2 == 0) {
      check (btrnbd_zero (e.file, 0, FILE_SIZE, BTRNBD_MAY_TRIM), "punch");
      memset (e.version, 0, FILE_SIZE / BLOCK);
    }
    else {
      check (btrnbd_zero (e.file, 0, FILE_SIZE / 2, BTRNBD_MAY_TRIM),
             "punch half");
      memset (e.version, 0, FILE_SIZE / BLOCK / 2);
    }
    check (btrnbd_flush (e.file), "flush after a punch");
  }
  compare_all (&e);
  close_pool (&e);
  snprintf (cmd, sizeof cmd, "btrfs check --force %s >/dev/null 2>&1 "
            "|| [ $? -eq 127 ]", e.path);
  assert_int_equal (system (cmd), 0);
  unlink (e.path);
  free (e.version);
  free (e.buf);
}

static void
large_writes (void **state)
{
  const struct btrnbd_mkfs_opts mkfs = { .size = 256 << 20, .force = true };

  (void) state;
  rounds (&mkfs, 200, 200);
}

static void
small_writes (void **state)
{
  const struct btrnbd_mkfs_opts mkfs = { .size = 256 << 20, .force = true };

  (void) state;
  rounds (&mkfs, 2, 2);
}

/* One kind of space for data and for what leads to it. */
static void
mixed_groups (void **state)
{
  const struct btrnbd_mkfs_opts mkfs = {
    .size = 256 << 20, .nodesize = 4096, .mixed = true, .force = true,
  };

  (void) state;
  rounds (&mkfs, 2, 3);
}

/* Zeroes that keep their space need none where the file has all of it. */
static void
zero_in_full_pool (void **state)
{
  const struct btrnbd_mkfs_opts mkfs = { .size = 256 << 20, .force = true };
  const struct btrnbd_open_opts opts = { .cache_size = 32 << 20,
                                         .commit_interval = UINT_MAX };
  const uint64_t size = 64 << 20;
  const char *dir = getenv ("TMPDIR");
  char path[4096], cmd[8192];
  const char *paths[] = { path };
  uint8_t *buf = malloc (1 << 20);
  struct btrnbd_file *f, *rest;
  struct btrnbd_pool *pool;
  uint64_t at, i;
  int r = 0;

  (void) state;
  snprintf (path, sizeof path, "%s/data-full.XXXXXX",
            dir != NULL ? dir : "/tmp");
  close (mkstemp (path));
  check (btrnbd_mkfs (path, &mkfs), "mkfs");
  check (btrnbd_pool_open (paths, 1, &opts, &pool), "open");
  check (btrnbd_create (pool, "f", 0644, false), "create");
  check (btrnbd_create (pool, "rest", 0644, false), "create");
  check (btrnbd_file_open (pool, "f", 0, &f), "open file");
  check (btrnbd_file_open (pool, "rest", 0, &rest), "open file");
  check (btrnbd_truncate (f, size), "truncate");
  check (btrnbd_truncate (rest, FILE_SIZE), "truncate");
  memset (buf, 7, 1 << 20);
  for (at = 0; at < size; at += 1 << 20)
    check (btrnbd_pwrite (f, buf, 1 << 20, at, 0), "write");
  check (btrnbd_flush (f), "flush");
  for (at = 0; at < FILE_SIZE && r == 0; at += BLOCK)
    r = btrnbd_pwrite (rest, buf, BLOCK, at, 0);
  assert_int_equal (r, -ERR_nospace);
  check (btrnbd_zero (f, 4096, size - 8192, 0), "zero in a full pool");
  check (btrnbd_pread (f, buf, 1 << 20, 0), "read");
  for (i = 0; i < 1 << 20; ++i)
    assert_int_equal (buf[i], i < 4096 ? 7 : 0);
  /* And the space is there to be written again. */
  memset (buf, 9, 1 << 20);
  for (at = 1 << 20; at < size - (2 << 20); at += 1 << 20)
    check (btrnbd_pwrite (f, buf, 1 << 20, at, 0), "write again");
  check (btrnbd_flush (f), "flush again");
  btrnbd_file_close (f);
  btrnbd_file_close (rest);
  check (btrnbd_pool_close (pool), "close");
  snprintf (cmd, sizeof cmd, "btrfs check --force --check-data-csum %s "
            ">/dev/null 2>&1 || [ $? -eq 127 ]", path);
  assert_int_equal (system (cmd), 0);
  unlink (path);
  free (buf);
}

int
main (int argc, char *argv[])
{
  const struct btrnbd_mkfs_opts mkfs = { .size = 256 << 20, .force = true };
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (large_writes),
    cmocka_unit_test (small_writes),
    cmocka_unit_test (mixed_groups),
    cmocka_unit_test (zero_in_full_pool),
  };

  while (--argc > 0) {
    const uint64_t seed = strtoull (*++argv, NULL, 0);

    rounds (&mkfs, 2 + seed % 30, seed);
    printf ("# seed %llu is right\n", (unsigned long long) seed);
    if (argc == 1)
      return 0;
  }
  return cmocka_run_group_tests (tests, NULL, NULL);
}
