/* btree: new items, one by one or many at once. */

#include <config.h>

#include "btree/tree_priv.h"

/* New bytes that one step of tree_insert_many spreads over new leaves. */
#define RUN_LEAVES 3

static int
key_exists (const struct tree *t, struct key key)
{
  char name[TREE_STR_MAX], buf[KEY_STR_MAX];

  return err_new (ERR_key_exists, "tree %s key %s", tree_str (t->id, name),
                  key_str (key, buf));
}

static int
check_size (const struct tree *t, struct key key, uint32_t size)
{
  char name[TREE_STR_MAX], buf[KEY_STR_MAX];

  if (size <= tb_max_item_size (tree_nodesize (t)))
    return 0;
  return err_new (ERR_item_too_big, "tree %s key %s size %" PRIu32,
                  tree_str (t->id, name), key_str (key, buf), size);
}

/* The cursor is at the end of a leaf that is as full as it should be: a new
 * leaf behind it, with as many of N items (which belong between this leaf and
 * the next) as fit.  The cursor ends at its first item.
 */
static int
append_leaf (struct tree_txn *txn, struct cursor *c,
             const struct tree_item *items, size_t n, size_t *ret_taken)
{
  uint32_t nodesize = tree_nodesize (c->tree), bytes;
  struct block *b;
  size_t k = 0;
  bool moved;
  int r;

  r = tree_new_block (txn, c->tree, 0, c->path[0]->bytenr, &b);
  if (r < 0)
    return r;
  for (bytes = 0; k < n; k++) {
    bytes += items[k].size + ITEM_HEADER;
    if (bytes > tb_leaf_data_size (nodesize))
      break;
  }
  leaf_merge (b->data, nodesize, items, k);
  r = cursor_insert_behind (txn, c, 1, b);
  block_put (b);
  if (r == 0)
    r = cursor_next_leaf (c, &moved);
  *ret_taken = k;
  return r;
}

/* Lay the cursor's leaf out anew, with N more items merged in (their keys are
 * absent).  The cursor ends at the last of them.
 */
static int
spread_with (struct tree_txn *txn, struct cursor *c,
             const struct tree_item *items, uint32_t n)
{
  CLEANUP_FREE void *copy = NULL;
  CLEANUP_FREE struct split_item *v = NULL;
  uint8_t *buf = c->path[0]->data;
  uint32_t old = tb_nritems (buf), hi = old, at, i, track = 0;
  int r;

  r = leaf_list_items (buf, tree_nodesize (c->tree), n, &copy, &v);
  if (r < 0)
    return r;
  for (i = n; i-- > 0; hi = at) {
    at = leaf_lower_bound (copy, 0, hi, items[i].key);
    memmove (v + at + i + 1, v + at, (hi - at) * sizeof *v);
    v[at + i] = (struct split_item) { .key = items[i].key,
      .data = items[i].data, .size = items[i].size,
      .copy = items[i].data != NULL ? items[i].size : 0 };
    if (i == n - 1)
      track = at + i;
  }
  return cursor_spread (txn, c, v, old + n, track);
}

static int
insert_at (struct tree_txn *txn, struct cursor *c, struct key key,
           uint32_t size)
{
  const struct tree_item item = { .key = key, .size = size };
  uint32_t nodesize = tree_nodesize (c->tree), need = size + ITEM_HEADER;
  bool room = leaf_free (c->path[0]->data, nodesize) >= need;
  size_t taken;
  int r;

  if (!room && c->slot[0] == tb_nritems (c->path[0]->data))
    return append_leaf (txn, c, &item, 1, &taken);
  if (!room) {
    r = cursor_push_siblings (txn, c, need, &room);
    if (r < 0)
      return r;
  }
  if (!room)
    return spread_with (txn, c, &item, 1);
  leaf_insert (c->path[0]->data, nodesize, c->slot[0], key, size);
  if (c->slot[0] == 0)
    cursor_fix_keys (c, 0);
  return 0;
}

int
tree_insert (struct tree_txn *txn, struct tree *t, struct key key,
             uint32_t size, struct cursor *c)
{
  bool exact;
  int r;

  assert (rwlock_is_mine (&t->lock));
  r = check_size (t, key, size);
  if (r == 0)
    r = tree_find_place (t, key, c, &exact);
  if (r < 0)
    return r;
  if (exact)
    return key_exists (t, key);
  r = cursor_make_writable (txn, c);
  if (r == 0)
    r = insert_at (txn, c, key, size);
  return r;
}

int
tree_insert_data (struct tree_txn *txn, struct tree *t, struct key key,
                  const void *data, uint32_t size)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  int r;

  r = tree_insert (txn, t, key, size, &c);
  if (r == 0 && size > 0)
    memcpy (cursor_data_rw (&c), data, size);
  return r;
}

/* --- many --- */

struct run {
  size_t n;                    /* items that belong into this leaf */
  size_t fit;                  /* of those, as many as it has room for */
};

static int
measure_run (const struct cursor *c, const struct tree_item *items, size_t n,
             struct run *ret)
{
  uint32_t nodesize = tree_nodesize (c->tree);
  const uint8_t *buf = c->path[0]->data;
  uint32_t free_bytes = leaf_free (buf, nodesize);
  uint32_t nritems = tb_nritems (buf), at = c->slot[0];
  uint64_t bytes = 0, max = (uint64_t) RUN_LEAVES *
    tb_leaf_data_size (nodesize);
  struct key upper;
  bool bounded = cursor_upper_bound (c, &upper);
  size_t i;

  ret->fit = 0;
  for (i = 0; i < n; i++) {
    if (bounded && key_cmp (items[i].key, upper) >= 0)
      break;
    bytes += items[i].size + ITEM_HEADER;
    if (bytes > max)
      break;
    if (at < nritems) {
      at = leaf_lower_bound (buf, at, nritems, items[i].key);
      if (at < nritems && key_cmp (tb_item_key (buf, at), items[i].key) == 0)
        return key_exists (c->tree, items[i].key);
    }
    if (bytes <= free_bytes)
      ret->fit = i + 1;
  }
  ret->n = i;
  return 0;
}

/* Some of the items into the leaf of the cursor, which is where the first one
 * belongs.
 */
static int
insert_run (struct tree_txn *txn, struct cursor *c,
            const struct tree_item *items, size_t n, size_t *ret_taken)
{
  uint8_t *buf = c->path[0]->data;
  struct run run = { 0 };
  bool at_end = c->slot[0] == tb_nritems (buf);
  int r;

  r = measure_run (c, items, n, &run);
  if (r < 0)
    return r;
  if (run.fit == run.n || (at_end && run.fit > 0)) {
    leaf_merge (buf, tree_nodesize (c->tree), items, run.fit);
    if (c->slot[0] == 0)
      cursor_fix_keys (c, 0);
    *ret_taken = run.fit;
    return 0;
  }
  if (at_end)
    return append_leaf (txn, c, items, run.n, ret_taken);
  *ret_taken = run.n;
  return spread_with (txn, c, items, run.n);
}

static int
check_items (const struct tree *t, const struct tree_item *items, size_t n)
{
  char buf[KEY_STR_MAX];
  size_t i;
  int r;

  for (i = 0; i < n; i++) {
    r = check_size (t, items[i].key, items[i].size);
    if (r < 0)
      return r;
    if (i > 0 && key_cmp (items[i - 1].key, items[i].key) >= 0)
      return err_new (ERR_invalid, "keys for tree %" PRIu64
                      " do not ascend at %s", t->id,
                      key_str (items[i].key, buf));
  }
  return 0;
}

int
tree_insert_many (struct tree_txn *txn, struct tree *t,
                  const struct tree_item *items, size_t n)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  size_t i, taken = 0;
  bool exact;
  int r;

  assert (rwlock_is_mine (&t->lock));
  r = check_items (t, items, n);
  for (i = 0; r == 0 && i < n; i += taken) {
    if (i == 0)
      r = tree_find_place (t, items[i].key, &c, &exact);
    else
      r = cursor_seek_forward (&c, items[i].key, &exact);
    if (r == 0 && exact)
      r = key_exists (t, items[i].key);
    if (r == 0)
      r = cursor_make_writable (txn, &c);
    if (r == 0)
      r = insert_run (txn, &c, items + i, n - i, &taken);
    assert (r < 0 || taken > 0);
  }
  return r;
}
