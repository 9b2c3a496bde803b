/* extent: references of extents, delayed until commit (or earlier).
 *
 * Every change of a reference is queued per extent address and merged; runs
 * of the queue change the extent tree, the checksums of data whose last
 * reference went, and the free-space accounting.
 */
#ifndef BTRNBD_EXTENT_EXTENT_H
#define BTRNBD_EXTENT_EXTENT_H

#include "space/space.h"

struct extents;

extern int extents_new (struct roots *, struct space *, struct block_cache *,
                        struct extents **ret);
extern void extents_free (struct extents *); /* accepts NULL; drops all */
/* For struct trans_hooks. */
extern const struct tree_alloc_ops extent_alloc_ops;

/* Run pending references, ascending by address, at most MAX extents (0: until
 * none is pending, also of those that this makes).  EXCLUSIVE: nobody else
 * changes trees.  Takes the locks of the extent and csum trees.
 */
extern int extents_run (struct extents *, struct txn *, size_t max,
                        bool exclusive);
extern size_t extents_pending (struct extents *);

/* FN is called now and then during a run of references that may dirty much
 * memory, with no tree locked; TRANSID is the transaction it belongs to.
 */
extern void extents_set_watch (struct extents *,
                               void (*fn) (void *opaque, uint64_t transid),
                               void *opaque);

struct extents_stats {
  uint64_t refs_run, run_ns;   /* extents whose references were run */
};
extern void extents_get_stats (struct extents *, struct extents_stats *ret);
/* For benchmarks: called with the time of every single reference run of a
 * tree block; NULL: none.
 */
extern void extents_set_timer (struct extents *,
                               void (*fn) (void *opaque, uint64_t ns),
                               void *opaque);

/* A file extent item's claim on a data extent.  OFFSET is the file offset of
 * the item minus its offset into the extent (may wrap below zero).
 */
struct data_ref {
  uint64_t bytenr, num_bytes;  /* the whole extent on disk */
  uint64_t root, objectid, offset;
};

/* The first reference to an extent from space_data_alloc. */
extern int extent_data_new (struct extents *, struct txn *, struct data_ref);
/* One more / one less reference by a block that is not FULL_BACKREF.  The
 * last one frees the extent and its checksums.
 */
extern int extent_data_inc (struct extents *, struct txn *, struct data_ref);
extern int extent_data_dec (struct extents *, struct txn *, struct data_ref);
/* The same for an item that stands in tree block PARENT when that block's
 * header owner does not hold normal references (shared, FULL_BACKREF).
 */
extern int extent_data_dec_shared (struct extents *, struct txn *,
                                   struct data_ref, uint64_t parent);

extern int extent_data_inc_shared (struct extents *, struct txn *,
                                   struct data_ref, uint64_t parent);

/* --- tree blocks, for those who take a tree apart (subvol/: drop) --- */

/* A pointer's claim on a tree block: by a block with normal references that
 * ROOT owns (PARENT 0), or by the FULL_BACKREF block PARENT.
 */
struct tree_ref {
  uint64_t bytenr;             /* of the child */
  unsigned level;              /* of the child */
  uint64_t root;
  uint64_t parent;
};
extern int extent_tree_inc (struct extents *, struct txn *, struct tree_ref);
/* The last one frees the block (its address stays pinned until the commit,
 * also if the block is dirty); its children are the caller's business.
 */
extern int extent_tree_dec (struct extents *, struct txn *, struct tree_ref);
/* Set FULL_BACKREF in the block's extent item: from now on its children are
 * referenced by its address.  The caller moves the references.
 */
extern int extent_set_full_backref (struct extents *, struct txn *,
                                    uint64_t bytenr, unsigned level);
/* Two trees that share a block may both look up its references and change
 * them by what they saw (COW, drop): that is done under this lock
 * (RANK_EXTENT_SHARE), from the look-up to the queueing of the change.
 */
extern void extent_share_lock (struct extents *);
extern void extent_share_unlock (struct extents *);

/* May the extent be overwritten in place by REF's owner?  True only if REF is
 * certainly the one reference, committed and pending (false "shared" is
 * allowed, false "exclusive" is not).  Takes the extent tree's lock shared.
 * *ret_generation (may be NULL): when the extent was allocated; UINT64_MAX:
 * so lately that it has no item yet.
 */
extern int extent_data_is_exclusive (struct extents *, struct data_ref,
                                     bool *ret_exclusive,
                                     uint64_t *ret_generation);

/* Add (ADD) or drop the references of all that block B points to, by its
 * owner's id or, FULL_BACKREF, by its address.
 */
extern int extent_children (struct extents *, struct txn *,
                            const struct block *b, bool full_backref,
                            bool add);

/* References of any extent as they will be after pending changes. */
extern int extent_refs (struct extents *, uint64_t bytenr, bool metadata,
                        unsigned level, uint64_t *ret_refs,
                        uint64_t *ret_flags);

#endif /* BTRNBD_EXTENT_EXTENT_H */
