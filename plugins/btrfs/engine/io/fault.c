/* io: the failing device, see fault.h. */
#include <config.h>

#include <stdlib.h>

#include "base/err.h"
#include "base/lock.h"
#include "io/device_impl.h"
#include "io/fault.h"

#define KINDS (IO_DISCARD + 1)

struct fault {
  struct device base;       /* must be first */
  struct device *inner;     /* owned */
  struct mutex lock;        /* protects everything below */
  struct {
    enum fault_mode mode;
    uint64_t n, count, hits;
  } of[KINDS];
  uint64_t start, len;
};

/* Counts OP; does it fail? */
static bool
strikes (struct fault *f, const struct io_op *op)
{
  bool hit;

  SCOPED_LOCK (&f->lock);
  if (f->len > 0 && op->kind != IO_FLUSH &&
      (op->offset >= f->start + f->len || op->offset + op->len <= f->start))
    return false;
  uint64_t count = ++f->of[op->kind].count;
  uint64_t n = f->of[op->kind].n;

  switch (f->of[op->kind].mode) {
  case FAULT_ONCE: hit = count == n; break;
  case FAULT_FROM: hit = count >= n; break;
  default: hit = false; break;
  }
  f->of[op->kind].hits += hit;
  return hit;
}

static void
fault_run (struct device *dev, struct io_op *ops, size_t n)
{
  struct fault *f = (struct fault *) dev;
  size_t from = 0;

  /* Runs of healthy operations stay batches. */
  for (size_t i = 0; i < n; ++i) {
    if (!strikes (f, &ops[i]))
      continue;
    if (i > from)
      device_run (f->inner, ops + from, i - from);
    ops[i].result = device_error (dev, &ops[i], EIO);
    from = i + 1;
  }
  if (n > from)
    device_run (f->inner, ops + from, n - from);
}

static void
fault_close (struct device *dev)
{
  struct fault *f = (struct fault *) dev;

  device_close (f->inner);
  mutex_done (&f->lock);
  free (f);
}

static const struct device_ops fault_ops = {
  .run = fault_run,
  .close = fault_close,
};

int
fault_new (struct device *inner, struct device **ret)
{
  struct fault *f = calloc (1, sizeof *f);

  if (f == NULL)
    return err_new (ERR_nomem, "fault device");
  f->base.ops = &fault_ops;
  f->base.info = *device_get_info (inner);
  f->inner = inner;
  mutex_init (&f->lock, RANK_DEVICE);
  *ret = &f->base;
  return 0;
}

void
fault_arm (struct device *dev, enum io_kind kind, enum fault_mode mode,
           uint64_t n)
{
  struct fault *f = (struct fault *) dev;

  SCOPED_LOCK (&f->lock);
  f->of[kind].mode = mode;
  f->of[kind].n = n;
  f->of[kind].count = f->of[kind].hits = 0;
}

void
fault_range (struct device *dev, uint64_t start, uint64_t len)
{
  struct fault *f = (struct fault *) dev;

  SCOPED_LOCK (&f->lock);
  f->start = start;
  f->len = len;
}

uint64_t
fault_count (struct device *dev, enum io_kind kind)
{
  struct fault *f = (struct fault *) dev;

  SCOPED_LOCK (&f->lock);
  return f->of[kind].count;
}

uint64_t
fault_hits (struct device *dev, enum io_kind kind)
{
  struct fault *f = (struct fault *) dev;

  SCOPED_LOCK (&f->lock);
  return f->of[kind].hits;
}
