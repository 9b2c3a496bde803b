/* block: buffers of tree blocks.  See pool.h. */

#include <config.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "block/pool.h"
#include "io/device.h"

#define CHUNK_SIZE (4 * 1024 * 1024)

/* The address sanitizer is to see each buffer come and go. */
#ifdef __SANITIZE_ADDRESS__
#define POOL_MALLOC 1
#else
#define POOL_MALLOC 0
#endif

void
block_pool_init (struct block_pool *p, size_t size, size_t hot_max)
{
  *p = (struct block_pool) { .size = size, .hot_max = hot_max };
  mutex_init (&p->lock, RANK_BLOCK_CACHE);
}

void
block_pool_done (struct block_pool *p)
{
  size_t i;

  for (i = 0; i < p->chunks_n; i++)
    munmap (p->chunks[i], CHUNK_SIZE);
  free (p->chunks);
  free (p->cold);
  mutex_done (&p->lock);
}

/* One more mapping, all of its buffers cold. */
static bool
grow (struct block_pool *p)
{
  const size_t per_chunk = CHUNK_SIZE / p->size;
  size_t n = p->chunks_n + 1, i;
  void **chunks, **cold;
  uint8_t *m;

  chunks = realloc (p->chunks, n * sizeof *chunks);
  if (chunks == NULL)
    return false;
  p->chunks = chunks;
  cold = realloc (p->cold, n * per_chunk * sizeof *cold);
  if (cold == NULL)
    return false;
  p->cold = cold;
  m = mmap (NULL, CHUNK_SIZE, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m == MAP_FAILED)
    return false;
  /* A huge page behind a few buffers would be memory nobody counts. */
  madvise (m, CHUNK_SIZE, MADV_NOHUGEPAGE);
  p->chunks[p->chunks_n++] = m;
  for (i = per_chunk; i-- > 0;)
    p->cold[p->cold_n++] = m + i * p->size;
  return true;
}

void *
block_pool_take (struct block_pool *p)
{
  void *data;

  if (POOL_MALLOC)
    return io_alloc (p->size);
  mutex_lock (&p->lock);
  data = p->hot;
  if (data != NULL) {
    memcpy (&p->hot, data, sizeof p->hot);
    p->hot_n--;
  }
  else if (p->cold_n > 0 || grow (p))
    data = p->cold[--p->cold_n];
  mutex_unlock (&p->lock);
  return data;
}

void
block_pool_give (struct block_pool *p, void *data)
{
  bool hot;

  if (POOL_MALLOC) {
    free (data);
    return;
  }
  mutex_lock (&p->lock);
  hot = p->hot_n < p->hot_max;
  if (hot) {
    memcpy (data, &p->hot, sizeof p->hot);
    p->hot = data;
    p->hot_n++;
  }
  mutex_unlock (&p->lock);
  if (hot)
    return;
  madvise (data, p->size, MADV_DONTNEED);
  mutex_lock (&p->lock);
  p->cold[p->cold_n++] = data;
  mutex_unlock (&p->lock);
}
