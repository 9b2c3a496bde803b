/* data: holes. */
#include <config.h>

#include <inttypes.h>

#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

#define PUNCH_ITEMS 256        /* most items dropped by one transaction */

/* One transaction: *POS moves on.  inode.lock held. */
static int
punch_some (struct file_data *f, struct txn *txn, uint64_t *pos,
            uint64_t end)
{
  struct data *d = f->d;
  struct tree *t = file_tree (f);
  struct drop drop = { .txn = txn, .f = f, .start = *pos, .end = end,
                       .max_items = PUNCH_ITEMS };
  int r;

  rwlock_wrlock (&t->lock);
  r = drop_extents (&drop);
  if (r == 0 && !d->no_holes && drop.done > *pos)
    r = insert_hole (txn, f, *pos, drop.done);
  if (r == 0 && drop.done > *pos)
    map_set_hole (f, *pos, drop.done);
  rwlock_unlock (&t->lock);
  if (r < 0)
    return r;
  file_changed (f, txn, *pos, drop.done);
  *pos = drop.done;
  return inode_finish_change (txn, f, 0, drop.nbytes);
}

/* *POS moves over what is a hole already. */
static int
skip_hole (struct file_data *f, uint64_t *pos, uint64_t end)
{
  while (*pos < end) {
    struct mapping m;
    int r = map_lookup (f, *pos, &m);

    if (r < 0)
      return r;
    if (m.kind != MAP_HOLE)
      break;
    *pos = MIN (end, m.offset + m.len);
  }
  return 0;
}

int
punch_items (struct file_data *f, uint64_t start, uint64_t end)
{
  struct inode *in = f->inode;
  uint64_t pos = start;
  int r;

  for (;;) {
    struct txn *txn;

    r = skip_hole (f, &pos, end);
    if (r < 0 || pos >= end)
      return r;
    mutex_lock (&in->lock);
    r = txn_begin_to_free (f->d->env.trans, 4, &txn);
    if (r == 0) {
      r = punch_some (f, txn, &pos, end);
      r = txn_leave (txn, r, true);
    }
    mutex_unlock (&in->lock);
    if (r < 0)
      return err_note (r, "hole in tree %" PRIu64 " inode %" PRIu64,
                       in->root->id, in->ino);
  }
}

/* Zero the parts of [offset, offset+len) that are not whole sectors; the
 * whole ones are [*ret_start, *ret_end) (none when start >= end).
 */
static int
zero_edges (struct file_data *f, uint64_t offset, uint64_t len,
            uint64_t *ret_start, uint64_t *ret_end)
{
  const uint32_t ps = f->d->ps;
  const uint64_t end = offset + len;
  int r = 0;

  *ret_start = round_up (offset, ps);
  /* Behind the end of the file there is nothing to keep. */
  *ret_end = end >= file_size (f) ? round_up (end, ps) : round_down (end, ps);
  if (*ret_start > *ret_end || (*ret_start == *ret_end && offset < *ret_start
                                && end <= *ret_start))
    return file_zero_bytes (f, offset, len);
  if (offset < *ret_start)
    r = file_zero_bytes (f, offset, *ret_start - offset);
  if (r == 0 && end > *ret_end)
    r = file_zero_bytes (f, *ret_end, end - *ret_end);
  return r;
}

int
file_clear (struct data *d, struct inode *inode, uint64_t offset,
            uint64_t len, bool places,
            int (*fn) (struct file_data *, uint64_t start, uint64_t end))
{
  struct range_lock lock;
  struct file_data *f;
  uint64_t start, end;
  int r;

  r = file_get_for_change (d, inode, offset, len, &f);
  if (r < 0 || len == 0)
    return r;
  gate_operation_begin (file_gate (f));
  if (places && !file_may_nocow (f))
    range_lock (&f->ranges, &lock, 0, DATA_FILE_END);
  else
    range_lock (&f->ranges, &lock, round_down (offset, d->ps),
                round_up (offset + len, d->ps));
  r = zero_edges (f, offset, len, &start, &end);
  if (r == 0 && start < end) {
    struct dirty_hold hold;

    /* Dirty pages go last: until then readers see them, not what was there
     * before them.
     */
    dirty_hold (f, &hold, start, end);
    r = fn (f, start, end);
    dirty_release (f, &hold, r == 0 ? end : 0);
  }
  range_unlock (&f->ranges, &lock);
  gate_operation_end (file_gate (f));
  return r;
}

int
data_punch (struct data *d, struct inode *inode, uint64_t offset,
            uint64_t len)
{
  return file_clear (d, inode, offset, len, false, punch_items);
}
