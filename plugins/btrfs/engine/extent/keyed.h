/* extent: back references that stand in items of their own.
 *
 *   (bytenr, TREE_BLOCK_REF, root)       nothing
 *   (bytenr, SHARED_BLOCK_REF, parent)   nothing
 *   (bytenr, SHARED_DATA_REF, parent)    count
 *   (bytenr, EXTENT_DATA_REF, hash)      root, objectid, offset, count; the
 *                                        hash counts up while it is taken
 *
 * The extent tree's lock is held exclusively.
 */
#ifndef BTRNBD_EXTENT_KEYED_H
#define BTRNBD_EXTENT_KEYED_H

#include "btree/tree.h"
#include "extent/item.h"

/* Where the item of a reference stands, or would stand if it were alone. */
extern struct key keyed_ref_key (uint64_t bytenr, const struct ref_key *);
/* Add MOD (may be negative) to the reference's count, delete it at zero;
 * *ret_done false: there is no such item.
 */
extern int keyed_ref_change (struct tree_txn *, struct tree *,
                             uint64_t bytenr, const struct ref_key *,
                             int64_t mod, bool *ret_done);
extern int keyed_ref_insert (struct tree_txn *, struct tree *,
                             uint64_t bytenr, const struct ref_key *,
                             int64_t count);

#endif /* BTRNBD_EXTENT_KEYED_H */
