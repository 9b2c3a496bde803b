/* extent: the allocator operations of trees, and who owns shared blocks. */
#include <config.h>

#include "base/err.h"
#include "extent/delayed.h"

static int
op_alloc (struct tree_txn *tt, struct tree *tree, unsigned level,
          uint64_t hint, uint64_t *ret_bytenr)
{
  struct txn *txn = txn_of (tt);
  struct extents *ex = txn->extents;
  struct delayed_change c = {
    .num_bytes = ex->nodesize, .must_insert = true, .level = level, .mod = 1,
    .key = { .type = BTRFS_TREE_BLOCK_REF, .id = tree->id },
  };
  char name[TREE_STR_MAX];
  int r = trans_check (txn->trans);

  if (r == 0)
    r = space_meta_alloc (ex->space, txn, tree->id == BTRFS_CHUNK_TREE, hint,
                          &c.bytenr);
  if (r < 0)
    return err_note (r, "block of tree %s, level %u",
                     tree_str (tree->id, name), level);
  r = extents_queue (ex, &c);
  if (r < 0)
    return r;
  roots_tree_used (tree, ex->nodesize);
  *ret_bytenr = c.bytenr;
  return 0;
}

/* Blocks younger than the last snapshot, and roots, have one referrer.  The
 * flags of a block that is being written change at this moment, but then it
 * is one of ours, and they never say RELOC.
 */
static bool
may_be_shared (const struct txn *txn, const struct tree *tree,
               const struct block *b)
{
  uint64_t gen = tb_generation (b->data);

  if (!tree->shareable || b->bytenr == tree->root->bytenr)
    return false;
  return gen <= tree->last_snapshot ||
    (gen <= trans_committed_id (txn->trans) &&
     (tb_flags (b->data) & BTRFS_HEADER_FLAG_RELOC) != 0);
}

/* OLD, referenced by several, is replaced by COPY in TREE only.
 *
 * - OLD's children are referenced in the name of TREE, its owner: from now on
 *   by OLD's address, so that the others keep them; the references by name
 *   pass to COPY.
 * - else OLD keeps what it has, and COPY takes new references by name.
 */
static int
keep_shared (struct extents *ex, struct txn *txn, const struct tree *tree,
         const struct block *old, const struct block *copy, uint64_t flags)
{
  int r;

  if (tb_owner (old->data) != tree->id ||
      (flags & BTRFS_EXTENT_FLAG_FULL_BACKREF) != 0)
    return extent_children (ex, txn, copy, false, true);
  r = extent_children (ex, txn, old, true, true);
  if (r < 0)
    return r;
  return extent_set_full_backref (ex, txn, old->bytenr,
                                  tb_level (old->data));
}

static int
cow_shareable (struct extents *ex, struct txn *txn, struct tree *tree,
               struct block *old, struct block *copy,
               enum tree_cow_action *ret_action)
{
  uint64_t refs, flags;
  int r;

  r = extent_refs (ex, old->bytenr, true, tb_level (old->data), &refs,
                   &flags);
  if (r < 0)
    return r;
  if (refs == 0)
    return err_new (ERR_ref_count, "tree block %llu has no reference",
                    (unsigned long long) old->bytenr);
  if (refs > 1) {
    *ret_action = TREE_COW_KEEP_OLD;
    return keep_shared (ex, txn, tree, old, copy, flags);
  }
  *ret_action = TREE_COW_FREE_OLD;
  if (flags & BTRFS_EXTENT_FLAG_FULL_BACKREF) {
    r = extent_children (ex, txn, copy, false, true);
    if (r == 0)
      r = extent_children (ex, txn, old, true, false);
  }
  return r;
}

static int
op_cow (struct tree_txn *tt, struct tree *tree, struct block *old,
        struct block *copy, enum tree_cow_action *ret_action)
{
  struct txn *txn = txn_of (tt);
  struct extents *ex = txn->extents;
  struct tree_ref drop = { .bytenr = old->bytenr,
    .level = tb_level (old->data), .root = tree->id };
  bool shared = may_be_shared (txn, tree, old);
  int r = 0;

  *ret_action = TREE_COW_FREE_OLD;
  if (shared) {
    extent_share_lock (ex);
    r = cow_shareable (ex, txn, tree, old, copy, ret_action);
  }
  if (r == 0)
    r = extent_tree_dec (ex, txn, drop);
  if (shared)
    extent_share_unlock (ex);
  if (r == 0)
    roots_tree_used (tree, -(int64_t) ex->nodesize);
  return r;
}

static int
op_free (struct tree_txn *tt, struct tree *tree, struct block *b)
{
  struct txn *txn = txn_of (tt);
  struct extents *ex = txn->extents;
  struct tree_ref drop = { .bytenr = b->bytenr, .level = tb_level (b->data),
    .root = tree->id };
  int r = extent_tree_dec (ex, txn, drop);

  if (r == 0)
    roots_tree_used (tree, -(int64_t) ex->nodesize);
  return r;
}

static int
op_share (struct tree_txn *tt, struct tree *tree, struct block *copy)
{
  struct txn *txn = txn_of (tt);

  (void) tree;
  return extent_children (txn->extents, txn, copy, false, true);
}

static void
op_abort (struct tree_txn *tt, int err)
{
  txn_abort (txn_of (tt), err);
}

const struct tree_alloc_ops extent_alloc_ops = {
  .alloc = op_alloc,
  .cow = op_cow,
  .free = op_free,
  .share = op_share,
  .abort = op_abort,
  .dirtied = roots_tree_dirtied,
};
