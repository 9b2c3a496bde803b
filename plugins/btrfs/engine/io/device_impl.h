/* io: what a kind of device implements; for io/ and test devices only. */
#ifndef BTRNBD_IO_DEVICE_IMPL_H
#define BTRNBD_IO_DEVICE_IMPL_H

#include "io/device.h"

struct device_ops {
  /* Set every ops[i].result.  Ranges have been checked against the size,
   * and writes, flushes and discards refused on read-only devices.
   */
  void (*run) (struct device *, struct io_op *ops, size_t n);
  void (*close) (struct device *);
};

/* Embedded first in each kind's own structure. */
struct device {
  const struct device_ops *ops;
  struct device_info info;
};

#endif /* BTRNBD_IO_DEVICE_IMPL_H */
