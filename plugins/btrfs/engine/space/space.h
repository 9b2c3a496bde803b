/* space: block groups, free space, reservations.
 *
 * Counters of each kind of space (data, metadata, system; one kind for all
 * in mixed pools):
 *
 *   total = used + reserved + pinned + held + readonly + free
 *   may_use <= free
 *   (metadata may overcommit against unallocated device space)
 *
 * A byte's way:  may_use (promised) -> reserved (allocated, not yet in the
 * extent tree) -> used -> pinned (freed, until the commit is durable) ->
 * [held (until the image of an older commit is closed) ->] free.
 *
 * Block groups are opened lazily: reads need none; the first allocation from
 * a group loads its free space from the *committed* free-space tree.
 */
#ifndef BTRNBD_SPACE_SPACE_H
#define BTRNBD_SPACE_SPACE_H

#include "trans/roots.h"

struct space;

extern int space_new (struct block_cache *, struct roots *,
                      struct space **ret);
extern void space_free (struct space *); /* accepts NULL */
/* For flushing; before the first reservation.  RUN_REFS runs the references
 * that are pending, which may free space.
 */
extern void space_set_trans (struct space *, struct trans *,
                             int (*run_refs) (void *opaque, struct txn *),
                             void *opaque);

/* --- data --- */

/* Promise BYTES (sector multiple) of data space to a writer.  May flush,
 * commit or allocate a chunk.  -ERR_nospace.  No lock of rank >= RANK_RESERVE
 * may be held.
 */
extern int space_data_reserve (struct space *, uint64_t bytes);
/* True when that needs nothing of it, and nobody waits for space. */
extern bool space_data_try_reserve (struct space *, uint64_t bytes);
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
/* The same, and it is a promise again. */
extern void space_data_unalloc (struct space *, uint64_t start, uint64_t len);
/* What space_data_alloc gave keeps the metadata aside that was promised with
 * the data, until LEN bytes of it have their items, or need none.
 */
extern void space_data_settled (struct space *, uint64_t len);

/* NOCOW writes: hold the group of START writable (it may not become
 * read-only meanwhile); false when it is read-only already, or when an image
 * has the extent there.
 */
extern bool space_nocow_begin (struct space *, uint64_t start);
extern void space_nocow_end (struct space *, uint64_t start);

/* --- numbers --- */

struct space_numbers {       /* bytes, logical unless named otherwise */
  uint64_t total, used, reserved, pinned, held, may_use, readonly;
  uint64_t promised;         /* the part of may_use that is for data */
  uint64_t profile;          /* BTRFS_BG_* profile bits of new chunks */
};
enum space_kind { SPACE_DATA, SPACE_METADATA, SPACE_SYSTEM, SPACE_KINDS };
/* Loads all block group items (not their free space) if need be. */
extern int space_get_numbers (struct space *, enum space_kind,
                              struct space_numbers *ret);
/* Bytes of data that are certain to be accepted, as 4 KiB writes in any order
 * that overwrite nothing, if nobody else takes space.
 */
extern int space_writable (struct space *, uint64_t *ret);
extern uint64_t space_unallocated (struct space *); /* raw bytes */
extern uint64_t space_global_reserve (struct space *);

/* Is there a block group at START, and may it be written (nocow)? */
extern bool space_is_readonly (struct space *, uint64_t start);

/* --- the image: a generation that stays in place (hold.c) --- */

/* From here on nothing that is on disk is overwritten; returns when writes in
 * place that had begun are done.  The next commit that calls
 * space_hold_capture is the one that is held, with at most LIMIT bytes that
 * are not free because of it.  There is no other hold.  No lock is held.
 */
extern int space_hold_begin (struct space *, uint64_t limit,
                             uint64_t *ret_id);
/* What TRANSID's trees lead to is held, once it is durable: joins are shut
 * out, space_capture has been called.  No effect if hold ID has ended.
 */
extern void space_hold_capture (struct space *, uint64_t id,
                                uint64_t transid);
/* Everything that was kept only for it is free; nothing if it has ended. */
extern void space_hold_end (struct space *, uint64_t id);
/* The same before its time; WHY is a constant.  False: it had ended. */
extern bool space_hold_cancel (struct space *, const char *why);
/* 0 while all of it is in its place; -ERR_image_ended with the reason. */
extern int space_hold_check (struct space *, uint64_t id);
/* The reason, a constant; NULL: it is in its place. */
extern const char *space_hold_why (struct space *, uint64_t id);
/* 0 when nothing is held.  What is not younger may not be overwritten; what
 * is younger may be part of an extent that space_is_held has to be asked for.
 */
extern uint64_t space_held_generation (const struct space *);
extern bool space_is_held (struct space *, uint64_t addr);
/* Can what is held lead to ADDR?  The same is true of *ret_len bytes, at most
 * LEN.  "No" stays so; of what cannot be told it is "yes".  May load the free
 * space of a group; no lock is held.
 */
extern bool space_hold_may_use (struct space *, uint64_t id, uint64_t addr,
                                uint64_t len, uint64_t *ret_len);

/* --- metadata promises: for struct trans_hooks --- */

extern int space_reserve (struct space *, unsigned items, uint64_t *ret_bytes);
extern int space_reserve_to_free (struct space *, unsigned items,
                                  uint64_t *ret_bytes);
extern void space_release (struct space *, uint64_t bytes);

/* --- for extent/ --- */

/* An address for one tree block.  SYSTEM: of the chunk tree.  Takes from the
 * handle's promise, else from the global reserve; may allocate a chunk.
 */
extern int space_meta_alloc (struct space *, struct txn *, bool system,
                             uint64_t hint, uint64_t *ret_bytenr);
/* Addresses for 1 to WANT blocks of log trees, side by side: only from
 * metadata space that nobody has been promised, never by making a chunk;
 * -ERR_nospace_meta otherwise.  Each goes back by space_extent_cancelled, or
 * space_data_free if the block has never been written.
 */
extern int space_log_alloc (struct space *, unsigned want,
                            uint64_t *ret_bytenr, unsigned *ret_n);
/* The transaction TRANSID has made a chunk, or tried to: the last commit does
 * not know the addresses in it, so no log of this transaction may.
 */
extern bool space_has_new_chunk (struct space *, uint64_t transid);
/* Reserve just this extent, which must be free: of a log, before it is
 * replayed.
 */
extern int space_take (struct space *, uint64_t start, uint64_t len);
/* There is metadata space to spare, for blocks that are written before their
 * transaction commits and copied once more.
 */
extern bool space_meta_roomy (struct space *);
/* Make a metadata chunk before it gets tight (no locks held). */
extern void space_grow (struct space *);
/* The number of extents with pending references changed by DELTA: they will
 * need metadata space when they are run.
 */
extern void space_pending_refs (struct space *, int64_t delta);
extern void space_refs_run (struct space *, uint64_t n);
/* A reserved extent has entered the extent tree. */
extern int space_extent_inserted (struct space *, struct txn *,
                                  uint64_t start, uint64_t len);
/* An extent has left the extent tree: pinned until the commit. */
extern int space_extent_freed (struct space *, struct txn *, uint64_t start,
                               uint64_t len);
/* A reserved extent was freed before it entered the tree: pinned, too. */
extern int space_extent_cancelled (struct space *, struct txn *,
                                   uint64_t start, uint64_t len);

/* --- for commits --- */

/* Items of new block groups: group items, device extents, free space. */
extern int space_create_pending (struct space *, struct txn *,
                                 bool *ret_changed);
/* Free space tree: apply what was collected. */
extern int space_write_fst (struct space *, struct txn *, bool *ret_changed);
/* Used bytes of block groups. */
extern int space_write_groups (struct space *, struct txn *,
                               bool *ret_changed);
/* Take empty block groups out of the trees (early step of a commit). */
extern int space_remove_empty (struct space *, struct txn *);
/* The transaction has its final shape (joins shut out). */
extern void space_capture (struct space *);
/* It is durable: its freed space may be used.  Under the committed lock. */
extern void space_finish_commit (struct space *);
/* Discard what the last commits freed, if switched on (no locks held). */
extern void space_discard (struct space *);
extern void space_set_discard (struct space *, bool on);
/* Bytes used by extents, as the superblock wants it. */
extern uint64_t space_bytes_used (struct space *);
/* Called under the chunk tree's lock when a system chunk has been made. */
extern void space_set_sys_chunk_hook (struct space *,
                                      int (*fn) (void *opaque, struct key,
                                                 const struct btrfs_chunk *,
                                                 uint32_t size),
                                      void *opaque);

/* Read all block group items; idempotent. */
extern int space_load_groups (struct space *);

/* --- free space tree --- */

/* The pool has a valid free space tree: keep it, and trust it. */
extern void space_fst_enable (struct space *);
/* Delete what is there of the tree; then build it in as many transactions as
 * needed.  Until space_fst_enable nothing is loaded from it.  Nobody else
 * uses the pool; COMMIT makes a durable commit.
 */
extern int space_fst_build (struct space *, int (*commit) (void *opaque),
                            void *opaque);
/* For benchmarks: apply every change at once (not collected); look up whether
 * a group uses bitmaps every time (no cache).
 */
extern void space_fst_set_mode (struct space *, bool one_by_one,
                                bool no_cache);
struct fst_stats {
  uint64_t changes, applied;   /* ranges noted, ranges applied */
  uint64_t ns;                 /* spent changing the tree */
  uint64_t to_bitmaps, to_extents;
};
extern void space_fst_get_stats (struct space *, struct fst_stats *ret);

#endif /* BTRNBD_SPACE_SPACE_H */
