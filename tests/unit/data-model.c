/* data: random operations on the files of a pool against a model in memory.
 *
 * Without arguments: a TAP test over several kinds of pool.  With arguments,
 * for tests that add a judge:
 *
 *   data-model IMAGE SEED OPERATIONS [nocow] [EXPECT-DIR [FILE]...]
 *
 * works on a pool that exists, in files f0 .. f3 or those that are named (of
 * at most MAX_SIZE bytes), and stores what each must hold as EXPECT-DIR/N.
 */
#include <config.h>

#include "unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <btrnbd/engine.h>

#define FILES 4
#define MAX_SIZE (16 * 1024 * 1024)

struct file {
  char name[256];
  bool known;                  /* what it holds */
  uint8_t *want;
  uint64_t size;
  struct btrnbd_file *f;
};

struct model {
  const char *image;
  struct btrnbd_pool *pool;
  struct file file[FILES];
  uint64_t seed;
  bool nocow;
  unsigned tries;              /* writes that needed no waiting */
  uint8_t *buf;
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
rnd (struct model *m, uint64_t n)
{
  m->seed = m->seed * UINT64_C (6364136223846793005) + 1442695040888963407;
  return n == 0 ? 0 : (m->seed >> 24) % n;
}

static void
open_all (struct model *m)
{
  const struct btrnbd_open_opts opts = { .cache_size = 16 << 20,
                                         .commit_interval = UINT_MAX };
  unsigned i;

  check (btrnbd_pool_open (&m->image, 1, &opts, &m->pool), "open");
  for (i = 0; i < FILES; ++i) {
    struct file *f = &m->file[i];
    int r = btrnbd_file_open (m->pool, f->name, 0, &f->f);

    if (r == -ERR_not_found) {
      check (btrnbd_create (m->pool, f->name, 0644, m->nocow && i % 2 == 0),
             "create");
      r = btrnbd_file_open (m->pool, f->name, 0, &f->f);
    }
    check (r, "open file");
    if (!f->known) {
      f->size = btrnbd_file_size (f->f);
      assert_true (f->size <= MAX_SIZE);
      check (btrnbd_pread (f->f, f->want, f->size, 0), "first read");
      f->known = true;
    }
    assert_int_equal (btrnbd_file_size (f->f), f->size);
  }
}

static void
close_all (struct model *m)
{
  unsigned i;

  for (i = 0; i < FILES; ++i)
    btrnbd_file_close (m->file[i].f);
  check (btrnbd_pool_close (m->pool), "close");
}

static void
compare (struct model *m, struct file *f, uint64_t offset, uint64_t len)
{
  uint64_t i;

  memset (m->buf, 0x5a, len);
  check (btrnbd_pread (f->f, m->buf, len, offset), "read");
  if (memcmp (m->buf, f->want + offset, len) == 0)
    return;
  for (i = 0; m->buf[i] == f->want[offset + i]; ++i)
    ;
  fprintf (stderr, "# %s: byte %llu of %llu is %02x, not %02x\n", f->name,
           (unsigned long long) (offset + i), (unsigned long long) f->size,
           m->buf[i], f->want[offset + i]);
  fail ();
}

static void
compare_all (struct model *m)
{
  unsigned i;

  for (i = 0; i < FILES; ++i)
    if (m->file[i].size > 0)
      compare (m, &m->file[i], 0, m->file[i].size);
}

struct covered {
  struct file *f;
  uint64_t pos;
};

static int
one_extent (void *opaque, uint64_t offset, uint64_t len, unsigned type)
{
  struct covered *c = opaque;
  uint64_t i;

  assert_int_equal (offset, c->pos);
  assert_true (len > 0);
  c->pos += len;
  for (i = offset; type != 0 && i < offset + len; ++i)
    assert_int_equal (c->f->want[i], 0);
  return 0;
}

static void
set_size (struct file *f, uint64_t size)
{
  check (btrnbd_truncate (f->f, size), "truncate");
  if (size < f->size)
    memset (f->want + size, 0, f->size - size);
  f->size = size;
}

/* Half of the writes try without waiting first. */
static void
write_file (struct model *m, struct file *f, uint64_t len, uint64_t offset)
{
  const unsigned flags = rnd (m, 20) == 0 ? BTRNBD_FUA : 0;

  if (flags != 0 || (len / 4096) % 2 == 0
      || !btrnbd_try_pwrite (f->f, m->buf, len, offset))
    check (btrnbd_pwrite (f->f, m->buf, len, offset, flags), "write");
  else
    ++m->tries;
}

static void
one_operation (struct model *m)
{
  struct file *f = &m->file[rnd (m, FILES)];
  uint64_t offset, len, i;
  const unsigned what = rnd (m, 100);

  if (what < 4 || f->size == 0) {
    uint64_t size = rnd (m, 3) == 0 ? rnd (m, 9000) : rnd (m, 6000000);

    set_size (f, rnd (m, 2) ? size & ~UINT64_C (4095) : size);
    return;
  }
  offset = rnd (m, f->size);
  len = rnd (m, 4) == 0 ? rnd (m, 300000) : 1 + rnd (m, 9000);
  if (rnd (m, 2)) {
    offset &= ~UINT64_C (4095);
    len = (len + 4095) & ~UINT64_C (4095);
  }
  if (len > f->size - offset)
    len = f->size - offset;
  if (what < 50) {
    for (i = 0; i < len; ++i)
      m->buf[i] = rnd (m, 256) | 1;
    write_file (m, f, len, offset);
    memcpy (f->want + offset, m->buf, len);
  }
  else if (what < 58) {
    check (btrnbd_zero (f->f, offset, len, 0), "zero");
    memset (f->want + offset, 0, len);
  }
  else if (what < 66) {
    check (btrnbd_zero (f->f, offset, len, BTRNBD_MAY_TRIM), "punch");
    memset (f->want + offset, 0, len);
  }
  else if (what < 90)
    compare (m, f, offset, len);
  else if (what < 93) {
    struct covered c = { .f = f, .pos = offset };

    check (btrnbd_extents (f->f, offset, len, one_extent, &c), "extents");
    assert_int_equal (c.pos, offset + len);
  }
  else if (what < 96)
    check (btrnbd_flush (f->f), "flush");
  else if (what < 98)
    check (btrnbd_prefetch (f->f, offset, len), "prefetch");
  else if (what == 98)
    check (btrnbd_pool_sync (m->pool), "sync");
}

static void
run_model (const char *image, uint64_t seed, unsigned operations, bool nocow,
           const char *expect, char **names)
{
  struct model m = { .image = image, .seed = seed, .nocow = nocow };
  unsigned i;

  m.buf = malloc (MAX_SIZE);
  for (i = 0; i < FILES; ++i) {
    snprintf (m.file[i].name, sizeof m.file[i].name, "f%u", i);
    if (names != NULL && *names != NULL)
      snprintf (m.file[i].name, sizeof m.file[i].name, "%s", *names++);
    m.file[i].want = calloc (1, MAX_SIZE);
  }
  open_all (&m);
  for (i = 0; i < operations; ++i) {
    one_operation (&m);
    if (rnd (&m, operations / 4 + 1) == 0) {
      compare_all (&m);
      close_all (&m);
      open_all (&m);
      compare_all (&m);
    }
  }
  compare_all (&m);
  close_all (&m);
  open_all (&m);
  compare_all (&m);
  close_all (&m);
  for (i = 0; i < FILES; ++i) {
    if (expect != NULL) {
      char path[4096];
      FILE *fp;

      snprintf (path, sizeof path, "%s/%u", expect, i);
      fp = fopen (path, "w");
      assert_non_null (fp);
      assert_int_equal (fwrite (m.file[i].want, 1, m.file[i].size, fp),
                        m.file[i].size);
      assert_int_equal (fclose (fp), 0);
    }
    free (m.file[i].want);
  }
  free (m.buf);
  assert_true (operations < 500 || m.tries > 20);
}

static void
fresh_pool (char *path, const struct btrnbd_mkfs_opts *opts)
{
  const char *dir = getenv ("TMPDIR");
  int fd;

  snprintf (path, 4096, "%s/data-model.XXXXXX", dir != NULL ? dir : "/tmp");
  fd = mkstemp (path);
  assert_true (fd >= 0);
  close (fd);
  check (btrnbd_mkfs (path, opts), "mkfs");
}

static void
on_pool (const struct btrnbd_mkfs_opts *opts, uint64_t seed, bool nocow)
{
  char path[4096], cmd[8192];

  fresh_pool (path, opts);
  run_model (path, seed, 1500, nocow, NULL, NULL);
  snprintf (cmd, sizeof cmd, "btrfs check -q --force %s >/dev/null 2>&1 "
            "|| [ $? -eq 127 ]", path);
  assert_int_equal (system (cmd), 0);
  unlink (path);
}

static void
default_pool (void **state)
{
  const struct btrnbd_mkfs_opts opts = { .size = 512 << 20, .force = true };

  (void) state;
  on_pool (&opts, 1, false);
}

static void
nocow_files (void **state)
{
  const struct btrnbd_mkfs_opts opts = { .size = 512 << 20, .force = true };

  (void) state;
  on_pool (&opts, 2, true);
}

static void
holes_as_items (void **state)
{
  const struct btrnbd_mkfs_opts opts = {
    .size = 512 << 20, .force = true,
    .features = "^block-group-tree,^no-holes" };

  (void) state;
  on_pool (&opts, 3, false);
}

static void
small_nodes_sha256 (void **state)
{
  const struct btrnbd_mkfs_opts opts = { .size = 512 << 20, .force = true,
                                         .nodesize = 4096,
                                         .csum = "sha256" };

  (void) state;
  on_pool (&opts, 4, false);
}

static void
large_sectors (void **state)
{
  const struct btrnbd_mkfs_opts opts = { .size = 512 << 20, .force = true,
                                         .sectorsize = 16384,
                                         .csum = "xxhash" };

  (void) state;
  on_pool (&opts, 5, false);
}

static void
largest_sectors (void **state)
{
  const struct btrnbd_mkfs_opts opts = { .size = 512 << 20, .force = true,
                                         .sectorsize = 65536,
                                         .nodesize = 65536 };

  (void) state;
  on_pool (&opts, 6, true);
}

static void
mixed (void **state)
{
  const struct btrnbd_mkfs_opts opts = { .size = 256 << 20, .force = true,
                                         .mixed = true, .nodesize = 4096 };

  (void) state;
  on_pool (&opts, 7, false);
}

int
main (int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (default_pool),
    cmocka_unit_test (nocow_files),
    cmocka_unit_test (holes_as_items),
    cmocka_unit_test (small_nodes_sha256),
    cmocka_unit_test (large_sectors),
    cmocka_unit_test (largest_sectors),
    cmocka_unit_test (mixed),
  };

  if (argc >= 4) {
    const bool nocow = argc >= 5 && strcmp (argv[4], "nocow") == 0;

    run_model (argv[1], strtoull (argv[2], NULL, 0), atoi (argv[3]), nocow,
               argc >= 5 + nocow ? argv[4 + nocow] : NULL,
               argc >= 6 + nocow ? argv + 5 + nocow : NULL);
    return 0;
  }
  return cmocka_run_group_tests (tests, NULL, NULL);
}
