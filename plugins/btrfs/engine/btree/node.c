/* btree: nodes: pointers, splits and a new root. */

#include <config.h>

#include "btree/tree_priv.h"

void
node_set_key (void *buf, uint32_t slot, struct key key)
{
  tb_ptr (buf, slot)->key = key_to_disk (key);
}

void
node_set_ptr (void *buf, uint32_t slot, const struct block *child)
{
  *tb_ptr (buf, slot) = (struct btrfs_key_ptr) {
    .key = key_to_disk (tb_key (child->data, 0)),
    .blockptr = le64_make (child->bytenr),
    .generation = le64_make (tb_generation (child->data)) };
}

void
node_delete_ptr (void *buf, uint32_t slot)
{
  uint32_t n = tb_nritems (buf);

  assert (slot < n);
  memmove (tb_ptr (buf, slot), tb_ptr (buf, slot + 1),
           (n - slot - 1) * sizeof (struct btrfs_key_ptr));
  tb_set_nritems (buf, n - 1);
}

void
node_move (void *src, uint32_t from, uint32_t n, void *dst, uint32_t to)
{
  uint32_t src_n = tb_nritems (src), dst_n = tb_nritems (dst);

  assert (from + n <= src_n && to <= dst_n);
  memmove (tb_ptr (dst, to + n), tb_ptr (dst, to),
           (dst_n - to) * sizeof (struct btrfs_key_ptr));
  memcpy (tb_ptr (dst, to), tb_ptr (src, from),
          n * sizeof (struct btrfs_key_ptr));
  memmove (tb_ptr (src, from), tb_ptr (src, from + n),
           (src_n - from - n) * sizeof (struct btrfs_key_ptr));
  tb_set_nritems (dst, dst_n + n);
  tb_set_nritems (src, src_n - n);
}

/* One node above the root, with the root as its only child. */
static int
grow_root (struct tree_txn *txn, struct cursor *c)
{
  struct tree *t = c->tree;
  unsigned level = c->level + 1;
  struct block *b;
  int r;

  if (level >= BTRFS_MAX_LEVEL)
    return err_new (ERR_tree_depth, "tree %" PRIu64 " is full", t->id);
  r = tree_new_block (txn, t, level, t->root->bytenr, &b);
  if (r < 0)
    return r;
  node_set_ptr (b->data, 0, t->root);
  tb_set_nritems (b->data, 1);
  block_put (t->root);
  t->root = b;
  cursor_set_block (c, level, block_get (b));
  c->slot[level] = 0;
  c->level = level;
  return 0;
}

/* In two halves, or, when the cursor is at the last pointer (keys arrive in
 * ascending order), with a left side that stays full.
 */
static int
split_node (struct tree_txn *txn, struct cursor *c, unsigned level)
{
  struct block *left = c->path[level], *right;
  uint32_t n = tb_nritems (left->data), mid;
  int r;

  mid = c->slot[level] == n - 1 ? n - 1 : n / 2;
  r = tree_new_block (txn, c->tree, level, left->bytenr, &right);
  if (r < 0)
    return r;
  node_move (left->data, mid, n - mid, right->data, 0);
  r = cursor_insert_behind (txn, c, level + 1, right);
  if (r < 0) {
    block_put (right);
    return r;
  }
  if (c->slot[level] >= mid) {
    cursor_set_block (c, level, right);
    c->slot[level] -= mid;
    c->slot[level + 1]++;
  }
  else
    block_put (right);
  return 0;
}

int
cursor_insert_behind (struct tree_txn *txn, struct cursor *c, unsigned level,
                      const struct block *b)
{
  uint32_t n, at;
  uint8_t *buf;
  int r;

  if (level > c->level && (r = grow_root (txn, c)) < 0)
    return r;
  if (tb_nritems (c->path[level]->data) ==
      tb_node_max_ptrs (tree_nodesize (c->tree)) &&
      (r = split_node (txn, c, level)) < 0)
    return r;
  buf = c->path[level]->data;
  n = tb_nritems (buf);
  at = c->slot[level] + 1;
  memmove (tb_ptr (buf, at + 1), tb_ptr (buf, at),
           (n - at) * sizeof (struct btrfs_key_ptr));
  node_set_ptr (buf, at, b);
  tb_set_nritems (buf, n + 1);
  return 0;
}
