/* data: the size of a file.
 *
 * Shrinking goes from the end downwards, some items to a transaction, and the
 * size on disk follows: after a crash in between the file is longer than
 * wanted, and whole.  Growing first makes sure that what the old last sector
 * holds behind the old end reads as zeroes.
 */
#include <config.h>

#include <inttypes.h>

#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

#define TRUNCATE_ITEMS 256     /* most items dropped by one transaction */

/* Where the last TRUNCATE_ITEMS items at or above FLOOR begin; FLOOR when
 * there are not as many.  Tree lock held.
 */
static int
find_cut (struct file_data *f, uint64_t floor, uint64_t *ret_cut)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  unsigned n;
  int r;

  *ret_cut = floor;
  r = tree_find_le (file_tree (f), file_extent_key (f, UINT64_MAX), &c,
                    NULL);
  for (n = 0; r == 0 && at_extent (f, &c); ++n) {
    const uint64_t at = cursor_key (&c).offset;

    if (at <= floor)
      return 0;
    if (n == TRUNCATE_ITEMS) {
      *ret_cut = at;
      return 0;
    }
    r = cursor_prev (&c);
  }
  return r;
}

/* An uncompressed inline extent is cut where it stands. */
static int
cut_inline (struct file_data *f, struct txn *txn, uint64_t size,
            uint64_t *ret_removed)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct btrfs_file_extent *e;
  uint64_t ram;
  bool exact;
  int r;

  r = tree_find (file_tree (f), file_extent_key (f, 0), &c, &exact);
  if (r < 0 || !exact || cursor_size (&c) < BTRFS_FILE_EXTENT_INLINE_HEAD)
    return r;
  e = (struct btrfs_file_extent *) cursor_data (&c);
  ram = le64_get (e->ram_bytes);
  if (e->type != BTRFS_FILE_EXTENT_INLINE || e->compression != 0
      || ram <= size)
    return 0;
  r = cursor_make_writable (&txn->tree, &c);
  if (r == 0)
    r = cursor_resize (&txn->tree, &c, BTRFS_FILE_EXTENT_INLINE_HEAD + size);
  if (r < 0)
    return r;
  e = cursor_data_rw (&c);
  e->ram_bytes = le64_make (size);
  *ret_removed += ram - size;
  return 0;
}

/* One transaction of shrinking to SIZE; inode.lock held. */
static int
shrink_some (struct file_data *f, struct txn *txn, uint64_t size,
             bool *ret_done)
{
  struct tree *t = file_tree (f);
  const uint64_t floor = round_up (size, f->d->ps);
  struct drop drop = { .txn = txn, .f = f, .end = DATA_FILE_END };
  int r;

  rwlock_wrlock (&t->lock);
  r = find_cut (f, floor, &drop.start);
  if (r == 0)
    r = drop_extents (&drop);
  *ret_done = drop.start == floor;
  if (r == 0 && *ret_done && size > 0 && size < f->d->ps)
    r = cut_inline (f, txn, size, &drop.nbytes);
  if (r == 0)
    map_set_hole (f, drop.start, DATA_FILE_END);
  rwlock_unlock (&t->lock);
  if (r < 0)
    return r;
  /* From the sector that the end is in: an inline extent may have been cut. */
  file_changed (f, txn, MIN (drop.start, round_down (size, f->d->ps)),
                DATA_FILE_END);
  f->inode->disk_size = *ret_done ? size
    : MIN (f->inode->disk_size, drop.start);
  return inode_finish_change (txn, f, 0, drop.nbytes);
}

static int
shrink (struct file_data *f, uint64_t size)
{
  struct inode *in = f->inode;
  bool done = false;
  int r = 0;

  while (r == 0 && !done) {
    struct txn *txn;

    mutex_lock (&in->lock);
    r = txn_begin_to_free (f->d->env.trans, 4, &txn);
    if (r == 0) {
      r = shrink_some (f, txn, size, &done);
      r = txn_leave (txn, r, true);
    }
    mutex_unlock (&in->lock);
  }
  return r;
}

static void
set_size (struct file_data *f, uint64_t size)
{
  mutex_lock (&f->inode->lock);
  __atomic_store_n (&f->inode->size, size, __ATOMIC_RELAXED);
  mutex_unlock (&f->inode->lock);
}

/* The inode item with the new size; without NO_HOLES also a hole item. */
static int
grow_item (struct file_data *f, uint64_t old_size, uint64_t size)
{
  struct inode *in = f->inode;
  struct tree *t = file_tree (f);
  const uint64_t start = round_up (old_size, f->d->ps);
  const uint64_t end = round_up (size, f->d->ps);
  struct drop drop = { .f = f, .start = start, .end = DATA_FILE_END };
  struct txn *txn;
  int r;

  mutex_lock (&in->lock);
  r = txn_begin (f->d->env.trans, 4, &txn);
  if (r < 0) {
    mutex_unlock (&in->lock);
    return r;
  }
  rwlock_wrlock (&t->lock);
  drop.txn = txn;
  /* Without holes in items only, or prealloc behind the end would go. */
  if (!f->d->no_holes && start < end) {
    drop.end = end;
    r = drop_extents (&drop);
    if (r == 0)
      r = insert_hole (txn, f, start, end);
    if (r == 0)
      map_set_hole (f, start, end);
  }
  rwlock_unlock (&t->lock);
  if (r == 0) {
    file_changed (f, txn, start, end);
    in->disk_size = size;
    __atomic_store_n (&in->size, size, __ATOMIC_RELAXED);
    r = inode_finish_change (txn, f, 0, drop.nbytes);
  }
  r = txn_leave (txn, r, true);
  mutex_unlock (&in->lock);
  return r;
}

/* An inline extent holds a whole file: it becomes a regular one before the
 * file grows out of it.  Otherwise zero what lies behind the end.  Either is
 * written out before the new size joins a transaction: a crash must not show
 * what was there before the file was cut.
 */
static int
prepare_growth (struct file_data *f, uint64_t old_size)
{
  const uint32_t ps = f->d->ps;
  const uint64_t sector = round_down (old_size, ps);
  struct mapping m;
  int r;

  if (old_size == 0)
    return 0;
  r = map_lookup (f, 0, &m);
  if (r < 0)
    return r;
  if (m.kind == MAP_INLINE) {
    r = file_write (f, NULL, ps - old_size % ps, old_size, true);
    if (r == 0)
      r = file_write_out_inside (f, 0, ps, UINT64_MAX);
    return r;
  }
  if (sector == old_size)
    return 0;
  r = file_zero_bytes (f, old_size, sector + ps - old_size);
  if (r == 0)
    r = file_write_out_inside (f, sector, sector + ps, UINT64_MAX);
  return r;
}

static int
grow (struct file_data *f, uint64_t old_size, uint64_t size)
{
  int r;

  r = prepare_growth (f, old_size);
  if (r == 0)
    r = grow_item (f, old_size, size);
  return r;
}

/* The sector of the new end: zero its tail if it is dirty anyway (if it is
 * not, growth will).
 */
static void
zero_dirty_tail (struct file_data *f, uint64_t size)
{
  const uint32_t ps = f->d->ps;
  bool base;

  if (size % ps != 0)
    dirty_patch (f, size, NULL, ps - size % ps, NULL, &base);
}

int
data_set_size (struct data *d, struct inode *inode, uint64_t size)
{
  struct range_lock lock;
  struct dirty_hold hold;
  struct file_data *f;
  uint64_t old_size, from;
  int r;

  if (size > DATA_FILE_END - 65536)
    return err_new (ERR_file_big, "%" PRIu64 " bytes", size);
  r = file_get (d, inode, &f);
  if (r == 0)
    r = file_check_writable (f);
  if (r < 0)
    return r;
  gate_operation_begin (file_gate (f));
  /* Everything: sizes change one at a time. */
  range_lock (&f->ranges, &lock, 0, DATA_FILE_END);
  old_size = file_size (f);
  from = round_up (size, d->ps);
  if (size > old_size)
    r = grow (f, old_size, size);
  else if (size < old_size) {
    set_size (f, size);
    zero_dirty_tail (f, size);
    dirty_hold (f, &hold, from, DATA_FILE_END);
    r = shrink (f, size);
    dirty_release (f, &hold, DATA_FILE_END);
  }
  range_unlock (&f->ranges, &lock);
  gate_operation_end (file_gate (f));
  if (r < 0)
    return err_note (r, "size of tree %" PRIu64 " inode %" PRIu64,
                     inode->root->id, inode->ino);
  return 0;
}

int
data_truncate_items (void *data, struct inode *inode, uint64_t size)
{
  struct data *d = data;
  struct file_data *f;
  int r;

  r = file_get (d, inode, &f);
  if (r < 0)
    return r;
  r = shrink (f, size);
  /* The inode is about to leave, for ever unless that failed. */
  data_drop (d, inode);
  return r;
}
