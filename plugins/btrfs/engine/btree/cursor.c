/* btree: cursors, and the ways down, along and back up. */

#include <config.h>

#include "btree/tree_priv.h"

#define AHEAD_MAX 16           /* leaves */

void
cursor_done (struct cursor *c)
{
  unsigned i;

  for (i = 0; i < BTRFS_MAX_LEVEL; i++)
    block_put (c->path[i]);
  *c = CURSOR_INIT;
}

void
cursor_set_block (struct cursor *c, unsigned level, struct block *b)
{
  block_put (c->path[level]);
  c->path[level] = b;
}

int
cursor_start (struct cursor *c, struct tree *tree, struct block_cache *cache,
              struct block *root, uint64_t tree_id)
{
  unsigned level = tb_level (root->data);

  cursor_done (c);
  if (level >= BTRFS_MAX_LEVEL)
    return err_new (ERR_tree_depth, "tree %" PRIu64 " root %" PRIu64
                    " level %u", tree_id, root->bytenr, level);
  c->tree = tree;
  c->cache = cache;
  c->tree_id = tree_id;
  c->level = level;
  c->path[level] = block_get (root);
  return 0;
}

/* All keys of B, the child at the slot of LEVEL, lie below the next pointer of
 * the path.  Without this two nodes of a damaged tree could share children,
 * and a walk would take them once for each way that leads there.
 */
static int
check_upper_bound (const struct cursor *c, unsigned level,
                   const struct block *b)
{
  char last_str[KEY_STR_MAX], next_str[KEY_STR_MAX];
  const uint8_t *buf;
  struct key last, next;

  for (; level <= c->level; level++) {
    buf = c->path[level]->data;
    if (c->slot[level] + 1 < tb_nritems (buf))
      break;
  }
  if (level > c->level)
    return 0;
  next = key_from_disk (&tb_ptr_c (buf, c->slot[level] + 1)->key);
  last = tb_key (b->data, tb_nritems (b->data) - 1);
  if (key_cmp (last, next) < 0)
    return 0;
  return err_new (ERR_block_parent, "last key is %s, expected below %s",
                  key_str (last, last_str), key_str (next, next_str));
}

int
cursor_read_child (struct cursor *c, unsigned level)
{
  char key[KEY_STR_MAX], name[TREE_STR_MAX];
  struct tree_expect expect;
  struct block *b;
  int r;

  expect = tree_expect_child (c->path[level]->data, c->slot[level],
                              c->tree_id);
  r = block_read (c->cache, &expect, &b);
  if (r == 0) {
    r = check_upper_bound (c, level, b);
    if (r < 0)
      block_put (b);
  }
  if (r < 0)
    return err_note (r, "tree %s, block %" PRIu64 " level %u, wanted by "
                     "block %" PRIu64 " slot %" PRIu32 " key %s",
                     tree_str (c->tree_id, name), expect.bytenr, level - 1,
                     c->path[level]->bytenr, c->slot[level],
                     key_str (expect.first_key, key));
  cursor_set_block (c, level - 1, b);
  return 0;
}

int
cursor_descend (struct cursor *c, unsigned level, struct key key,
                bool *ret_exact)
{
  uint32_t slot;
  bool exact;
  int r;

  for (; level > 0; level--) {
    slot = tb_search (c->path[level]->data, key, &exact);
    if (!exact && slot > 0)
      slot--;
    c->slot[level] = slot;
    r = cursor_read_child (c, level);
    if (r < 0) {
      cursor_done (c);
      return r;
    }
  }
  c->slot[0] = tb_search (c->path[0]->data, key, ret_exact);
  c->positioned = true;
  return 0;
}

int
cursor_seek_forward (struct cursor *c, struct key key, bool *ret_exact)
{
  const uint8_t *buf;
  unsigned level;

  assert (c->positioned);
  for (level = c->level; level > 0; level--) {
    buf = c->path[level]->data;
    if (c->slot[level] + 1 < tb_nritems (buf) &&
        key_cmp (key, tb_key (buf, c->slot[level] + 1)) >= 0)
      break;
  }
  return cursor_descend (c, level, key, ret_exact);
}

bool
cursor_upper_bound (const struct cursor *c, struct key *ret)
{
  unsigned level;

  for (level = 1; level <= c->level; level++) {
    if (c->slot[level] + 1 < tb_nritems (c->path[level]->data)) {
      *ret = tb_key (c->path[level]->data, c->slot[level] + 1);
      return true;
    }
  }
  return false;
}

/* --- along --- */

/* A cursor that keeps walking into leaves that are not cached reads more of
 * them at once each time.
 */
static void
read_ahead (struct cursor *c)
{
  struct tree_expect expect[AHEAD_MAX];
  struct block *b;
  uint32_t n, i, nritems = tb_nritems (c->path[1]->data);

  expect[0] = tree_expect_child (c->path[1]->data, c->slot[1], c->tree_id);
  if (block_peek (c->cache, &expect[0], &b)) {
    block_put (b);
    return;
  }
  c->ahead = c->ahead == 0 ? 1 : MIN (c->ahead * 2, AHEAD_MAX);
  n = MIN (nritems - c->slot[1], (uint32_t) c->ahead);
  if (n < 2)
    return;
  for (i = 1; i < n; i++)
    expect[i] = tree_expect_child (c->path[1]->data, c->slot[1] + i,
                                   c->tree_id);
  block_prefetch (c->cache, expect, n);
}

int
cursor_next_leaf (struct cursor *c, bool *ret_moved)
{
  unsigned level;
  int r;

  *ret_moved = false;
  for (level = 1; level <= c->level; level++)
    if (c->slot[level] + 1 < tb_nritems (c->path[level]->data))
      break;
  if (level > c->level)
    return 0;
  c->slot[level]++;
  for (; level > 0; level--) {
    if (level == 1)
      read_ahead (c);
    r = cursor_read_child (c, level);
    if (r < 0) {
      cursor_done (c);
      return r;
    }
    c->slot[level - 1] = 0;
  }
  *ret_moved = true;
  return 0;
}

int
cursor_settle (struct cursor *c)
{
  bool moved = true;
  int r;

  while (moved && c->slot[0] >= tb_nritems (c->path[0]->data)) {
    r = cursor_next_leaf (c, &moved);
    if (r < 0)
      return r;
  }
  return 0;
}

int
cursor_next (struct cursor *c)
{
  if (!c->positioned)
    return 0;
  if (c->slot[0] < tb_nritems (c->path[0]->data))
    c->slot[0]++;
  return cursor_settle (c);
}

int
cursor_prev (struct cursor *c)
{
  unsigned level;
  int r;

  if (!c->positioned)
    return 0;
  for (level = 0; level <= c->level; level++)
    if (c->slot[level] > 0)
      break;
  if (level > c->level) {
    cursor_done (c);
    return 0;
  }
  c->slot[level]--;
  for (; level > 0; level--) {
    r = cursor_read_child (c, level);
    if (r < 0) {
      cursor_done (c);
      return r;
    }
    /* A child has an item: its first key was compared with the pointer. */
    c->slot[level - 1] = tb_nritems (c->path[level - 1]->data) - 1;
  }
  return 0;
}

/* --- the item --- */

bool
cursor_at_item (const struct cursor *c)
{
  return c->positioned && c->slot[0] < tb_nritems (c->path[0]->data);
}

struct key
cursor_key (const struct cursor *c)
{
  assert (cursor_at_item (c));
  return tb_item_key (c->path[0]->data, c->slot[0]);
}

uint32_t
cursor_size (const struct cursor *c)
{
  assert (cursor_at_item (c));
  return tb_item_size (c->path[0]->data, c->slot[0]);
}

const void *
cursor_data (const struct cursor *c)
{
  assert (cursor_at_item (c));
  return tb_item_data_c (c->path[0]->data, c->slot[0]);
}

void *
cursor_data_rw (struct cursor *c)
{
  assert (cursor_at_item (c));
  assert (block_is_writable (c->path[0],
                             tb_generation (c->path[0]->data)));
  return tb_item_data (c->path[0]->data, c->slot[0]);
}

uint64_t
cursor_leaf_generation (const struct cursor *c)
{
  assert (c->positioned);
  return tb_generation (c->path[0]->data);
}

void
cursor_fix_keys (struct cursor *c, unsigned level)
{
  for (; level < c->level; level++) {
    node_set_key (c->path[level + 1]->data, c->slot[level + 1],
                  tb_key (c->path[level]->data, 0));
    if (c->slot[level + 1] > 0)
      return;
  }
}
