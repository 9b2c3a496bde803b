/* A device that survives being closed by a pool. */
#ifndef BTRNBD_TESTS_CRASH_SHIELD_H
#define BTRNBD_TESTS_CRASH_SHIELD_H

#include <stdlib.h>

#include "io/device_impl.h"

struct shield {
  struct device base;          /* must be first */
  struct device *inner;        /* borrowed */
  unsigned runs;               /* batches so far (atomic) */
};

static inline void
shield_run (struct device *dev, struct io_op *ops, size_t n)
{
  struct shield *s = (struct shield *) dev;

  __atomic_fetch_add (&s->runs, 1, __ATOMIC_RELAXED);
  device_run (s->inner, ops, n);
}

static inline void
shield_close (struct device *dev)
{
  free (dev);
}

static inline struct device *
shield_new (struct device *inner)
{
  static const struct device_ops ops = {
    .run = shield_run, .close = shield_close };
  struct shield *s = calloc (1, sizeof *s);

  if (s == NULL)
    abort ();
  s->base.ops = &ops;
  s->base.info = *device_get_info (inner);
  s->inner = inner;
  return &s->base;
}

#endif /* BTRNBD_TESTS_CRASH_SHIELD_H */
