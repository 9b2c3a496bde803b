/* space: block groups, free space, reservations.
 *
 * Counters of each kind of space (data, metadata, system; one kind for all
 * in mixed pools):
 *
 *   total = used + reserved + pinned + readonly + free;  may_use <= free
 *   (metadata may overcommit against unallocated device space)
 *
 * A byte's way:  may_use (promised) -> reserved (allocated, not yet in the
 * extent tree) -> used -> pinned (freed, until the commit is durable) -> free.
 *
 * Block groups are opened lazily: reads need none; the first allocation from
 * a group loads its free space from the *committed* free-space tree.
 */
#ifndef BTRNBD_SPACE_SPACE_H
#define BTRNBD_SPACE_SPACE_H

#include "trans/roots.h"

struct space;

/* --- data --- */

/* Promise BYTES (sector multiple) of data space to a writer.  May flush,
 * commit or allocate a chunk.  -ERR_nospace.  No lock of rank >= RANK_RESERVE
 * may be held.
 */
extern int space_data_reserve (struct space *, uint64_t bytes);
extern void space_data_unreserve (struct space *, uint64_t bytes);

/* Turn up to WANT promised bytes into an extent: MIN <= *ret_len <= WANT,
 * sector multiples, inside one block group, near HINT (0: anywhere).  Never
 * waits for a commit.  The rest of the promise stays with the caller.
 */
extern int space_data_alloc (struct space *, uint64_t min, uint64_t want,
                             uint64_t hint, uint64_t *ret_start,
                             uint64_t *ret_len);
/* Give back an extent from space_data_alloc that never got a reference. */
extern void space_data_free (struct space *, uint64_t start, uint64_t len);

/* NOCOW writes: hold the group of START writable (it may not become
 * read-only meanwhile); false when it is read-only already.
 */
extern bool space_nocow_begin (struct space *, uint64_t start);
extern void space_nocow_end (struct space *, uint64_t start);

/* --- numbers --- */

struct space_numbers {       /* bytes, logical unless named otherwise */
  uint64_t total, used, reserved, pinned, may_use, readonly;
  uint64_t profile;          /* BTRFS_BG_* profile bits of new chunks */
};
enum space_kind { SPACE_DATA, SPACE_METADATA, SPACE_SYSTEM, SPACE_KINDS };
/* Loads all block group items (not their free space) if need be. */
extern int space_get_numbers (struct space *, enum space_kind,
                              struct space_numbers *ret);
extern uint64_t space_unallocated (struct space *); /* raw bytes */
extern uint64_t space_global_reserve (struct space *);

#endif /* BTRNBD_SPACE_SPACE_H */
