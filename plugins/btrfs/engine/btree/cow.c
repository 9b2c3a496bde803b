/* btree: copy on write.
 *
 * A block may be changed in place when it was made in the running transaction
 * and has not been handed to write-out since; otherwise it is copied to a new
 * address, and the pointer in its parent (which is writable already) follows.
 * What becomes of the references of the old block is for the operations of
 * the allocator.
 */

#include <config.h>

#include "btree/tree_priv.h"

bool
tree_block_writable (const struct tree_txn *txn, const struct tree *t,
                     const struct block *b)
{
  if (b->epoch != t->epoch || !block_is_writable (b, txn->transid))
    return false;
  return (tb_flags (b->data) & BTRFS_HEADER_FLAG_RELOC) == 0 ||
    t->id == BTRFS_TREE_RELOC;
}

static int
failed (struct tree_txn *txn, int r)
{
  if (txn->ops->abort != NULL)
    txn->ops->abort (txn, r);
  return r;
}

int
tree_new_copy (struct tree_txn *txn, struct tree *t, unsigned level,
               uint64_t hint, const struct block *from, struct block **ret)
{
  const struct format_info *format = block_cache_format (t->cache);
  struct tb_ident ident = {
    .fsid = format->metadata_uuid,
    .chunk_tree_uuid = format->chunk_tree_uuid,
    .generation = txn->transid,
    .owner = t->id,
    .level = level,
  };
  int r;

  r = txn->ops->alloc (txn, t, level, hint, &ident.bytenr);
  if (r < 0)
    return r;
  if (from != NULL)
    r = block_new_copy (t->cache, &ident, from, ret);
  else
    r = block_new (t->cache, &ident, ret);
  if (r < 0)
    return failed (txn, r);
  (*ret)->epoch = t->epoch;
  return 0;
}

int
tree_new_block (struct tree_txn *txn, struct tree *t, unsigned level,
                uint64_t hint, struct block **ret)
{
  return tree_new_copy (txn, t, level, hint, NULL, ret);
}

/* A copy of OLD, which TREE no longer references afterwards. */
static int
cow_block (struct tree_txn *txn, struct tree *t, struct block *old,
           struct block **ret)
{
  enum tree_cow_action action = TREE_COW_KEEP_OLD;
  struct block *copy;
  int r;

  if (tb_generation (old->data) > txn->transid)
    return err_new (ERR_generation, "tree %" PRIu64 " block %" PRIu64
                    ": generation %" PRIu64 " in transaction %" PRIu64,
                    t->id, old->bytenr, tb_generation (old->data),
                    txn->transid);
  r = tree_new_copy (txn, t, tb_level (old->data), old->bytenr, old, &copy);
  if (r < 0)
    return r;
  r = txn->ops->cow (txn, t, old, copy, &action);
  if (r < 0) {
    block_drop (t->cache, copy);
    block_put (copy);
    return failed (txn, r);
  }
  /* Of this transaction only after a snapshot, or when it was written early.
   * A dirty block of the last one is on its way to the disk and must get
   * there.
   */
  if (action == TREE_COW_FREE_OLD &&
      tb_generation (old->data) == txn->transid)
    block_drop (t->cache, old);
  if (action == TREE_COW_FREE_OLD)
    block_demote (t->cache, old);
  *ret = copy;
  return 0;
}

static int
cow_root (struct tree_txn *txn, struct tree *t)
{
  struct block *old = t->root, *copy;
  bool first = tb_generation (old->data) != txn->transid;
  int r;

  r = cow_block (txn, t, old, &copy);
  if (r < 0)
    return r;
  t->root = copy;
  block_put (old);
  if (first && txn->ops->dirtied != NULL)
    r = txn->ops->dirtied (txn, t);
  return r;
}

int
tree_cow_child (struct tree_txn *txn, struct tree *t, struct block *parent,
                uint32_t slot, struct block **b)
{
  struct block *copy;
  int r;

  if (tree_block_writable (txn, t, *b))
    return 0;
  r = cow_block (txn, t, *b, &copy);
  if (r < 0)
    return r;
  tb_ptr (parent->data, slot)->blockptr = le64_make (copy->bytenr);
  tb_ptr (parent->data, slot)->generation = le64_make (txn->transid);
  block_put (*b);
  *b = copy;
  return 0;
}

int
cursor_make_writable (struct tree_txn *txn, struct cursor *c)
{
  struct tree *t = c->tree;
  unsigned level;
  int r;

  assert (c->positioned && t != NULL);
  assert (rwlock_is_mine (&t->lock));
  assert (c->path[c->level] == t->root);
  if (!tree_block_writable (txn, t, t->root)) {
    r = cow_root (txn, t);
    if (r < 0)
      return r;
    cursor_set_block (c, c->level, block_get (t->root));
  }
  for (level = c->level; level > 0; level--) {
    r = tree_cow_child (txn, t, c->path[level], c->slot[level],
                        &c->path[level - 1]);
    if (r < 0)
      return r;
  }
  return 0;
}

int
tree_free_block (struct tree_txn *txn, struct tree *t, struct block *b)
{
  assert (tb_nritems (b->data) == 0);
  block_drop (t->cache, b);
  return txn->ops->free (txn, t, b);
}
