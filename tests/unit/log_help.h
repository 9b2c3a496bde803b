/* A pool on a disk that takes its time or fails, for hard cases of the log. */
#ifndef BTRNBD_TESTS_UNIT_LOG_HELP_H
#define BTRNBD_TESTS_UNIT_LOG_HELP_H

#include <errno.h>
#include <time.h>

#include <btrnbd/engine.h>

#include "inode_help.h"

#include "base/lock.h"
#include "io/device_impl.h"
#include "io/fault.h"

#define BLOCK 4096
#define SLOW 'y'               /* data of which the disk takes its time */

static inline void
nap (unsigned ms)
{
  const struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };

  nanosleep (&ts, NULL);
}

/* --- a disk that holds back some writes, or fails one --- */

struct slow {
  struct device base;          /* must be first */
  struct device *inner;
  struct mutex lock;           /* protects everything below */
  struct cond changed;
  bool armed, held;
  unsigned flush_us;           /* what a flush takes at least */
  char fails;                  /* the next write that begins with such data */
};

static inline bool
is_block_of (const struct io_op *op, char what)
{
  return op->kind == IO_WRITE && op->len > 0 && op->len <= 2 * BLOCK &&
    *(const char *) op->iov[0].iov_base == what;
}

static inline bool
is_to_fail (struct slow *s, const struct io_op *op)
{
  SCOPED_LOCK (&s->lock);
  if (s->fails == '\0' || !is_block_of (op, s->fails))
    return false;
  s->fails = '\0';
  return true;
}

static inline void
slow_run (struct device *dev, struct io_op *ops, size_t n)
{
  struct slow *s = (struct slow *) dev;
  size_t i;

  for (i = 0; i < n; ++i) {
    if (!is_block_of (&ops[i], SLOW))
      continue;
    mutex_lock (&s->lock);
    s->held = s->armed;
    cond_broadcast (&s->changed);
    while (s->armed)
      cond_wait (&s->changed, &s->lock);
    s->held = false;
    mutex_unlock (&s->lock);
  }
  if (n == 1 && ops[0].kind == IO_FLUSH)
    usleep (s->flush_us);
  device_run (s->inner, ops, n);
  for (i = 0; i < n; ++i)
    if (is_to_fail (s, &ops[i]))
      ops[i].result = device_error (dev, &ops[i], EIO);
}

static inline void
slow_close (struct device *dev)
{
  struct slow *s = (struct slow *) dev;

  device_close (s->inner);
  cond_done (&s->changed);
  mutex_done (&s->lock);
  free (s);
}

static inline struct slow *
slow_new (struct device *inner)
{
  static const struct device_ops ops = {
    .run = slow_run, .close = slow_close };
  struct slow *s = calloc (1, sizeof *s);

  assert_non_null (s);
  s->base.ops = &ops;
  s->base.info = *device_get_info (inner);
  s->inner = inner;
  mutex_init (&s->lock, RANK_DEVICE);
  cond_init (&s->changed);
  return s;
}

static inline void
slow_arm (struct slow *s, bool armed)
{
  SCOPED_LOCK (&s->lock);
  s->armed = armed;
  cond_broadcast (&s->changed);
}

static inline void
slow_fail (struct slow *s, char what)
{
  SCOPED_LOCK (&s->lock);
  s->fails = what;
}

static inline void
slow_wait_held (struct slow *s)
{
  SCOPED_LOCK (&s->lock);
  while (!s->held)
    cond_wait (&s->changed, &s->lock);
}

/* --- the pool --- */

struct lab {
  struct image im;
  struct slow *slow;
  struct device *fault;        /* above the slow one */
  struct btrnbd_pool *pool;
};

static inline void
lab_open (struct lab *l)
{
  const struct device_open_opts dopts = { .read_only = false };
  const struct btrnbd_open_opts opts = { .commit_interval = UINT_MAX,
    .cache_size = 64 << 20, .workers = 1 };
  struct device *dev;

  ok (device_open (l->im.path, &dopts, &dev));
  l->slow = slow_new (dev);
  ok (fault_new (&l->slow->base, &l->fault));
  ok (btrnbd_pool_open_devices (&l->fault, 1, &opts, &l->pool));
}

static inline void
lab_make (struct lab *l, const char *mkfs_opts, unsigned mib)
{
  image_make (&l->im, mkfs_opts, mib);
  lab_open (l);
}

/* The process dies; what has not been written is lost. */
static inline void
lab_kill (struct lab *l)
{
  btrnbd_pool_kill (l->pool);
  lab_open (l);
}

static inline void
lab_end (struct lab *l)
{
  ok (btrnbd_pool_close (l->pool));
  image_check (&l->im);
  image_remove (&l->im);
}

static inline struct btrnbd_file *
file_of (struct lab *l, const char *path, uint64_t size)
{
  struct btrnbd_file *f;
  struct btrnbd_stat st;

  if (btrnbd_stat (l->pool, path, &st) < 0)
    ok (btrnbd_create (l->pool, path, 0644, false));
  ok (btrnbd_file_open (l->pool, path, 0, &f));
  if (size > 0)
    ok (btrnbd_truncate (f, size));
  return f;
}

static inline void
put (struct btrnbd_file *f, char what, uint64_t block)
{
  char buf[BLOCK];

  memset (buf, what, sizeof buf);
  ok (btrnbd_pwrite (f, buf, sizeof buf, block * BLOCK, 0));
}

static inline void
holds (struct btrnbd_file *f, char what, uint64_t block)
{
  char buf[BLOCK], want[BLOCK];

  memset (want, what, sizeof want);
  ok (btrnbd_pread (f, buf, sizeof buf, block * BLOCK));
  assert_memory_equal (buf, want, sizeof want);
}

#endif /* BTRNBD_TESTS_UNIT_LOG_HELP_H */
