/* btree: what deletion leaves behind: empty and poorly filled blocks.
 *
 * A leaf below a third of its size, or a node below a quarter, is merged with
 * a neighbour under the same parent when the result is at most three quarters
 * full, so that the next insertions do not split it again.  Blocks are made
 * writable before their contents move: that is what tells the allocator who
 * references what they point to.
 */

#include <config.h>

#include "btree/tree_priv.h"

/* The child of path[LEVEL] at SLOT, referenced; NULL when it is not cached
 * and MUST is false.
 */
static int
get_child (struct cursor *c, unsigned level, uint32_t slot, bool must,
           struct block **ret)
{
  struct tree_expect expect;

  expect = tree_expect_child (c->path[level]->data, slot, c->tree_id);
  *ret = NULL;
  if (!must) {
    block_peek (c->cache, &expect, ret);
    return 0;
  }
  return block_read (c->cache, &expect, ret);
}

/* The root has no child left: an empty leaf takes its place. */
static int
replace_root (struct tree_txn *txn, struct cursor *c)
{
  struct tree *t = c->tree;
  struct block *old = t->root, *b;
  int r;

  r = tree_new_block (txn, t, 0, old->bytenr, &b);
  if (r < 0)
    return r;
  t->root = b;
  r = tree_free_block (txn, t, old);
  block_put (old);
  return r;
}

/* While the root has one child, that child is the root. */
static int
collapse_root (struct tree_txn *txn, struct cursor *c)
{
  struct tree *t = c->tree;
  struct block *old, *child;
  int r;

  while (tb_level (t->root->data) > 0 && tb_nritems (t->root->data) == 1) {
    old = t->root;
    cursor_set_block (c, c->level, block_get (old));
    r = get_child (c, c->level, 0, true, &child);
    if (r == 0)
      r = tree_cow_child (txn, t, old, 0, &child);
    if (r < 0) {
      block_put (child);
      return r;
    }
    t->root = child;
    node_delete_ptr (old->data, 0);
    r = tree_free_block (txn, t, old);
    block_put (old);
    if (r < 0)
      return r;
    cursor_set_block (c, c->level, NULL);
    c->level--;
  }
  return 0;
}

/* Both are children of path[LEVEL + 1], RIGHT at the slot behind LEFT's, and
 * writable; all of RIGHT goes to LEFT.
 */
static int
merge_into_left (struct tree_txn *txn, struct cursor *c, unsigned level,
                 struct block *left, struct block *right,
                 uint32_t right_slot)
{
  uint32_t n = tb_nritems (right->data);

  if (level == 0)
    leaf_move_head (right->data, n, left->data, tree_nodesize (c->tree));
  else
    node_move (right->data, 0, n, left->data, tb_nritems (left->data));
  cursor_set_block (c, level, block_get (right));
  c->slot[level + 1] = right_slot;
  return cursor_remove_block (txn, c, level);
}

/* Bytes in use, on the scale of a leaf's data size. */
static uint32_t
block_used (const struct cursor *c, unsigned level, const struct block *b)
{
  if (level == 0)
    return leaf_used (b->data, tree_nodesize (c->tree));
  return tb_nritems (b->data) * sizeof (struct btrfs_key_ptr);
}

/* Merge path[LEVEL], which is not the root, with the neighbour at SLOT. */
static int
merge_with (struct tree_txn *txn, struct cursor *c, unsigned level,
            uint32_t slot, bool *ret_changed)
{
  uint32_t capacity = tb_leaf_data_size (tree_nodesize (c->tree));
  struct block *self = c->path[level], *parent = c->path[level + 1], *b;
  uint32_t used = block_used (c, level, self);
  int r;

  r = get_child (c, level + 1, slot, used < capacity / 8, &b);
  if (r < 0 || b == NULL)
    return r;
  if (used + block_used (c, level, b) <= capacity / 4 * 3) {
    *ret_changed = true;
    r = tree_cow_child (txn, c->tree, parent, slot, &b);
    if (r == 0) {
      block_get (self);
      if (slot < c->slot[level + 1])
        r = merge_into_left (txn, c, level, b, self, slot + 1);
      else
        r = merge_into_left (txn, c, level, self, b, slot);
      block_put (self);
    }
  }
  block_put (b);
  return r;
}

static int
merge_block (struct tree_txn *txn, struct cursor *c, unsigned level,
             bool *ret_changed)
{
  uint32_t slot = c->slot[level + 1];
  uint32_t n = tb_nritems (c->path[level + 1]->data);
  int r = 0;

  if (slot > 0)
    r = merge_with (txn, c, level, slot - 1, ret_changed);
  if (r == 0 && !*ret_changed && slot + 1 < n)
    r = merge_with (txn, c, level, slot + 1, ret_changed);
  return r;
}

/* A pointer has left path[LEVEL]. */
static int
balance_node (struct tree_txn *txn, struct cursor *c, unsigned level)
{
  const uint8_t *buf = c->path[level]->data;
  uint32_t n = tb_nritems (buf);
  bool changed = false;

  if (level == c->level)
    return n == 0 ? replace_root (txn, c) : collapse_root (txn, c);
  if (n == 0)
    return cursor_remove_block (txn, c, level);
  if (c->slot[level] == 0)
    cursor_fix_keys (c, level);
  if (n < tb_node_max_ptrs (tree_nodesize (c->tree)) / 4)
    return merge_block (txn, c, level, &changed);
  return 0;
}

int
cursor_remove_block (struct tree_txn *txn, struct cursor *c, unsigned level)
{
  struct block *b = c->path[level];
  int r;

  assert (level < c->level && tb_nritems (b->data) == 0);
  c->path[level] = NULL;
  node_delete_ptr (c->path[level + 1]->data, c->slot[level + 1]);
  r = tree_free_block (txn, c->tree, b);
  block_put (b);
  return r < 0 ? r : balance_node (txn, c, level + 1);
}

int
cursor_merge_leaf (struct tree_txn *txn, struct cursor *c,
                   bool *ret_changed)
{
  uint32_t nodesize = tree_nodesize (c->tree);

  *ret_changed = false;
  if (c->level == 0 || leaf_used (c->path[0]->data, nodesize) >=
      tb_leaf_data_size (nodesize) / 3)
    return 0;
  return merge_block (txn, c, 0, ret_changed);
}
