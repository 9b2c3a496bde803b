/* log: the blocks of log trees. */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/math.h"
#include "log/log_priv.h"

/* Blocks taken at once, that they be neighbours. */
#define RUN_FIRST 4
#define RUN 32
/* So many may lie unused, and four for each that is used, for the sake of
 * runs: more of them in all than SPARE_MAX never.
 */
#define SPARE_MIN 64
#define SPARE_MAX 512

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

/* The first that is not below ADDR; A is ascending. */
static size_t
addrs_find (const struct addrs *a, uint64_t addr)
{
  size_t low = 0, high = a->n;

  while (low < high) {
    const size_t mid = (low + high) / 2;

    if (a->v[mid] < addr)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

/* A is ascending and stays so. */
static int
addrs_insert (struct addrs *a, uint64_t addr)
{
  const size_t i = addrs_find (a, addr);
  int r = addrs_push (a, addr);

  if (r == 0) {
    memmove (&a->v[i + 1], &a->v[i], (a->n - 1 - i) * sizeof *a->v);
    a->v[i] = addr;
  }
  return r;
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

static uint32_t
nodesize_of (const struct log_blocks *b)
{
  return block_cache_format (b->logs->env.cache)->nodesize;
}

/* Noted as ours. */
static int
note_new (struct log_blocks *b, uint64_t start, unsigned n)
{
  const uint32_t nodesize = nodesize_of (b);
  int r = 0;

  for (; n > 0; --n, start += nodesize) {
    if (r == 0)
      r = addrs_push (&b->all, start);
    if (r < 0)
      space_data_free (b->logs->env.space, start, nodesize);
    else
      r = addrs_insert (&b->reusable, start);
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

/* Where in `reusable` the first run of at least WANT neighbours begins, or
 * else the longest.
 */
static bool
find_run (const struct log_blocks *b, size_t want, size_t *ret)
{
  const uint32_t nodesize = nodesize_of (b);
  const uint64_t *v = b->reusable.v;
  size_t i, k, best = 0;

  for (i = 0; i < b->reusable.n && best < want; i = k) {
    for (k = i + 1; k < b->reusable.n && k - i < want; ++k)
      if (v[k] != v[k - 1] + nodesize)
        break;
    if (k - i > best) {
      best = k - i;
      *ret = i;
    }
  }
  return best >= want;
}

static bool
may_grow (const struct log_blocks *b)
{
  const size_t spare = b->reusable.n, used = b->all.n - spare;

  return spare < MIN (SPARE_MIN + 4 * used, (size_t) SPARE_MAX);
}

/* An index of `reusable`.  What one sync writes shall be neighbours, so that
 * it is one write for each copy: behind the block that was taken last, or else
 * where there is room for as many as the last sync wrote.
 */
static int
choose (struct log_blocks *b, size_t *ret)
{
  const size_t want = b->wrote > b->fresh.n ? b->wrote - b->fresh.n : 1;
  int r;

  if (b->fresh.n > 0) {
    const uint64_t next = b->fresh.v[b->fresh.n - 1] + nodesize_of (b);

    *ret = addrs_find (&b->reusable, next);
    if (*ret < b->reusable.n && b->reusable.v[*ret] == next)
      return 0;
  }
  if (find_run (b, want, ret))
    return 0;
  if (may_grow (b)) {
    r = take_new (b);
    if (r < 0 && b->reusable.n == 0)
      return r;
    if (r < 0)
      err_clear ();
  }
  find_run (b, want, ret);
  return 0;
}

static int
op_alloc (struct tree_txn *txn, struct tree *tree, unsigned level,
          uint64_t hint, uint64_t *ret_bytenr)
{
  struct log_blocks *b = blocks_of (txn);
  struct addrs *a = &b->reusable;
  uint64_t addr;
  size_t i = 0;
  int r;

  (void) tree;
  (void) level;
  (void) hint;
  r = choose (b, &i);
  if (r < 0)
    return r;
  addr = a->v[i];
  r = addrs_push (&b->fresh, addr);
  if (r < 0)
    return r;
  --a->n;
  memmove (&a->v[i], &a->v[i + 1], (a->n - i) * sizeof *a->v);
  *ret_bytenr = addr;
  return 0;
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
    return addrs_insert (&b->reusable, block->bytenr);
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

static int
write_fresh (struct log_blocks *b, struct block **v, size_t n,
             struct volume_op **data, size_t data_n)
{
  const struct logs_env *env = &b->logs->env;
  const struct btrfs_super *others = env->others_begin (env->opaque);
  const struct block_beside beside = { others, data, data_n };
  const int r = block_write_set (env->cache, v, n, &beside);

  if (others != NULL)
    env->others_end (env->opaque, r == 0 && n > 0);
  return r;
}

int
log_blocks_write (struct log_blocks *b, struct volume_op **data,
                  size_t data_n, size_t *ret_blocks)
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
    r = write_fresh (b, v, n, data, data_n);
  for (i = 0; i < n; ++i)
    block_put (v[i]);
  free (v);
  *ret_blocks = n;
  return r;
}

void
log_blocks_synced (struct log_blocks *b)
{
  size_t i;

  b->wrote = b->fresh.n;
  b->fresh.n = 0;
  for (i = 0; i < b->stale.n; ++i)
    if (addrs_insert (&b->reusable, b->stale.v[i]) < 0)
      err_clear (); /* not used again before the commit */
  b->stale.n = 0;
}

int
log_blocks_release (struct log_blocks *b, struct txn *txn)
{
  const uint32_t nodesize = nodesize_of (b);
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
  b->wrote = 0;
  return r;
}
