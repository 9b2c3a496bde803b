/* block: write-out.
 *
 * The blocks of a generation that is written out do not change any more, so
 * no tree lock is needed.  They go out sorted by address, in batches, and
 * neighbours of one chunk as one operation.
 *
 * Early write-out takes leaves of the transaction that still runs.  It seals
 * them under the lock of their tree and writes them later: those that have
 * become clean or been dropped by then are not its business any more.
 */

#include <config.h>

#include <assert.h>
#include <inttypes.h>

#include "block/block_priv.h"

#define BATCH_MAX 256
#define OP_BYTES_MAX (1024 * 1024)

static int
by_address (const void *a, const void *b)
{
  const struct block *const *x = a, *const *y = b;

  return (*x)->bytenr < (*y)->bytenr ? -1 : (*x)->bytenr > (*y)->bytenr;
}

/* Last look, and the checksum; nothing else changes, as the next transaction
 * may be reading the block already.
 */
static int
seal (struct block_cache *c, struct block *b)
{
  struct block_priv *p = block_to_priv (b);
  int r;

  r = tree_check_contents (c->format, b->data);
  if (r == 0 && tb_bytenr (b->data) != b->bytenr)
    r = err_new (ERR_block_header, "header says %" PRIu64,
                 tb_bytenr (b->data));
  if (r < 0)
    return err_note (r, "tree %" PRIu64 " block %" PRIu64 " was not written",
                     tb_owner (b->data), b->bytenr);
  atomic_store_explicit (&p->sealed, true, memory_order_relaxed);
  tb_set_csum (b->data, c->nodesize, c->format->csum_type);
  return 0;
}

/* Operations for N sorted blocks, neighbours merged; the number of them. */
static size_t
build_ops (struct block_cache *c, struct block **v, size_t n,
           struct iovec *iov, struct volume_op *ops)
{
  struct chunk_info chunk;
  uint64_t chunk_end = 0;
  struct volume_op *op = NULL;
  size_t i, k = 0;

  for (i = 0; i < n; i++) {
    iov[i] = (struct iovec) { v[i]->data, c->nodesize };
    if (op != NULL && op->logical + op->len == v[i]->bytenr &&
        v[i]->bytenr < chunk_end && op->len + c->nodesize <= OP_BYTES_MAX) {
      op->len += c->nodesize;
      op->iovcnt++;
      continue;
    }
    if (v[i]->bytenr >= chunk_end) {
      chunk_end = 0;
      /* An unmapped address is told by the write. */
      if (volume_get_chunk (c->volume, v[i]->bytenr, &chunk) == 0)
        chunk_end = chunk.logical + chunk.length;
      else
        err_clear ();
    }
    op = &ops[k++];
    *op = (struct volume_op) { .kind = IO_WRITE, .logical = v[i]->bytenr,
      .len = c->nodesize, .iov = &iov[i], .iovcnt = 1 };
  }
  return k;
}

static void
mark_clean (struct block_cache *c, struct block *b, bool known)
{
  struct block_shard *s = block_shard_of (c, b->bytenr);
  struct block_priv *p = block_to_priv (b);

  mutex_lock (&s->lock);
  if (p->state == BLOCK_DIRTY)
    block_to_clean (c, s, p, known);
  mutex_unlock (&s->lock);
}

/* What was dirty counts against the budget from now on. */
static void
trim (struct block_cache *c)
{
  struct block_list out = TAILQ_HEAD_INITIALIZER (out);
  struct block_shard *s;
  unsigned i;

  for (i = 0; i < c->nr_shards; i++) {
    s = &c->shards[i];
    mutex_lock (&s->lock);
    block_evict (c, s, s->nr_small + s->nr_main, &out);
    mutex_unlock (&s->lock);
  }
  block_free_list (&out);
}

static int
run_beside (struct block_cache *c, struct volume_op *ops, size_t n,
            const struct block_beside *beside)
{
  size_t i;
  int r;

  if (beside == NULL)
    return volume_run (c->volume, ops, n);
  assert (beside->n <= BLOCK_BESIDE_MAX);
  for (i = 0; i < beside->n; i++)
    ops[n + i] = *beside->ops[i];
  r = volume_run_beside (c->volume, ops, n + beside->n, beside->others);
  for (i = 0; i < beside->n; i++)
    beside->ops[i]->result = ops[n + i].result;
  return r;
}

/* KNOWN: they have proven to be of use.  BESIDE: see block_write_set. */
static int
write_batch (struct block_cache *c, struct block **v, size_t n, bool known,
             const struct block_beside *beside)
{
  struct iovec iov[BATCH_MAX];
  struct volume_op ops[BATCH_MAX + BLOCK_BESIDE_MAX];
  size_t i, k;
  int r;

  for (i = 0; i < n; i++)
    if ((r = seal (c, v[i])) < 0)
      return r;
  k = build_ops (c, v, n, iov, ops);
  r = run_beside (c, ops, k, beside);
  if (r < 0)
    return err_note (r, "write of tree blocks %" PRIu64 " to %" PRIu64,
                     v[0]->bytenr, v[n - 1]->bytenr);
  for (i = 0; i < n; i++)
    mark_clean (c, v[i], known);
  return 0;
}

int
block_write_set (struct block_cache *c, struct block **v, size_t n,
                 const struct block_beside *beside)
{
  size_t i, k;
  int r;

  qsort (v, n, sizeof *v, by_address);
  for (i = 0; i < n; i += k) {
    k = MIN (n - i, (size_t) BATCH_MAX);
    if ((r = write_batch (c, v + i, k, true, i == 0 ? beside : NULL)) < 0)
      return r;
  }
  trim (c);
  return 0;
}

/* Append references to the dirty blocks of S with generation TRANSID. */
static int
collect (struct block_shard *s, uint64_t transid, struct block ***v,
         size_t *n, size_t *max)
{
  struct block_priv *p;
  struct block **bigger;
  int r = 0;

  mutex_lock (&s->lock);
  TAILQ_FOREACH (p, &s->dirty[transid % BLOCK_DIRTY_LISTS], link) {
    if (p->generation != transid)
      continue;
    if (*n == *max) {
      bigger = realloc (*v, (*max * 2 + 64) * sizeof **v);
      if (bigger == NULL) {
        r = err_new (ERR_nomem, "write-out of tree blocks");
        break;
      }
      *v = bigger;
      *max = *max * 2 + 64;
    }
    (*v)[(*n)++] = block_get (&p->b);
  }
  mutex_unlock (&s->lock);
  return r;
}

/* Write N blocks and give up the references, so that what is too much for
 * the cache leaves it batch by batch.
 */
static int
write_and_put (struct block_cache *c, struct block **v, size_t n)
{
  size_t i, k, j;
  int r = 0;

  qsort (v, n, sizeof *v, by_address);
  for (i = 0; i < n; i += k) {
    k = MIN (n - i, (size_t) BATCH_MAX);
    mutex_lock (&c->write_lock);
    if (r == 0)
      r = write_batch (c, v + i, k, true, NULL);
    mutex_unlock (&c->write_lock);
    for (j = i; j < i + k; j++)
      block_put (v[j]);
    trim (c);
  }
  return r;
}

int
block_write_out (struct block_cache *c, uint64_t transid,
                 uint64_t *ret_bytes)
{
  CLEANUP_FREE struct block **v = NULL;
  size_t n = 0, max = 0, i;
  int r = 0;

  for (i = 0; r == 0 && i < c->nr_shards; i++)
    r = collect (&c->shards[i], transid, &v, &n, &max);
  if (r < 0) {
    for (i = 0; i < n; i++)
      block_put (v[i]);
    return r;
  }
  if (n > 0)
    r = write_and_put (c, v, n);
  if (r == 0 && ret_bytes != NULL)
    *ret_bytes = (uint64_t) n * c->nodesize;
  return r;
}

/* --- early --- */

static bool
may_seal (const struct block_priv *p, uint64_t transid)
{
  return p->generation == transid && p->level == 0
    && p->owner != BTRFS_TREE_LOG
    && !atomic_load_explicit (&p->sealed, memory_order_relaxed);
}

/* Majority of the oldest leaf of each shard. */
uint64_t
block_early_owner (struct block_cache *c, uint64_t transid)
{
  uint64_t owner = 0;
  unsigned i, votes = 0;

  for (i = 0; i < c->nr_shards; i++) {
    struct block_shard *s = &c->shards[i];
    struct block_priv *p;

    mutex_lock (&s->lock);
    TAILQ_FOREACH (p, &s->dirty[transid % BLOCK_DIRTY_LISTS], link)
      if (may_seal (p, transid))
        break;
    if (p != NULL && votes == 0)
      owner = p->owner;
    if (p != NULL)
      votes += p->owner == owner ? 1 : -1;
    mutex_unlock (&s->lock);
  }
  return owner;
}

static size_t
seal_in_shard (struct block_shard *s, uint64_t transid, uint64_t owner,
               struct block **v, size_t max)
{
  struct block_priv *p;
  size_t n = 0;

  SCOPED_LOCK (&s->lock);
  TAILQ_FOREACH (p, &s->dirty[transid % BLOCK_DIRTY_LISTS], link) {
    if (n == max)
      break;
    if (!may_seal (p, transid) || p->owner != owner)
      continue;
    atomic_store_explicit (&p->sealed, true, memory_order_relaxed);
    v[n++] = block_get (&p->b);
  }
  return n;
}

size_t
block_seal_some (struct block_cache *c, uint64_t transid, uint64_t owner,
                 struct block **v, size_t max)
{
  const size_t share = max / c->nr_shards + 1;
  size_t n = 0;
  unsigned i;

  for (i = 0; i < c->nr_shards && n < max; i++) {
    unsigned k = atomic_fetch_add_explicit (&c->next_early, 1,
                                            memory_order_relaxed);

    n += seal_in_shard (&c->shards[k % c->nr_shards], transid, owner, v + n,
                        MIN (share, max - n));
  }
  return n;
}

static bool
still_dirty (struct block_cache *c, struct block *b)
{
  struct block_shard *s = block_shard_of (c, b->bytenr);

  SCOPED_LOCK (&s->lock);
  return block_to_priv (b)->state == BLOCK_DIRTY;
}

int
block_write_sealed (struct block_cache *c, struct block **v, size_t n)
{
  struct block *todo[BATCH_MAX];
  size_t i, k = 0;
  int r = 0;

  qsort (v, n, sizeof *v, by_address);
  for (i = 0; i < n && r == 0; k = 0) {
    mutex_lock (&c->write_lock);
    for (; i < n && k < BATCH_MAX; i++)
      if (still_dirty (c, v[i]))
        todo[k++] = v[i];
    if (k > 0)
      r = write_batch (c, todo, k, false, NULL);
    mutex_unlock (&c->write_lock);
  }
  for (i = 0; i < n; i++)
    block_put (v[i]);
  trim (c);
  return r;
}
