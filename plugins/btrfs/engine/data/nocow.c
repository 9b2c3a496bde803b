/* data: may a write go in place?
 *
 * The conditions, cheap ones first; all must hold:
 *   1. a regular extent of a NODATACOW inode, or a prealloc extent of any;
 *   2. the item is younger than the root's last snapshot, so that no other
 *      tree can have it; or no relative of the subvolume is left, and then
 *      the blocks on the way to the item are looked at one by one;
 *   3. it has an address;   4. it is not encoded;
 *   5. nobody else references the extent, on disk,   6. nor in changes that
 *      are pending;
 *   7. no checksums there (they would go stale);
 *   8. it was not data in the last commit (zeroed since, see prealloc.c);
 *   9. no snapshot of this root is about to be made, for writes that will not
 *      be in it (they are taken in with space of their own, see write.c);
 *  10. the extent is not in the generation that an image of the pool holds;
 *  11. its block group is writable, and stays so while we write: this and 10
 *      are asked by the caller for each write (space_nocow_begin).
 * A verdict (2-8) is kept in the extent map together with the snapshot number
 * that it was made for, which is a transaction's: it is void after the next
 * snapshot (of a later transaction: see may_be_kept), and "no" also after the
 * next commit.  Whoever makes another reference to an extent in any other way
 * tells the map (map_shared).  An image says nothing about who references
 * what: it voids no verdict, 10 is asked beside them, and what was known
 * before it is known when it is closed.
 *
 * nocow_no_early and nocow_no_cache show what 2 and the kept verdicts are
 * worth: they cost searches and change no answer.
 */
#include <config.h>

#include "base/err.h"
#include "data/data_priv.h"

/* A prealloc extent that is older than its item was data in the last commit
 * (see prealloc.c, flip), and what the checksums of that commit say of it
 * must stay true until the item is durable.  So must those in a log, of
 * extents that are as young as the item: where anything was zeroed in place
 * in that transaction, none is taken for new.
 */
static bool
was_data (struct file_data *f, const struct mapping *m, uint64_t allocated)
{
  return m->kind == MAP_PREALLOC && file_has_csums (f)
    && (allocated < m->generation
        || m->generation <= __atomic_load_n (&f->d->flipped,
                                             __ATOMIC_RELAXED))
    && m->generation > trans_committed_id (f->d->env.trans);
}

/* A transaction that has taken snapshot number SNAPSHOT may take another one
 * of the same number: until it ends nothing that is found out can be kept.
 */
static bool
may_be_kept (const struct file_data *f, uint64_t snapshot)
{
  return snapshot < trans_running_id (f->d->env.trans);
}

/* *ret_sure: the verdict stays the same until somebody takes a snapshot. */
static int
ask (struct file_data *f, const struct mapping *m, bool *ret_nocow,
     bool *ret_sure)
{
  struct data *d = f->d;
  bool exclusive = false, csums = true;
  uint64_t allocated = 0;
  int r;

  *ret_sure = true;
  data_count (&d->stats.extent_tree_searches, 1);
  r = extent_data_is_exclusive (d->env.extents, mapping_ref (f, m),
                                &exclusive, &allocated);
  if (r == 0 && exclusive && was_data (f, m, allocated)) {
    *ret_sure = false;
    exclusive = false;
  }
  if (r == 0 && exclusive)
    r = csums_any (d, mapping_disk (m, m->offset), m->len, &csums);
  *ret_nocow = r == 0 && exclusive && !csums;
  return r;
}

int
nocow_is_ours (struct file_data *f, const struct mapping *m, bool *ret_ours)
{
  struct tree *t = file_tree (f);

  *ret_ours = false;
  if (m->compression != 0 || m->disk == 0
      || m->generation <= __atomic_load_n (&t->last_snapshot,
                                           __ATOMIC_ACQUIRE))
    return 0;
  data_count (&f->d->stats.extent_tree_searches, 1);
  return extent_data_is_exclusive (f->d->env.extents, mapping_ref (f, m),
                                   ret_ours, NULL);
}

/* --- after a snapshot --- */

/* Condition 2 for a block that may be older than the last snapshot.  From the
 * root down: a block with one reference below one that is ours is ours.
 */
static int
block_is_ours (struct file_data *f, const struct block *b, uint64_t snapshot,
               bool *ret_ours)
{
  uint64_t refs, flags;
  int r;

  *ret_ours = tb_generation (b->data) > snapshot;
  if (*ret_ours)
    return 0;
  data_count (&f->d->stats.extent_tree_searches, 1);
  r = extent_refs (f->d->env.extents, b->bytenr, true, tb_level (b->data),
                   &refs, &flags);
  *ret_ours = r == 0 && refs == 1
    && (flags & BTRFS_EXTENT_FLAG_FULL_BACKREF) == 0;
  return r;
}

/* Tree lock held shared. */
static int
path_is_ours (struct file_data *f, uint64_t offset, uint64_t snapshot,
              bool *ret_ours)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  unsigned level;
  bool exact;
  int r;

  *ret_ours = false;
  r = tree_find (file_tree (f), file_extent_key (f, offset), &c, &exact);
  if (r < 0 || !exact)
    return r;
  if (__atomic_load_n (&f->own_leaf, __ATOMIC_RELAXED) == c.path[0]->bytenr
      && __atomic_load_n (&f->own_leaf_snapshot, __ATOMIC_RELAXED)
      == snapshot) {
    *ret_ours = true;
    return 0;
  }
  *ret_ours = true;
  for (level = c.level; level > 0 && *ret_ours && r == 0; --level)
    r = block_is_ours (f, c.path[level - 1], snapshot, ret_ours);
  if (r == 0 && *ret_ours && may_be_kept (f, snapshot)) {
    __atomic_store_n (&f->own_leaf, c.path[0]->bytenr, __ATOMIC_RELAXED);
    __atomic_store_n (&f->own_leaf_snapshot, snapshot, __ATOMIC_RELAXED);
  }
  return r;
}

/* Of an item that is not younger than the last snapshot. */
static int
old_item_is_ours (struct file_data *f, const struct mapping *m,
                  uint64_t snapshot, bool *ret_ours)
{
  struct tree *t = file_tree (f);
  int r;

  *ret_ours = false;
  r = roots_has_kin (f->d->env.roots, f->inode->root, ret_ours);
  *ret_ours = !*ret_ours;
  if (r < 0 || !*ret_ours)
    return r;
  rwlock_rdlock (&t->lock);
  r = path_is_ours (f, m->offset, snapshot, ret_ours);
  rwlock_unlock (&t->lock);
  return r;
}

int
nocow_is_alone (struct file_data *f, const struct mapping *m,
                bool *ret_alone)
{
  const uint64_t snapshot
    = __atomic_load_n (&file_tree (f)->last_snapshot, __ATOMIC_ACQUIRE);
  int r = 0;

  *ret_alone = true;
  if (m->generation <= snapshot)
    r = old_item_is_ours (f, m, snapshot, ret_alone);
  if (r < 0 || !*ret_alone)
    return r;
  return extent_data_is_exclusive (f->d->env.extents, mapping_ref (f, m),
                                   ret_alone, NULL);
}

/* --- the check --- */

static bool
is_known (const struct data *d, const struct mapping *m, uint64_t snapshot)
{
  return !d->env.nocow_no_cache
    && m->nocow != NOCOW_UNKNOWN && m->nocow_snapshot == snapshot
    && (m->nocow == NOCOW_YES
        || m->nocow_commit == trans_committed_id (d->env.trans));
}

/* Condition 10, as it is now: the same early test as for snapshots, with the
 * held generation as one more of all roots.  A younger item may be a part of
 * an older extent.
 */
static bool
is_held (const struct data *d, const struct mapping *m)
{
  const uint64_t held = space_held_generation (d->env.space);

  return held != 0
    && (m->generation <= held
        || space_is_held (d->env.space, mapping_disk (m, m->offset)));
}

static int
find_out (struct file_data *f, struct mapping *m, uint64_t snapshot,
          bool *ret_nocow)
{
  const bool keep = may_be_kept (f, snapshot);
  uint64_t shares;
  bool sure = true;
  int r = 0;

  mutex_lock (&f->map_lock);
  shares = f->shares;
  mutex_unlock (&f->map_lock);
  *ret_nocow = true;
  m->nocow_commit = trans_committed_id (f->d->env.trans);
  if (m->generation <= snapshot && f->d->env.nocow_no_early)
    r = ask (f, m, ret_nocow, &sure);
  if (r == 0 && m->generation <= snapshot)
    r = old_item_is_ours (f, m, snapshot, ret_nocow);
  if (r == 0 && *ret_nocow)
    r = ask (f, m, ret_nocow, &sure);
  if (r < 0)
    return err_note (r, "references of the extent at %llu",
                     (unsigned long long) m->disk);
  if (!sure || !keep)
    return 0;
  m->nocow = *ret_nocow ? NOCOW_YES : NOCOW_NO;
  m->nocow_snapshot = snapshot;
  map_set_nocow (f, m, shares);
  return 0;
}

int
nocow_check (struct file_data *f, uint64_t offset, struct mapping *ret_map,
             bool *ret_nocow)
{
  struct mapping *m = ret_map;
  struct tree *t = file_tree (f);
  uint64_t snapshot;
  int r;

  *ret_nocow = false;
  r = map_lookup (f, offset, m);
  if (r < 0)
    return r;
  if (m->kind != MAP_PREALLOC
      && (m->kind != MAP_REGULAR
          || (file_flags (f) & BTRFS_INODE_NODATACOW) == 0))
    return 0;
  if (m->compression != 0 || m->disk == 0 || is_held (f->d, m))
    return 0;
  snapshot = __atomic_load_n (&t->last_snapshot, __ATOMIC_ACQUIRE);
  if (is_known (f->d, m, snapshot)) {
    *ret_nocow = m->nocow == NOCOW_YES;
    return 0;
  }
  return find_out (f, m, snapshot, ret_nocow);
}
