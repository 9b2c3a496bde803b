/* btree: removal of items. */

#include <config.h>

#include "btree/tree_priv.h"

/* The key of the item behind SLOT of the cursor's leaf; false at the end of
 * the tree.
 */
static bool
following_key (const struct cursor *c, uint32_t slot, struct key *ret)
{
  if (slot < tb_nritems (c->path[0]->data)) {
    *ret = tb_item_key (c->path[0]->data, slot);
    return true;
  }
  return cursor_upper_bound (c, ret);
}

int
cursor_delete (struct tree_txn *txn, struct cursor *c, uint32_t count)
{
  struct tree *t = c->tree;
  struct key next = KEY_MAX;
  bool changed = false, exact;
  int r;

  assert (cursor_at_item (c));
  assert (count <= tb_nritems (c->path[0]->data) - c->slot[0]);
  if (count == 0)
    return 0;
  r = cursor_make_writable (txn, c);
  if (r < 0)
    return r;
  following_key (c, c->slot[0] + count, &next);
  leaf_delete (c->path[0]->data, tree_nodesize (t), c->slot[0], count);
  if (tb_nritems (c->path[0]->data) == 0) {
    changed = c->level > 0;
    if (changed)
      r = cursor_remove_block (txn, c, 0);
  }
  else {
    if (c->slot[0] == 0)
      cursor_fix_keys (c, 0);
    r = cursor_merge_leaf (txn, c, &changed);
  }
  if (r < 0) {
    cursor_done (c);
    return r;
  }
  /* Past the end there is no item with KEY_MAX, and the search for it ends
   * behind the last one.
   */
  if (changed && (r = tree_find_place (t, next, c, &exact)) < 0)
    return r;
  return cursor_settle (c);
}

int
tree_delete (struct tree_txn *txn, struct tree *t, struct key key)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  int r;

  r = tree_find_rw (txn, t, key, &c);
  if (r == 0)
    r = cursor_delete (txn, &c, 1);
  return r;
}

int
tree_delete_range (struct tree_txn *txn, struct tree *t, struct key first,
                   struct key last, uint64_t max, uint64_t *ret_deleted)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  uint64_t deleted = 0, n;
  uint32_t end;
  const uint8_t *buf;
  int r;

  assert (rwlock_is_mine (&t->lock));
  r = tree_find (t, first, &c, NULL);
  while (r == 0 && cursor_at_item (&c) &&
         key_cmp (cursor_key (&c), last) <= 0 &&
         (max == 0 || deleted < max)) {
    buf = c.path[0]->data;
    end = leaf_lower_bound (buf, c.slot[0], tb_nritems (buf), last);
    if (end < tb_nritems (buf) &&
        key_cmp (tb_item_key (buf, end), last) == 0)
      end++;
    n = end - c.slot[0];
    if (max != 0)
      n = MIN (n, max - deleted);
    r = cursor_delete (txn, &c, n);
    deleted += n;
  }
  if (r == 0 && ret_deleted != NULL)
    *ret_deleted = deleted;
  return r;
}
