/* format: file extents. */
#include <config.h>

#include <stddef.h>

#include "format/check_internal.h"

/* Where an item that has passed ends in its file. */
static uint64_t
extent_end (const struct item_check *c, const struct btrfs_file_extent *f,
            uint64_t start)
{
  if (f->type == BTRFS_FILE_EXTENT_INLINE)
    return round_up (start + le64_get (f->ram_bytes), c->info->sectorsize);
  return start + le64_get (f->num_bytes);
}

static int
check_inline (const struct item_check *c, const struct btrfs_file_extent *f)
{
  uint64_t ram = le64_get (f->ram_bytes);
  uint32_t bytes = c->size - BTRFS_FILE_EXTENT_INLINE_HEAD;

  if (c->key.offset != 0)
    return item_bad (c, "inline extent that does not begin the file");
  if (f->compression == BTRFS_COMPRESS_NONE && ram != bytes)
    return item_bad (c, "ram_bytes is %" PRIu64 ", expected %" PRIu32, ram,
                     bytes);
  if (ram > BTRFS_MAX_COMPRESSED)
    return item_bad (c, "ram_bytes of an inline extent is %" PRIu64, ram);
  return 0;
}

/* An extent on disk: its addresses and the part of it that is used.  For
 * plain extents old kernels left wrong values in ram_bytes, so only the size
 * on disk is a bound there.
 */
static int
check_on_disk (const struct item_check *c, const struct btrfs_file_extent *f)
{
  uint64_t disk = le64_get (f->disk_bytenr);
  uint64_t disk_len = le64_get (f->disk_num_bytes), end, used, bound;

  if (disk_len == 0)
    return item_bad (c, "disk_num_bytes is 0");
  if (!add_ok (disk, disk_len, &end))
    return item_bad (c, "disk_num_bytes %" PRIu64 " wraps", disk_len);
  if (f->compression == BTRFS_COMPRESS_NONE) {
    bound = disk_len;
  }
  else {
    bound = le64_get (f->ram_bytes);
    if (bound > BTRFS_MAX_COMPRESSED)
      return item_bad (c, "ram_bytes of a compressed extent is %" PRIu64
                       ", expected at most %d", bound, BTRFS_MAX_COMPRESSED);
    if (disk_len > BTRFS_MAX_COMPRESSED)
      return item_bad (c, "disk_num_bytes of a compressed extent is %" PRIu64
                       ", expected at most %d", disk_len,
                       BTRFS_MAX_COMPRESSED);
  }
  if (!add_ok (le64_get (f->offset), le64_get (f->num_bytes), &used) ||
      used > bound)
    return item_bad (c, "offset %" PRIu64 " + num_bytes %" PRIu64
                     " is beyond the extent's %" PRIu64,
                     le64_get (f->offset), le64_get (f->num_bytes), bound);
  return 0;
}

static int
check_regular (const struct item_check *c, const struct btrfs_file_extent *f)
{
  uint64_t end;
  int r;

  r = item_want_size (c, sizeof *f);
  if (r == 0)
    r = item_want_aligned (c, "ram_bytes", le64_get (f->ram_bytes));
  if (r == 0)
    r = item_want_aligned (c, "disk_bytenr", le64_get (f->disk_bytenr));
  if (r == 0)
    r = item_want_aligned (c, "disk_num_bytes",
                           le64_get (f->disk_num_bytes));
  if (r == 0)
    r = item_want_aligned (c, "offset", le64_get (f->offset));
  if (r == 0)
    r = item_want_aligned (c, "num_bytes", le64_get (f->num_bytes));
  if (r < 0)
    return r;
  if (le64_get (f->num_bytes) == 0)
    return item_bad (c, "num_bytes is 0");
  if (!add_ok (c->key.offset, le64_get (f->num_bytes), &end))
    return item_bad (c, "num_bytes %" PRIu64 " wraps",
                     le64_get (f->num_bytes));
  if (f->type == BTRFS_FILE_EXTENT_PREALLOC &&
      f->compression != BTRFS_COMPRESS_NONE)
    return item_bad (c, "preallocated extent with compression %u",
                     f->compression);
  return le64_get (f->disk_bytenr) == 0 ? 0 : check_on_disk (c, f);
}

int
check_file_extent (const struct item_check *c)
{
  const struct btrfs_file_extent *f = (const void *) c->data, *p;
  int r;

  r = item_want_inode_before (c);
  if (r == 0)
    r = item_want_aligned (c, "key offset", c->key.offset);
  if (r < 0)
    return r;
  if (c->size < BTRFS_FILE_EXTENT_INLINE_HEAD)
    return item_bad (c, "item size is %" PRIu32 ", expected at least %d",
                     c->size, BTRFS_FILE_EXTENT_INLINE_HEAD);
  if (f->type > BTRFS_FILE_EXTENT_PREALLOC)
    return item_bad (c, "type is %u, expected at most 2", f->type);
  if (f->compression > BTRFS_COMPRESS_ZSTD)
    return item_bad (c, "compression is %u, expected at most 3",
                     f->compression);
  if (f->encryption != 0)
    return item_bad (c, "encryption is %u, expected 0", f->encryption);
  r = f->type == BTRFS_FILE_EXTENT_INLINE ? check_inline (c, f)
    : check_regular (c, f);
  if (r < 0)
    return r;
  if (c->prev.objectid == c->key.objectid && c->prev.type == c->key.type) {
    p = tb_item_data_c (c->leaf, c->slot - 1);
    if (extent_end (c, p, c->prev.offset) > c->key.offset)
      return item_bad (c, "overlaps the extent before it, which ends at %"
                       PRIu64, extent_end (c, p, c->prev.offset));
  }
  return 0;
}
