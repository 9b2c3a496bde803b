/* block: table, references, queues and eviction. */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "block/block_priv.h"

#define SHARDS_MAX 16
#define HOT_BYTES_MAX (8 * 1024 * 1024) /* free buffers kept */
#define SHARD_CAPACITY_MIN 64  /* fewer blocks than this: fewer shards */
#define TABLE_SIZE_MIN 64
#define GHOSTS_MAX (1 << 16)

static uint64_t
block_hash_value (uint64_t bytenr)
{
  uint64_t h = (bytenr >> 12) * UINT64_C (0x9e3779b97f4a7c15);

  return h ^ (h >> 29);
}

struct block_shard *
block_shard_of (struct block_cache *c, uint64_t bytenr)
{
  return &c->shards[(block_hash_value (bytenr) >> 40) & (c->nr_shards - 1)];
}

static struct block_priv **
table_slot (struct block_shard *s, uint64_t bytenr)
{
  return &s->table[block_hash_value (bytenr) & (s->table_size - 1)];
}

struct block_priv *
block_alloc (struct block_cache *c, uint64_t bytenr)
{
  struct block_priv *p = calloc (1, sizeof *p);

  if (p == NULL)
    return NULL;
  p->b.data = block_pool_take (&c->pool);
  if (p->b.data == NULL) {
    free (p);
    return NULL;
  }
  p->b.bytenr = bytenr;
  p->b.priv = p;
  p->cache = c;
  p->state = BLOCK_GONE;
  p->queue = QUEUE_NONE;
  atomic_init (&p->refs, 1);
  atomic_init (&p->freq, 0);
  atomic_init (&p->dirty, false);
  atomic_init (&p->sealed, false);
  atomic_fetch_add_explicit (&c->nr_alive, 1, memory_order_relaxed);
  return p;
}

void
block_free (struct block_priv *p)
{
  if (p == NULL)
    return;
  block_pool_give (&p->cache->pool, p->b.data);
  atomic_fetch_sub_explicit (&p->cache->nr_alive, 1, memory_order_release);
  free (p);
}

void
block_free_list (struct block_list *list)
{
  struct block_priv *p, *next;

  TAILQ_FOREACH_SAFE (p, list, link, next)
    block_put (&p->b);
  TAILQ_INIT (list);
}

/* --- table --- */

struct block_priv *
block_lookup (struct block_shard *s, uint64_t bytenr)
{
  struct block_priv *p;

  for (p = *table_slot (s, bytenr); p != NULL; p = p->hash_next)
    if (p->b.bytenr == bytenr)
      return p;
  return NULL;
}

/* Out of memory only makes the chains longer. */
static void
table_grow (struct block_shard *s)
{
  size_t old_size = s->table_size, i;
  struct block_priv **old = s->table, *p, *next, **slot;
  struct block_priv **table = calloc (old_size * 2, sizeof *table);

  if (table == NULL)
    return;
  s->table = table;
  s->table_size = old_size * 2;
  for (i = 0; i < old_size; i++) {
    for (p = old[i]; p != NULL; p = next) {
      next = p->hash_next;
      slot = table_slot (s, p->b.bytenr);
      p->hash_next = *slot;
      *slot = p;
    }
  }
  free (old);
}

void
block_hash (struct block_shard *s, struct block_priv *p)
{
  struct block_priv **slot;

  if (s->count >= s->table_size)
    table_grow (s);
  slot = table_slot (s, p->b.bytenr);
  p->hash_next = *slot;
  *slot = p;
  s->count++;
  atomic_fetch_add_explicit (&p->refs, 1, memory_order_relaxed);
}

static void
queue_remove (struct block_cache *c, struct block_shard *s,
              struct block_priv *p)
{
  switch (p->queue) {
  case QUEUE_NONE:
    return;
  case QUEUE_SMALL:
    TAILQ_REMOVE (&s->small, p, link);
    s->nr_small--;
    break;
  case QUEUE_MAIN:
    TAILQ_REMOVE (&s->main, p, link);
    s->nr_main--;
    break;
  }
  p->queue = QUEUE_NONE;
  atomic_fetch_sub_explicit (&c->nr_clean, 1, memory_order_relaxed);
}

static void
queue_add (struct block_cache *c, struct block_shard *s,
           struct block_priv *p, enum block_queue queue)
{
  assert (p->queue == QUEUE_NONE);
  if (queue == QUEUE_SMALL) {
    TAILQ_INSERT_HEAD (&s->small, p, link);
    s->nr_small++;
  }
  else {
    TAILQ_INSERT_HEAD (&s->main, p, link);
    s->nr_main++;
  }
  p->queue = queue;
  atomic_fetch_add_explicit (&c->nr_clean, 1, memory_order_relaxed);
}

static void
dirty_remove (struct block_cache *c, struct block_shard *s,
              struct block_priv *p)
{
  unsigned list = p->generation % BLOCK_DIRTY_LISTS;

  TAILQ_REMOVE (&s->dirty[list], p, link);
  s->nr_dirty--;
  atomic_store_explicit (&p->dirty, false, memory_order_relaxed);
  atomic_fetch_sub_explicit (&c->nr_dirty[list], 1, memory_order_relaxed);
}

void
block_unhash (struct block_cache *c, struct block_shard *s,
              struct block_priv *p)
{
  struct block_priv **slot;

  assert (p->state != BLOCK_GONE);
  for (slot = table_slot (s, p->b.bytenr); *slot != p;
       slot = &(*slot)->hash_next)
    assert (*slot != NULL);
  *slot = p->hash_next;
  p->hash_next = NULL;
  s->count--;
  if (p->state == BLOCK_DIRTY)
    dirty_remove (c, s, p);
  else
    queue_remove (c, s, p);
  p->state = BLOCK_GONE;
}

/* --- queues --- */

static uint64_t *
ghost_slot (struct block_shard *s, uint64_t bytenr)
{
  return &s->ghost[(block_hash_value (bytenr) >> 8) & (s->ghost_size - 1)];
}

void
block_to_clean (struct block_cache *c, struct block_shard *s,
                struct block_priv *p, bool known)
{
  uint64_t *ghost = ghost_slot (s, p->b.bytenr);

  if (p->state == BLOCK_DIRTY)
    dirty_remove (c, s, p);
  p->state = BLOCK_CLEAN;
  if (*ghost == p->b.bytenr) {
    *ghost = 0;
    known = true;
  }
  queue_add (c, s, p, known ? QUEUE_MAIN : QUEUE_SMALL);
}

static void
evict_one (struct block_cache *c, struct block_shard *s,
           struct block_list *out)
{
  bool small = s->nr_small > c->shard_capacity / 10 || s->nr_main == 0;
  struct block_priv *p = small ? TAILQ_LAST (&s->small, block_list)
    : TAILQ_LAST (&s->main, block_list);
  unsigned freq = atomic_load_explicit (&p->freq, memory_order_relaxed);
  bool used = atomic_load_explicit (&p->refs, memory_order_acquire) > 1;

  if (freq > 0 || used) {
    queue_remove (c, s, p);
    queue_add (c, s, p, QUEUE_MAIN);
    if (freq > 0)
      atomic_store_explicit (&p->freq, small ? 0 : freq - 1,
                             memory_order_relaxed);
    return;
  }
  block_unhash (c, s, p);
  if (small)
    *ghost_slot (s, p->b.bytenr) = p->b.bytenr;
  TAILQ_INSERT_TAIL (out, p, link);
}

void
block_evict (struct block_cache *c, struct block_shard *s, size_t steps,
             struct block_list *out)
{
  size_t least = MAX (c->shard_capacity / 8, (size_t) 1), room = least;

  if (s->nr_dirty + least < c->shard_capacity)
    room = c->shard_capacity - s->nr_dirty;
  for (; steps > 0 && s->nr_small + s->nr_main > room; steps--)
    evict_one (c, s, out);
}

/* --- life of the cache --- */

static void
shard_done (struct block_cache *c, struct block_shard *s)
{
  struct block_list out = TAILQ_HEAD_INITIALIZER (out);
  struct block_priv *p;
  size_t i;

  if (s->table != NULL) {
    mutex_lock (&s->lock);
    for (i = 0; i < s->table_size; i++) {
      while ((p = s->table[i]) != NULL) {
        assert (p->state != BLOCK_READING);
        block_unhash (c, s, p);
        TAILQ_INSERT_TAIL (&out, p, link);
      }
    }
    mutex_unlock (&s->lock);
    block_free_list (&out);
  }
  free (s->table);
  free (s->ghost);
  cond_done (&s->read_done);
  mutex_done (&s->lock);
}

static int
shard_init (struct block_cache *c, struct block_shard *s)
{
  unsigned i;

  mutex_init (&s->lock, RANK_BLOCK_CACHE);
  cond_init (&s->read_done);
  TAILQ_INIT (&s->small);
  TAILQ_INIT (&s->main);
  for (i = 0; i < BLOCK_DIRTY_LISTS; i++)
    TAILQ_INIT (&s->dirty[i]);
  s->table_size = TABLE_SIZE_MIN;
  s->ghost_size = TABLE_SIZE_MIN;
  while (s->ghost_size < c->shard_capacity && s->ghost_size < GHOSTS_MAX)
    s->ghost_size *= 2;
  s->table = calloc (s->table_size, sizeof *s->table);
  s->ghost = calloc (s->ghost_size, sizeof *s->ghost);
  if (s->table == NULL || s->ghost == NULL)
    return err_new (ERR_nomem, "tree block cache");
  return 0;
}

int
block_cache_new (struct volume *v, size_t budget_bytes,
                 struct block_cache **ret)
{
  struct block_cache *c = calloc (1, sizeof *c);
  size_t capacity, hot;
  unsigned i;
  int r = 0;

  if (c == NULL)
    return err_new (ERR_nomem, "tree block cache");
  c->volume = v;
  c->format = volume_format (v);
  c->nodesize = c->format->nodesize;
  atomic_init (&c->newest, le64_get (volume_super (v)->generation));
  hot = MIN (budget_bytes / 8, (size_t) HOT_BYTES_MAX) / c->nodesize;
  block_pool_init (&c->pool, c->nodesize, hot);
  capacity = budget_bytes / c->nodesize - hot;
  c->nr_shards = SHARDS_MAX;
  while (c->nr_shards > 1 && capacity / c->nr_shards < SHARD_CAPACITY_MIN)
    c->nr_shards /= 2;
  c->shard_capacity = MAX (capacity / c->nr_shards, 1);
  mutex_init (&c->write_lock, RANK_BLOCK_WRITE);
  mutex_init (&c->jobs_lock, RANK_BLOCK_CACHE);
  cond_init (&c->jobs_done);
  c->shards = calloc (c->nr_shards, sizeof *c->shards);
  if (c->shards == NULL) {
    c->nr_shards = 0;
    r = err_new (ERR_nomem, "tree block cache");
  }
  for (i = 0; r == 0 && i < c->nr_shards; i++)
    if ((r = shard_init (c, &c->shards[i])) < 0)
      c->nr_shards = i + 1;     /* those that block_cache_free undoes */
  if (r < 0) {
    block_cache_free (c);
    return r;
  }
  *ret = c;
  return 0;
}

void
block_cache_free (struct block_cache *c)
{
  unsigned i;

  if (c == NULL)
    return;
  mutex_lock (&c->jobs_lock);
  while (c->jobs > 0)
    cond_wait (&c->jobs_done, &c->jobs_lock);
  mutex_unlock (&c->jobs_lock);
  for (i = 0; i < c->nr_shards; i++)
    shard_done (c, &c->shards[i]);
  if (atomic_load (&c->nr_alive) > 0) {
    /* Better a leak than what its late block_put would do. */
    log_error ("%" PRIu64 " tree blocks are in use after the close",
               (uint64_t) atomic_load (&c->nr_alive));
    return;
  }
  block_pool_done (&c->pool);
  cond_done (&c->jobs_done);
  mutex_done (&c->jobs_lock);
  mutex_done (&c->write_lock);
  free (c->shards);
  free (c);
}

void
block_cache_set_workers (struct block_cache *c, struct workers *workers)
{
  SCOPED_LOCK (&c->jobs_lock);

  c->workers = workers;
  while (c->jobs > 0)
    cond_wait (&c->jobs_done, &c->jobs_lock);
}

/* --- references --- */

struct block *
block_get (struct block *b)
{
  atomic_fetch_add_explicit (&block_to_priv (b)->refs, 1,
                             memory_order_relaxed);
  return b;
}

void
block_put (struct block *b)
{
  struct block_priv *p;

  if (b == NULL)
    return;
  p = block_to_priv (b);
  if (atomic_fetch_sub_explicit (&p->refs, 1, memory_order_acq_rel) == 1)
    block_free (p);
}

/* --- new, drop, forget --- */

/* Under the shard's mutex. */
static void
dirty_add (struct block_cache *c, struct block_shard *s,
           struct block_priv *p)
{
  unsigned list = p->generation % BLOCK_DIRTY_LISTS;

  p->state = BLOCK_DIRTY;
  atomic_store_explicit (&p->dirty, true, memory_order_relaxed);
  TAILQ_INSERT_TAIL (&s->dirty[list], p, link);
  s->nr_dirty++;
  atomic_fetch_add_explicit (&c->nr_dirty[list], 1, memory_order_relaxed);
}

/* Into the table as a dirty block, in the place of what was there. */
static int
add_dirty (struct block_cache *c, struct block_priv *p)
{
  struct block_list out = TAILQ_HEAD_INITIALIZER (out);
  struct block_shard *s = block_shard_of (c, p->b.bytenr);
  struct block_priv *old;

  mutex_lock (&s->lock);
  /* A prefetch of what was there before may still be on its way. */
  while ((old = block_lookup (s, p->b.bytenr)) != NULL &&
         old->state == BLOCK_READING)
    cond_wait (&s->read_done, &s->lock);
  if (old != NULL && old->state == BLOCK_DIRTY) {
    mutex_unlock (&s->lock);
    return err_new (ERR_invalid, "address %" PRIu64 " for a new tree block "
                    "is that of a dirty one of tree %" PRIu64,
                    p->b.bytenr, old->owner);
  }
  if (old != NULL) {
    block_unhash (c, s, old);
    TAILQ_INSERT_TAIL (&out, old, link);
  }
  block_hash (s, p);
  dirty_add (c, s, p);
  block_evict (c, s, EVICT_STEPS_MAX, &out);
  mutex_unlock (&s->lock);
  block_free_list (&out);
  return 0;
}

static void
raise_newest (struct block_cache *c, uint64_t generation)
{
  uint_fast64_t old = atomic_load_explicit (&c->newest,
                                            memory_order_relaxed);

  while (old < generation &&
         !atomic_compare_exchange_weak_explicit (&c->newest, &old, generation,
                                                 memory_order_relaxed,
                                                 memory_order_relaxed))
    continue;
}

/* Everything but the header and the body is set. */
static struct block_priv *
alloc_for (struct block_cache *c, const struct tb_ident *ident)
{
  struct block_priv *p = block_alloc (c, ident->bytenr);

  if (p != NULL) {
    p->generation = ident->generation;
    p->owner = ident->owner;
    p->level = ident->level;
    raise_newest (c, ident->generation);
  }
  return p;
}

static int
publish_new (struct block_cache *c, struct block_priv *p, struct block **ret)
{
  struct btrfs_header *h = tb_header (p->b.data);
  int r;

  /* The header gets its last form before others see it. */
  h->flags = le64_make (tb_flags (h) | BTRFS_HEADER_FLAG_WRITTEN);
  r = add_dirty (c, p);
  if (r < 0) {
    block_free (p);
    return r;
  }
  *ret = &p->b;
  return 0;
}

int
block_new (struct block_cache *c, const struct tb_ident *ident,
           struct block **ret)
{
  struct block_priv *p = alloc_for (c, ident);

  if (p == NULL)
    return err_new (ERR_nomem, "tree block %" PRIu64, ident->bytenr);
  tb_init (p->b.data, c->nodesize, ident);
  return publish_new (c, p, ret);
}

int
block_new_copy (struct block_cache *c, const struct tb_ident *ident,
                const struct block *from, struct block **ret)
{
  struct block_priv *p = alloc_for (c, ident);

  if (p == NULL)
    return err_new (ERR_nomem, "tree block %" PRIu64, ident->bytenr);
  tb_init (p->b.data, TB_HEADER_SIZE, ident);
  tb_header (p->b.data)->nritems = tb_header_c (from->data)->nritems;
  memcpy (p->b.data + TB_HEADER_SIZE, from->data + TB_HEADER_SIZE,
          c->nodesize - TB_HEADER_SIZE);
  return publish_new (c, p, ret);
}

bool
block_is_writable (const struct block *b, uint64_t transid)
{
  const struct block_priv *p = block_to_priv (b);

  return p->generation == transid &&
    atomic_load_explicit (&p->dirty, memory_order_relaxed) &&
    !atomic_load_explicit (&p->sealed, memory_order_relaxed);
}

void
block_drop (struct block_cache *c, struct block *b)
{
  struct block_shard *s = block_shard_of (c, b->bytenr);
  struct block_priv *p = block_to_priv (b);
  bool dropped = false;

  mutex_lock (&s->lock);
  if (p->state == BLOCK_DIRTY) {
    block_unhash (c, s, p);
    dropped = true;
  }
  mutex_unlock (&s->lock);
  if (dropped)
    block_put (b);
}

void
block_forget (struct block_cache *c, uint64_t bytenr)
{
  struct block_shard *s = block_shard_of (c, bytenr);
  struct block_priv *p;

  mutex_lock (&s->lock);
  p = block_lookup (s, bytenr);
  /* One that is being read goes when block_new takes its place. */
  if (p != NULL && p->state == BLOCK_CLEAN)
    block_unhash (c, s, p);
  else
    p = NULL;
  mutex_unlock (&s->lock);
  if (p != NULL)
    block_put (&p->b);
}

/* Next in line to be evicted. */
void
block_demote (struct block_cache *c, struct block *b)
{
  struct block_shard *s = block_shard_of (c, b->bytenr);
  struct block_priv *p = block_to_priv (b);

  mutex_lock (&s->lock);
  if (p->state == BLOCK_CLEAN) {
    queue_remove (c, s, p);
    atomic_store_explicit (&p->freq, 0, memory_order_relaxed);
    TAILQ_INSERT_TAIL (&s->small, p, link);
    s->nr_small++;
    p->queue = QUEUE_SMALL;
    atomic_fetch_add_explicit (&c->nr_clean, 1, memory_order_relaxed);
  }
  mutex_unlock (&s->lock);
}

void
block_drop_all (struct block_cache *c, uint64_t transid)
{
  struct block_list out = TAILQ_HEAD_INITIALIZER (out);
  struct block_priv *p, *next;
  struct block_shard *s;
  unsigned i;

  for (i = 0; i < c->nr_shards; i++) {
    s = &c->shards[i];
    mutex_lock (&s->lock);
    TAILQ_FOREACH_SAFE (p, &s->dirty[transid % BLOCK_DIRTY_LISTS], link,
                        next) {
      if (p->generation != transid)
        continue;
      block_unhash (c, s, p);
      TAILQ_INSERT_TAIL (&out, p, link);
    }
    mutex_unlock (&s->lock);
  }
  block_free_list (&out);
}

/* --- numbers --- */

void
block_cache_get_stats (struct block_cache *c, struct block_cache_stats *ret)
{
  unsigned i;

  *ret = (struct block_cache_stats) {
    .hits = atomic_load (&c->hits),
    .misses = atomic_load (&c->misses),
    .reads = atomic_load (&c->reads),
    .repaired = atomic_load (&c->repaired),
    .bytes_cached = atomic_load (&c->nr_clean) * c->nodesize,
  };
  for (i = 0; i < BLOCK_DIRTY_LISTS; i++)
    ret->bytes_dirty += atomic_load (&c->nr_dirty[i]) * c->nodesize;
}

uint64_t
block_cache_dirty_bytes (struct block_cache *c, uint64_t transid)
{
  return atomic_load_explicit (&c->nr_dirty[transid % BLOCK_DIRTY_LISTS],
                               memory_order_relaxed) * c->nodesize;
}

uint64_t
block_cache_all_dirty_bytes (struct block_cache *c)
{
  uint64_t sum = 0;
  unsigned i;

  for (i = 0; i < BLOCK_DIRTY_LISTS; i++)
    sum += atomic_load_explicit (&c->nr_dirty[i], memory_order_relaxed);
  return sum * c->nodesize;
}

struct volume *
block_cache_volume (const struct block_cache *c)
{
  return c->volume;
}

const struct format_info *
block_cache_format (const struct block_cache *c)
{
  return c->format;
}
