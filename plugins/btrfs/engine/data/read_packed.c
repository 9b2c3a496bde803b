/* data: reading compressed and inline extents.
 *
 * A compressed extent is read, verified and decompressed whole, and cached
 * decompressed under its own address: all slices of it, in any file, share
 * that copy.
 */
#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"
#include "data/decompress.h"

#define FRAMES_MAX (BTRFS_MAX_COMPRESSED / CACHE_FRAME)

/* The plain bytes of the extent, PLAIN_LEN (whole sectors) of them. */
static int
unpack (struct file_data *f, const struct mapping *m, uint8_t *plain,
        size_t plain_len)
{
  struct data *d = f->d;
  CLEANUP_FREE uint8_t *packed = io_alloc (m->disk_len);
  int r;

  if (packed == NULL)
    return err_new (ERR_nomem, "compressed extent");
  r = read_sectors (d, m->disk, packed, m->disk_len, file_has_csums (f));
  if (r < 0)
    return r;
  data_count (&d->stats.misses, m->disk_len / d->ps);
  r = decompress (m->compression, packed, m->disk_len, plain, m->ram, d->ps);
  if (r < 0)
    return err_note (r, "extent at logical %" PRIu64 ", %" PRIu64
                     " bytes, plain %" PRIu64, m->disk, m->disk_len, m->ram);
  memset (plain + m->ram, 0, plain_len - m->ram);
  return 0;
}

/* Hand the announced pages (MINE, per frame) their contents, PLAIN, or
 * nothing when it is NULL.
 */
static void
publish (struct data *d, const struct mapping *m, const unsigned *mine,
         const uint8_t *plain)
{
  unsigned k, i;

  for (k = 0; k < FRAMES_MAX; ++k) {
    uint32_t page[CACHE_PAGES];

    for (i = 0; i < CACHE_PAGES; ++i) {
      page[i] = PAGE_NONE;
      if (plain != NULL && (mine[k] & (1u << i))
          && cache_take_pages (d->cache, &page[i], 1) == 1)
        memcpy (page_mem (d->pages, page[i]),
                plain + k * CACHE_FRAME + i * d->ps, d->ps);
    }
    cache_end_read (d->cache, cache_key_plain (m->disk, k), mine[k], page,
                    true);
  }
}

/* What the cache has of the range; false: not all of it. */
static bool
from_cache (struct data *d, const struct mapping *m, uint64_t offset,
            size_t len, uint8_t *dst)
{
  while (len > 0) {
    const unsigned k = offset / CACHE_FRAME, at = offset % CACHE_FRAME;
    const unsigned n = MIN (len, (size_t) (CACHE_FRAME - at));

    if (cache_copy (d->cache, cache_key_plain (m->disk, k), at, n, dst) != 0)
      return false;
    offset += n;
    len -= n;
    dst += n;
  }
  return true;
}

/* Announce all pages of the extent; false when somebody else has announced
 * them.
 */
static bool
announce (struct data *d, const struct mapping *m, size_t plain_len,
          unsigned mine[FRAMES_MAX])
{
  bool any = false, failed;
  unsigned k;

  for (k = 0; k < FRAMES_MAX; ++k) {
    const size_t start = (size_t) k * CACHE_FRAME;
    unsigned pages;

    mine[k] = 0;
    if (start >= plain_len)
      continue;
    pages = MIN (plain_len - start, (size_t) CACHE_FRAME) / d->ps;
    mine[k] = cache_begin_read (d->cache, cache_key_plain (m->disk, k),
                                (2u << (pages - 1)) - 1, &failed);
    any |= mine[k] != 0 || failed;
  }
  return any;
}

static void
wait_for_others (struct data *d, const struct mapping *m)
{
  unsigned k;

  for (k = 0; k < FRAMES_MAX; ++k)
    cache_wait_read (d->cache, cache_key_plain (m->disk, k), UINT16_MAX);
}

int
read_compressed (struct file_data *f, const struct mapping *m,
                 uint64_t offset, size_t len, uint8_t *dst, bool nowait,
                 bool *ret_done)
{
  struct data *d = f->d;
  CLEANUP_FREE uint8_t *plain = NULL;
  const size_t plain_len = round_up (m->ram, d->ps);
  unsigned mine[FRAMES_MAX];
  int r;

  assert (plain_len <= BTRFS_MAX_COMPRESSED);
  *ret_done = from_cache (d, m, offset, len, dst);
  if (*ret_done || nowait)
    return 0;
  *ret_done = true;
  if (!announce (d, m, plain_len, mine)) {
    wait_for_others (d, m);
    if (from_cache (d, m, offset, len, dst))
      return 0;
  }
  plain = malloc (plain_len);
  r = plain == NULL ? err_new (ERR_nomem, "compressed extent")
    : unpack (f, m, plain, plain_len);
  publish (d, m, mine, r == 0 ? plain : NULL);
  if (r < 0)
    return r;
  /* The map's slice lies inside ram, also when rounded. */
  memcpy (dst, plain + offset, len);
  return 0;
}

int
read_inline (struct file_data *f, uint64_t offset, size_t len, uint8_t *dst,
             bool *ret_found)
{
  const uint32_t ps = f->d->ps, max = f->d->fmt->nodesize;
  struct tree *t = file_tree (f);
  CLEANUP_FREE uint8_t *item = malloc (max);
  CLEANUP_FREE uint8_t *plain = calloc (1, ps);
  const struct btrfs_file_extent *e;
  const uint8_t *in;
  uint32_t size = 0;
  uint64_t ram;
  int r;

  if (item == NULL || plain == NULL)
    return err_new (ERR_nomem, "inline extent");
  rwlock_rdlock (&t->lock);
  r = tree_get (t, file_extent_key (f, 0), item, max, &size, ret_found);
  rwlock_unlock (&t->lock);
  if (r < 0 || !*ret_found)
    return r;
  e = (const struct btrfs_file_extent *) item;
  *ret_found = size >= BTRFS_FILE_EXTENT_INLINE_HEAD && size <= max
    && e->type == BTRFS_FILE_EXTENT_INLINE;
  if (!*ret_found)
    return 0;
  size -= BTRFS_FILE_EXTENT_INLINE_HEAD;
  in = item + BTRFS_FILE_EXTENT_INLINE_HEAD;
  ram = MIN (le64_get (e->ram_bytes), (uint64_t) ps);
  if (e->compression != 0)
    r = decompress (e->compression, in, size, plain, ram, ps);
  else
    memcpy (plain, in, MIN ((uint64_t) size, ram));
  if (r < 0)
    return r;
  assert (offset + len <= ps);
  memcpy (dst, plain + offset, len);
  return 0;
}
