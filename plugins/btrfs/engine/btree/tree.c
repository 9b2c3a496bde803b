/* btree: life of a tree. */

#include <config.h>

#include "btree/tree_priv.h"

static int
tree_alloc (struct block_cache *cache, uint64_t id, enum lock_rank rank,
            bool shareable, struct tree **ret)
{
  struct tree *t = calloc (1, sizeof *t);

  if (t == NULL)
    return err_new (ERR_nomem, "tree %" PRIu64, id);
  t->id = id;
  t->cache = cache;
  t->shareable = shareable;
  rwlock_init (&t->lock, rank);
  *ret = t;
  return 0;
}

int
tree_open (struct block_cache *cache, uint64_t id,
           const struct tree_expect *root, enum lock_rank rank,
           bool shareable, struct tree **ret)
{
  char name[TREE_STR_MAX];
  struct tree *t = NULL;
  int r;

  r = tree_alloc (cache, id, rank, shareable, &t);
  if (r < 0)
    return r;
  r = block_read (cache, root, &t->root);
  if (r < 0) {
    tree_free (t);
    return err_note (r, "root node %" PRIu64 " of tree %s", root->bytenr,
                     tree_str (id, name));
  }
  *ret = t;
  return 0;
}

int
tree_create (struct tree_txn *txn, struct block_cache *cache, uint64_t id,
             enum lock_rank rank, bool shareable, struct tree **ret)
{
  struct tree *t = NULL;
  int r;

  r = tree_alloc (cache, id, rank, shareable, &t);
  if (r < 0)
    return r;
  r = tree_new_block (txn, t, 0, 0, &t->root);
  if (r < 0) {
    tree_free (t);
    return r;
  }
  *ret = t;
  return 0;
}

int
tree_snapshot (struct tree_txn *txn, struct tree *src, uint64_t id,
               uint64_t epoch, struct tree **ret)
{
  struct tree *t = NULL;
  bool own;
  int r;

  assert (src->shareable && rwlock_is_mine (&src->lock));
  r = tree_alloc (src->cache, id, src->lock.rank, true, &t);
  if (r < 0)
    return r;
  t->epoch = epoch + 1;
  r = tree_new_copy (txn, t, tree_level (src), src->root->bytenr, src->root,
                     &t->root);
  if (r == 0)
    r = txn->ops->share (txn, t, t->root);
  if (r < 0) {
    if (t->root != NULL)
      block_drop (t->cache, t->root);
    tree_free (t);
    return r;
  }
  /* The root itself is not shared. */
  own = tree_block_writable (txn, src, src->root);
  src->epoch = epoch;
  if (own)
    src->root->epoch = epoch;
  t->last_snapshot = txn->transid;
  /* data/ looks at it without the lock. */
  __atomic_store_n (&src->last_snapshot, txn->transid, __ATOMIC_RELEASE);
  *ret = t;
  return 0;
}

void
tree_free (struct tree *t)
{
  if (t == NULL)
    return;
  block_put (t->root);
  rwlock_done (&t->lock);
  free (t);
}
