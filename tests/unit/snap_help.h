/* For tests of snapshots, clones and reflinks: a pool opened through the
 * public API, and what its volumes ought to hold, block by block.
 */
#ifndef BTRNBD_TESTS_UNIT_SNAP_HELP_H
#define BTRNBD_TESTS_UNIT_SNAP_HELP_H

#include <btrnbd/engine.h>

#include "inode_help.h"

#define BLK 4096u

/* Contents of a disk: the number of the write that made each block; 0 is
 * zeroes.
 */
struct model {
  unsigned blocks;
  uint32_t *v;
};

static void __attribute__ ((unused))
model_init (struct model *m, unsigned blocks)
{
  m->blocks = blocks;
  m->v = calloc (blocks, sizeof *m->v);
  assert_non_null (m->v);
}

static struct model __attribute__ ((unused))
model_clone (const struct model *m)
{
  struct model c;

  model_init (&c, m->blocks);
  memcpy (c.v, m->v, m->blocks * sizeof *m->v);
  return c;
}

static void __attribute__ ((unused))
blk_fill (uint8_t *buf, uint32_t seq)
{
  uint32_t i, x = seq * 2654435761u;

  memset (buf, 0, BLK);
  if (seq == 0)
    return;
  for (i = 4; i < BLK; i += 4) {
    x = x * 1664525 + 1013904223;
    memcpy (buf + i, &x, 4);
  }
  memcpy (buf, &seq, 4);
}

static uint64_t __attribute__ ((unused))
snap_rnd (uint64_t *seed, uint64_t below)
{
  *seed = *seed * UINT64_C (6364136223846793005) + 1442695040888963407;
  return (*seed >> 33) % below;
}

#define pool_ok(expr)                                                   \
  do {                                                                  \
    int ok_ = (expr);                                                   \
    if (ok_ != 0)                                                       \
      fail_msg ("%s: %s", #expr, btrnbd_last_error (ok_));              \
  } while (0)
#define pool_fails(expr, code)                                          \
  do {                                                                  \
    int fails_ = (expr);                                                \
    if (fails_ != -(code))                                              \
      fail_msg ("%s: %d %s, expected %s", #expr, fails_,                \
                fails_ == 0 ? "success" : btrnbd_last_error (fails_),   \
                btrnbd_error_name (code));                              \
  } while (0)

/* Nothing is committed but what the test commits; KILL leaves it so. */
static __attribute__ ((unused)) struct btrnbd_pool *
pool_open_at (const char *path, size_t cache)
{
  const struct btrnbd_open_opts o = { .cache_size = cache,
    .commit_interval = UINT_MAX, .workers = 2 };
  struct btrnbd_pool *p;

  pool_ok (btrnbd_pool_open (&path, 1, &o, &p));
  return p;
}

static struct btrnbd_file *__attribute__ ((unused))
open_export (struct btrnbd_pool *p, const char *name)
{
  struct btrnbd_file *f;

  pool_ok (btrnbd_export_open (p, name, 0, &f));
  return f;
}

static void __attribute__ ((unused))
disk_write (struct btrnbd_file *f, struct model *m, unsigned blk, unsigned n,
            uint32_t *seq)
{
  uint8_t *buf = malloc (n * BLK);
  unsigned i;

  for (i = 0; i < n; ++i) {
    m->v[blk + i] = ++*seq;
    blk_fill (buf + i * BLK, *seq);
  }
  pool_ok (btrnbd_pwrite (f, buf, n * BLK, (uint64_t) blk * BLK, 0));
  free (buf);
}

static void __attribute__ ((unused))
disk_compare (struct btrnbd_file *f, const struct model *m, const char *what)
{
  const unsigned step = 64;
  uint8_t *buf = malloc (step * BLK), want[BLK];
  unsigned blk, i;

  for (blk = 0; blk < m->blocks; blk += step) {
    const unsigned n = MIN (step, m->blocks - blk);

    pool_ok (btrnbd_pread (f, buf, n * BLK, (uint64_t) blk * BLK));
    for (i = 0; i < n; ++i) {
      uint32_t got;

      blk_fill (want, m->v[blk + i]);
      memcpy (&got, buf + i * BLK, 4);
      if (memcmp (buf + i * BLK, want, BLK) != 0)
        fail_msg ("%s: block %u holds write %u, not %u", what, blk + i, got,
                  m->v[blk + i]);
    }
  }
  free (buf);
}

static void __attribute__ ((unused))
export_compare (struct btrnbd_pool *p, const char *name,
                const struct model *m)
{
  struct btrnbd_file *f = open_export (p, name);

  disk_compare (f, m, name);
  btrnbd_file_close (f);
}

/* The same bytes in a file, for cmp. */
static void __attribute__ ((unused))
model_dump (const struct model *m, const char *path)
{
  FILE *fp = fopen (path, "w");
  uint8_t buf[BLK];
  unsigned i;

  assert_non_null (fp);
  for (i = 0; i < m->blocks; ++i) {
    blk_fill (buf, m->v[i]);
    assert_int_equal (fwrite (buf, BLK, 1, fp), 1);
  }
  assert_int_equal (fclose (fp), 0);
}

#endif /* BTRNBD_TESTS_UNIT_SNAP_HELP_H */
