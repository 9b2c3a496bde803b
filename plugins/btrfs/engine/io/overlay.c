/* io: the overlay device, see overlay.h.
 *
 * Pages that were written are kept in a tree.  A read goes to the device
 * below as it is; afterwards the pages that overlap it are laid over it.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/math.h"
#include "io/device_impl.h"
#include "io/overlay.h"

#define PAGE_LEN 4096

struct page {
  RB_ENTRY (page) link;
  uint64_t offset;
  uint8_t data[PAGE_LEN];
};
RB_HEAD (overlay_pages, page);
RB_PROTOTYPE (overlay_pages, page, link, page_cmp)

struct overlay {
  struct device base;          /* must be first */
  struct device *inner;        /* owned */
  struct rwlock lock;          /* RANK_DEVICE; protects pages */
  struct overlay_pages pages;
};

static int
page_cmp (const struct page *a, const struct page *b)
{
  return a->offset < b->offset ? -1 : a->offset > b->offset;
}

RB_GENERATE (overlay_pages, page, link, page_cmp)

/* The first page at or behind OFFSET (a multiple of PAGE_LEN). */
static struct page *
page_from (struct overlay *o, uint64_t offset)
{
  struct page key;

  key.offset = offset;
  return RB_NFIND (overlay_pages, &o->pages, &key);
}

static void
lay_over (struct overlay *o, const struct io_op *op)
{
  const uint64_t end = op->offset + op->len;
  struct page *p = page_from (o, round_down (op->offset, PAGE_LEN));

  for (; p != NULL && p->offset < end;
       p = RB_NEXT (overlay_pages, &o->pages, p)) {
    const uint64_t from = MAX (p->offset, op->offset);
    const uint64_t to = MIN (p->offset + PAGE_LEN, end);

    buf_to_iov (p->data + (from - p->offset), to - from, op->iov, op->iovcnt,
                from - op->offset);
  }
}

/* The page at OFFSET with the contents that readers see.  The device below
 * never changes, so it is read without the lock (which is as high as locks
 * go); held on entry and on return.
 */
static int
page_make (struct overlay *o, uint64_t offset, struct page **ret)
{
  const uint64_t size = o->base.info.size;
  struct page *p = page_from (o, offset), *new;
  int r;

  if (p != NULL && p->offset == offset) {
    *ret = p;
    return 0;
  }
  rwlock_unlock (&o->lock);
  new = calloc (1, sizeof *new);
  r = new ? device_read (o->inner, offset, new->data,
                         MIN (size - offset, (uint64_t) PAGE_LEN))
    : err_new (ERR_nomem, "overlay");
  rwlock_wrlock (&o->lock);
  if (r == 0) {
    new->offset = offset;
    p = RB_INSERT (overlay_pages, &o->pages, new);
    *ret = p ? p : new;
  }
  if (r < 0 || p != NULL)
    free (new);
  return r;
}

static int
write_pages (struct overlay *o, const struct io_op *op)
{
  const uint64_t end = op->offset + op->len;
  uint64_t at, to;
  int r = 0;

  rwlock_wrlock (&o->lock);
  for (at = op->offset; at < end && r == 0; at = to) {
    const uint64_t start = round_down (at, PAGE_LEN);
    struct page *p;

    to = MIN (start + PAGE_LEN, end);
    r = page_make (o, start, &p);
    if (r == 0)
      iov_to_buf (op->iov, op->iovcnt, at - op->offset,
                  p->data + (at - start), to - at);
  }
  rwlock_unlock (&o->lock);
  return r;
}

static int
read_through (struct overlay *o, const struct io_op *op)
{
  struct io_op below = *op;
  int r;

  r = device_run (o->inner, &below, 1);
  if (r < 0)
    return r;
  rwlock_rdlock (&o->lock);
  lay_over (o, op);
  rwlock_unlock (&o->lock);
  return 0;
}

static void
overlay_run (struct device *dev, struct io_op *ops, size_t n)
{
  struct overlay *o = (struct overlay *) dev;

  for (size_t i = 0; i < n; ++i)
    switch (ops[i].kind) {
    case IO_READ:
      ops[i].result = read_through (o, &ops[i]);
      break;
    case IO_WRITE:
      ops[i].result = write_pages (o, &ops[i]);
      break;
    default:
      ops[i].result = 0; /* nothing here outlives the process */
    }
}

static void
overlay_close (struct device *dev)
{
  struct overlay *o = (struct overlay *) dev;
  struct page *p, *next;

  RB_FOREACH_SAFE (p, overlay_pages, &o->pages, next) {
    RB_REMOVE (overlay_pages, &o->pages, p);
    free (p);
  }
  device_close (o->inner);
  rwlock_done (&o->lock);
  free (o);
}

static const struct device_ops overlay_ops = {
  .run = overlay_run,
  .close = overlay_close,
};

int
device_overlay_new (struct device *inner, struct device **ret)
{
  struct overlay *o = calloc (1, sizeof *o);

  if (o == NULL)
    return err_new (ERR_nomem, "overlay");
  o->base.ops = &overlay_ops;
  o->base.info = *device_get_info (inner);
  o->base.info.read_only = false;
  o->inner = inner;
  rwlock_init (&o->lock, RANK_DEVICE);
  RB_INIT (&o->pages);
  *ret = &o->base;
  return 0;
}
