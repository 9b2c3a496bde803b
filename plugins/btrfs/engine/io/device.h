/* io: one device of a pool.
 *
 * A device runs batches of operations: all are started, all are waited for,
 * each has its own result.  Callers block; any number of threads may run
 * batches at once.  Operations of one batch are not ordered among themselves.
 *
 * Durability: a write is durable after a later IO_FLUSH that succeeded, or
 * when it carries `fua` and succeeded.  O_DIRECT is not durability.
 *
 * Kinds of device: a file or block device (O_DIRECT where it can be, through
 * io_uring when a batch has more than one operation), an NBD export (libnbd),
 * memory, and two wrappers for tests: fault and recorder (fault.h, record.h).
 */
#ifndef BTRNBD_IO_DEVICE_H
#define BTRNBD_IO_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct device;

enum io_kind { IO_READ, IO_WRITE, IO_FLUSH, IO_DISCARD };

struct io_op {
  enum io_kind kind;
  bool fua;                /* IO_WRITE only */
  uint64_t offset;         /* bytes from the start of the device */
  uint64_t len;            /* bytes; sum of iov for reads and writes */
  const struct iovec *iov; /* borrowed until the batch ends */
  unsigned iovcnt;
  int result;              /* 0 or a negative error code, set by the batch */
};

struct device_info {
  const char *name;        /* as given by the user; owned by the device */
  uint64_t size;           /* bytes, constant while open */
  uint32_t block_size;     /* logical block: smallest aligned unit, bytes */
  uint32_t mem_align;      /* buffers aligned to this are not copied */
  bool read_only;
  bool rotational;
  bool can_discard;
  /* As stat(2) tells: of a block device its own number and no inode, of a file
   * both of the file; zero: neither.
   */
  dev_t dev;
  ino_t ino;
};

struct device_open_opts {
  bool read_only;
  bool no_lock;            /* tests only: do not claim the device */
};

/* NAME: a path, or an NBD URI ("nbd://...", "nbd+unix://...").  Claims the
 * device for this process unless opts say otherwise (O_EXCL on block devices,
 * an OFD lock on files, refusal of files behind a loop device or a kernel
 * mount); -ERR_dev_busy notes who holds it when that can be told.
 */
extern int device_open (const char *name, const struct device_open_opts *,
                        struct device **ret);
/* SIZE zero bytes of memory, sparse. */
extern int device_mem_new (const char *name, uint64_t size,
                           struct device **ret);
/* Accepts NULL.  No implicit flush. */
extern void device_close (struct device *);

extern const struct device_info *device_get_info (const struct device *);

/* Run N operations; returns the first failure in array order, or 0. */
extern int device_run (struct device *, struct io_op *ops, size_t n);

/* One operation on one buffer. */
extern int device_read (struct device *, uint64_t offset, void *buf,
                        size_t len);
extern int device_write (struct device *, uint64_t offset, const void *buf,
                         size_t len);
extern int device_write_fua (struct device *, uint64_t offset,
                             const void *buf, size_t len);
extern int device_flush (struct device *);
extern int device_discard (struct device *, uint64_t offset, uint64_t len);

/* A buffer that suits every device; free with free (). */
#define IO_MEM_ALIGN 4096
extern void *io_alloc (size_t len); /* NULL when out of memory */

#endif /* BTRNBD_IO_DEVICE_H */
