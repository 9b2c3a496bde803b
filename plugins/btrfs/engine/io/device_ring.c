/* io: a small pool of io_uring instances.
 *
 * A thread borrows one for a batch: submissions and completions of one
 * instance are then single-threaded and need no lock.  Instances are made on
 * demand and kept; when the pool is exhausted, or the kernel gives none, the
 * caller falls back to plain system calls.
 */
#include <config.h>

#include <liburing.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/math.h"
#include "io/device_impl.h"

#define RING_MAX 16     /* instances per device */
#define RING_DEPTH 64   /* operations in flight per instance */

struct ring_pool {
  atomic_bool broken;   /* the kernel refused one: do not ask again */
  struct mutex lock;    /* protects everything below */
  unsigned made, idle_count;
  struct io_uring *idle[RING_MAX];
};

int
ring_pool_new (struct ring_pool **ret)
{
  struct ring_pool *pool = calloc (1, sizeof *pool);

  if (pool == NULL)
    return err_new (ERR_nomem, "pool of rings");
  mutex_init (&pool->lock, RANK_DEVICE);
  *ret = pool;
  return 0;
}

void
ring_pool_free (struct ring_pool *pool)
{
  if (pool == NULL)
    return;
  for (unsigned i = 0; i < pool->idle_count; ++i) {
    io_uring_queue_exit (pool->idle[i]);
    free (pool->idle[i]);
  }
  mutex_done (&pool->lock);
  free (pool);
}

/* Give back a slot whose instance is gone. */
static void
ring_forget (struct ring_pool *pool)
{
  SCOPED_LOCK (&pool->lock);
  pool->made--;
}

static struct io_uring *
ring_get (struct ring_pool *pool)
{
  struct io_uring *ring;

  if (atomic_load_explicit (&pool->broken, memory_order_relaxed))
    return NULL;
  mutex_lock (&pool->lock);
  if (pool->idle_count > 0) {
    ring = pool->idle[--pool->idle_count];
    mutex_unlock (&pool->lock);
    return ring;
  }
  bool may = pool->made < RING_MAX;
  if (may)
    pool->made++;
  mutex_unlock (&pool->lock);
  if (!may)
    return NULL;

  ring = malloc (sizeof *ring);
  if (ring == NULL) {
    ring_forget (pool);
    return NULL;
  }
  if (io_uring_queue_init (RING_DEPTH, ring, 0) < 0) {
    atomic_store (&pool->broken, true);
    free (ring);
    ring_forget (pool);
    return NULL;
  }
  return ring;
}

static void
ring_put (struct ring_pool *pool, struct io_uring *ring)
{
  SCOPED_LOCK (&pool->lock);
  pool->idle[pool->idle_count++] = ring;
}

static void
prepare (struct io_uring_sqe *sqe, struct ring_req *req)
{
  if (req->write)
    io_uring_prep_writev (sqe, req->fd, req->iov, req->iovcnt, req->offset);
  else
    io_uring_prep_readv (sqe, req->fd, req->iov, req->iovcnt, req->offset);
  if (req->dsync)
    sqe->rw_flags = RWF_DSYNC;
  io_uring_sqe_set_data (sqe, req);
}

/* Take what has completed; returns how many. */
static unsigned
reap (struct io_uring *ring)
{
  struct io_uring_cqe *cqe;
  unsigned head, count = 0;

  io_uring_for_each_cqe (ring, head, cqe) {
    struct ring_req *req = io_uring_cqe_get_data (cqe);

    req->ret = cqe->res;
    count++;
  }
  io_uring_cq_advance (ring, count);
  return count;
}

/* Buffers belong to the caller: once the kernel has an operation this does
 * not return before it is done.
 */
bool
ring_run (struct ring_pool *pool, struct ring_req *reqs, size_t n)
{
  struct io_uring *ring = ring_get (pool);
  size_t next = 0;
  unsigned queued = 0, in_flight = 0;

  if (ring == NULL)
    return false;
  for (size_t i = 0; i < n; ++i)
    reqs[i].ret = -EAGAIN; /* until told otherwise */

  while (next < n || queued > 0 || in_flight > 0) {
    while (next < n && queued + in_flight < RING_DEPTH) {
      struct io_uring_sqe *sqe = io_uring_get_sqe (ring);

      if (sqe == NULL)
        break;
      prepare (sqe, &reqs[next++]);
      queued++;
    }
    int r = io_uring_submit_and_wait (ring, 1);

    if (r > 0) {
      queued -= MIN ((unsigned) r, queued);
      in_flight += r;
    }
    in_flight -= reap (ring);
    if (r < 0 && r != -EINTR && r != -EAGAIN && r != -EBUSY)
      break;
  }
  if (queued == 0 && in_flight == 0) {
    ring_put (pool, ring);
    return true;
  }

  /* The ring is unusable.  What was started must end first; what was not
   * keeps -EAGAIN and is done by the caller.
   */
  while (in_flight > 0) {
    struct io_uring_cqe *cqe;

    if (io_uring_wait_cqe (ring, &cqe) == 0)
      in_flight -= reap (ring);
  }
  io_uring_queue_exit (ring);
  free (ring);
  ring_forget (pool);
  atomic_store (&pool->broken, true);
  return true;
}
