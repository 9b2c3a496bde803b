/* For tests of the image of the pool: a pool with volumes, and a judge who has
 * only the image.
 */
#ifndef BTRNBD_TESTS_UNIT_POOL_IMAGE_HELP_H
#define BTRNBD_TESTS_UNIT_POOL_IMAGE_HELP_H

#include <fcntl.h>

#include "snap_help.h"

#include "fs/api_priv.h"

#define BLOCKS 4096
#define MIB (UINT64_C (1) << 20)

/* --- the pool and its image --- */

struct lab {
  struct image im;
  struct btrnbd_pool *p;
  uint64_t seed;
  uint32_t seq;
  char ended[128];             /* what the host was told */
  unsigned ends;
};

static void __attribute__ ((unused))
on_end (void *opaque, uint64_t generation, const char *why)
{
  struct lab *l = opaque;

  assert_true (generation > 0);
  snprintf (l->ended, sizeof l->ended, "%s", why);
  __atomic_add_fetch (&l->ends, 1, __ATOMIC_RELEASE);
}

static void __attribute__ ((unused))
lab_open (struct lab *l, uint64_t reserve)
{
  const struct btrnbd_open_opts o = { .commit_interval = UINT_MAX,
    .workers = 2, .discard = true, .image_reserve = reserve,
    .image_ended = on_end, .image_ended_opaque = l };
  const char *path = l->im.path;

  pool_ok (btrnbd_pool_open (&path, 1, &o, &l->p));
}

static void __attribute__ ((unused))
lab_init (struct lab *l, const char *mkfs_opts, unsigned mib,
          uint64_t reserve)
{
  memset (l, 0, sizeof *l);
  l->seed = 7;
  image_make (&l->im, mkfs_opts, mib);
  lab_open (l, reserve);
}

static void __attribute__ ((unused))
lab_done (struct lab *l)
{
  pool_ok (btrnbd_pool_close (take (l->p)));
  image_check (&l->im);
  image_remove (&l->im);
}

static void __attribute__ ((unused))
make (struct lab *l, const char *name, unsigned blocks, bool nocow)
{
  const struct btrnbd_volume_opts o = { .size = (uint64_t) blocks * BLK,
    .nocow = nocow };

  pool_ok (btrnbd_volume_create (l->p, name, &o));
}

static void __attribute__ ((unused))
scribble (struct lab *l, const char *name, struct model *m, unsigned writes)
{
  struct btrnbd_file *f = open_export (l->p, name);
  unsigned i;

  for (i = 0; i < writes; ++i) {
    const unsigned n = 1 + snap_rnd (&l->seed, 20);
    const unsigned at = snap_rnd (&l->seed, m->blocks - n);

    switch (snap_rnd (&l->seed, 24)) {
    case 0:
      pool_ok (btrnbd_trim (f, (uint64_t) at * BLK, n * BLK, 0));
      memset (m->v + at, 0, n * sizeof *m->v);
      break;
    case 1:
      pool_ok (btrnbd_zero (f, (uint64_t) at * BLK, n * BLK, 0));
      memset (m->v + at, 0, n * sizeof *m->v);
      break;
    case 2:
      pool_ok (btrnbd_flush (f));
      break;
    default:
      disk_write (f, m, at, n, &l->seq);
    }
  }
  btrnbd_file_close (f);
}

static struct btrnbd_pool_info __attribute__ ((unused))
info (struct lab *l)
{
  struct btrnbd_pool_info i;

  pool_ok (btrnbd_pool_get_info (l->p, &i));
  return i;
}

static uint64_t __attribute__ ((unused))
in_place_bytes (struct lab *l)
{
  struct btrnbd_pool_stats s;

  btrnbd_pool_get_stats (l->p, &s);
  return s.data_nocow_bytes;
}

/* --- looking at it from the outside --- */

struct copy {
  struct btrnbd_file *f;
  int fd;
  uint64_t pos;
};

static int
copy_extent (void *opaque, uint64_t offset, uint64_t len, unsigned type)
{
  struct copy *c = opaque;
  uint8_t *buf = malloc (MIB);
  uint64_t n;

  assert_int_equal (offset, c->pos);
  for (c->pos += len; len > 0; offset += n, len -= n) {
    n = MIN (len, MIB);
    /* What is said to be zero is. */
    pool_ok (btrnbd_pread (c->f, buf, n, offset));
    if (buf[0] != 0 || memcmp (buf, buf + 1, n - 1) != 0) {
      assert_int_equal (type & BTRNBD_EXTENT_ZERO, 0);
      assert_int_equal (pwrite (c->fd, buf, n, offset), n);
    }
  }
  free (buf);
  return 0;
}

/* The image, with everything that somebody who has only it can do. */
static void __attribute__ ((unused))
judge (struct lab *l, struct btrnbd_file *f, const char *const *names,
       const struct model *const *models, size_t n)
{
  char path[PATH_MAX + 32];
  const char *dev = path;
  const struct btrnbd_open_opts o = { .read_only = true, .no_lock = true };
  struct copy c = { .f = f };
  struct btrnbd_pool *p;
  size_t i;

  snprintf (path, sizeof path, "%s/copy", l->im.dir);
  c.fd = open (path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  assert_true (c.fd >= 0);
  assert_int_equal (ftruncate (c.fd, btrnbd_file_size (f)), 0);
  pool_ok (btrnbd_extents (f, 0, btrnbd_file_size (f), copy_extent, &c));
  assert_int_equal (c.pos, btrnbd_file_size (f));
  assert_int_equal (close (c.fd), 0);
  if (run ("btrfs check --readonly --check-data-csum %s >%s/log 2>&1", path,
           l->im.dir) != 0) {
    run ("cat %s/log >&2", l->im.dir);
    fail_msg ("btrfs check does not like the image");
  }
  for (i = 0; i < 3; i++)
    assert_int_equal (run ("btrfs inspect-internal dump-super -s %zu %s "
                           "| grep -q '^log_root[[:space:]]*0$' "
                           "|| test %zu = 2", i, path, i), 0);
  pool_ok (btrnbd_pool_open (&dev, 1, &o, &p));
  for (i = 0; i < n; i++)
    export_compare (p, names[i], models[i]);
  pool_ok (btrnbd_pool_close (p));
  unlink (path);
}


/* Everything that gives space back or writes over something. */
static void __attribute__ ((unused))
churn (struct lab *l, struct model *cow, struct model *nocow, unsigned rounds)
{
  const char *both[] = { "cow", "nocow" };
  unsigned i;

  for (i = 0; i < rounds; i++) {
    scribble (l, "cow", cow, 150);
    scribble (l, "nocow", nocow, 150);
    if (i % 2 == 0)
      pool_ok (btrnbd_volume_snapshot (l->p, both, 2, "s"));
    else {
      pool_ok (btrnbd_volume_remove (l->p, "cow@s"));
      pool_ok (btrnbd_volume_remove (l->p, "nocow@s"));
    }
    pool_ok (btrnbd_pool_sync (l->p));
  }
}

static void __attribute__ ((unused))
expect_end (struct lab *l, struct btrnbd_file *f, const char *why)
{
  struct btrnbd_pool_info i = info (l);
  uint8_t buf[512];
  unsigned k;

  if (strcmp (i.image.ended, why) != 0)
    fail_msg ("ended: \"%s\", not \"%s\"", i.image.ended, why);
  assert_int_equal (i.image.held, 0);
  pool_fails (btrnbd_pread (f, buf, sizeof buf, 0), ERR_image_ended);
  assert_non_null (strstr (btrnbd_last_error (-ERR_image_ended), why));
  for (k = 0; k < 30 && __atomic_load_n (&l->ends, __ATOMIC_ACQUIRE) == 0; k++)
    usleep (100000);
  assert_int_equal (l->ends, 1);
  assert_string_equal (l->ended, why);
}

#endif /* BTRNBD_TESTS_UNIT_POOL_IMAGE_HELP_H */
