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

/* The way to one key through what is cached. */
struct way {
  struct tree_expect missing;  /* the first block that is not, ... */
  bool is_missing;             /* ... if there is one */
  struct key upper;            /* the next key beyond the last block, ... */
  bool has_upper;              /* ... if there is one */
};

static void
find_way (struct tree *t, struct key key, struct way *ret)
{
  struct block *b = block_get (t->root), *child;
  unsigned level;
  uint32_t slot;
  bool exact;

  ret->is_missing = ret->has_upper = false;
  for (level = tb_level (b->data); level > 0; level--) {
    slot = tb_search (b->data, key, &exact);
    if (!exact && slot > 0)
      slot--;
    if (slot + 1 < tb_nritems (b->data)) {
      ret->upper = tb_key (b->data, slot + 1);
      ret->has_upper = true;
    }
    ret->missing = tree_expect_child (b->data, slot, t->id);
    if (!block_peek (t->cache, &ret->missing, &child)) {
      ret->is_missing = true;
      break;
    }
    block_put (b);
    b = child;
  }
  block_put (b);
}

int
tree_prefetch (struct tree *t, struct key key)
{
  struct block *b;
  struct way way;
  unsigned i;

  /* The lock is not held while reading, so the tree may change meanwhile and
   * the block be no more what was wanted: then the next round sees that.
   */
  for (i = 0; i < BTRFS_MAX_LEVEL; i++) {
    rwlock_rdlock (&t->lock);
    find_way (t, key, &way);
    rwlock_unlock (&t->lock);
    if (!way.is_missing)
      return 0;
    if (block_read (t->cache, &way.missing, &b) == 0)
      block_put (b);
    else
      err_clear ();
  }
  return 0;
}

/* The missing blocks, each once; the number of them. */
static size_t
collect_missing (struct tree *t, const struct key *key, size_t n,
                 struct tree_expect *ret)
{
  struct way way = { .has_upper = false };
  size_t i, k = 0;

  rwlock_rdlock (&t->lock);
  for (i = 0; i < n; i++) {
    /* In the same block as the one before. */
    if (i > 0 && key_cmp (key[i - 1], key[i]) <= 0 &&
        (!way.has_upper || key_cmp (key[i], way.upper) < 0))
      continue;
    find_way (t, key[i], &way);
    if (way.is_missing)
      ret[k++] = way.missing;
  }
  rwlock_unlock (&t->lock);
  return k;
}

#define PREFETCH_KEYS 64       /* at once */

void
tree_prefetch_many (struct tree *t, const struct key *key, size_t n)
{
  struct tree_expect missing[PREFETCH_KEYS];
  size_t m, k;
  unsigned i;

  for (; n > 0; key += m, n -= m) {
    m = MIN (n, (size_t) PREFETCH_KEYS);
    for (i = 0; i < BTRFS_MAX_LEVEL; i++) {
      k = collect_missing (t, key, m, missing);
      if (k == 0)
        break;
      block_prefetch_wait (t->cache, missing, k);
    }
  }
}
