/* io: what all kinds of device share.
 *
 * Every operation is checked here, once, so that a kind sees only ranges
 * inside the device and never a write to a read-only one.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/math.h"
#include "io/device_impl.h"

void *
io_alloc (size_t len)
{
  void *p;

  if (len > SIZE_MAX - IO_MEM_ALIGN)
    return NULL;
  len = round_up (MAX (len, (size_t) 1), IO_MEM_ALIGN);
  if (posix_memalign (&p, IO_MEM_ALIGN, len) != 0)
    return NULL;
  return p;
}

static bool
is_uri (const char *name)
{
  return strncmp (name, "nbd://", 6) == 0 ||
    strncmp (name, "nbd+unix://", 11) == 0 ||
    strncmp (name, "nbds://", 7) == 0 ||
    strncmp (name, "nbds+unix://", 12) == 0;
}

int
device_open (const char *name, const struct device_open_opts *opts,
             struct device **ret)
{
  static const struct device_open_opts defaults;

  if (opts == NULL)
    opts = &defaults;
  if (is_uri (name))
    return device_nbd_open (name, opts, ret);
  return device_file_open (name, opts, ret);
}

void
device_close (struct device *dev)
{
  if (dev != NULL)
    dev->ops->close (dev);
}

const struct device_info *
device_get_info (const struct device *dev)
{
  return &dev->info;
}

static const char *
kind_name (enum io_kind kind)
{
  switch (kind) {
  case IO_READ: return "read";
  case IO_WRITE: return "write";
  case IO_FLUSH: return "flush";
  case IO_DISCARD: return "discard";
  }
  return "?";
}

int
device_error (const struct device *dev, const struct io_op *op, int errnum)
{
  static const int codes[] = {
    [IO_READ] = ERR_dev_read,
    [IO_WRITE] = ERR_dev_write,
    [IO_FLUSH] = ERR_dev_flush,
    [IO_DISCARD] = ERR_dev_discard,
  };
  char buf[128];

  if (errnum == ENOMEM)
    return err_new (ERR_nomem, "%s: %s", dev->info.name,
                    kind_name (op->kind));
  return err_new (codes[op->kind], "%s: %s of %llu bytes at %llu: %s",
                  dev->info.name, kind_name (op->kind),
                  (unsigned long long) op->len,
                  (unsigned long long) op->offset,
                  strerror_r (errnum, buf, sizeof buf));
}

/* 0 when OP may be run. */
static int
check_op (const struct device *dev, const struct io_op *op)
{
  uint64_t end, sum = 0;

  if (dev->info.read_only && op->kind != IO_READ)
    return err_new (ERR_dev_readonly, "%s: %s", dev->info.name,
                    kind_name (op->kind));
  if (op->kind == IO_FLUSH)
    return 0;
  if (!add_ok (op->offset, op->len, &end) || end > dev->info.size)
    return err_new (ERR_dev_range,
                    "%s: %s of %llu bytes at %llu, device has %llu",
                    dev->info.name, kind_name (op->kind),
                    (unsigned long long) op->len,
                    (unsigned long long) op->offset,
                    (unsigned long long) dev->info.size);
  if (op->kind == IO_DISCARD)
    return 0;
  for (unsigned i = 0; i < op->iovcnt; ++i)
    sum += op->iov[i].iov_len;
  if (sum != op->len)
    return err_new (ERR_invalid, "%s: %s of %llu bytes with buffers of %llu",
                    dev->info.name, kind_name (op->kind),
                    (unsigned long long) op->len, (unsigned long long) sum);
  return 0;
}

/* Is there nothing to do for OP? */
static bool
is_empty (const struct io_op *op)
{
  return op->kind != IO_FLUSH && op->len == 0;
}

/* Some operation is refused or empty: run the others one at a time. */
static int
run_checked (struct device *dev, struct io_op *ops, size_t n)
{
  int first = 0;

  for (size_t i = n; i-- > 0;) {
    ops[i].result = check_op (dev, &ops[i]);
    if (ops[i].result == 0 && !is_empty (&ops[i]))
      dev->ops->run (dev, &ops[i], 1);
    if (ops[i].result < 0)
      first = ops[i].result;
  }
  return first;
}

int
device_run (struct device *dev, struct io_op *ops, size_t n)
{
  for (size_t i = 0; i < n; ++i)
    if (is_empty (&ops[i]) || check_op (dev, &ops[i]) < 0)
      return run_checked (dev, ops, n);

  if (n > 0)
    dev->ops->run (dev, ops, n);
  for (size_t i = 0; i < n; ++i)
    if (ops[i].result < 0)
      return ops[i].result;
  return 0;
}

static int
run_one (struct device *dev, struct io_op *op)
{
  return device_run (dev, op, 1);
}

int
device_read (struct device *dev, uint64_t offset, void *buf, size_t len)
{
  struct iovec iov = { buf, len };
  struct io_op op = { .kind = IO_READ, .offset = offset, .len = len,
                      .iov = &iov, .iovcnt = 1 };

  return run_one (dev, &op);
}

static int
write_one (struct device *dev, struct io_op *op, const void *buf, size_t len)
{
  struct iovec iov = { (void *) buf, len };

  op->kind = IO_WRITE;
  op->len = len;
  op->iov = &iov;
  op->iovcnt = 1;
  return run_one (dev, op);
}

int
device_write (struct device *dev, uint64_t offset, const void *buf,
              size_t len)
{
  struct io_op op = { .offset = offset };

  return write_one (dev, &op, buf, len);
}

int
device_write_fua (struct device *dev, uint64_t offset, const void *buf,
                  size_t len)
{
  struct io_op op = { .offset = offset, .fua = true };

  return write_one (dev, &op, buf, len);
}

int
device_flush (struct device *dev)
{
  struct io_op op = { .kind = IO_FLUSH };

  return run_one (dev, &op);
}

int
device_discard (struct device *dev, uint64_t offset, uint64_t len)
{
  struct io_op op = { .kind = IO_DISCARD, .offset = offset, .len = len };

  return run_one (dev, &op);
}

/* Step through IOV from byte SKIP: one memcpy per buffer. */
static void
iov_copy (const struct iovec *iov, unsigned iovcnt, size_t skip,
          uint8_t *buf, size_t len, bool to_iov)
{
  for (unsigned i = 0; i < iovcnt && len > 0; ++i) {
    if (skip >= iov[i].iov_len) {
      skip -= iov[i].iov_len;
      continue;
    }
    uint8_t *p = (uint8_t *) iov[i].iov_base + skip;
    size_t now = MIN (len, iov[i].iov_len - skip);

    if (to_iov)
      memcpy (p, buf, now);
    else
      memcpy (buf, p, now);
    buf += now;
    len -= now;
    skip = 0;
  }
}

void
iov_to_buf (const struct iovec *iov, unsigned iovcnt, size_t skip,
            void *buf, size_t len)
{
  iov_copy (iov, iovcnt, skip, buf, len, false);
}

void
buf_to_iov (const void *buf, size_t len, const struct iovec *iov,
            unsigned iovcnt, size_t skip)
{
  iov_copy (iov, iovcnt, skip, (void *) buf, len, true);
}
