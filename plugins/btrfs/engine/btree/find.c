/* btree: searches. */

#include <config.h>

#include "btree/tree_priv.h"

int
tree_find_place (struct tree *t, struct key key, struct cursor *c,
                 bool *ret_exact)
{
  int r;

  r = cursor_start (c, t, t->cache, t->root, t->id);
  if (r == 0)
    r = cursor_descend (c, c->level, key, ret_exact);
  return r;
}

int
tree_find (struct tree *t, struct key key, struct cursor *c, bool *ret_exact)
{
  bool exact;
  int r;

  r = tree_find_place (t, key, c, &exact);
  if (r == 0)
    r = cursor_settle (c);
  if (r == 0 && ret_exact != NULL)
    *ret_exact = exact;
  return r;
}

int
root_find (struct block_cache *cache, struct block *root, uint64_t tree_id,
           struct key key, struct cursor *c, bool *ret_exact)
{
  bool exact;
  int r;

  r = cursor_start (c, NULL, cache, root, tree_id);
  if (r == 0)
    r = cursor_descend (c, c->level, key, &exact);
  if (r == 0)
    r = cursor_settle (c);
  if (r == 0 && ret_exact != NULL)
    *ret_exact = exact;
  return r;
}

int
tree_find_le (struct tree *t, struct key key, struct cursor *c,
              bool *ret_exact)
{
  bool exact;
  int r;

  r = tree_find_place (t, key, c, &exact);
  if (r == 0 && !exact)
    r = cursor_prev (c);
  if (r == 0 && ret_exact != NULL)
    *ret_exact = exact;
  return r;
}

int
tree_get (struct tree *t, struct key key, void *buf, uint32_t max,
          uint32_t *ret_size, bool *ret_found)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  bool exact;
  int r;

  r = tree_find_place (t, key, &c, &exact);
  if (r < 0)
    return r;
  *ret_found = exact;
  if (!exact)
    return 0;
  if (max > 0)
    memcpy (buf, cursor_data (&c), MIN (max, cursor_size (&c)));
  if (ret_size != NULL)
    *ret_size = cursor_size (&c);
  return 0;
}

/* What the way to KEY needs next and the cache does not have: *ret_missing
 * and *ret.
 */
static int
first_missing (struct tree *t, struct key key, struct tree_expect *ret,
               bool *ret_missing)
{
  struct block *b = block_get (t->root), *child;
  unsigned level;
  uint32_t slot;
  bool exact;

  *ret_missing = false;
  for (level = tb_level (b->data); level > 0; level--) {
    slot = tb_search (b->data, key, &exact);
    if (!exact && slot > 0)
      slot--;
    child_expect (b, slot, t->id, ret);
    if (!block_peek (t->cache, ret, &child)) {
      *ret_missing = true;
      break;
    }
    block_put (b);
    b = child;
  }
  block_put (b);
  return 0;
}

int
tree_prefetch (struct tree *t, struct key key)
{
  struct tree_expect expect;
  struct block *b;
  bool missing;
  unsigned i;
  int r;

  /* The lock is not held while reading, so the tree may change meanwhile and
   * the block be no more what was wanted: then the next round sees that.
   */
  for (i = 0; i < BTRFS_MAX_LEVEL; i++) {
    rwlock_rdlock (&t->lock);
    r = first_missing (t, key, &expect, &missing);
    rwlock_unlock (&t->lock);
    if (r < 0 || !missing)
      return r;
    if (block_read (t->cache, &expect, &b) == 0)
      block_put (b);
    else
      err_clear ();
  }
  return 0;
}
