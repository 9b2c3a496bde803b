/* io: an NBD export as a device, through libnbd.
 *
 * A few connections (one when the server does not promise multi-conn) are
 * borrowed for one batch at a time: the batch's commands are all started,
 * then all waited for.  With multi-conn a flush on any connection covers all
 * writes that completed, as io/device.h asks.
 *
 * A connection that is lost fails the device for good.  The server may have
 * lost writes that it acknowledged and never flushed, so going on over a new
 * connection would turn the next flush into a lie.
 */
#include <config.h>

#include <errno.h>
#include <libnbd.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/math.h"
#include "io/device_impl.h"

#define CONNS_MAX 4
#define CHUNK_MAX (32 * 1024 * 1024)
#define IN_FLIGHT_MAX 64      /* commands of one connection */

struct nbd {
  struct device base;         /* must be first */
  char *uri;
  bool can_fua, can_flush;
  unsigned conns_max;
  atomic_bool lost;

  struct mutex lock;          /* protects everything below */
  struct cond idle_cond;
  unsigned made, idle_count;
  struct nbd_handle *idle[CONNS_MAX];
};

static int
connect_one (const char *uri, bool tls, struct nbd_handle **ret)
{
  struct nbd_handle *h = nbd_create ();

  if (h == NULL)
    return err_new (ERR_nomem, "%s", uri);
  if (nbd_set_uri_allow_transports (h, LIBNBD_ALLOW_TRANSPORT_TCP |
                                    LIBNBD_ALLOW_TRANSPORT_UNIX) < 0 ||
      nbd_set_uri_allow_tls (h, tls ? LIBNBD_TLS_REQUIRE
                             : LIBNBD_TLS_DISABLE) < 0 ||
      nbd_connect_uri (h, uri) < 0) {
    int r = err_new (ERR_dev_open, "%s: %s", uri, nbd_get_error ());

    nbd_close (h);
    return r;
  }
  *ret = h;
  return 0;
}

static bool
wants_tls (const char *uri)
{
  return strncmp (uri, "nbds", 4) == 0;
}

/* A connection for this thread alone; waits when all are in use.  NULL when
 * the device is lost.
 */
static struct nbd_handle *
conn_get (struct nbd *d)
{
  struct nbd_handle *h = NULL;

  mutex_lock (&d->lock);
  for (;;) {
    if (d->idle_count > 0) {
      h = d->idle[--d->idle_count];
      break;
    }
    if (d->lost)
      break;
    if (d->made < d->conns_max) {
      d->made++;
      mutex_unlock (&d->lock);
      int r = connect_one (d->uri, wants_tls (d->uri), &h);
      mutex_lock (&d->lock);
      if (r == 0)
        break;
      /* The server limits its clients: live with what there is. */
      d->made--;
      d->conns_max = MAX (d->made, 1u);
      if (d->made == 0) {
        d->lost = true;
        break;
      }
      continue;
    }
    cond_wait (&d->idle_cond, &d->lock);
  }
  mutex_unlock (&d->lock);
  return h;
}

static void
conn_put (struct nbd *d, struct nbd_handle *h)
{
  bool dead = nbd_aio_is_dead (h) != 0 || nbd_aio_is_closed (h) != 0;

  mutex_lock (&d->lock);
  if (dead) {
    d->made--;
    d->lost = true;
  }
  else
    d->idle[d->idle_count++] = h;
  mutex_unlock (&d->lock);
  if (dead)
    nbd_close (h);
  cond_broadcast (&d->idle_cond);
}

/* --- one batch on one connection --- */

struct cmd {
  size_t op;                  /* index */
  int64_t cookie;             /* 0: not started or done */
};

struct batch {
  struct nbd *d;
  struct nbd_handle *h;
  struct io_op *ops;
  uint8_t **flat;             /* per op: contiguous memory, or NULL */
  int *err;                   /* per op: first errno */
  struct cmd cmds[IN_FLIGHT_MAX];
  unsigned in_flight;
};

static void
op_fail (struct batch *b, size_t op, int err)
{
  if (b->err[op] == 0)
    b->err[op] = err != 0 ? err : EIO;
}

/* Take back what is done; waits for something when WAIT. */
static void
batch_reap (struct batch *b, bool wait)
{
  if (wait && b->in_flight > 0 && nbd_poll (b->h, -1) < 0) {
    /* The connection is gone, and every command with it. */
    for (unsigned i = 0; i < IN_FLIGHT_MAX; ++i)
      if (b->cmds[i].cookie != 0) {
        op_fail (b, b->cmds[i].op, EIO);
        b->cmds[i].cookie = 0;
      }
    b->in_flight = 0;
    b->d->lost = true;
    return;
  }
  for (unsigned i = 0; i < IN_FLIGHT_MAX && b->in_flight > 0; ++i) {
    struct cmd *c = &b->cmds[i];

    if (c->cookie == 0)
      continue;
    int r = nbd_aio_command_completed (b->h, c->cookie);

    if (r == 0)
      continue;
    if (r < 0)
      op_fail (b, c->op, nbd_get_errno ());
    c->cookie = 0;
    b->in_flight--;
  }
}

static int64_t
start (struct batch *b, size_t index, uint64_t done, size_t len)
{
  const struct io_op *op = &b->ops[index];
  uint8_t *p = b->flat[index];
  uint64_t at = op->offset + done;

  if (p == NULL && op->iovcnt > 0)
    p = op->iov[0].iov_base;
  switch (op->kind) {
  case IO_READ:
    return nbd_aio_pread (b->h, p + done, len, at, NBD_NULL_COMPLETION, 0);
  case IO_WRITE:
    return nbd_aio_pwrite (b->h, p + done, len, at, NBD_NULL_COMPLETION,
                           op->fua && b->d->can_fua ? LIBNBD_CMD_FLAG_FUA
                           : 0);
  case IO_DISCARD:
    return nbd_aio_trim (b->h, len, at, NBD_NULL_COMPLETION, 0);
  case IO_FLUSH:
    return nbd_aio_flush (b->h, NBD_NULL_COMPLETION, 0);
  }
  return -1;
}

static void
submit (struct batch *b, size_t index, uint64_t done, size_t len)
{
  unsigned i = 0;
  int64_t cookie;

  while (b->in_flight == IN_FLIGHT_MAX)
    batch_reap (b, true);
  cookie = start (b, index, done, len);
  if (cookie < 0) {
    op_fail (b, index, nbd_get_errno ());
    return;
  }
  while (b->cmds[i].cookie != 0)
    i++;
  b->cmds[i] = (struct cmd) { .op = index, .cookie = cookie };
  b->in_flight++;
}

/* Is OP one that this server has nothing to do for? */
static bool
is_hint (const struct nbd *d, const struct io_op *op)
{
  return (op->kind == IO_DISCARD && !d->base.info.can_discard) ||
    (op->kind == IO_FLUSH && !d->can_flush);
}

static void
submit_op (struct batch *b, size_t index)
{
  struct io_op *op = &b->ops[index];

  if (is_hint (b->d, op))
    return;
  if (op->kind == IO_FLUSH) {
    submit (b, index, 0, 0);
    return;
  }
  if (op->iovcnt > 1) {
    b->flat[index] = io_alloc (op->len);
    if (b->flat[index] == NULL) {
      op_fail (b, index, ENOMEM);
      return;
    }
    if (op->kind == IO_WRITE)
      iov_to_buf (op->iov, op->iovcnt, 0, b->flat[index], op->len);
  }
  for (uint64_t done = 0; done < op->len; done += CHUNK_MAX)
    submit (b, index, done, MIN (op->len - done, (uint64_t) CHUNK_MAX));
}

static void
batch_run (struct batch *b, size_t n)
{
  bool sync_after = false;

  for (size_t i = 0; i < n; ++i)
    submit_op (b, i);
  while (b->in_flight > 0)
    batch_reap (b, true);

  for (size_t i = 0; i < n; ++i) {
    struct io_op *op = &b->ops[i];

    if (op->kind == IO_READ && b->flat[i] != NULL && b->err[i] == 0)
      buf_to_iov (b->flat[i], op->len, op->iov, op->iovcnt, 0);
    if (op->kind == IO_WRITE && op->fua && !b->d->can_fua)
      sync_after = true;
  }
  if (!sync_after || !b->d->can_flush || nbd_flush (b->h, 0) == 0)
    return;
  for (size_t i = 0; i < n; ++i)
    if (b->ops[i].kind == IO_WRITE && b->ops[i].fua)
      op_fail (b, i, nbd_get_errno ());
}

static void
fail_all (struct nbd *d, struct io_op *ops, size_t n, int err)
{
  for (size_t i = n; i-- > 0;)
    ops[i].result = device_error (&d->base, &ops[i], err);
}

static void
nbd_run (struct device *dev, struct io_op *ops, size_t n)
{
  struct nbd *d = (struct nbd *) dev;
  CLEANUP_FREE uint8_t **flat = calloc (n, sizeof *flat);
  CLEANUP_FREE int *err = calloc (n, sizeof *err);
  struct batch b = { .d = d, .ops = ops, .flat = flat, .err = err };

  if (flat == NULL || err == NULL) {
    fail_all (d, ops, n, ENOMEM);
    return;
  }
  b.h = d->lost ? NULL : conn_get (d);
  if (b.h == NULL) {
    fail_all (d, ops, n, ENOTCONN);
    return;
  }
  batch_run (&b, n);
  conn_put (d, b.h);

  for (size_t i = n; i-- > 0;) {
    ops[i].result = err[i] == 0 ? 0 : device_error (dev, &ops[i], err[i]);
    free (flat[i]);
  }
}

static void
nbd_close_device (struct device *dev)
{
  struct nbd *d = (struct nbd *) dev;

  for (unsigned i = 0; i < d->idle_count; ++i) {
    nbd_shutdown (d->idle[i], 0);
    nbd_close (d->idle[i]);
  }
  cond_done (&d->idle_cond);
  mutex_done (&d->lock);
  free (d->uri);
  free (d);
}

static const struct device_ops nbd_ops = {
  .run = nbd_run,
  .close = nbd_close_device,
};

/* What the server offers. */
static int
ask (struct nbd *d, struct nbd_handle *h, bool read_only)
{
  int64_t size = nbd_get_size (h);
  int64_t block = nbd_get_block_size (h, LIBNBD_SIZE_MINIMUM);

  if (size < 0)
    return err_new (ERR_dev_open, "%s: %s", d->uri, nbd_get_error ());
  if (block > IO_MEM_ALIGN)
    return err_new (ERR_dev_open, "%s: blocks of %lld bytes", d->uri,
                    (long long) block);
  if (!read_only && nbd_is_read_only (h) != 0)
    return err_new (ERR_dev_readonly, "%s: the server exports it so",
                    d->uri);
  d->can_fua = nbd_can_fua (h) == 1;
  d->can_flush = nbd_can_flush (h) == 1;
  d->conns_max = nbd_can_multi_conn (h) == 1 ? CONNS_MAX : 1;
  if (!read_only && !d->can_flush)
    log_warning ("%s: the server has no flush, nothing is known to be "
                 "durable", d->uri);
  d->base.info = (struct device_info) {
    .name = d->uri, .size = size, .block_size = MAX (block, 512),
    .mem_align = 1, .read_only = read_only,
    .can_discard = nbd_can_trim (h) == 1,
  };
  return 0;
}

int
device_nbd_open (const char *uri, const struct device_open_opts *opts,
                 struct device **ret)
{
  struct nbd *d = calloc (1, sizeof *d);
  struct nbd_handle *h = NULL;
  int r;

  if (d == NULL)
    return err_new (ERR_nomem, "%s", uri);
  d->base.ops = &nbd_ops;
  mutex_init (&d->lock, RANK_DEVICE);
  cond_init (&d->idle_cond);
  d->uri = strdup (uri);
  r = d->uri ? 0 : err_new (ERR_nomem, "NBD device");
  if (r == 0)
    r = connect_one (uri, wants_tls (uri), &h);
  if (r == 0) {
    d->made = d->idle_count = 1;
    d->idle[0] = h;
    r = ask (d, h, opts->read_only);
  }
  if (r < 0) {
    nbd_close_device (&d->base);
    return r;
  }
  *ret = &d->base;
  return 0;
}
