/* io: a regular file or a block device.
 *
 * Two descriptors: one with O_DIRECT, when the file takes it, for everything
 * that is aligned; one without for the rest (the last, partial block of an
 * odd-sized file).  Buffers that are not aligned are copied through ones that
 * are.  The kernel keeps the two views coherent, and one fdatasync covers
 * both.
 *
 * A batch with several reads and writes goes through io_uring; what it does
 * not finish (short transfers, EAGAIN, flags the file does not know) is
 * finished by plain system calls, which are also the way of single
 * operations.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "io/device_impl.h"

#define BOUNCE_MAX (1024 * 1024)
#define IOV_WINDOW 64       /* buffers per system call */
#define EAGAIN_TRIES 1000   /* of a millisecond */

struct file {
  struct device base;       /* must be first */
  char *name;
  int fd;                   /* buffered; holds the claim */
  int fd_direct;            /* or -1 */
  bool is_block;
  struct ring_pool *rings;
  atomic_bool no_dsync;     /* RWF_DSYNC is not known here, or worse */
};

/* --- plain system calls --- */

/* Some consecutive buffers of IOV from byte SKIP on. */
static unsigned
iov_window (const struct iovec *iov, unsigned iovcnt, uint64_t skip,
            struct iovec ret[IOV_WINDOW])
{
  unsigned count = 0;

  for (unsigned i = 0; i < iovcnt && count < IOV_WINDOW; ++i) {
    if (skip >= iov[i].iov_len) {
      skip -= iov[i].iov_len;
      continue;
    }
    ret[count].iov_base = (uint8_t *) iov[i].iov_base + skip;
    ret[count].iov_len = iov[i].iov_len - skip;
    skip = 0;
    count++;
  }
  return count;
}

/* One system call; bytes, or a negative errno. */
static int64_t
sys_rw (struct file *f, int fd, const struct io_op *op, uint64_t done)
{
  struct iovec win[IOV_WINDOW];
  unsigned count = iov_window (op->iov, op->iovcnt, done, win);
  uint64_t at = op->offset + done;
  ssize_t r;

  if (op->kind == IO_READ)
    r = preadv (fd, win, count, at);
  else if (op->fua && !f->no_dsync) {
    r = pwritev2 (fd, win, count, at, RWF_DSYNC);
    if (r < 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
      f->no_dsync = true;
      r = pwritev (fd, win, count, at);
    }
  }
  else
    r = pwritev (fd, win, count, at);
  return r < 0 ? -errno : r;
}

static int
file_flush (struct file *f)
{
  int r;

  do
    r = fdatasync (f->fd);
  while (r < 0 && errno == EINTR);
  return r < 0 ? errno : 0;
}

/* The bytes of OP from DONE on through FD; 0 or an errno. */
static int
rw_fd (struct file *f, int fd, const struct io_op *op, uint64_t done)
{
  unsigned tries = 0;

  while (done < op->len) {
    /* A short transfer may leave a place where O_DIRECT cannot go on. */
    bool aligned = is_aligned (op->offset + done, f->base.info.block_size);
    int64_t r = sys_rw (f, aligned ? fd : f->fd, op, done);

    if (r == -EINTR)
      continue;
    if (r == -EAGAIN && tries++ < EAGAIN_TRIES) {
      usleep (1000);
      continue;
    }
    if (r == -EINVAL && fd != f->fd) {
      fd = f->fd;
      continue;
    }
    if (r <= 0)
      return r == 0 ? EIO : -r;
    done += r;
  }
  return op->kind == IO_WRITE && op->fua && f->no_dsync ? file_flush (f) : 0;
}

static bool
range_aligned (const struct file *f, const struct io_op *op)
{
  return is_aligned (op->offset | op->len, f->base.info.block_size);
}

static bool
memory_aligned (const struct file *f, const struct io_op *op)
{
  for (unsigned i = 0; i < op->iovcnt; ++i)
    if (!is_aligned ((uintptr_t) op->iov[i].iov_base,
                     f->base.info.mem_align) ||
        !is_aligned (op->iov[i].iov_len, f->base.info.block_size))
      return false;
  return true;
}

/* O_DIRECT through an aligned buffer. */
static int
rw_bounce (struct file *f, const struct io_op *op)
{
  CLEANUP_FREE uint8_t *buf = io_alloc (MIN (op->len, (uint64_t) BOUNCE_MAX));
  int err = 0;

  if (buf == NULL)
    return ENOMEM;
  for (uint64_t done = 0; done < op->len && err == 0;) {
    struct iovec iov = { buf, MIN (op->len - done, (uint64_t) BOUNCE_MAX) };
    struct io_op part = {
      .kind = op->kind, .fua = op->fua, .offset = op->offset + done,
      .len = iov.iov_len, .iov = &iov, .iovcnt = 1,
    };

    if (op->kind == IO_WRITE)
      iov_to_buf (op->iov, op->iovcnt, done, buf, iov.iov_len);
    err = rw_fd (f, f->fd_direct, &part, 0);
    if (op->kind == IO_READ && err == 0)
      buf_to_iov (buf, iov.iov_len, op->iov, op->iovcnt, done);
    done += iov.iov_len;
  }
  return err;
}

static int
rw_plain (struct file *f, const struct io_op *op)
{
  if (f->fd_direct < 0 || !range_aligned (f, op))
    return rw_fd (f, f->fd, op, 0);
  if (!memory_aligned (f, op))
    return rw_bounce (f, op);
  return rw_fd (f, f->fd_direct, op, 0);
}

/* A hint: a file that cannot punch holes is not an error. */
static int
file_discard (struct file *f, const struct io_op *op)
{
  int r;

  if (!f->base.info.can_discard)
    return 0;
  do {
    if (f->is_block) {
      uint32_t bs = f->base.info.block_size;
      uint64_t start = round_up (op->offset, bs);
      uint64_t end = round_down (op->offset + op->len, bs);
      uint64_t range[2] = { start, end - start };

      if (start >= end)
        return 0;
      r = ioctl (f->fd, BLKDISCARD, range);
    }
    else
      r = fallocate (f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     op->offset, op->len);
  } while (r < 0 && errno == EINTR);
  if (r < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == ENOTTY))
    return 0;
  return r < 0 ? errno : 0;
}

static void
finish (struct file *f, struct io_op *op, int err)
{
  op->result = err == 0 ? 0 : device_error (&f->base, op, err);
}

static void
run_plain (struct file *f, struct io_op *op)
{
  int err;

  switch (op->kind) {
  case IO_FLUSH: err = file_flush (f); break;
  case IO_DISCARD: err = file_discard (f, op); break;
  default: err = rw_plain (f, op); break;
  }
  finish (f, op, err);
}

/* --- batches --- */

struct slot {
  struct io_op *op;
  void *bounce;             /* NULL: the caller's memory is used */
  struct iovec iov;         /* of the bounce buffer */
};

/* Fill in REQ and SLOT for OP; false when OP must go the plain way. */
static bool
slot_init (struct file *f, struct io_op *op, struct ring_req *req,
           struct slot *slot)
{
  bool direct = f->fd_direct >= 0 && range_aligned (f, op);

  if (op->iovcnt > IOV_WINDOW || (op->fua && f->no_dsync))
    return false;
  *slot = (struct slot) { .op = op };
  *req = (struct ring_req) {
    .fd = direct ? f->fd_direct : f->fd,
    .write = op->kind == IO_WRITE, .dsync = op->fua,
    .offset = op->offset, .iov = op->iov, .iovcnt = op->iovcnt,
  };
  if (!direct || memory_aligned (f, op))
    return true;

  if (op->len > BOUNCE_MAX)
    return false;
  slot->bounce = io_alloc (op->len);
  if (slot->bounce == NULL)
    return false;
  slot->iov = (struct iovec) { slot->bounce, op->len };
  if (op->kind == IO_WRITE)
    iov_to_buf (op->iov, op->iovcnt, 0, slot->bounce, op->len);
  req->iov = &slot->iov;
  req->iovcnt = 1;
  return true;
}

static void
slot_finish (struct file *f, const struct ring_req *req, struct slot *slot)
{
  struct io_op *op = slot->op;
  int err;

  if (req->ret == (int64_t) op->len) {
    if (slot->bounce != NULL && op->kind == IO_READ)
      buf_to_iov (slot->bounce, op->len, op->iov, op->iovcnt, 0);
    err = 0;
  }
  else if (req->ret >= 0 && slot->bounce == NULL)
    err = rw_fd (f, req->fd, op, req->ret);
  else if (req->ret >= 0 || req->ret == -EINTR || req->ret == -EAGAIN ||
           req->ret == -EINVAL || req->ret == -EOPNOTSUPP)
    err = rw_plain (f, op);
  else
    err = -req->ret;
  free (slot->bounce);
  finish (f, op, err);
}

/* Reads and writes first, all at once; then the rest in array order. */
static void
run_batch (struct file *f, struct io_op *ops, size_t n,
           struct ring_req *reqs, struct slot *slots)
{
  size_t count = 0;

  for (size_t i = 0; i < n; ++i) {
    ops[i].result = 1; /* not done */
    if ((ops[i].kind == IO_READ || ops[i].kind == IO_WRITE) &&
        slot_init (f, &ops[i], &reqs[count], &slots[count]))
      count++;
  }
  if (count > 0 && !ring_run (f->rings, reqs, count))
    for (size_t i = 0; i < count; ++i)
      reqs[i].ret = -EAGAIN;
  for (size_t i = count; i-- > 0;)
    slot_finish (f, &reqs[i], &slots[i]);
  for (size_t i = n; i-- > 0;)
    if (ops[i].result == 1)
      run_plain (f, &ops[i]);
}

#define ON_STACK 16

static void
file_run (struct device *dev, struct io_op *ops, size_t n)
{
  struct file *f = (struct file *) dev;
  struct ring_req reqs[ON_STACK];
  struct slot slots[ON_STACK];

  if (n == 1) {
    run_plain (f, &ops[0]);
    return;
  }
  if (n <= ON_STACK) {
    run_batch (f, ops, n, reqs, slots);
    return;
  }
  CLEANUP_FREE struct ring_req *many = calloc (n, sizeof *many);
  CLEANUP_FREE struct slot *many_slots = calloc (n, sizeof *many_slots);

  if (many != NULL && many_slots != NULL) {
    run_batch (f, ops, n, many, many_slots);
    return;
  }
  for (size_t i = 0; i < n; i += ON_STACK)
    run_batch (f, ops + i, MIN (n - i, (size_t) ON_STACK), reqs, slots);
}

/* --- open and close --- */

static void
file_close (struct device *dev)
{
  struct file *f = (struct file *) dev;

  ring_pool_free (f->rings);
  if (f->fd_direct >= 0)
    close (f->fd_direct);
  if (f->fd >= 0)
    close (f->fd);
  free (f->name);
  free (f);
}

static const struct device_ops file_ops = {
  .run = file_run,
  .close = file_close,
};

/* A number in a file of /sys about block device DEV or the disk it is part
 * of.
 */
static uint64_t
sys_number (dev_t dev, const char *what)
{
  static const char *const dirs[] = { "", "/.." };
  char path[128];
  unsigned long long value = 0;

  for (unsigned i = 0; i < ARRAY_SIZE (dirs); ++i) {
    snprintf (path, sizeof path, "/sys/dev/block/%u:%u%s/queue/%s",
              major (dev), minor (dev), dirs[i], what);
    FILE *fp = fopen (path, "re");

    if (fp == NULL)
      continue;
    if (fscanf (fp, "%llu", &value) != 1)
      value = 0;
    fclose (fp);
    break;
  }
  return value;
}

static int
size_block (struct file *f, const struct stat *st)
{
  uint64_t size;
  int sector;

  if (ioctl (f->fd, BLKGETSIZE64, &size) < 0 ||
      ioctl (f->fd, BLKSSZGET, &sector) < 0)
    return err_new (ERR_dev_open, "%s: size: %s", f->name, strerror (errno));
  f->base.info.size = size;
  f->base.info.dev = st->st_rdev;
  f->base.info.block_size = sector;
  f->base.info.mem_align = MAX (sector, 512);
  f->base.info.rotational = sys_number (st->st_rdev, "rotational") != 0;
  f->base.info.can_discard =
    sys_number (st->st_rdev, "discard_max_bytes") != 0;
  return 0;
}

static void
size_regular (struct file *f, const struct stat *st)
{
  f->base.info.size = st->st_size;
  f->base.info.dev = st->st_dev;
  f->base.info.ino = st->st_ino;
  f->base.info.block_size = 512;
  f->base.info.mem_align = 512;
  f->base.info.rotational = sys_number (st->st_dev, "rotational") != 0;
  f->base.info.can_discard = true;
#ifdef STATX_DIOALIGN
  struct statx stx;

  if (f->fd_direct >= 0 &&
      statx (f->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 &&
      (stx.stx_mask & STATX_DIOALIGN) && stx.stx_dio_offset_align > 0) {
    f->base.info.block_size = stx.stx_dio_offset_align;
    f->base.info.mem_align = MAX (stx.stx_dio_mem_align, 1u);
  }
#endif
}

/* The two descriptors; sets F's kind, and claims the file. */
static int
open_fds (struct file *f, const struct device_open_opts *opts,
          struct stat *st)
{
  int flags = (opts->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC;
  int excl;

  if (stat (f->name, st) < 0)
    return err_new (ERR_dev_open, "%s: %s", f->name, strerror (errno));
  f->is_block = S_ISBLK (st->st_mode);
  /* Linux flushes a block device after every RWF_DSYNC write, even where FUA
   * made the write durable: a write and fdatasync are one flush less.
   */
  f->no_dsync = f->is_block;
  if (!f->is_block && !S_ISREG (st->st_mode))
    return err_new (ERR_dev_open,
                    "%s: neither a regular file nor a block device",
                    f->name);

  excl = f->is_block && !opts->no_lock ? O_EXCL : 0;
  f->fd = open (f->name, flags | excl);
  if (f->fd < 0 && errno == EBUSY)
    return device_busy (f->name);
  if (f->fd < 0 || fstat (f->fd, st) < 0)
    return err_new (ERR_dev_open, "%s: %s", f->name, strerror (errno));
  if (S_ISBLK (st->st_mode) != f->is_block)
    return err_new (ERR_dev_open, "%s: changed while being opened", f->name);
  if (!f->is_block && !opts->no_lock) {
    int r = device_claim_file (f->fd, f->name, opts->read_only);

    if (r < 0)
      return r;
  }

  char self[64];

  /* By descriptor, so that it is the same file. */
  snprintf (self, sizeof self, "/proc/self/fd/%d", f->fd);
  f->fd_direct = open (self, flags | O_DIRECT);
  if (f->fd_direct < 0)
    f->fd_direct = open (f->name, flags | O_DIRECT);
  if (f->fd_direct < 0)
    log_debug ("%s: no O_DIRECT: %s", f->name, strerror (errno));
  return 0;
}

int
device_file_open (const char *name, const struct device_open_opts *opts,
                  struct device **ret)
{
  struct file *f = calloc (1, sizeof *f);
  struct stat st;
  int r;

  if (f == NULL)
    return err_new (ERR_nomem, "%s", name);
  f->base.ops = &file_ops;
  f->fd = f->fd_direct = -1;
  f->name = strdup (name);
  r = f->name ? 0 : err_new (ERR_nomem, "file device");
  if (r == 0)
    r = open_fds (f, opts, &st);
  if (r == 0)
    r = ring_pool_new (&f->rings);
  if (r == 0 && f->is_block)
    r = size_block (f, &st);
  else if (r == 0)
    size_regular (f, &st);
  if (r < 0) {
    file_close (&f->base);
    return r;
  }
  f->base.info.name = f->name;
  f->base.info.read_only = opts->read_only;
  *ret = &f->base;
  return 0;
}
