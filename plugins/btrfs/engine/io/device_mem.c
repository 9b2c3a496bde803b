/* io: a device in memory, sparse, for tests and for building images.
 *
 * The space is an array of pages, allocated when first written.  Pages are
 * guarded by a few rwlocks chosen by page number: readers of one page share,
 * a writer has it alone.  An overlay reads through to another memory device
 * where it has no page of its own.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/math.h"
#include "io/device_impl.h"

#define PAGE_LEN 65536
#define LOCKS 64

struct mem {
  struct device base;       /* must be first */
  char *name;
  struct mem *below;        /* borrowed; NULL: zeroes */
  size_t npages;
  struct rwlock locks[LOCKS]; /* pages[i] and its bytes: locks[i % LOCKS] */
  uint8_t **pages;
};

static struct rwlock *
page_lock (struct mem *m, size_t index)
{
  return &m->locks[index % LOCKS];
}

/* Contents of page INDEX as a reader sees it; NULL: zeroes. */
static const uint8_t *
page_peek (const struct mem *m, size_t index)
{
  for (; m != NULL; m = m->below)
    if (m->pages[index] != NULL)
      return m->pages[index];
  return NULL;
}

static void
page_read (struct mem *m, size_t index, size_t in, const struct io_op *op,
           size_t skip, size_t len)
{
  static const uint8_t zeroes[PAGE_LEN];
  struct rwlock *lock = page_lock (m, index);

  rwlock_rdlock (lock);
  const uint8_t *p = page_peek (m, index);
  buf_to_iov (p ? p + in : zeroes, len, op->iov, op->iovcnt, skip);
  rwlock_unlock (lock);
}

/* The page for writing, under its lock; NULL when out of memory. */
static uint8_t *
page_make (struct mem *m, size_t index)
{
  if (m->pages[index] == NULL) {
    const uint8_t *old = page_peek (m, index);
    uint8_t *p = old ? malloc (PAGE_LEN) : calloc (1, PAGE_LEN);

    if (p != NULL && old != NULL)
      memcpy (p, old, PAGE_LEN);
    m->pages[index] = p;
  }
  return m->pages[index];
}

static int
page_write (struct mem *m, size_t index, size_t in, const struct io_op *op,
            size_t skip, size_t len)
{
  struct rwlock *lock = page_lock (m, index);
  uint8_t *p;

  rwlock_wrlock (lock);
  p = page_make (m, index);
  if (p != NULL)
    iov_to_buf (op->iov, op->iovcnt, skip, p + in, len);
  rwlock_unlock (lock);
  return p ? 0 : ENOMEM;
}

/* Zero part of a page; a whole page of a device without one below is freed. */
static int
page_zero (struct mem *m, size_t index, size_t in, size_t len)
{
  struct rwlock *lock = page_lock (m, index);
  int err = 0;

  rwlock_wrlock (lock);
  if (len == PAGE_LEN && m->below == NULL) {
    free (m->pages[index]);
    m->pages[index] = NULL;
  }
  else if (page_peek (m, index) != NULL) {
    uint8_t *p = page_make (m, index);

    if (p != NULL)
      memset (p + in, 0, len);
    else
      err = ENOMEM;
  }
  rwlock_unlock (lock);
  return err;
}

static int
mem_op (struct mem *m, const struct io_op *op)
{
  uint64_t done = 0;
  int err = 0;

  while (done < op->len && err == 0) {
    uint64_t at = op->offset + done;
    size_t index = at / PAGE_LEN, in = at % PAGE_LEN;
    size_t len = MIN (op->len - done, (uint64_t) PAGE_LEN - in);

    if (op->kind == IO_READ)
      page_read (m, index, in, op, done, len);
    else if (op->kind == IO_WRITE)
      err = page_write (m, index, in, op, done, len);
    else
      err = page_zero (m, index, in, len);
    done += len;
  }
  return err;
}

static void
mem_run (struct device *dev, struct io_op *ops, size_t n)
{
  struct mem *m = (struct mem *) dev;

  for (size_t i = 0; i < n; ++i) {
    int err = ops[i].kind == IO_FLUSH ? 0 : mem_op (m, &ops[i]);

    ops[i].result = err == 0 ? 0 : device_error (dev, &ops[i], err);
  }
}

static void
mem_close (struct device *dev)
{
  struct mem *m = (struct mem *) dev;

  for (size_t i = 0; i < m->npages; ++i)
    free (m->pages[i]);
  for (unsigned i = 0; i < LOCKS; ++i)
    rwlock_done (&m->locks[i]);
  free (m->pages);
  free (m->name);
  free (m);
}

static const struct device_ops mem_ops = {
  .run = mem_run,
  .close = mem_close,
};

int
device_mem_new (const char *name, uint64_t size, struct device **ret)
{
  struct mem *m = calloc (1, sizeof *m);

  if (m == NULL)
    return err_new (ERR_nomem, "memory device");
  m->npages = div_round_up (size, PAGE_LEN);
  m->pages = calloc (MAX (m->npages, (size_t) 1), sizeof *m->pages);
  m->name = strdup (name);
  if (m->pages == NULL || m->name == NULL) {
    free (m->pages);
    free (m->name);
    free (m);
    return err_new (ERR_nomem, "memory device");
  }
  for (unsigned i = 0; i < LOCKS; ++i)
    rwlock_init (&m->locks[i], RANK_DEVICE);
  m->base.ops = &mem_ops;
  m->base.info = (struct device_info) {
    .name = m->name, .size = size, .block_size = 512, .mem_align = 1,
    .can_discard = true,
  };
  *ret = &m->base;
  return 0;
}

int
device_mem_overlay (const char *name, struct device *base,
                    struct device **ret)
{
  struct device *dev;
  int r;

  if (base->ops != &mem_ops)
    return err_new (ERR_invalid, "overlay on %s, not a memory device",
                    base->info.name);
  r = device_mem_new (name, base->info.size, &dev);
  if (r < 0)
    return r;
  ((struct mem *) dev)->below = (struct mem *) base;
  *ret = dev;
  return 0;
}
