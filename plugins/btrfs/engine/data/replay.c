/* data: putting file extents of a log back (log/replay.c). */
#include <config.h>

#include <assert.h>
#include <inttypes.h>

#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

/* Where the logged item ends, in bytes of the file. */
static int
item_end (const struct file_data *f, uint64_t offset,
          const struct btrfs_file_extent *e, uint64_t *ret_end)
{
  const uint64_t len = e->type == BTRFS_FILE_EXTENT_INLINE
    ? round_up (le64_get (e->ram_bytes), f->d->ps) : le64_get (e->num_bytes);

  if (len == 0 || !is_aligned (offset | len, f->d->ps) ||
      !add_ok (offset, len, ret_end) || *ret_end > DATA_FILE_END)
    return err_new (ERR_file_extent, "logged extent of %" PRIu64
                    " bytes at %" PRIu64, len, offset);
  return 0;
}

/* The extent has an item already, or will have one (also when the references
 * so far go: those are still pending), or this log is the only one who knows
 * that its space is taken.
 */
static int
add_ref (struct file_data *f, struct txn *txn, uint64_t offset,
         const struct btrfs_file_extent *e, bool taken)
{
  const struct data_ref ref = {
    .bytenr = le64_get (e->disk_bytenr),
    .num_bytes = le64_get (e->disk_num_bytes), .root = f->inode->root->id,
    .objectid = f->inode->ino, .offset = offset - le64_get (e->offset),
  };
  struct extents *extents = f->d->env.extents;
  uint64_t refs = 0, flags;
  int r;

  r = extent_refs (extents, ref.bytenr, false, 0, &refs, &flags);
  if (r == 0)
    return extent_data_inc (extents, txn, ref);
  if (r != -ERR_extent_missing)
    return r;
  err_clear ();
  r = taken ? 0 : space_take (f->d->env.space, ref.bytenr, ref.num_bytes);
  return r < 0 ? r : extent_data_new (extents, txn, ref);
}

static int
replace (struct file_data *f, struct txn *txn, struct drop *drop,
         const struct btrfs_file_extent *e, uint32_t size)
{
  const bool hole = e->type != BTRFS_FILE_EXTENT_INLINE &&
    le64_get (e->disk_bytenr) == 0;
  int r = drop_extents (drop);

  if (r == 0 && !(hole && f->d->no_holes))
    r = tree_insert_data (&txn->tree, file_tree (f),
                          file_extent_key (f, drop->start), e, size);
  map_forget (f, drop->start, drop->end);
  return r;
}

int
data_replay_extent (struct data *d, struct inode *in, struct txn *txn,
                    uint64_t offset, const struct btrfs_file_extent *e,
                    uint32_t size, bool taken)
{
  struct drop drop = { .txn = txn, .start = offset };
  uint64_t added = 0;
  int r;

  assert (mutex_is_mine (&in->lock));
  r = file_get (d, in, &drop.f);
  if (r == 0)
    r = item_end (drop.f, offset, e, &drop.end);
  if (r < 0)
    return r;
  /* The reference comes before what is replaced goes: that may be the last
   * one of the same extent.
   */
  if (e->type == BTRFS_FILE_EXTENT_INLINE)
    added = le64_get (e->ram_bytes);
  else if (le64_get (e->disk_bytenr) != 0) {
    added = le64_get (e->num_bytes);
    r = add_ref (drop.f, txn, offset, e, taken);
  }
  if (r < 0)
    return r;
  rwlock_wrlock (&in->root->tree->lock);
  r = replace (drop.f, txn, &drop, e, size);
  rwlock_unlock (&in->root->tree->lock);
  if (r < 0)
    return r;
  in->nbytes -= MIN (in->nbytes, drop.nbytes);
  in->nbytes += added;
  return 0;
}

int
data_replay_cut (struct data *d, struct inode *in, struct txn *txn)
{
  struct drop drop = { .txn = txn, .start = round_up (in->size, d->ps),
                       .end = DATA_FILE_END };
  int r;

  assert (mutex_is_mine (&in->lock));
  r = file_get (d, in, &drop.f);
  if (r < 0)
    return r;
  rwlock_wrlock (&in->root->tree->lock);
  r = drop_extents (&drop);
  map_forget (drop.f, drop.start, drop.end);
  rwlock_unlock (&in->root->tree->lock);
  in->nbytes -= MIN (in->nbytes, drop.nbytes);
  return r;
}
