/* volume: I/O at logical addresses.
 *
 * A batch becomes pieces (one per stripe where the profile stripes), pieces
 * become device operations (one per copy for writes), and every device gets
 * one batch.  What became of a piece is decided when all have finished.
 *
 * The common case, one operation that lies in one piece with one place to go
 * to, takes no memory.
 */
#include <config.h>

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "format/super.h"
#include "volume/volume_priv.h"

/* --- choosing a copy --- */

/* Index into P->at: not stale, then the least busy; copies on one device are
 * read from the first.
 */
static unsigned
choose_copy (const struct volume *v, const struct piece *p)
{
  unsigned best = 0;

  for (unsigned i = 1; i < p->copies; ++i) {
    const struct vol_dev *a = &v->devs[p->at[best].dev];
    const struct vol_dev *b = &v->devs[p->at[i].dev];

    if (a == b)
      continue;
    if (a->pub.stale != b->pub.stale) {
      if (a->pub.stale)
        best = i;
      continue;
    }
    if (atomic_load_explicit (&b->in_flight, memory_order_relaxed) <
        atomic_load_explicit (&a->in_flight, memory_order_relaxed))
      best = i;
  }
  return best;
}

/* --- the plan of a batch --- */

#define OP_NONE UINT_MAX

struct part {                /* one device operation */
  unsigned dev;
  unsigned op;               /* index of the volume operation, or OP_NONE */
  unsigned piece;            /* running number in the batch */
  unsigned tolerated;        /* of the piece */
};

struct plan {
  struct volume *v;
  size_t count, max;
  struct io_op *ios;
  struct part *parts;
  unsigned pieces;
  struct iovec *iov;         /* of pieces that are not a whole operation */
  size_t iov_count, iov_max;
  struct super_copy *supers; /* that go beside it; NULL: none */
  size_t supers_n;
};

static void
plan_done (struct plan *plan)
{
  free (plan->ios);
  free (plan->parts);
  free (plan->iov);
  for (size_t i = 0; i < plan->supers_n; ++i)
    free (plan->supers[i].iov.iov_base);
  free (plan->supers);
}

static int
plan_grow (struct plan *plan)
{
  size_t max = plan->max ? plan->max * 2 : 16;
  struct io_op *ios = reallocarray (plan->ios, max, sizeof *ios);

  if (ios == NULL)
    return err_new (ERR_nomem, "volume request");
  plan->ios = ios;
  struct part *parts = reallocarray (plan->parts, max, sizeof *parts);

  if (parts == NULL)
    return err_new (ERR_nomem, "volume request");
  plan->parts = parts;
  plan->max = max;
  return 0;
}

/* The buffers of OP for bytes SKIP .. SKIP + LEN.  The vector may still move:
 * *ret_first is an index, see plan_fix_iov.
 */
static int
plan_iov (struct plan *plan, const struct volume_op *op, uint64_t skip,
          uint64_t len, size_t *ret_first, unsigned *ret_count)
{
  size_t need = plan->iov_count + op->iovcnt;

  if (need > plan->iov_max) {
    size_t max = MAX (need, 2 * plan->iov_max);
    struct iovec *iov = reallocarray (plan->iov, max, sizeof *iov);

    if (iov == NULL)
      return err_new (ERR_nomem, "volume request");
    plan->iov = iov;
    plan->iov_max = max;
  }
  *ret_first = plan->iov_count;
  for (unsigned i = 0; i < op->iovcnt && len > 0; ++i) {
    size_t here = op->iov[i].iov_len;

    if (skip >= here) {
      skip -= here;
      continue;
    }
    here = MIN (here - skip, len);
    plan->iov[plan->iov_count++] = (struct iovec) {
      (uint8_t *) op->iov[i].iov_base + skip, here
    };
    len -= here;
    skip = 0;
  }
  *ret_count = plan->iov_count - *ret_first;
  return 0;
}

static int
plan_io (struct plan *plan, const struct io_op *io, const struct part *part)
{
  if (plan->count == plan->max) {
    int r = plan_grow (plan);

    if (r < 0)
      return r;
  }
  plan->ios[plan->count] = *io;
  plan->parts[plan->count++] = *part;
  return 0;
}

/* Discards spare the first MiB and the superblock copies. */
static int
plan_discard (struct plan *plan, struct io_op io, const struct part *part)
{
  uint64_t start = MAX (io.offset, (uint64_t) BTRFS_DEV_RESERVED);
  uint64_t end = io.offset + io.len;
  int r;

  for (unsigned copy = 0; copy < BTRFS_SUPER_COPIES && start < end; ++copy) {
    uint64_t s = super_offset (copy), e = s + BTRFS_STRIPE_LEN;

    if (e <= start || s >= end)
      continue;
    if (start < s) {
      io.offset = start;
      io.len = s - start;
      r = plan_io (plan, &io, part);
      if (r < 0)
        return r;
    }
    start = e;
  }
  if (start >= end)
    return 0;
  io.offset = start;
  io.len = end - start;
  return plan_io (plan, &io, part);
}

/* One piece of operation INDEX: DONE bytes of it are planned. */
static int
plan_piece (struct plan *plan, const struct volume_op *op, unsigned index,
            uint64_t done, const struct piece *p)
{
  struct io_op io = { .kind = op->kind, .len = p->len };
  struct part part = { .op = index, .piece = plan->pieces++,
                       .tolerated = p->tolerated };
  unsigned only = p->copies;
  int r;

  if (op->kind == IO_READ)
    only = op->mirror ? op->mirror - 1 : choose_copy (plan->v, p);
  if (op->kind != IO_DISCARD) {
    size_t first = 0;

    if (p->len == op->len) {
      io.iov = op->iov;
      io.iovcnt = op->iovcnt;
    }
    else {
      r = plan_iov (plan, op, done, p->len, &first, &io.iovcnt);
      if (r < 0)
        return r;
      io.iov = (const struct iovec *) first; /* see plan_fix_iov */
    }
  }
  for (unsigned i = 0; i < p->copies; ++i) {
    if (op->kind == IO_READ && i != only)
      continue;
    part.dev = p->at[i].dev;
    io.offset = p->at[i].physical;
    r = op->kind == IO_DISCARD ? plan_discard (plan, io, &part)
      : plan_io (plan, &io, &part);
    if (r < 0)
      return r;
  }
  return 0;
}

static int
unmapped (const struct volume_op *op)
{
  return err_new (ERR_unmapped, "%llu + %llu",
                  (unsigned long long) op->logical,
                  (unsigned long long) op->len);
}

/* The chunk that holds all of OP, under the lock. */
static int
find_for (const struct volume *v, const struct volume_op *op,
          const struct chunk **ret)
{
  const struct chunk *c = chunk_find (v, op->logical);

  if (c == NULL || op->len > c->info.length - (op->logical - c->info.logical))
    return unmapped (op);
  if (op->kind == IO_READ && op->mirror > c->profile->copies)
    return err_new (ERR_invalid, "copy %u of %u at %llu", op->mirror,
                    c->profile->copies, (unsigned long long) op->logical);
  *ret = c;
  return 0;
}

static int
plan_op (struct plan *plan, const struct volume_op *op, unsigned index)
{
  const struct chunk *c;
  uint64_t done = 0;
  int r = find_for (plan->v, op, &c);

  while (r == 0 && done < op->len) {
    struct piece p;

    r = chunk_map (c, op->logical + done, op->len - done, &p);
    if (r == 0)
      r = plan_piece (plan, op, index, done, &p);
    if (r == 0)
      done += p.len;
  }
  return r;
}

/* Vectors of parts became final: turn indexes into pointers. */
static void
plan_fix_iov (struct plan *plan, const struct volume_op *ops)
{
  for (size_t i = 0; i < plan->count; ++i) {
    const struct volume_op *op;

    if (plan->parts[i].op == OP_NONE)
      continue;
    op = &ops[plan->parts[i].op];
    if (op->kind != IO_DISCARD && plan->ios[i].len != op->len)
      plan->ios[i].iov = plan->iov + (size_t) plan->ios[i].iov;
  }
}

static int
plan_supers (struct plan *plan, const struct btrfs_super *super)
{
  struct volume *v = plan->v;
  int r;

  plan->supers = calloc (v->ndevs, SUPER_OTHERS_MAX * sizeof *plan->supers);
  if (plan->supers == NULL)
    return err_new (ERR_nomem, "superblocks");
  r = supers_prepare_others (v, super, plan->supers, &plan->supers_n);
  for (size_t i = 0; i < plan->supers_n && r == 0; ++i) {
    const struct super_copy *s = &plan->supers[i];
    const struct io_op io = { .kind = IO_WRITE, .offset = s->offset,
      .len = s->iov.iov_len, .iov = &s->iov, .iovcnt = 1 };
    const struct part part = { .dev = s->dev, .op = OP_NONE,
                               .piece = plan->pieces++ };

    r = plan_io (plan, &io, &part);
  }
  return r;
}

/* --- running it --- */

static void
run_on (struct volume *v, unsigned dev, struct io_op *ios, size_t n)
{
  struct vol_dev *d = &v->devs[dev];

  atomic_fetch_add_explicit (&d->in_flight, n, memory_order_relaxed);
  device_run (d->pub.dev, ios, n);
  atomic_fetch_sub_explicit (&d->in_flight, n, memory_order_relaxed);
}

/* Several devices: gather each one's operations, scatter the results. */
static int
run_gathered (struct plan *plan)
{
  CLEANUP_FREE struct io_op *ios = calloc (plan->count, sizeof *ios);
  CLEANUP_FREE size_t *from = calloc (plan->count, sizeof *from);

  if (ios == NULL || from == NULL)
    return err_new (ERR_nomem, "volume request");
  for (unsigned dev = 0; dev < plan->v->ndevs; ++dev) {
    size_t n = 0;

    for (size_t i = 0; i < plan->count; ++i)
      if (plan->parts[i].dev == dev) {
        ios[n] = plan->ios[i];
        from[n++] = i;
      }
    if (n > 0)
      run_on (plan->v, dev, ios, n);
    for (size_t i = 0; i < n; ++i)
      plan->ios[from[i]].result = ios[i].result;
  }
  return 0;
}

static int
plan_run (struct plan *plan)
{
  if (plan->count == 0)
    return 0;
  for (size_t i = 1; i < plan->count; ++i)
    if (plan->parts[i].dev != plan->parts[0].dev)
      return run_gathered (plan);
  run_on (plan->v, plan->parts[0].dev, plan->ios, plan->count);
  return 0;
}

static void
note_failure (struct volume *v, const struct io_op *io, unsigned dev)
{
  struct vol_dev *d = &v->devs[dev];

  if (io->kind == IO_READ)
    dev_stat_add (v, dev, DEV_STAT_READ);
  else if (io->kind == IO_WRITE) {
    dev_stat_add (v, dev, DEV_STAT_WRITE);
    if (!atomic_exchange (&d->write_warned, true))
      log_warning ("%s: write of %llu bytes at %llu failed",
                   device_get_info (d->pub.dev)->name,
                   (unsigned long long) io->len,
                   (unsigned long long) io->offset);
  }
}

/* Parts of one piece are neighbours in the plan. */
static void
plan_judge (struct plan *plan, struct volume_op *ops)
{
  size_t next;

  for (size_t i = 0; i < plan->count; i = next) {
    struct volume_op *op;
    unsigned failed = 0;
    int first = 0;

    if (plan->parts[i].op == OP_NONE) {
      /* Copies for recovery. */
      if (plan->ios[i].result < 0)
        note_failure (plan->v, &plan->ios[i], plan->parts[i].dev);
      next = i + 1;
      continue;
    }
    op = &ops[plan->parts[i].op];
    for (next = i; next < plan->count &&
         plan->parts[next].piece == plan->parts[i].piece; ++next) {
      if (plan->ios[next].result == 0)
        continue;
      note_failure (plan->v, &plan->ios[next], plan->parts[next].dev);
      failed++;
      first = first ? first : plan->ios[next].result;
    }
    if (failed > (op->kind == IO_WRITE ? plan->parts[i].tolerated : 0) &&
        op->result == 0)
      op->result = first;
  }
}

/* A read that could choose its copy failed on it: try the others. */
static void
retry_read (struct volume *v, struct volume_op *op)
{
  unsigned mirrors = volume_num_mirrors (v, op->logical);

  for (unsigned m = 1; mirrors > 1 && m <= mirrors && op->result < 0; ++m) {
    struct volume_op again = *op;

    again.mirror = m;
    volume_run (v, &again, 1);
    op->result = again.result;
  }
}

/* OTHERS: see volume_run_beside; or NULL. */
static int
run_planned (struct volume *v, struct volume_op *ops, size_t n,
             const struct btrfs_super *others)
{
  struct plan plan = { .v = v };
  int r = 0;

  rwlock_rdlock (&v->lock);
  for (size_t i = 0; i < n; ++i) {
    size_t count = plan.count;

    if (ops[i].result < 0)
      continue;
    r = plan_op (&plan, &ops[i], i);
    if (r < 0) {
      plan.count = count;
      ops[i].result = r;
    }
  }
  rwlock_unlock (&v->lock);

  if (others != NULL)
    r = plan_supers (&plan, others);
  plan_fix_iov (&plan, ops);
  if (r == 0)
    r = plan_run (&plan);
  for (size_t i = 0; i < n && r < 0; ++i)
    ops[i].result = r;
  if (r == 0)
    plan_judge (&plan, ops);
  plan_done (&plan);
  r = 0;
  for (size_t i = n; i-- > 0;) {
    if (ops[i].result < 0 && ops[i].kind == IO_READ && ops[i].mirror == 0 &&
        (ops[i].result == -ERR_dev_read))
      retry_read (v, &ops[i]);
    if (ops[i].result < 0)
      r = ops[i].result;
  }
  return r;
}

/* One operation with one place to go to; false when it is not that simple. */
static bool
run_simple (struct volume *v, struct volume_op *op)
{
  const struct chunk *c = NULL;
  struct piece p = { .copies = 0 };
  struct io_op io = { .kind = op->kind, .len = op->len, .iov = op->iov,
                      .iovcnt = op->iovcnt };
  unsigned copy = 0;

  if (op->kind == IO_DISCARD)
    return false;
  rwlock_rdlock (&v->lock);
  if (find_for (v, op, &c) < 0 || chunk_map (c, op->logical, op->len, &p) < 0)
    p.copies = 0;
  rwlock_unlock (&v->lock);
  if (p.copies == 0 || p.len < op->len ||
      (op->kind == IO_WRITE && p.copies > 1))
    return false;

  if (op->kind == IO_READ)
    copy = op->mirror ? op->mirror - 1 : choose_copy (v, &p);
  io.offset = p.at[copy].physical;
  run_on (v, p.at[copy].dev, &io, 1);
  op->result = io.result;
  if (io.result < 0) {
    note_failure (v, &io, p.at[copy].dev);
    if (op->kind == IO_READ && op->mirror == 0)
      retry_read (v, op);
  }
  return true;
}

static int
run (struct volume *v, struct volume_op *ops, size_t n,
     const struct btrfs_super *others)
{
  if (n == 1 && others == NULL && ops[0].result == 0 && ops[0].len > 0 &&
      run_simple (v, &ops[0]))
    return ops[0].result;
  return run_planned (v, ops, n, others);
}

int
volume_run_mapped (struct volume *v, struct volume_op *ops, size_t n)
{
  for (size_t i = 0; i < n; ++i)
    ops[i].result = 0;
  return run (v, ops, n, NULL);
}

/* Those that were not mapped once more, when their chunks have been looked
 * for: so whoever finds his chunk in the map pays nothing.
 */
static int
run_reads (struct volume *v, struct volume_op *ops, size_t n)
{
  const bool whole = chunk_map_is_whole (v);
  int r = volume_run_mapped (v, ops, n);

  if (r == 0 || whole)
    return r;
  r = 0;
  for (size_t i = 0; i < n; ++i) {
    if (ops[i].result == -ERR_unmapped) {
      ops[i].result = chunk_need (v, ops[i].logical);
      if (ops[i].result == 0)
        run (v, &ops[i], 1, NULL);
    }
    r = ops[i].result < 0 ? ops[i].result : r;
  }
  return r;
}

static int
run_writes (struct volume *v, struct volume_op *ops, size_t n,
            const struct btrfs_super *others)
{
  int r = volume_load_chunks (v);

  if (r < 0) {
    for (size_t i = 0; i < n; ++i)
      ops[i].result = r;
    return r;
  }
  rwlock_rdlock (&v->mend_lock);
  r = run (v, ops, n, others);
  rwlock_unlock (&v->mend_lock);
  return r;
}

int
volume_run (struct volume *v, struct volume_op *ops, size_t n)
{
  return volume_run_beside (v, ops, n, NULL);
}

int
volume_run_beside (struct volume *v, struct volume_op *ops, size_t n,
                   const struct btrfs_super *others)
{
  bool writes = false;

  for (size_t i = 0; i < n; ++i) {
    ops[i].result = 0;
    if (ops[i].kind == IO_FLUSH)
      ops[i].result = err_new (ERR_invalid, "flush of a range");
    else if (ops[i].kind != IO_READ && volume_read_only (v))
      ops[i].result = err_new (ERR_dev_readonly, "%llu + %llu",
                               (unsigned long long) ops[i].logical,
                               (unsigned long long) ops[i].len);
    writes = writes || ops[i].kind != IO_READ;
  }
  assert (others == NULL || writes);
  return writes ? run_writes (v, ops, n, others) : run_reads (v, ops, n);
}

int
volume_read (struct volume *v, uint64_t logical, unsigned mirror, void *buf,
             size_t len)
{
  struct iovec iov = { buf, len };
  struct volume_op op = { .kind = IO_READ, .mirror = mirror,
                          .logical = logical, .len = len, .iov = &iov,
                          .iovcnt = 1 };

  return volume_run (v, &op, 1);
}

int
volume_write (struct volume *v, uint64_t logical, const void *buf, size_t len)
{
  struct iovec iov = { (void *) buf, len };
  struct volume_op op = { .kind = IO_WRITE, .logical = logical, .len = len,
                          .iov = &iov, .iovcnt = 1 };

  return volume_run (v, &op, 1);
}

int
volume_write_mirror (struct volume *v, uint64_t logical, unsigned mirror,
                     const void *buf, size_t len)
{
  uint64_t done = 0;
  int r = 0;

  if (volume_read_only (v))
    return err_new (ERR_dev_readonly, "repair");
  while (done < len && r == 0) {
    const struct chunk *c;
    struct piece p = { .copies = 0 };

    rwlock_rdlock (&v->lock);
    c = chunk_find (v, logical + done);
    r = c ? chunk_map (c, logical + done, len - done, &p)
      : err_new (ERR_unmapped, "%llu", (unsigned long long) logical + done);
    rwlock_unlock (&v->lock);
    if (r < 0 || mirror == 0 || mirror > p.copies)
      return r < 0 ? r : err_new (ERR_invalid, "copy %u", mirror);

    const struct place *at = &p.at[mirror - 1];

    r = device_write (v->devs[at->dev].pub.dev, at->physical,
                      (const uint8_t *) buf + done, p.len);
    if (r < 0)
      dev_stat_add (v, at->dev, DEV_STAT_WRITE);
    done += p.len;
  }
  return r;
}

int
volume_read_device (struct volume *v, unsigned index, uint64_t offset,
                    void *buf, size_t len)
{
  struct iovec iov = { buf, len };
  struct io_op io = { .kind = IO_READ, .offset = offset, .len = len,
                      .iov = &iov, .iovcnt = 1 };

  run_on (v, index, &io, 1);
  if (io.result < 0)
    note_failure (v, &io, index);
  return io.result;
}
