/* trans: the trees of a pool and their root items.
 *
 * The registry keeps one struct root per tree that is or was open.  A root
 * is referenced by its users; the trees of the pool itself (root, extent,
 * csum, ...) stay for as long as the registry.
 *
 * Committed roots: for each of those the registry also holds the root block
 * of the last commit.  A reader of committed roots takes roots_committed_lock
 * shared; the commit takes it exclusively from the switch of committed roots
 * until the extents that the commit freed have been unpinned, so that what a
 * reader sees is what free space memory already knows.
 */
#ifndef BTRNBD_TRANS_ROOTS_H
#define BTRNBD_TRANS_ROOTS_H

#include "base/gate.h"
#include "trans/trans.h"

struct roots;

struct root {
  /* Constant. */
  uint64_t id;
  struct tree *tree;

  /* Protected by tree->lock. */
  struct btrfs_root_item item; /* as it will be written at commit */
  struct key key;              /* of the item in the root tree */
  bool dirty;                  /* changed in the running transaction */
  uint64_t free_objectid;      /* next inode number; 0: not known yet */

  /* Of subvolumes: what data/ does to files passes it, and the making of a
   * snapshot closes it for a moment.
   */
  struct gate gate;

  uint64_t kin_known;          /* for roots_has_kin (atomic) */
  bool kin;

  struct root_priv *priv;
};

/* The root that TREE belongs to; NULL for a tree under construction. */
static inline struct root *
root_of_tree (const struct tree *tree)
{
  return tree->opaque;
}

extern int roots_new (struct block_cache *, struct roots **ret);
extern void roots_free (struct roots *);

/* Open the two trees that the superblock points to.  The root tree may lie in
 * chunks that only the chunk tree knows.
 */
extern int roots_open_chunk_tree (struct roots *, const struct btrfs_super *);
extern int roots_open_root_tree (struct roots *, const struct btrfs_super *);

/* The tree ID, opened from its root item if need be.  For subvolumes the
 * item with the highest offset counts; -ERR_subvol_missing (kind of tree in
 * the note) when there is none or its refs are 0.
 */
extern int roots_get (struct roots *, uint64_t id, struct root **ret);
extern void roots_put (struct roots *, struct root *); /* accepts NULL */
/* The same for a subvolume whose refs are 0, while it is being dropped. */
extern int roots_get_dead (struct roots *, uint64_t id, struct root **ret);
/* ROOT's blocks are gone: delete its item.  It is not found any more, nor
 * written; references to it stay good.
 */
extern int roots_delete (struct roots *, struct txn *, struct root *);
/* Trees of the pool that must exist for writing; NULL when absent or not
 * opened.  No reference is taken.
 */
extern struct root *roots_pool_tree (struct roots *, uint64_t id);

/* A new tree with its root item: subvolumes with ID from roots_new_id. */
extern int roots_create (struct roots *, struct txn *, uint64_t id,
                         bool shareable, struct root **ret);
/* Subvolume ID becomes a copy of SRC, another one, sharing all of its blocks;
 * its uuid and names are the caller's to enter.  No tree lock is held, and
 * nobody else is in the transaction (txn_begin_alone).
 */
extern int roots_snapshot (struct roots *, struct txn *, struct root *src,
                           uint64_t id, bool read_only, struct root **ret);
/* May another subvolume have blocks of ROOT because it is its snapshot, its
 * source, or one of the same source?  Deleted ones count until dropped.
 * A hint: farther relatives are not looked for.
 */
extern int roots_has_kin (struct roots *, struct root *, bool *ret_kin);
/* The next free subvolume id. */
extern int roots_new_id (struct roots *, struct txn *, uint64_t *ret_id);

/* --- for the machinery of commits --- */

/* `dirtied` of struct tree_alloc_ops. */
extern int roots_tree_dirtied (struct tree_txn *, struct tree *);
/* A block joined (BLOCKS > 0) or left TREE, whose lock is held. */
extern void roots_tree_used (struct tree *, int64_t bytes);
/* Bring the root items up to date of the subvolumes that were changed. */
extern int roots_write_subvols (struct roots *, struct txn *);
/* The same for the trees of the pool; *ret_changed: an item was written, so
 * the caller must look again after running delayed references.
 */
extern int roots_write_pool (struct roots *, struct txn *, bool *ret_changed);
/* COW the root of the root tree, so that an empty commit has one too. */
extern int roots_cow_root_tree (struct roots *, struct txn *);
/* The transaction has its final shape: remember its roots for roots_commit,
 * and forget what is dirty.  Joins are shut out.
 */
extern void roots_capture (struct roots *);
/* The captured roots are durable.  Committed lock held exclusively. */
extern void roots_commit (struct roots *);
/* Write leaves of the transaction TRANSID, which may still run, until no more
 * than KEEP bytes of tree blocks wait in memory: a batch at a time from the
 * tree that has most of them, as far as that goes.  A hint: errors are left
 * to the commit.  No lock of rank >= RANK_TREE_FS is held.
 */
extern void roots_write_early (struct roots *, uint64_t transid,
                               uint64_t keep);
/* Bytes used by the trees that the global reserve must be able to copy. */
extern uint64_t roots_reserve_bytes (struct roots *);

/* Committed root block of a tree of the pool, referenced; NULL when the tree
 * does not exist.  Caller holds the committed lock.
 */
extern struct block *roots_committed (struct roots *, uint64_t id);
extern void roots_committed_rdlock (struct roots *);
extern void roots_committed_wrlock (struct roots *);
extern void roots_committed_unlock (struct roots *);

#endif /* BTRNBD_TRANS_ROOTS_H */
