/* space: filling a block group's map from what is committed.
 *
 * The source is the free space tree of the last commit, or its extent tree
 * when there is no complete free space tree.  What was allocated since then
 * was allocated from a loaded group; what was freed since then is pinned and
 * not free there.  So the committed state is exactly what may be allocated,
 * as long as the commit changes committed roots and unpins in one step under
 * the committed lock.
 */
#include <config.h>

#include "base/err.h"
#include "base/math.h"
#include "space/space_priv.h"

static int
set_range (struct space *sp, struct block_group *bg, uint64_t start,
           uint64_t len, bool value)
{
  uint64_t off;

  if (start < bg->start || len > bg->length ||
      start - bg->start > bg->length - len ||
      !is_aligned (start - bg->start, sp->sectorsize) ||
      !is_aligned (len, sp->sectorsize))
    return err_new (value ? ERR_fst_format : ERR_extent_format,
                    "range %llu+%llu in block group %llu+%llu",
                    (unsigned long long) start, (unsigned long long) len,
                    (unsigned long long) bg->start,
                    (unsigned long long) bg->length);
  off = start - bg->start;
  return free_map_set (&bg->map, off / sp->sectorsize, len / sp->sectorsize,
                       value, NULL);
}

static int
add_bitmap (struct space *sp, struct block_group *bg, struct key key,
            const uint8_t *bits, uint32_t size)
{
  uint64_t n = key.offset / sp->sectorsize, i, run = 0;
  int r = 0;

  if (!is_aligned (key.offset, sp->sectorsize) ||
      size != div_round_up (n, 8))
    return err_new (ERR_fst_format, "bitmap of %u bytes for %llu", size,
                    (unsigned long long) key.offset);
  for (i = 0; i <= n && r == 0; i++) {
    if (i < n && (bits[i / 8] >> (i % 8) & 1)) {
      run++;
      continue;
    }
    if (run > 0)
      r = set_range (sp, bg, key.objectid + (i - run) * sp->sectorsize,
                     run * sp->sectorsize, true);
    run = 0;
  }
  return r;
}

static int
load_from_fst (struct space *sp, struct block_group *bg, struct block *root)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct key key;
  bool exact;
  int r;

  free_map_init (&bg->map, bg->length / sp->sectorsize, false);
  r = root_find (sp->cache, root, BTRFS_FREE_SPACE_TREE,
                 KEY (bg->start, BTRFS_FREE_SPACE_INFO, bg->length), &c,
                 &exact);
  if (r == 0 && !exact)
    return err_new (ERR_fst_format, "no info item");
  while (r == 0) {
    r = cursor_next (&c);
    if (r < 0 || !cursor_at_item (&c))
      break;
    key = cursor_key (&c);
    if (key.objectid >= bg->start + bg->length ||
        key.type == BTRFS_FREE_SPACE_INFO)
      break;
    if (key.type == BTRFS_FREE_SPACE_EXTENT)
      r = set_range (sp, bg, key.objectid, key.offset, true);
    else if (key.type == BTRFS_FREE_SPACE_BITMAP)
      r = add_bitmap (sp, bg, key, cursor_data (&c), cursor_size (&c));
    else
      r = err_new (ERR_fst_format, "key type %u", key.type);
  }
  return r;
}

static int
load_from_extents (struct space *sp, struct block_group *bg,
                   struct block *root)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct key key;
  int r;

  free_map_init (&bg->map, bg->length / sp->sectorsize, true);
  r = root_find (sp->cache, root, BTRFS_EXTENT_TREE,
                 KEY (bg->start, BTRFS_EXTENT_ITEM, 0), &c, NULL);
  while (r == 0 && cursor_at_item (&c)) {
    key = cursor_key (&c);
    if (key.objectid >= bg->start + bg->length)
      break;
    if (key.type == BTRFS_EXTENT_ITEM)
      r = set_range (sp, bg, key.objectid, key.offset, false);
    else if (key.type == BTRFS_METADATA_ITEM)
      r = set_range (sp, bg, key.objectid, sp->nodesize, false);
    if (r == 0)
      r = cursor_next (&c);
  }
  return r;
}

#define MAX_SUPER_RANGES 64

static int
exclude_supers (struct space *sp, struct block_group *bg)
{
  struct volume_extent ex[MAX_SUPER_RANGES];
  unsigned i, n = volume_super_ranges (sp->volume, bg->start, ex,
                                       MAX_SUPER_RANGES);
  int r = 0;

  for (i = 0; i < n && r == 0; i++)
    r = set_range (sp, bg, ex[i].start, ex[i].len, false);
  if (r == 0 && bg->start < BTRFS_STRIPE_LEN)
    r = set_range (sp, bg, bg->start, MIN (bg->length, BTRFS_STRIPE_LEN -
                                           bg->start), false);
  return r;
}

/* The tree does not know of the image. */
static int
exclude_held (struct block_group *bg)
{
  uint64_t at = 0, s, len;
  int r = 0;

  while (bg->mapped && r == 0 &&
         free_map_next_run (&bg->held_map, at, true, &s, &len)) {
    r = free_map_set (&bg->map, s, len, false, NULL);
    at = s + len;
  }
  return r;
}

static int
load_locked (struct space *sp, struct block_group *bg, struct block *root,
             bool trusted)
{
  int r = 0;

  free_map_done (&bg->map);
  if (root == NULL)
    free_map_init (&bg->map, bg->length / sp->sectorsize, true);
  else if (trusted)
    r = load_from_fst (sp, bg, root);
  else
    r = load_from_extents (sp, bg, root);
  if (r == 0)
    r = exclude_supers (sp, bg);
  return r == 0 ? exclude_held (bg) : r;
}

int
space_load_free (struct space *sp, struct block_group *bg)
{
  struct block *root = NULL;
  bool trusted, fresh, loaded;
  int r = 0;

  {
    SCOPED_LOCK (&sp->lock);
    trusted = sp->fst_trusted;
    fresh = bg->fresh;
    mutex_lock (&bg->lock);
    loaded = bg->loaded;
    mutex_unlock (&bg->lock);
  }
  if (loaded)
    return 0;
  roots_committed_rdlock (sp->roots);
  if (!fresh) {
    root = roots_committed (sp->roots, trusted ? BTRFS_FREE_SPACE_TREE
                            : BTRFS_EXTENT_TREE);
    if (root == NULL)
      r = err_new (ERR_subvol_missing, "no tree to read free space from");
  }
  mutex_lock (&bg->lock);
  if (r == 0 && !bg->loaded) {
    r = load_locked (sp, bg, root, trusted);
    if (r == 0)
      bg->loaded = true;
    else
      free_map_done (&bg->map);
  }
  mutex_unlock (&bg->lock);
  block_put (root);
  roots_committed_unlock (sp->roots);
  if (r < 0)
    return err_note (r, "free space of block group %llu",
                     (unsigned long long) bg->start);
  return 0;
}
