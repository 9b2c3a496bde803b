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

/* May the extent be overwritten in place by REF's owner?  True only if REF is
 * certainly the one reference, committed and pending (false "shared" is
 * allowed, false "exclusive" is not).  Takes the extent tree's lock shared.
 */
extern int extent_data_is_exclusive (struct extents *, struct data_ref,
                                     bool *ret_exclusive);

/* References of any extent as they will be after pending changes. */
extern int extent_refs (struct extents *, uint64_t bytenr, bool metadata,
                        unsigned level, uint64_t *ret_refs,
                        uint64_t *ret_flags);

#endif /* BTRNBD_EXTENT_EXTENT_H */
