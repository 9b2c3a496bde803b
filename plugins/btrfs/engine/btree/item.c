/* btree: changes of an item that is there. */

#include <config.h>

#include "btree/tree_priv.h"

int
tree_find_rw (struct tree_txn *txn, struct tree *t, struct key key,
              struct cursor *c)
{
  char name[TREE_STR_MAX], buf[KEY_STR_MAX];
  bool exact;
  int r;

  assert (rwlock_is_mine (&t->lock));
  r = tree_find_place (t, key, c, &exact);
  if (r < 0)
    return r;
  if (!exact)
    return err_new (ERR_key_missing, "tree %s key %s",
                    tree_str (t->id, name), key_str (key, buf));
  return cursor_make_writable (txn, c);
}

static int
bad_order (const struct cursor *c, struct key key)
{
  char name[TREE_STR_MAX], buf[KEY_STR_MAX];

  return err_new (ERR_invalid, "tree %s: key %s would not be in order",
                  tree_str (c->tree_id, name), key_str (key, buf));
}

/* KEY is below everything that follows SLOT of the cursor's leaf. */
static bool
below_next (const struct cursor *c, uint32_t slot, struct key key)
{
  const uint8_t *buf = c->path[0]->data;
  struct key next;

  if (slot + 1 < tb_nritems (buf))
    next = tb_item_key (buf, slot + 1);
  else if (!cursor_upper_bound (c, &next))
    return true;
  return key_cmp (key, next) < 0;
}

/* KEY is above the item before the cursor's, which is the first of its leaf.
 */
static int
above_previous_leaf (const struct cursor *c, struct key key, bool *ret)
{
  CLEANUP_CURSOR struct cursor before = CURSOR_INIT;
  bool exact;
  int r;

  r = tree_find (c->tree, cursor_key (c), &before, &exact);
  if (r == 0)
    r = cursor_prev (&before);
  if (r == 0)
    *ret = !cursor_at_item (&before) ||
      key_cmp (cursor_key (&before), key) < 0;
  return r;
}

int
cursor_set_key (struct tree_txn *txn, struct cursor *c, struct key key)
{
  uint8_t *buf;
  uint32_t slot;
  bool above = true;
  int r;

  assert (cursor_at_item (c));
  r = cursor_make_writable (txn, c);
  if (r < 0)
    return r;
  buf = c->path[0]->data;
  slot = c->slot[0];
  if (slot > 0)
    above = key_cmp (tb_item_key (buf, slot - 1), key) < 0;
  else if (key_cmp (key, cursor_key (c)) < 0)
    r = above_previous_leaf (c, key, &above);
  if (r < 0)
    return r;
  if (!above || !below_next (c, slot, key))
    return bad_order (c, key);
  tb_item (buf, slot)->key = key_to_disk (key);
  if (slot == 0)
    cursor_fix_keys (c, 0);
  return 0;
}

static int
grow_spread (struct tree_txn *txn, struct cursor *c, uint32_t size)
{
  CLEANUP_FREE void *copy = NULL;
  CLEANUP_FREE struct split_item *v = NULL;
  const uint8_t *buf = c->path[0]->data;
  int r;

  r = leaf_list_items (buf, tree_nodesize (c->tree), 0, &copy, &v);
  if (r < 0)
    return r;
  v[c->slot[0]].size = size;
  return cursor_spread (txn, c, v, tb_nritems (buf), c->slot[0]);
}

int
cursor_resize (struct tree_txn *txn, struct cursor *c, uint32_t size)
{
  uint32_t nodesize = tree_nodesize (c->tree), old;
  int r;

  assert (cursor_at_item (c));
  if (size > tb_max_item_size (nodesize))
    return err_new (ERR_item_too_big, "tree %" PRIu64 " size %" PRIu32,
                    c->tree_id, size);
  r = cursor_make_writable (txn, c);
  if (r < 0)
    return r;
  old = cursor_size (c);
  if (size > old && leaf_free (c->path[0]->data, nodesize) < size - old)
    return grow_spread (txn, c, size);
  leaf_resize (c->path[0]->data, nodesize, c->slot[0], size);
  return 0;
}

/* There is no room for one more item header. */
static int
split_spread (struct tree_txn *txn, struct cursor *c, struct key new_key,
              uint32_t split)
{
  CLEANUP_FREE void *copy = NULL;
  CLEANUP_FREE struct split_item *v = NULL;
  const uint8_t *buf = c->path[0]->data;
  uint32_t n = tb_nritems (buf), slot = c->slot[0], rest;
  int r;

  r = leaf_list_items (buf, tree_nodesize (c->tree), 1, &copy, &v);
  if (r < 0)
    return r;
  memmove (v + slot + 1, v + slot, (n - slot) * sizeof *v);
  rest = v[slot].size - split;
  v[slot].size = v[slot].copy = split;
  v[slot + 1].key = new_key;
  v[slot + 1].data = (const uint8_t *) v[slot + 1].data + split;
  v[slot + 1].size = v[slot + 1].copy = rest;
  return cursor_spread (txn, c, v, n + 1, slot);
}

int
cursor_split_item (struct tree_txn *txn, struct cursor *c,
                   struct key new_key, uint32_t split)
{
  CLEANUP_FREE void *tail = NULL;
  uint32_t nodesize = tree_nodesize (c->tree), rest;
  struct tree_item item = { .key = new_key };
  int r;

  assert (cursor_at_item (c));
  if (split > cursor_size (c))
    return err_new (ERR_invalid, "split of an item behind its end");
  if (key_cmp (cursor_key (c), new_key) >= 0 ||
      !below_next (c, c->slot[0], new_key))
    return bad_order (c, new_key);
  r = cursor_make_writable (txn, c);
  if (r < 0)
    return r;
  if (leaf_free (c->path[0]->data, nodesize) < ITEM_HEADER)
    return split_spread (txn, c, new_key, split);
  rest = cursor_size (c) - split;
  tail = malloc (rest + 1);
  if (tail == NULL)
    return err_new (ERR_nomem, "split of an item");
  memcpy (tail, (const uint8_t *) cursor_data (c) + split, rest);
  item.data = tail;
  item.size = rest;
  leaf_resize (c->path[0]->data, nodesize, c->slot[0], split);
  leaf_merge (c->path[0]->data, nodesize, &item, 1);
  return 0;
}
