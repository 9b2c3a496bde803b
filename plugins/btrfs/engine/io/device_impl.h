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

/* The error of OP for errno ERRNUM, with a note of device, place and cause.
 * A batch of failures is best told last to first, so that the notes left
 * with the thread are those of the error that device_run returns.
 */
extern int device_error (const struct device *, const struct io_op *op,
                         int errnum);

/* device_open by kind. */
extern int device_file_open (const char *name,
                             const struct device_open_opts *,
                             struct device **ret);
extern int device_nbd_open (const char *uri, const struct device_open_opts *,
                            struct device **ret);

/* Claim an open file or block device (see device_open); the claim lives as
 * long as FD.  A block device has been opened with O_EXCL by the caller, who
 * calls device_busy when that fails.
 */
extern int device_claim_file (int fd, const char *name, bool read_only);
/* -ERR_dev_busy with a note of who uses NAME. */
extern int device_busy (const char *name);

/* Copy between a buffer and an iovec, SKIP bytes into it. */
extern void iov_to_buf (const struct iovec *iov, unsigned iovcnt, size_t skip,
                        void *buf, size_t len);
extern void buf_to_iov (const void *buf, size_t len, const struct iovec *iov,
                        unsigned iovcnt, size_t skip);

/* Memory below a memory device: pages that this one has not written read
 * from BASE, which is borrowed, a memory device of the same size, and not
 * written while the overlay lives.
 */
extern int device_mem_overlay (const char *name, struct device *base,
                               struct device **ret);

/* --- a pool of io_uring instances --- */

struct ring_pool;
extern int ring_pool_new (struct ring_pool **ret);
extern void ring_pool_free (struct ring_pool *); /* accepts NULL */

struct ring_req {
  int fd;
  bool write, dsync;
  uint64_t offset;
  const struct iovec *iov;
  unsigned iovcnt;         /* <= IOV_MAX */
  int64_t ret;             /* bytes, or a negative errno */
};
/* Start all, wait for all.  False when no ring is to be had: nothing was
 * started, the caller does it another way.
 */
extern bool ring_run (struct ring_pool *, struct ring_req *reqs, size_t n);

#endif /* BTRNBD_IO_DEVICE_IMPL_H */
