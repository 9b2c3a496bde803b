/* data: which ranges of a file the running transaction changed.
 *
 * The log of a transaction needs to carry only these.  The set belongs to one
 * transaction: the first change of a later one empties it.  It is bounded;
 * when it overflows, when memory is short, or when the file came into memory
 * after the transaction had changed it, the answer is "not known".
 */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/math.h"
#include "data/regroup_priv.h"

void
changed_init (struct file_data *f)
{
  const uint64_t transid = __atomic_load_n (&f->inode->transid,
                                            __ATOMIC_RELAXED);

  f->changed = (struct changed) { .transid = transid, .lost = true };
}

void
changed_done (struct file_data *f)
{
  free (f->changed.v);
}

/* The first range that ends at or behind START. */
static size_t
find_range (const struct changed *c, uint64_t start)
{
  size_t low = 0, high = c->n;

  while (low < high) {
    const size_t mid = (low + high) / 2;

    if (c->v[mid].end < start)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static bool
make_room (struct changed *c)
{
  struct data_range *v;
  size_t cap;

  if (c->n < c->cap)
    return true;
  cap = c->cap ? 2 * c->cap : 16;
  if (cap > DATA_CHANGED_MAX)
    return false;
  v = realloc (c->v, cap * sizeof *v);
  if (v == NULL)
    return false;
  c->v = v;
  c->cap = cap;
  return true;
}

static void
add_range (struct changed *c, uint64_t start, uint64_t end)
{
  const size_t i = find_range (c, start);
  size_t j = i;

  while (j < c->n && c->v[j].start <= end)
    ++j;
  if (j == i) {
    if (!make_room (c)) {
      c->lost = true;
      c->n = 0;
      return;
    }
    memmove (&c->v[i + 1], &c->v[i], (c->n - i) * sizeof *c->v);
    c->v[i] = (struct data_range) { start, end };
    ++c->n;
    return;
  }
  c->v[i].start = MIN (c->v[i].start, start);
  c->v[i].end = MAX (c->v[j - 1].end, end);
  memmove (&c->v[i + 1], &c->v[j], (c->n - j) * sizeof *c->v);
  c->n -= j - i - 1;
}

void
file_moved (struct file_data *f, const struct txn *txn, uint64_t start,
            uint64_t end)
{
  struct changed *c = &f->changed;

  assert (mutex_is_mine (&f->inode->lock));
  if (c->transid != txn->tree.transid) {
    c->transid = txn->tree.transid;
    c->n = 0;
    c->lost = c->beyond_log = false;
  }
  if (!c->lost && start < end)
    add_range (c, start, end);
}

void
file_changed (struct file_data *f, const struct txn *txn, uint64_t start,
              uint64_t end)
{
  file_moved (f, txn, start, end);
  regroup_note (f, start, end);
}

void
file_changed_in_log (struct file_data *f, const struct txn *txn,
                     uint64_t start, uint64_t end)
{
  file_moved (f, txn, 0, 0);
  regroup_note (f, start, end);
}

void
file_changed_beyond_log (struct file_data *f, const struct txn *txn)
{
  assert (mutex_is_mine (&f->inode->lock));
  __atomic_store_n (&f->d->beyond_log, txn->tree.transid, __ATOMIC_RELEASE);
  f->changed.transid = txn->tree.transid;
  f->changed.n = 0;
  f->changed.lost = f->changed.beyond_log = true;
}

enum data_changed
data_changed_take (struct data *d, struct inode *inode, uint64_t transid,
                   struct data_range **ret, size_t *ret_n)
{
  struct file_data *f = __atomic_load_n (&inode->data, __ATOMIC_ACQUIRE);
  struct changed *c = f == NULL ? NULL : &f->changed;

  assert (mutex_is_mine (&inode->lock));
  *ret = NULL;
  *ret_n = 0;
  if (c != NULL && c->transid == transid && c->beyond_log)
    return DATA_CHANGED_BEYOND_LOG;
  if (c != NULL ? c->transid == transid && c->lost
      : inode->transid == transid) {
    /* Whether it was this file has been forgotten with the rest. */
    if (__atomic_load_n (&d->beyond_log, __ATOMIC_ACQUIRE) == transid)
      return DATA_CHANGED_BEYOND_LOG;
    if (c != NULL)
      c->lost = false;
    return DATA_CHANGED_UNKNOWN;
  }
  if (c == NULL || c->transid != transid)
    return DATA_CHANGED_RANGES;
  *ret = take (c->v);
  *ret_n = c->n;
  c->n = c->cap = 0;
  return DATA_CHANGED_RANGES;
}
