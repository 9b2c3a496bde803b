/* data: may a write go in place?
 *
 * The conditions, cheap ones first; all must hold:
 *   1. a regular extent of a NODATACOW inode, or a prealloc extent of any;
 *   2. the item is younger than the root's last snapshot;
 *   3. it has an address;   4. it is not encoded;
 *   5. nobody else references the extent, on disk,   6. nor in changes that
 *      are pending;
 *   7. no checksums there (they would go stale);
 *   8. it was not data in the last commit (zeroed since, see prealloc.c);
 *   9. no snapshot of this root is about to be made, for writes that will not
 *      be in it (they are taken in with space of their own, see write.c);
 *  10. its block group is writable, and stays so while we write: asked by
 *      the caller for each write (space_nocow_begin).
 * A verdict (2-8) is kept in the extent map together with the
 * snapshot number that it was made for: it is void after the next snapshot.
 * Whoever makes another reference to an extent in any other way must make
 * the map forget it.
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

int
nocow_check (struct file_data *f, uint64_t offset, struct mapping *ret_map,
             bool *ret_nocow)
{
  struct mapping *m = ret_map;
  struct tree *t = file_tree (f);
  uint64_t snapshot;
  bool sure;
  int r;

  *ret_nocow = false;
  r = map_lookup (f, offset, m);
  if (r < 0)
    return r;
  if (m->kind != MAP_PREALLOC
      && (m->kind != MAP_REGULAR
          || (file_flags (f) & BTRFS_INODE_NODATACOW) == 0))
    return 0;
  if (m->compression != 0 || m->disk == 0)
    return 0;
  snapshot = __atomic_load_n (&t->last_snapshot, __ATOMIC_ACQUIRE);
  if (m->generation <= snapshot)
    return 0;
  if (m->nocow != NOCOW_UNKNOWN && m->nocow_snapshot == snapshot) {
    *ret_nocow = m->nocow == NOCOW_YES;
    return 0;
  }
  r = ask (f, m, ret_nocow, &sure);
  if (r < 0)
    return err_note (r, "references of the extent at %llu",
                     (unsigned long long) m->disk);
  if (!sure)
    return 0;
  m->nocow = *ret_nocow ? NOCOW_YES : NOCOW_NO;
  m->nocow_snapshot = snapshot;
  map_set_nocow (f, m);
  return 0;
}
