/* btree: room in full leaves: neighbours, or new leaves. */

#include <config.h>

#include "btree/tree_priv.h"

/* Leaves that one spread may fill: the callers bring at most one leaf of old
 * items and three of new ones, and two leaves side by side hold more than
 * half of what fits into one.
 */
#define SPREAD_MAX 32

struct spread {
  uint32_t end[SPREAD_MAX];    /* first item behind each leaf */
  unsigned n;
};

/* Even shares, never more than fits. */
static int
plan_spread (const struct split_item *items, uint32_t n, uint32_t capacity,
             struct spread *ret)
{
  uint64_t rest = 0;
  uint32_t i, bytes, target, used = 0;
  unsigned leaves;

  for (i = 0; i < n; i++)
    rest += items[i].size + ITEM_HEADER;
  leaves = div_round_up (rest, capacity);
  target = div_round_up (rest, MAX (leaves, 1));
  ret->n = 0;
  for (i = 0; i < n; i++) {
    bytes = items[i].size + ITEM_HEADER;
    if (used > 0 && (used + bytes > capacity ||
                     (leaves > 1 && used + bytes / 2 > target))) {
      if (ret->n == SPREAD_MAX - 1)
        return err_new (ERR_overflow, "too much for one change of a leaf");
      ret->end[ret->n++] = i;
      rest -= used;
      used = 0;
      if (leaves > 1)
        leaves--;
      target = div_round_up (rest, leaves);
    }
    used += bytes;
  }
  ret->end[ret->n++] = n;
  return 0;
}

static void
build_leaf (void *buf, uint32_t nodesize, const struct split_item *items,
            uint32_t n)
{
  uint32_t offset = tb_leaf_data_size (nodesize), i;
  uint8_t *base = (uint8_t *) buf + TB_HEADER_SIZE;

  for (i = 0; i < n; i++) {
    offset -= items[i].size;
    *tb_item (buf, i) = (struct btrfs_item) {
      .key = key_to_disk (items[i].key), .offset = le32_make (offset),
      .size = le32_make (items[i].size) };
    if (items[i].copy > 0)
      memcpy (base + offset, items[i].data, items[i].copy);
    memset (base + offset + items[i].copy, 0, items[i].size - items[i].copy);
  }
  tb_set_nritems (buf, n);
}

static int
build_spread (struct tree_txn *txn, struct cursor *c,
              const struct split_item *items, const struct spread *plan,
              struct block **blocks)
{
  uint32_t nodesize = tree_nodesize (c->tree), start = 0;
  uint64_t hint = c->path[0]->bytenr;
  unsigned i;
  int r;

  blocks[0] = block_get (c->path[0]);
  for (i = 0; i < plan->n; i++) {
    if (i > 0) {
      r = tree_new_block (txn, c->tree, 0, hint, &blocks[i]);
      if (r < 0)
        return r;
    }
    hint = blocks[i]->bytenr;
    build_leaf (blocks[i]->data, nodesize, items + start,
                plan->end[i] - start);
    start = plan->end[i];
  }
  cursor_fix_keys (c, 0);
  /* Each goes right behind the first leaf, where the cursor stays. */
  for (i = plan->n - 1; i > 0; i--) {
    r = cursor_insert_behind (txn, c, 1, blocks[i]);
    if (r < 0)
      return r;
  }
  return 0;
}

int
cursor_spread (struct tree_txn *txn, struct cursor *c,
               const struct split_item *items, uint32_t n, uint32_t track)
{
  struct block *blocks[SPREAD_MAX] = { NULL };
  struct spread plan;
  uint32_t start = 0;
  bool moved;
  unsigned i;
  int r;

  r = plan_spread (items, n, tb_leaf_data_size (tree_nodesize (c->tree)),
                   &plan);
  if (r < 0)
    return r;
  r = build_spread (txn, c, items, &plan, blocks);
  for (i = 0; i < plan.n; i++)
    block_put (blocks[i]);
  for (i = 0; r == 0 && plan.end[i] <= track; i++) {
    start = plan.end[i];
    r = cursor_next_leaf (c, &moved);
    assert (r < 0 || moved);
  }
  c->slot[0] = track - start;
  return r;
}

int
leaf_list_items (const void *buf, uint32_t nodesize, uint32_t spare,
                 void **ret_copy, struct split_item **ret)
{
  uint32_t n = tb_nritems (buf), i;
  struct split_item *items = calloc (n + spare, sizeof *items);
  void *copy = malloc (nodesize);

  if (items == NULL || copy == NULL) {
    free (items);
    free (copy);
    return err_new (ERR_nomem, "split of a tree leaf");
  }
  memcpy (copy, buf, nodesize);
  for (i = 0; i < n; i++)
    items[i] = (struct split_item) { .key = tb_item_key (copy, i),
      .data = tb_item_data (copy, i), .copy = tb_item_size (copy, i),
      .size = tb_item_size (copy, i) };
  *ret_copy = copy;
  *ret = items;
  return 0;
}

/* --- neighbours --- */

/* The neighbour of the cursor's leaf at SLOT of its parent, if it can be had
 * for nothing: cached, writable, and with a good deal of room.
 */
static struct block *
cheap_sibling (struct tree_txn *txn, struct cursor *c, uint32_t slot)
{
  uint32_t nodesize = tree_nodesize (c->tree);
  struct tree_expect expect;
  struct block *b;

  expect = tree_expect_child (c->path[1]->data, slot, c->tree_id);
  if (!block_peek (c->cache, &expect, &b))
    return NULL;
  if (!tree_block_writable (txn, c->tree, b) ||
      leaf_free (b->data, nodesize) < tb_leaf_data_size (nodesize) / 8) {
    block_put (b);
    return NULL;
  }
  return b;
}

static uint32_t
item_bytes (const void *buf, uint32_t slot)
{
  return tb_item_size (buf, slot) + ITEM_HEADER;
}

static bool
push_right (struct cursor *c, struct block *right, uint32_t need)
{
  uint32_t nodesize = tree_nodesize (c->tree);
  uint8_t *buf = c->path[0]->data;
  uint32_t room = leaf_free (right->data, nodesize);
  uint32_t half = room / 2, bytes = 0, at = tb_nritems (buf);

  while (at > c->slot[0] && (bytes < half ||
                             leaf_free (buf, nodesize) + bytes < need) &&
         bytes + item_bytes (buf, at - 1) <= room)
    bytes += item_bytes (buf, --at);
  /* Never all: the leaf keeps an item or gets the new one at its front, but
   * then its parent's key would have to change first.
   */
  if (at == 0 || leaf_free (buf, nodesize) + bytes < need)
    return false;
  leaf_move_tail (buf, at, right->data, nodesize);
  node_set_key (c->path[1]->data, c->slot[1] + 1, tb_key (right->data, 0));
  return true;
}

static bool
push_left (struct cursor *c, struct block *left, uint32_t need)
{
  uint32_t nodesize = tree_nodesize (c->tree);
  uint8_t *buf = c->path[0]->data;
  uint32_t room = leaf_free (left->data, nodesize);
  uint32_t half = room / 2, bytes = 0, at = 0;

  while (at < c->slot[0] && (bytes < half ||
                             leaf_free (buf, nodesize) + bytes < need) &&
         bytes + item_bytes (buf, at) <= room)
    bytes += item_bytes (buf, at++);
  if (at == 0 || at == tb_nritems (buf) ||
      leaf_free (buf, nodesize) + bytes < need)
    return false;
  leaf_move_head (buf, at, left->data, nodesize);
  c->slot[0] -= at;
  cursor_fix_keys (c, 0);
  return true;
}

int
cursor_push_siblings (struct tree_txn *txn, struct cursor *c, uint32_t need,
                      bool *ret_done)
{
  struct block *b;

  *ret_done = false;
  if (c->level == 0)
    return 0;
  if (c->slot[1] + 1 < tb_nritems (c->path[1]->data)) {
    b = cheap_sibling (txn, c, c->slot[1] + 1);
    if (b != NULL)
      *ret_done = push_right (c, b, need);
    block_put (b);
  }
  if (!*ret_done && c->slot[1] > 0) {
    b = cheap_sibling (txn, c, c->slot[1] - 1);
    if (b != NULL)
      *ret_done = push_left (c, b, need);
    block_put (b);
  }
  return 0;
}
