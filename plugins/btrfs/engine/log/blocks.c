/* log: the blocks of log trees. */
#include <config.h>

#include <assert.h>
#include <stdlib.h>

#include "base/err.h"
#include "log/log_priv.h"

/* Blocks taken at once, that they be neighbours. */
#define RUN_FIRST 4
#define RUN 32

int
addrs_push (struct addrs *a, uint64_t addr)
{
  const size_t cap = a->cap ? 2 * a->cap : 16;
  uint64_t *v;

  if (a->n == a->cap) {
    v = realloc (a->v, cap * sizeof *v);
    if (v == NULL)
      return err_new (ERR_nomem, "log blocks");
    a->v = v;
    a->cap = cap;
  }
  a->v[a->n++] = addr;
  return 0;
}

void
addrs_done (struct addrs *a)
{
  free (a->v);
  *a = (struct addrs) { NULL, 0, 0 };
}

static bool
addrs_remove (struct addrs *a, uint64_t addr)
{
  size_t i;

  for (i = 0; i < a->n; ++i)
    if (a->v[i] == addr) {
      a->v[i] = a->v[--a->n];
      return true;
    }
  return false;
}

static struct log_blocks *
blocks_of (struct tree_txn *txn)
{
  return container_of (txn, struct log_blocks, txn);
}

/* Noted as ours, to be used from the first on. */
static int
note_new (struct log_blocks *b, uint64_t start, unsigned n)
{
  const uint32_t nodesize = block_cache_format (b->logs->env.cache)->nodesize;
  int r = 0;

  for (; n > 0; --n) {
    const uint64_t addr = start + (uint64_t) (n - 1) * nodesize;

    if (r == 0)
      r = addrs_push (&b->all, addr);
    if (r < 0)
      space_data_free (b->logs->env.space, addr, nodesize);
    else
      r = addrs_push (&b->reusable, addr);
  }
  return r;
}

/* From free space.  The first time few: most logs are small. */
static int
take_new (struct log_blocks *b)
{
  uint64_t start;
  unsigned n;
  int r = space_log_alloc (b->logs->env.space,
                           b->all.n == 0 ? RUN_FIRST : RUN, &start, &n);

  return r < 0 ? r : note_new (b, start, n);
}

static int
op_alloc (struct tree_txn *txn, struct tree *tree, unsigned level,
          uint64_t hint, uint64_t *ret_bytenr)
{
  struct log_blocks *b = blocks_of (txn);
  uint64_t addr = 0;
  int r = 0;

  (void) tree;
  (void) level;
  (void) hint;
  if (b->reusable.n == 0)
    r = take_new (b);
  if (r == 0) {
    addr = b->reusable.v[--b->reusable.n];
    r = addrs_push (&b->fresh, addr);
  }
  if (r == 0)
    *ret_bytenr = addr;
  return r;
}

/* Log trees share nothing; whatever is copied has been written. */
static int
op_cow (struct tree_txn *txn, struct tree *tree, struct block *old,
        struct block *copy, enum tree_cow_action *ret_action)
{
  (void) tree;
  (void) copy;
  *ret_action = TREE_COW_FREE_OLD;
  return addrs_push (&blocks_of (txn)->stale, old->bytenr);
}

static int
op_free (struct tree_txn *txn, struct tree *tree, struct block *block)
{
  struct log_blocks *b = blocks_of (txn);

  (void) tree;
  if (addrs_remove (&b->fresh, block->bytenr))
    return addrs_push (&b->reusable, block->bytenr);
  return addrs_push (&b->stale, block->bytenr);
}

const struct tree_alloc_ops log_alloc_ops = {
  .alloc = op_alloc,
  .cow = op_cow,
  .free = op_free,
};

static bool
find_fresh (struct log_blocks *b, uint64_t addr, struct block **ret)
{
  const struct tree_expect expect = { .bytenr = addr,
    .owner = BTRFS_TREE_LOG, .generation = b->txn.transid };

  return block_peek (b->logs->env.cache, &expect, ret);
}

int
log_blocks_write (struct log_blocks *b, size_t *ret_blocks)
{
  struct block **v = calloc (b->fresh.n + 1, sizeof *v);
  size_t i, n = 0;
  int r = 0;

  if (v == NULL)
    return err_new (ERR_nomem, "log blocks");
  for (i = 0; i < b->fresh.n && r == 0; ++i)
    if (find_fresh (b, b->fresh.v[i], &v[n]))
      ++n;
    else
      r = err_new (ERR_generation, "log block %llu is gone",
                   (unsigned long long) b->fresh.v[i]);
  if (r == 0)
    r = block_write_set (b->logs->env.cache, v, n);
  for (i = 0; i < n; ++i)
    block_put (v[i]);
  free (v);
  *ret_blocks = n;
  return r;
}

static int
descending (const void *a, const void *b)
{
  const uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

  return x < y ? 1 : x > y ? -1 : 0;
}

/* Neighbours shall be used again together: they are written as one. */
void
log_blocks_synced (struct log_blocks *b)
{
  size_t i;

  b->fresh.n = 0;
  for (i = 0; i < b->stale.n; ++i)
    if (addrs_push (&b->reusable, b->stale.v[i]) < 0)
      err_clear (); /* not used again before the commit */
  b->stale.n = 0;
  if (b->reusable.n > 1)
    qsort (b->reusable.v, b->reusable.n, sizeof *b->reusable.v, descending);
}

int
log_blocks_release (struct log_blocks *b, struct txn *txn)
{
  const uint32_t nodesize = block_cache_format (b->logs->env.cache)->nodesize;
  struct block *block;
  size_t i;
  int r = 0;

  for (i = 0; i < b->fresh.n; ++i)
    if (find_fresh (b, b->fresh.v[i], &block)) {
      block_drop (b->logs->env.cache, block);
      block_put (block);
    }
  for (i = 0; txn != NULL && i < b->all.n && r == 0; ++i)
    r = space_extent_cancelled (b->logs->env.space, txn, b->all.v[i],
                                nodesize);
  addrs_done (&b->all);
  addrs_done (&b->fresh);
  addrs_done (&b->stale);
  addrs_done (&b->reusable);
  return r;
}
