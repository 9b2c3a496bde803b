/* data: the clean data cache.
 *
 * S3-FIFO per shard: new frames enter the small queue; a frame that was hit
 * again by the time it reaches the end moves to the main queue, others leave
 * and are remembered as ghosts; a ghost that comes back enters the main queue
 * at once.  The first hit of each page does not count: reading a frame once,
 * page by page, is no reason to keep it.
 */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/containers.h"
#include "base/err.h"
#include "base/math.h"
#include "data/cache.h"

#define SHARDS 32
#define GHOSTS 2048            /* remembered per shard */
#define FREQ_MAX 3

enum queue { QUEUE_SMALL, QUEUE_MAIN, QUEUES };

struct frame {
  LIST_ENTRY (frame) hash;
  TAILQ_ENTRY (frame) fifo;
  uint64_t key;
  uint16_t valid, reading, unfit, touched;
  uint8_t freq, queue;
  uint32_t page[CACHE_PAGES];
};
LIST_HEAD (bucket, frame);
TAILQ_HEAD (fifo, frame);

struct shard {
  struct mutex lock;           /* RANK_DATA_CACHE; protects all of it */
  struct cond read_done;
  struct bucket *buckets;
  struct fifo queue[QUEUES];
  size_t pages[QUEUES];        /* valid ones */
  uint32_t ghost[GHOSTS];
} __attribute__ ((aligned (64)));

struct cache {
  struct pages *pages;
  unsigned page_shift;
  unsigned buckets;            /* of each shard, power of two */
  unsigned next;               /* atomic: where eviction goes on */
  struct shard shard[SHARDS];
};

int
cache_new (struct pages *pages, struct cache **ret)
{
  struct cache *c = aligned_alloc (64, sizeof *c);
  unsigned i;

  if (c == NULL)
    return err_new (ERR_nomem, "data cache");
  memset (c, 0, sizeof *c);
  c->pages = pages;
  c->page_shift = __builtin_ctz (pages->size);
  c->buckets = 16;
  while (c->buckets < pages->count / SHARDS)
    c->buckets *= 2;
  for (i = 0; i < SHARDS; ++i) {
    struct shard *s = &c->shard[i];

    s->buckets = calloc (c->buckets, sizeof *s->buckets);
    mutex_init (&s->lock, RANK_DATA_CACHE);
    cond_init (&s->read_done);
    TAILQ_INIT (&s->queue[QUEUE_SMALL]);
    TAILQ_INIT (&s->queue[QUEUE_MAIN]);
    if (s->buckets == NULL) {
      while (i + 1 > 0) {
        free (c->shard[i].buckets);
        if (i-- == 0)
          break;
      }
      free (c);
      return err_new (ERR_nomem, "data cache");
    }
  }
  *ret = c;
  return 0;
}

void
cache_free (struct cache *c)
{
  unsigned i, q;

  if (c == NULL)
    return;
  for (i = 0; i < SHARDS; ++i) {
    struct shard *s = &c->shard[i];

    for (q = 0; q < QUEUES; ++q) {
      struct frame *f;

      while ((f = TAILQ_FIRST (&s->queue[q])) != NULL) {
        TAILQ_REMOVE (&s->queue[q], f, fifo);
        free (f);
      }
    }
    free (s->buckets);
    cond_done (&s->read_done);
    mutex_done (&s->lock);
  }
  free (c);
}

static inline uint64_t
hash_key (uint64_t key)
{
  key ^= key >> 32;
  key *= UINT64_C (0x9E3779B97F4A7C15);
  return key ^ (key >> 29);
}

static inline struct shard *
shard_of (struct cache *c, uint64_t h)
{
  return &c->shard[h % SHARDS];
}

static inline struct bucket *
bucket_of (struct cache *c, struct shard *s, uint64_t h)
{
  return &s->buckets[(h >> 8) & (c->buckets - 1)];
}

static struct frame *
find (struct cache *c, struct shard *s, uint64_t key, uint64_t h)
{
  struct frame *f;

  LIST_FOREACH (f, bucket_of (c, s, h), hash)
    if (f->key == key)
      return f;
  return NULL;
}

/* 0 marks an empty slot. */
static inline uint32_t
ghost_print (uint64_t h)
{
  return (uint32_t) (h >> 32) | 1;
}

static struct frame *
find_or_add (struct cache *c, struct shard *s, uint64_t key, uint64_t h)
{
  struct frame *f = find (c, s, key, h);
  uint32_t *ghost = &s->ghost[(h >> 8) % GHOSTS];

  if (f != NULL)
    return f;
  f = calloc (1, sizeof *f);
  if (f == NULL)
    return NULL;
  f->key = key;
  f->queue = *ghost == ghost_print (h) ? QUEUE_MAIN : QUEUE_SMALL;
  if (f->queue == QUEUE_MAIN)
    *ghost = 0;
  LIST_INSERT_HEAD (bucket_of (c, s, h), f, hash);
  TAILQ_INSERT_HEAD (&s->queue[f->queue], f, fifo);
  return f;
}

static inline void
hit (struct frame *f, unsigned bits)
{
  if ((f->touched & bits) != 0 && f->freq < FREQ_MAX)
    ++f->freq;
  f->touched |= bits;
}

unsigned
cache_copy (struct cache *c, uint64_t key, unsigned offset, unsigned len,
            uint8_t *dst)
{
  const unsigned ps = c->pages->size;
  const unsigned first = offset >> c->page_shift;
  const unsigned last = (offset + len - 1) >> c->page_shift;
  const unsigned want = ((2u << last) - 1) & ~((1u << first) - 1);
  const uint64_t h = hash_key (key);
  struct shard *s = shard_of (c, h);
  struct frame *f;
  unsigned have, i;

  assert (len > 0 && offset + len <= CACHE_FRAME);
  SCOPED_LOCK (&s->lock);
  f = find (c, s, key, h);
  if (f == NULL)
    return want;
  have = f->valid & want;
  if (dst != NULL && have != 0) {
    hit (f, have);
    for (i = first; i <= last; ++i) {
      unsigned from = i == first ? offset & (ps - 1) : 0;
      unsigned n = MIN (ps - from, offset + len - (i * ps + from));

      if (have & (1u << i))
        memcpy (dst + (i * ps + from - offset),
                page_mem (c->pages, f->page[i]) + from, n);
    }
  }
  return want & ~have;
}

unsigned
cache_begin_read (struct cache *c, uint64_t key, unsigned mask,
                  bool *ret_failed)
{
  const uint64_t h = hash_key (key);
  struct shard *s = shard_of (c, h);
  struct frame *f;

  *ret_failed = false;
  SCOPED_LOCK (&s->lock);
  f = find_or_add (c, s, key, h);
  if (f == NULL) {
    *ret_failed = true;
    return 0;
  }
  mask &= ~(f->valid | f->reading);
  f->reading |= mask;
  return mask;
}

static void
frame_remove (struct shard *s, struct frame *f)
{
  LIST_REMOVE (f, hash);
  TAILQ_REMOVE (&s->queue[f->queue], f, fifo);
  free (f);
}

void
cache_end_read (struct cache *c, uint64_t key, unsigned mask,
                const uint32_t page[CACHE_PAGES], bool demand)
{
  const uint64_t h = hash_key (key);
  struct shard *s = shard_of (c, h);
  uint32_t back[CACHE_PAGES];
  unsigned n = 0, i;
  struct frame *f;

  if (mask == 0)
    return;
  mutex_lock (&s->lock);
  f = find (c, s, key, h);
  assert (f != NULL && (f->reading & mask) == mask);
  for (i = 0; i < CACHE_PAGES; ++i) {
    const unsigned bit = 1u << i;

    if ((mask & bit) == 0 || page[i] == PAGE_NONE)
      continue;
    if ((f->unfit | f->valid) & bit) {
      back[n++] = page[i];
      continue;
    }
    f->page[i] = page[i];
    f->valid |= bit;
    if (demand)
      f->touched |= bit;
    else
      f->touched &= ~bit;
    ++s->pages[f->queue];
  }
  f->reading &= ~mask;
  f->unfit &= ~mask;
  if (f->valid == 0 && f->reading == 0)
    frame_remove (s, f);
  cond_broadcast (&s->read_done);
  mutex_unlock (&s->lock);
  pages_give (c->pages, back, n);
}

void
cache_wait_read (struct cache *c, uint64_t key, unsigned mask)
{
  const uint64_t h = hash_key (key);
  struct shard *s = shard_of (c, h);
  struct frame *f;

  SCOPED_LOCK (&s->lock);
  while ((f = find (c, s, key, h)) != NULL && (f->reading & mask) != 0)
    cond_wait (&s->read_done, &s->lock);
}

void
cache_put (struct cache *c, uint64_t logical, uint32_t page)
{
  const uint64_t key = cache_key (logical), h = hash_key (key);
  const unsigned i = (logical & (CACHE_FRAME - 1)) >> c->page_shift;
  struct shard *s = shard_of (c, h);
  uint32_t old = page;
  struct frame *f;

  mutex_lock (&s->lock);
  f = find_or_add (c, s, key, h);
  if (f != NULL) {
    old = PAGE_NONE;
    if (f->valid & (1u << i))
      old = f->page[i];
    else
      ++s->pages[f->queue];
    f->page[i] = page;
    f->valid |= 1u << i;
    f->touched &= ~(1u << i);
    f->unfit |= f->reading & (1u << i);
  }
  mutex_unlock (&s->lock);
  if (old != PAGE_NONE)
    pages_give (c->pages, &old, 1);
}

void
cache_invalidate (struct cache *c, uint64_t logical, uint64_t len)
{
  const uint64_t end = logical + len;
  uint64_t key;

  for (key = cache_key (logical); key < end; key += CACHE_FRAME) {
    const uint64_t h = hash_key (key);
    struct shard *s = shard_of (c, h);
    uint32_t back[CACHE_PAGES];
    unsigned n = 0, i;
    struct frame *f;

    mutex_lock (&s->lock);
    f = find (c, s, key, h);
    for (i = 0; f != NULL && i < CACHE_FRAME >> c->page_shift; ++i) {
      uint64_t at = key + ((uint64_t) i << c->page_shift);

      if (at < logical || at >= end)
        continue;
      f->unfit |= f->reading & (1u << i);
      if (f->valid & (1u << i)) {
        back[n++] = f->page[i];
        f->valid &= ~(1u << i);
        --s->pages[f->queue];
      }
    }
    if (f != NULL && f->valid == 0 && f->reading == 0)
      frame_remove (s, f);
    mutex_unlock (&s->lock);
    pages_give (c->pages, back, n);
  }
}

static void
requeue (struct shard *s, struct frame *f, unsigned to)
{
  const unsigned n = __builtin_popcount (f->valid);

  TAILQ_REMOVE (&s->queue[f->queue], f, fifo);
  s->pages[f->queue] -= n;
  f->queue = to;
  s->pages[to] += n;
  TAILQ_INSERT_HEAD (&s->queue[to], f, fifo);
}

/* Evict one frame of S; the number of its pages, stored in BACK.  0: there is
 * nothing to evict.
 */
static unsigned
evict_one (struct cache *c, struct shard *s, uint32_t back[CACHE_PAGES])
{
  unsigned tries = 64, n = 0, i;

  while (tries-- > 0) {
    const size_t total = s->pages[QUEUE_SMALL] + s->pages[QUEUE_MAIN];
    const unsigned q = s->pages[QUEUE_SMALL] > total / 10
      || TAILQ_EMPTY (&s->queue[QUEUE_MAIN]) ? QUEUE_SMALL : QUEUE_MAIN;
    struct frame *f = TAILQ_LAST (&s->queue[q], fifo);

    if (f == NULL || total == 0)
      return 0;
    if (f->reading != 0) {
      requeue (s, f, q);
      continue;
    }
    if (q == QUEUE_SMALL && f->freq > 0) {
      f->freq = 0;
      requeue (s, f, QUEUE_MAIN);
      continue;
    }
    if (q == QUEUE_MAIN && f->freq > 0) {
      --f->freq;
      requeue (s, f, QUEUE_MAIN);
      continue;
    }
    for (i = 0; i < CACHE_PAGES; ++i)
      if (f->valid & (1u << i))
        back[n++] = f->page[i];
    s->pages[q] -= n;
    if (q == QUEUE_SMALL) {
      const uint64_t h = hash_key (f->key);

      s->ghost[(h >> 8) % GHOSTS] = ghost_print (h);
    }
    (void) c;
    frame_remove (s, f);
    if (n > 0)
      return n;
  }
  return 0;
}

/* Give back at least WANT pages, if there are as many to evict. */
static size_t
reclaim (struct cache *c, size_t want)
{
  unsigned empty = 0;
  size_t done = 0;

  while (done < want && empty < 2 * SHARDS) {
    unsigned i = __atomic_fetch_add (&c->next, 1, __ATOMIC_RELAXED) % SHARDS;
    struct shard *s = &c->shard[i];
    uint32_t back[CACHE_PAGES];
    unsigned n;

    mutex_lock (&s->lock);
    n = evict_one (c, s, back);
    mutex_unlock (&s->lock);
    pages_give (c->pages, back, n);
    done += n;
    empty = n == 0 ? empty + 1 : 0;
  }
  return done;
}

size_t
cache_take_pages (struct cache *c, uint32_t *ret, size_t n)
{
  size_t have = pages_take (c->pages, ret, n);

  while (have < n) {
    size_t got;

    if (reclaim (c, MAX (n - have, (size_t) 32)) == 0)
      break;
    got = pages_take (c->pages, ret + have, n - have);
    have += got;
  }
  return have;
}

uint64_t
cache_bytes (struct cache *c)
{
  uint64_t n = 0;
  unsigned i;

  for (i = 0; i < SHARDS; ++i) {
    struct shard *s = &c->shard[i];

    SCOPED_LOCK (&s->lock);
    n += s->pages[QUEUE_SMALL] + s->pages[QUEUE_MAIN];
  }
  return n << c->page_shift;
}
