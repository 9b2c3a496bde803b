/* format: data checksums, free space, quota groups, stripe tree. */
#include <config.h>

#include "format/check_internal.h"

/* Bytes of data that a checksum item covers. */
static uint64_t
csum_item_bytes (const struct item_check *c, uint32_t size)
{
  return (uint64_t) (size / c->info->csum_size) * c->info->sectorsize;
}

int
check_data_csum (const struct item_check *c)
{
  uint64_t end, prev_end;
  int r;

  if (c->key.objectid != BTRFS_EXTENT_CSUM_OBJECTID)
    return item_bad (c, "objectid, expected EXTENT_CSUM");
  r = item_want_aligned (c, "key offset", c->key.offset);
  if (r < 0)
    return r;
  if (c->size == 0 || c->size % c->info->csum_size != 0)
    return item_bad (c, "item size is %" PRIu32 ", expected a multiple of "
                     "%u", c->size, c->info->csum_size);
  if (!add_ok (c->key.offset, csum_item_bytes (c, c->size), &end))
    return item_bad (c, "range wraps");
  if (c->slot > 0 && c->prev.type == BTRFS_EXTENT_CSUM) {
    prev_end = c->prev.offset +
      csum_item_bytes (c, tb_item_size (c->leaf, c->slot - 1));
    if (prev_end > c->key.offset)
      return item_bad (c, "overlaps the item before it, which ends at %"
                       PRIu64, prev_end);
  }
  return 0;
}

static int
check_free_space_info (const struct item_check *c)
{
  const struct btrfs_free_space_info *i = (const void *) c->data;
  int r = item_want_size (c, sizeof *i);

  if (r < 0)
    return r;
  if ((le32_get (i->flags) & ~BTRFS_FREE_SPACE_USING_BITMAPS) != 0)
    return item_bad (c, "flags are 0x%" PRIx32, le32_get (i->flags));
  if (le32_get (i->extent_count) > c->key.offset / c->info->sectorsize)
    return item_bad (c, "extent_count is %" PRIu32 ", expected at most one "
                     "per sector", le32_get (i->extent_count));
  return 0;
}

int
check_free_space (const struct item_check *c)
{
  uint64_t end, sectors, bytes;
  int r;

  r = item_want_aligned (c, "start", c->key.objectid);
  if (r == 0)
    r = item_want_aligned (c, "length", c->key.offset);
  if (r < 0)
    return r;
  if (c->key.offset == 0 ||
      !add_ok (c->key.objectid, c->key.offset, &end))
    return item_bad (c, "length is 0 or wraps");
  if (c->key.type == BTRFS_FREE_SPACE_INFO)
    return check_free_space_info (c);
  if ((c->prev.type == BTRFS_FREE_SPACE_EXTENT ||
       c->prev.type == BTRFS_FREE_SPACE_BITMAP) &&
      c->prev.objectid + c->prev.offset > c->key.objectid)
    return item_bad (c, "overlaps the free space before it");
  if (c->key.type == BTRFS_FREE_SPACE_EXTENT)
    return item_want_size (c, 0);
  sectors = c->key.offset / c->info->sectorsize;
  bytes = div_round_up (sectors, 8);
  if (c->size != bytes)
    return item_bad (c, "item size is %" PRIu32 ", expected %" PRIu64,
                     c->size, bytes);
  return 0;
}

/* The header of a space cache file (version 1), and whatever else Linux may
 * keep under key type 0.
 */
int
check_space_cache (const struct item_check *c)
{
  if (c->key.objectid != BTRFS_FREE_SPACE_OBJECTID)
    return 0;
  /* location, generation, number of entries and bitmaps */
  return item_want_size (c, sizeof (struct btrfs_disk_key) + 3 * 8);
}

int
check_qgroup (const struct item_check *c)
{
  const struct btrfs_qgroup_status *s = (const void *) c->data;

  switch (c->key.type) {
  case BTRFS_QGROUP_STATUS:
    /* Later kernels append a number. */
    if (c->size != sizeof *s && c->size != sizeof *s + 8)
      return item_bad (c, "item size is %" PRIu32 ", expected %zu or %zu",
                       c->size, sizeof *s, sizeof *s + 8);
    return 0;
  case BTRFS_QGROUP_INFO:
  case BTRFS_QGROUP_LIMIT:
    return item_want_size (c, 5 * 8);
  default:
    return item_want_size (c, 0);
  }
}

int
check_raid_stripe (const struct item_check *c)
{
  if ((c->info->incompat & BTRFS_INCOMPAT_RAID_STRIPE_TREE) == 0)
    return item_bad (c, "item without feature raid-stripe-tree");
  if (c->size == 0 || c->size % 16 != 0)
    return item_bad (c, "item size is %" PRIu32
                     ", expected a multiple of 16", c->size);
  return item_want_aligned (c, "address", c->key.objectid);
}
