/* extent: items of the csum tree.
 *
 * Item (EXTENT_CSUM_OBJECTID, EXTENT_CSUM, address): checksums of the sectors
 * from the address on, packed.  Items never overlap.  All functions take the
 * csum tree's lock themselves.
 */
#ifndef BTRNBD_EXTENT_CSUM_ITEMS_H
#define BTRNBD_EXTENT_CSUM_ITEMS_H

#include "trans/roots.h"

/* N checksums of the sectors from START on; sectors that have one already get
 * the new one.
 */
extern int csum_items_insert (struct roots *, struct txn *, uint64_t start,
                              const uint8_t *sums, size_t n);
/* The same in another tree with such items (a log), whose lock is held. */
extern int csum_items_insert_in (struct tree *, struct tree_txn *,
                                 uint64_t start, const uint8_t *sums,
                                 size_t n);
/* Forget the checksums of [START, START + LEN); items in the way are cut or
 * split in two.
 */
extern int csum_items_delete (struct roots *, struct txn *, uint64_t start,
                              uint64_t len);
/* The checksums of N sectors from START on to SUMS; PRESENT[i] (one byte per
 * sector) tells whether sector i has one.
 */
extern int csum_items_lookup (struct roots *, uint64_t start, size_t n,
                              uint8_t *sums, bool *present);
/* The same in another tree with such items, whose lock is held. */
extern int csum_items_lookup_in (struct tree *, uint64_t start, size_t n,
                                 uint8_t *sums, bool *present);
/* Some sector of the range has a checksum. */
extern int csum_items_any (struct roots *, uint64_t start, uint64_t len,
                           bool *ret_any);

#endif /* BTRNBD_EXTENT_CSUM_ITEMS_H */
