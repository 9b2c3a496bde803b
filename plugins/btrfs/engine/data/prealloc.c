/* data: allocating without writing: zeroes that keep their space.
 *
 * Zeroes over an extent that nobody shares need no space: the item becomes
 * prealloc where it stands, and its checksums go.  So a volume that fills the
 * pool can still be zeroed.  Until that is durable the old data must not be
 * overwritten, because the last commit has checksums of it: see nocow.c.
 */
#include <config.h>

#include <assert.h>
#include <inttypes.h>

#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

#define PIECE_ITEMS 128        /* most old items replaced by one extent */
#define FLIP_MIN (64 * 1024)   /* shorter pieces of a range are replaced */

/* The next stretch from *START on that needs a new prealloc extent: not
 * longer than one extent may be, nor made of too many items.
 */
static int
next_stretch (struct file_data *f, uint64_t *start, uint64_t end,
              uint64_t *ret_end)
{
  unsigned n = 0;
  uint64_t pos = *start;

  *ret_end = 0;
  while (pos < end) {
    struct mapping m;
    bool keep;
    int r = map_lookup (f, pos, &m);

    if (r < 0)
      return r;
    keep = m.kind == MAP_PREALLOC;
    if (keep && n > 0)
      break;
    pos = MIN (end, m.offset + m.len);
    if (keep) {
      *start = pos;
      continue;
    }
    *ret_end = MIN (pos, *start + BTRFS_MAX_EXTENT);
    if (++n == PIECE_ITEMS || *ret_end < pos)
      break;
  }
  return 0;
}

static int
count_needed (struct file_data *f, uint64_t start, uint64_t end,
              uint64_t *ret_bytes)
{
  *ret_bytes = 0;
  while (start < end) {
    uint64_t stop;
    int r = next_stretch (f, &start, end, &stop);

    if (r < 0)
      return r;
    if (stop == 0)
      return 0;
    *ret_bytes += stop - start;
    start = stop;
  }
  return 0;
}

/* inode.lock held; PRE is allocated. */
static int
insert_prealloc (struct file_data *f, struct txn *txn, struct mapping *pre)
{
  struct inode *in = f->inode;
  struct tree *t = file_tree (f);
  struct drop drop = { .txn = txn, .f = f, .start = pre->offset,
                       .end = pre->offset + pre->len };
  int r;

  pre->generation = txn->tree.transid;
  r = extent_data_new (f->d->env.extents, txn, mapping_ref (f, pre));
  if (r < 0)
    return r;
  rwlock_wrlock (&t->lock);
  r = drop_extents (&drop);
  if (r == 0)
    r = insert_extent (txn, f, pre);
  if (r == 0)
    map_set (f, pre);
  rwlock_unlock (&t->lock);
  if (r < 0)
    return r;
  file_changed (f, txn, pre->offset, pre->offset + pre->len);
  __atomic_fetch_or (&in->flags, BTRFS_INODE_PREALLOC, __ATOMIC_RELAXED);
  return inode_finish_change (txn, f, pre->len, drop.nbytes);
}

/* One extent for the front of [start, end); *ret_end: how far it goes, or
 * would have gone: the promise for that is used up.
 */
static int
prealloc_some (struct file_data *f, uint64_t start, uint64_t end,
               uint64_t *ret_end)
{
  struct data *d = f->d;
  struct inode *in = f->inode;
  struct mapping pre = { .offset = start, .kind = MAP_PREALLOC };
  struct txn *txn;
  int r;

  *ret_end = start;
  r = space_data_alloc (d->env.space, d->ps, end - start,
                        __atomic_load_n (&f->hint, __ATOMIC_RELAXED),
                        &pre.disk, &pre.disk_len);
  if (r < 0)
    return r;
  space_data_settled (d->env.space, pre.disk_len);      /* one item */
  pre.len = pre.ram = pre.disk_len;
  __atomic_store_n (&f->hint, pre.disk + pre.len, __ATOMIC_RELAXED);
  cache_invalidate (d->cache, pre.disk, pre.len);
  mutex_lock (&in->lock);
  r = txn_begin (d->env.trans, PIECE_ITEMS / 8, &txn);
  if (r < 0)
    space_data_free (d->env.space, pre.disk, pre.disk_len);
  else {
    r = insert_prealloc (f, txn, &pre);
    r = txn_leave (txn, r, true);
  }
  mutex_unlock (&in->lock);
  *ret_end = pre.offset + pre.len;
  return r;
}

/* --- over extents of our own --- */

static int
flip (struct file_data *f, struct txn *txn, struct mapping *m)
{
  struct tree *t = file_tree (f);
  int r;

  m->kind = MAP_PREALLOC;
  m->generation = txn->tree.transid;
  m->ram = m->disk_len;
  m->nocow = NOCOW_UNKNOWN;
  /* Before anybody can find the prealloc extent. */
  __atomic_store_n (&f->d->flipped, txn->tree.transid, __ATOMIC_RELEASE);
  rwlock_wrlock (&t->lock);
  r = convert_slice (txn, f, MAP_REGULAR, m);
  if (r == 0)
    map_set (f, m);
  rwlock_unlock (&t->lock);
  /* After the map: a reader who misses them looks at the map again. */
  if (r == 0 && file_has_csums (f))
    r = csums_delete (f->d, txn, mapping_disk (m, m->offset), m->len);
  if (r < 0)
    return r;
  __atomic_fetch_or (&f->inode->flags, BTRFS_INODE_PREALLOC,
                     __ATOMIC_RELAXED);
  /* Replay would put the items back but not take the checksums away. */
  file_changed_beyond_log (f, txn);
  return inode_finish_change (txn, f, 0, 0);
}

static int
flip_one (struct file_data *f, struct mapping *m)
{
  struct inode *in = f->inode;
  struct txn *txn;
  int r;

  mutex_lock (&in->lock);
  r = txn_begin_to_free (f->d->env.trans, 6, &txn);
  if (r == 0) {
    r = flip (f, txn, m);
    r = txn_leave (txn, r, true);
  }
  mutex_unlock (&in->lock);
  return r;
}

/* Pieces of at least LEAST bytes; range locked and held against write-out. */
static int
flip_own (struct file_data *f, uint64_t start, uint64_t end, uint64_t least)
{
  while (start < end) {
    struct mapping m;
    uint64_t stop;
    bool ours;
    int r = map_lookup (f, start, &m);

    if (r < 0)
      return r;
    stop = MIN (end, m.offset + m.len);
    if (m.kind == MAP_REGULAR && stop - start >= least) {
      r = nocow_is_ours (f, &m, &ours);
      if (r == 0 && ours) {
        m.ext_offset += start - m.offset;
        m.offset = start;
        m.len = stop - start;
        r = flip_one (f, &m);
      }
      if (r < 0)
        return r;
    }
    start = stop;
  }
  return 0;
}

/* Range locked, and held against write-out. */
static int
prealloc_range (struct file_data *f, uint64_t start, uint64_t end)
{
  struct space *space = f->d->env.space;
  uint64_t needed, stop;
  int r;

  r = count_needed (f, start, end, &needed);
  if (r < 0 || needed == 0)
    return r;
  r = space_data_reserve (space, needed);
  if (r < 0)
    return r;
  while (r == 0 && start < end) {
    r = next_stretch (f, &start, end, &stop);
    if (r < 0 || stop == 0)
      break;
    assert (stop - start <= needed);
    r = prealloc_some (f, start, stop, &stop);
    needed -= stop - start;
    start = stop;
  }
  if (needed > 0)
    space_data_unreserve (space, needed);
  if (r < 0)
    return err_note (r, "allocation in tree %" PRIu64 " inode %" PRIu64,
                     f->inode->root->id, f->inode->ino);
  return 0;
}

/* Small pieces are not worth a transaction each, a new extent replaces many of
 * them at once; if there is room for one.
 */
static int
zero_range (struct file_data *f, uint64_t start, uint64_t end)
{
  const uint64_t least = MIN (end - start, (uint64_t) FLIP_MIN);
  int r;

  r = flip_own (f, start, end, least);
  if (r == 0)
    r = prealloc_range (f, start, end);
  if (r == -ERR_nospace && least > f->d->ps) {
    err_clear ();
    r = flip_own (f, start, end, 0);
    if (r == 0)
      r = prealloc_range (f, start, end);
  }
  return r;
}

int
data_zero (struct data *d, struct inode *inode, uint64_t offset,
           uint64_t len)
{
  return file_clear (d, inode, offset, len, true, zero_range);
}
