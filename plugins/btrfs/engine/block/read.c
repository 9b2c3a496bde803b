/* block: reading and verifying.
 *
 * Whoever misses first puts a block in state BLOCK_READING into the table and
 * reads; others that want the same address wait for it.  When the read fails
 * the block leaves the table and each of them tries for itself, because what
 * they expect may differ.
 */

#include <config.h>

#include <inttypes.h>
#include <string.h>

#include "block/block_priv.h"

#define PREFETCH_MAX 64        /* blocks of one job */
#define PREFETCH_JOBS_MAX 32   /* hints beyond this are dropped */

static bool
is_fs_tree (uint64_t id)
{
  return id == BTRFS_FS_TREE ||
    (id >= BTRFS_FIRST_FREE_OBJECTID && id >> 48 == 0);
}

/* The rule of tree_check_block: snapshots share blocks, and log and
 * relocation trees hold them under other numbers.
 */
static bool
owner_matches (uint64_t owner, uint64_t expected)
{
  if (expected == 0 || owner == expected || expected == BTRFS_TREE_LOG ||
      expected == BTRFS_TREE_RELOC)
    return true;
  return is_fs_tree (expected) && is_fs_tree (owner);
}

/* A cached block has passed tree_check_block once; what is left to check is
 * whether it is the block that this pointer means.  The fields that a writer
 * may be changing at this moment come last: they are only looked at when the
 * block belongs to the tree whose lock the caller holds.
 */
static bool
block_matches (const struct block_priv *p, const struct tree_expect *e)
{
  if (e->generation != 0 && p->generation != e->generation)
    return false;
  if (e->has_level && p->level != e->level)
    return false;
  if (!owner_matches (p->owner, e->owner))
    return false;
  /* As in tree_check_block: a log may be one ahead of the superblock. */
  if (e->max_generation != 0 && p->generation - 1 > e->max_generation &&
      !atomic_load_explicit (&p->dirty, memory_order_relaxed))
    return false;
  if (e->has_first_key &&
      (tb_nritems (p->b.data) == 0 ||
       key_cmp (tb_key (p->b.data, 0), e->first_key) != 0))
    return false;
  return true;
}

static int
mismatch (const struct block_priv *p, const struct tree_expect *e)
{
  return err_new (ERR_block_parent, "block %" PRIu64 ": in the cache with "
                  "generation %" PRIu64 " level %u owner %" PRIu64
                  ", the pointer expects generation %" PRIu64
                  " level %u owner %" PRIu64, e->bytenr, p->generation,
                  p->level, p->owner, e->generation, e->level, e->owner);
}

static void
count_hit (struct block_cache *c, struct block_priv *p)
{
  unsigned char freq = atomic_load_explicit (&p->freq, memory_order_relaxed);

  /* Lost updates are harmless. */
  if (freq < BLOCK_FREQ_MAX)
    atomic_store_explicit (&p->freq, freq + 1, memory_order_relaxed);
  atomic_fetch_add_explicit (&c->hits, 1, memory_order_relaxed);
}

/* --- one block --- */

/* The check of a block that was read; generations in it are bounded also
 * when the caller knows no bound.
 */
static int
check_read (struct block_cache *c, const void *buf,
            const struct tree_expect *expect)
{
  struct tree_expect e = *expect;

  if (e.max_generation == 0)
    e.max_generation = atomic_load_explicit (&c->newest,
                                             memory_order_relaxed);
  return tree_check_block (c->format, buf, &e);
}

struct verify {
  struct block_cache *cache;
  const struct tree_expect *expect;
  unsigned failures;
};

static int
verify_block (void *opaque, const void *buf, size_t len)
{
  struct verify *v = opaque;
  int r;

  (void) len;
  r = check_read (v->cache, buf, v->expect);
  if (r < 0)
    v->failures++;
  return r;
}

/* The reader is done with P: into the cache, or out of the table. */
static void
publish (struct block_cache *c, struct block_priv *p, bool good)
{
  struct block_list out = TAILQ_HEAD_INITIALIZER (out);
  struct block_shard *s = block_shard_of (c, p->b.bytenr);

  mutex_lock (&s->lock);
  if (good) {
    p->generation = tb_generation (p->b.data);
    p->owner = tb_owner (p->b.data);
    p->level = tb_level (p->b.data);
    block_to_clean (c, s, p, false);
    block_evict (c, s, EVICT_STEPS_MAX, &out);
  }
  else {
    block_unhash (c, s, p);
    TAILQ_INSERT_TAIL (&out, p, link);
  }
  cond_broadcast (&s->read_done);
  mutex_unlock (&s->lock);
  block_free_list (&out);
}

static int
read_one (struct block_cache *c, struct block_priv *p,
          const struct tree_expect *expect)
{
  struct verify v = { .cache = c, .expect = expect };
  int r;

  atomic_fetch_add_explicit (&c->reads, 1, memory_order_relaxed);
  r = volume_read_verified (c->volume, p->b.bytenr, p->b.data, c->nodesize,
                            0, verify_block, &v);
  if (r == 0 && v.failures > 0 && !volume_read_only (c->volume))
    atomic_fetch_add_explicit (&c->repaired, 1, memory_order_relaxed);
  publish (c, p, r == 0);
  return r;
}

/* The block that EXPECT describes with a reference, or *SPARE put into the
 * table as the placeholder that the caller must read (*ret_miss), or NULL
 * when there is no spare for that.
 */
static int
find_or_claim (struct block_cache *c, const struct tree_expect *expect,
               struct block_priv *spare, struct block_priv **ret,
               bool *ret_miss)
{
  struct block_shard *s = block_shard_of (c, expect->bytenr);
  struct block_priv *p, *stale = NULL;
  int r = 0;

  *ret_miss = false;
  mutex_lock (&s->lock);
  while ((p = block_lookup (s, expect->bytenr)) != NULL &&
         p->state == BLOCK_READING)
    cond_wait (&s->read_done, &s->lock);
  if (p != NULL && !block_matches (p, expect)) {
    if (p->state == BLOCK_DIRTY)
      r = mismatch (p, expect);
    else {
      /* Perhaps an old version from a mirror that missed a write, read for
       * a caller who could not tell: look at the disk again.
       */
      block_unhash (c, s, p);
      stale = p;
      p = NULL;
    }
  }
  if (r == 0 && p != NULL)
    block_get (&p->b);
  else if (r == 0 && spare != NULL) {
    p = spare;
    p->state = BLOCK_READING;
    block_hash (s, p);
    *ret_miss = true;
  }
  mutex_unlock (&s->lock);
  if (stale != NULL)
    block_put (&stale->b);
  if (r == 0)
    *ret = p;
  return r;
}

/* A miss: the mutex was not held while the buffer was allocated, so somebody
 * else may have come first.
 */
static int
find_or_read (struct block_cache *c, const struct tree_expect *expect,
              struct block_priv **ret)
{
  struct block_priv *spare = block_alloc (c, expect->bytenr);
  bool miss = false;
  int r;

  if (spare == NULL)
    return err_new (ERR_nomem, "tree block %" PRIu64, expect->bytenr);
  r = find_or_claim (c, expect, spare, ret, &miss);
  if (!miss) {
    block_free (spare);
    if (r == 0)
      count_hit (c, *ret);
    return r;
  }
  atomic_fetch_add_explicit (&c->misses, 1, memory_order_relaxed);
  r = read_one (c, *ret, expect);
  if (r < 0)
    block_put (&(*ret)->b);
  return r;
}

int
block_read (struct block_cache *c, const struct tree_expect *expect,
            struct block **ret)
{
  struct block_priv *p = NULL;
  bool miss;
  int r;

  r = find_or_claim (c, expect, NULL, &p, &miss);
  if (r == 0 && p != NULL)
    count_hit (c, p);
  else if (r == 0)
    r = find_or_read (c, expect, &p);
  if (r == 0)
    *ret = &p->b;
  return r;
}

bool
block_peek (struct block_cache *c, const struct tree_expect *expect,
            struct block **ret)
{
  struct block_shard *s = block_shard_of (c, expect->bytenr);
  struct block_priv *p;

  mutex_lock (&s->lock);
  p = block_lookup (s, expect->bytenr);
  if (p != NULL &&
      (p->state == BLOCK_READING || !block_matches (p, expect)))
    p = NULL;
  if (p != NULL)
    block_get (&p->b);
  mutex_unlock (&s->lock);
  if (p == NULL)
    return false;
  count_hit (c, p);
  *ret = &p->b;
  return true;
}

int
block_read_mapped (struct block_cache *c, const struct tree_expect *expect,
                   void *buf)
{
  struct verify v = { .cache = c, .expect = expect };

  atomic_fetch_add_explicit (&c->reads, 1, memory_order_relaxed);
  return volume_read_mapped (c->volume, expect->bytenr, buf, c->nodesize,
                             verify_block, &v);
}

/* --- prefetch --- */

struct prefetch {
  struct work work;
  struct block_cache *cache;
  size_t n;
  struct tree_expect expect[];
};

/* A placeholder, if the block is absent; else NULL. */
static struct block_priv *
claim_absent (struct block_cache *c, uint64_t bytenr)
{
  struct block_shard *s = block_shard_of (c, bytenr);
  struct block_priv *p;
  bool absent;

  mutex_lock (&s->lock);
  absent = block_lookup (s, bytenr) == NULL;
  mutex_unlock (&s->lock);
  p = absent ? block_alloc (c, bytenr) : NULL;
  if (p == NULL)
    return NULL;
  mutex_lock (&s->lock);
  absent = block_lookup (s, bytenr) == NULL;
  if (absent) {
    p->state = BLOCK_READING;
    block_hash (s, p);
  }
  mutex_unlock (&s->lock);
  if (!absent) {
    block_free (p);
    p = NULL;
  }
  return p;
}

/* Placeholders for those of N that are absent; the number of them. */
static size_t
prefetch_claim (struct block_cache *c, const struct tree_expect *expect,
                size_t n, struct block_priv **claimed,
                const struct tree_expect **claimed_expect)
{
  size_t i, k = 0;

  for (i = 0; i < n; i++) {
    claimed[k] = claim_absent (c, expect[i].bytenr);
    if (claimed[k] != NULL)
      claimed_expect[k++] = &expect[i];
  }
  return k;
}

static void
prefetch_run (struct block_cache *c, const struct tree_expect *expect,
              size_t n)
{
  struct block_priv *claimed[PREFETCH_MAX];
  const struct tree_expect *claimed_expect[PREFETCH_MAX];
  struct volume_op ops[PREFETCH_MAX];
  struct iovec iov[PREFETCH_MAX];
  size_t i, k;
  bool good;

  k = prefetch_claim (c, expect, MIN (n, (size_t) PREFETCH_MAX), claimed,
                      claimed_expect);
  if (k == 0)
    return;
  for (i = 0; i < k; i++) {
    iov[i] = (struct iovec) { claimed[i]->b.data, c->nodesize };
    ops[i] = (struct volume_op) { .kind = IO_READ,
      .logical = claimed[i]->b.bytenr, .len = c->nodesize,
      .iov = &iov[i], .iovcnt = 1 };
  }
  atomic_fetch_add_explicit (&c->reads, k, memory_order_relaxed);
  volume_run (c->volume, ops, k);
  for (i = 0; i < k; i++) {
    /* One that fails is left to who really wants it: that read tries the
     * other mirrors, repairs, and tells the error.
     */
    good = ops[i].result == 0 &&
      check_read (c, claimed[i]->b.data, claimed_expect[i]) == 0;
    publish (c, claimed[i], good);
    block_put (&claimed[i]->b);
  }
  err_clear ();
}

static void
prefetch_work (struct work *work)
{
  struct prefetch *job = container_of (work, struct prefetch, work);
  struct block_cache *c = job->cache;

  prefetch_run (c, job->expect, job->n);
  free (job);
  mutex_lock (&c->jobs_lock);
  if (--c->jobs == 0)
    cond_broadcast (&c->jobs_done);
  mutex_unlock (&c->jobs_lock);
}

static bool
prefetch_queue (struct block_cache *c, const struct tree_expect *expect,
                size_t n)
{
  struct prefetch *job;
  struct workers *workers;

  mutex_lock (&c->jobs_lock);
  workers = c->workers;
  if (workers != NULL && c->jobs < PREFETCH_JOBS_MAX)
    c->jobs++;
  else {
    mutex_unlock (&c->jobs_lock);
    return workers != NULL;     /* too many: the hint is dropped */
  }
  mutex_unlock (&c->jobs_lock);

  job = malloc (sizeof *job + n * sizeof job->expect[0]);
  if (job == NULL) {
    mutex_lock (&c->jobs_lock);
    if (--c->jobs == 0)
      cond_broadcast (&c->jobs_done);
    mutex_unlock (&c->jobs_lock);
    return true;
  }
  job->work = (struct work) { .fn = prefetch_work };
  job->cache = c;
  job->n = n;
  memcpy (job->expect, expect, n * sizeof job->expect[0]);
  workers_queue (workers, &job->work);
  return true;
}

void
block_prefetch (struct block_cache *c, const struct tree_expect *expect,
                size_t n)
{
  size_t k;

  for (; n > 0; expect += k, n -= k) {
    k = MIN (n, (size_t) PREFETCH_MAX);
    if (!prefetch_queue (c, expect, k))
      prefetch_run (c, expect, k);
  }
}

void
block_prefetch_wait (struct block_cache *c, const struct tree_expect *expect,
                     size_t n)
{
  size_t k;

  for (; n > 0; expect += k, n -= k) {
    k = MIN (n, (size_t) PREFETCH_MAX);
    prefetch_run (c, expect, k);
  }
}
