/* btree: a walk over everything, for tests. */

#include <config.h>

#include "btree/tree_priv.h"

struct check {
  struct tree *tree;
  uint64_t items;
};

static int
bad (const struct check *k, const struct block *b, uint32_t slot,
     const char *what)
{
  return err_new (ERR_node_format, "tree %" PRIu64 " block %" PRIu64
                  " level %u slot %" PRIu32 ": %s", k->tree->id, b->bytenr,
                  tb_level (b->data), slot, what);
}

/* Keys of B ascend and lie in [low, high); HIGH NULL: no bound. */
static int
check_keys (const struct check *k, const struct block *b, struct key low,
            const struct key *high)
{
  uint32_t n = tb_nritems (b->data), i;

  for (i = 0; i < n; i++) {
    if (i > 0 && key_cmp (tb_key (b->data, i - 1), tb_key (b->data, i)) >= 0)
      return bad (k, b, i, "key order");
    if (key_cmp (tb_key (b->data, i), low) < 0)
      return bad (k, b, i, "key below its pointer's");
    if (high != NULL && key_cmp (tb_key (b->data, i), *high) >= 0)
      return bad (k, b, i, "key not below the next pointer's");
  }
  return 0;
}

static int
check_block (struct check *k, struct block *b, struct key low,
             const struct key *high)
{
  struct tree_expect expect;
  uint32_t n = tb_nritems (b->data), i;
  struct block *child;
  struct key next;
  int r;

  r = tree_check_contents (block_cache_format (k->tree->cache), b->data);
  if (r == 0)
    r = check_keys (k, b, low, high);
  if (r < 0)
    return r;
  if (n == 0 && b != k->tree->root)
    return bad (k, b, 0, "empty");
  if (tb_level (b->data) == 0) {
    k->items += n;
    return 0;
  }
  for (i = 0; r == 0 && i < n; i++) {
    expect = tree_expect_child (b->data, i, k->tree->id);
    if (expect.generation > tb_generation (b->data))
      return bad (k, b, i, "child newer than its parent");
    r = block_read (k->tree->cache, &expect, &child);
    if (r < 0)
      return r;
    if (i + 1 < n)
      next = tb_key (b->data, i + 1);
    /* Levels descend, so this ends. */
    r = check_block (k, child, expect.first_key, i + 1 < n ? &next : high);
    block_put (child);
  }
  return r;
}

int
tree_check_all (struct tree *t, uint64_t *ret_items)
{
  struct check k = { .tree = t };
  int r;

  r = check_block (&k, t->root, KEY_MIN, NULL);
  if (r == 0 && ret_items != NULL)
    *ret_items = k.items;
  return r;
}
