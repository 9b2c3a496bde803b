/* format: checking a superblock, and its array of system chunks. */
#include <config.h>

#include <inttypes.h>

#include "base/csum.h"
#include "base/err.h"
#include "base/math.h"
#include "format/check.h"
#include "format/super.h"
#include "format/tree_block.h"

_Static_assert (sizeof (struct btrfs_super) == BTRFS_SUPER_SIZE,
                "size of the superblock");

static int
field_bad (const char *field, uint64_t value, const char *want)
{
  return err_new (ERR_super_field, "%s is %" PRIu64 ", expected %s",
                  field, value, want);
}

static const uint8_t *
super_metadata_uuid (const struct btrfs_super *sb)
{
  return le64_get (sb->incompat_flags) & BTRFS_INCOMPAT_METADATA_UUID
    ? sb->metadata_uuid : sb->fsid;
}

void
format_info_init (struct format_info *info, const struct btrfs_super *sb)
{
  memset (info, 0, sizeof *info);
  info->nodesize = le32_get (sb->nodesize);
  info->sectorsize = le32_get (sb->sectorsize);
  info->csum_type = le16_get (sb->csum_type);
  info->csum_size = csum_size (info->csum_type);
  info->incompat = le64_get (sb->incompat_flags);
  info->compat_ro = le64_get (sb->compat_ro_flags);
  memcpy (info->fsid, sb->fsid, BTRFS_UUID_SIZE);
  memcpy (info->metadata_uuid, super_metadata_uuid (sb), BTRFS_UUID_SIZE);
}

static int
check_sizes (const struct btrfs_super *sb)
{
  uint32_t sectorsize = le32_get (sb->sectorsize);
  uint32_t nodesize = le32_get (sb->nodesize);
  uint32_t leafsize = le32_get (sb->unused_leafsize);
  uint32_t stripesize = le32_get (sb->stripesize);

  if (!is_power_of_2 (sectorsize) || sectorsize < 4096 || sectorsize > 65536)
    return field_bad ("sectorsize", sectorsize,
                      "a power of two from 4096 to 65536");
  if (!is_power_of_2 (nodesize) || nodesize < sectorsize ||
      nodesize > BTRFS_NODESIZE_MAX)
    return field_bad ("nodesize", nodesize,
                      "a power of two from sectorsize to 65536");
  if (leafsize != nodesize)
    return field_bad ("leafsize", leafsize, "nodesize");
  if (!is_power_of_2 (stripesize))
    return field_bad ("stripesize", stripesize, "a power of two");
  return 0;
}

static int
check_root_pointer (const char *name, uint64_t bytenr, unsigned level,
                    uint32_t sectorsize)
{
  if (!is_aligned (bytenr, sectorsize))
    return field_bad (name, bytenr, "a multiple of sectorsize");
  if (level >= BTRFS_MAX_LEVEL)
    return err_new (ERR_super_field, "%s level is %u, expected below %d",
                    name, level, BTRFS_MAX_LEVEL);
  return 0;
}

static int
check_roots (const struct btrfs_super *sb)
{
  uint32_t sectorsize = le32_get (sb->sectorsize);
  uint64_t gen = le64_get (sb->generation);
  int r;

  r = check_root_pointer ("root", le64_get (sb->root), sb->root_level,
                          sectorsize);
  if (r == 0)
    r = check_root_pointer ("chunk_root", le64_get (sb->chunk_root),
                            sb->chunk_root_level, sectorsize);
  if (r == 0)
    r = check_root_pointer ("log_root", le64_get (sb->log_root),
                            sb->log_root_level, sectorsize);
  if (r < 0)
    return r;
  if (le64_get (sb->root) == 0)
    return field_bad ("root", 0, "an address");
  if (gen == 0)
    return field_bad ("generation", gen, "at least 1");
  if (le64_get (sb->chunk_root_generation) > gen)
    return field_bad ("chunk_root_generation",
                      le64_get (sb->chunk_root_generation),
                      "no more than generation");
  if (le64_get (sb->root_dir_objectid) != BTRFS_ROOT_TREE_DIR)
    return field_bad ("root_dir_objectid", le64_get (sb->root_dir_objectid),
                      "6");
  return 0;
}

static int
check_space (const struct btrfs_super *sb)
{
  uint64_t total = le64_get (sb->total_bytes);
  uint64_t used = le64_get (sb->bytes_used);
  uint64_t devices = le64_get (sb->num_devices);
  const struct btrfs_dev_item *dev = &sb->dev_item;

  if (used > total)
    return field_bad ("bytes_used", used, "no more than total_bytes");
  /* An empty pool has at least six trees of one block each. */
  if (used < UINT64_C (6) * le32_get (sb->nodesize))
    return field_bad ("bytes_used", used, "at least six tree blocks");
  if (devices == 0 || devices > UINT64_C (1) << 31)
    return field_bad ("num_devices", devices, "1 to 2^31");
  if (le64_get (dev->devid) == 0)
    return field_bad ("dev_item.devid", 0, "at least 1");
  if (le64_get (dev->bytes_used) > le64_get (dev->total_bytes))
    return field_bad ("dev_item.bytes_used", le64_get (dev->bytes_used),
                      "no more than dev_item.total_bytes");
  if (memcmp (dev->fsid, super_metadata_uuid (sb), BTRFS_UUID_SIZE) != 0)
    return err_new (ERR_super_field, "dev_item.fsid is not that of the pool");
  if (memchr (sb->label, '\0', sizeof sb->label) == NULL)
    return err_new (ERR_super_field, "label has no end");
  return 0;
}

static int
check_features (const struct btrfs_super *sb)
{
  uint64_t incompat = le64_get (sb->incompat_flags);
  uint64_t ro = le64_get (sb->compat_ro_flags);

  if ((incompat & BTRFS_INCOMPAT_MIXED_GROUPS) != 0 &&
      le32_get (sb->nodesize) != le32_get (sb->sectorsize))
    return field_bad ("nodesize", le32_get (sb->nodesize),
                      "sectorsize, because of feature mixed-bg");
  if ((ro & BTRFS_COMPAT_RO_BLOCK_GROUP_TREE) != 0 &&
      ((incompat & BTRFS_INCOMPAT_NO_HOLES) == 0 ||
       (ro & BTRFS_COMPAT_RO_FREE_SPACE_TREE) == 0))
    return err_new (ERR_super_field, "feature block-group-tree without "
                    "no-holes and free-space-tree");
  return 0;
}

/* Key and chunk at *POS of the array, whose end is SIZE; checked so that both
 * are inside.
 */
static int
sys_chunk_at (const struct btrfs_super *sb, uint32_t size, uint32_t *pos,
              struct key *ret_key, const struct btrfs_chunk **ret_chunk)
{
  const uint8_t *p = sb->sys_chunk_array + *pos;
  const struct btrfs_chunk *chunk;
  struct btrfs_disk_key dk;
  uint32_t left = size - *pos, stripes;

  if (left < sizeof dk + sizeof *chunk)
    return err_new (ERR_super_field, "sys_chunk_array: %" PRIu32
                    " bytes at %" PRIu32 " are no chunk", left, *pos);
  memcpy (&dk, p, sizeof dk);
  chunk = (const struct btrfs_chunk *) (p + sizeof dk);
  stripes = le16_get (chunk->num_stripes);
  if (stripes == 0 || stripes > (left - sizeof dk - sizeof *chunk) /
      sizeof (struct btrfs_stripe))
    return err_new (ERR_super_field, "sys_chunk_array: chunk at %" PRIu32
                    " with %" PRIu32 " stripes", *pos, stripes);
  *ret_key = key_from_disk (&dk);
  *ret_chunk = chunk;
  *pos += sizeof dk + sizeof *chunk + stripes * sizeof (struct btrfs_stripe);
  return 0;
}

static uint32_t
chunk_bytes (const struct btrfs_chunk *chunk)
{
  return sizeof *chunk +
    le16_get (chunk->num_stripes) * sizeof (struct btrfs_stripe);
}

static int
check_sys_array (const struct btrfs_super *sb)
{
  uint32_t size = le32_get (sb->sys_chunk_array_size), pos = 0;
  struct format_info info;
  const struct btrfs_chunk *chunk = NULL;
  char buf[KEY_STR_MAX];
  struct key key = KEY_MIN;
  int r;

  if (size > BTRFS_SYS_ARRAY_SIZE || size == 0)
    return field_bad ("sys_chunk_array_size", size, "1 to 2048");
  format_info_init (&info, sb);
  while (pos < size) {
    r = sys_chunk_at (sb, size, &pos, &key, &chunk);
    if (r < 0)
      return r;
    if (key.type != BTRFS_CHUNK_ITEM ||
        key.objectid != BTRFS_FIRST_CHUNK_TREE_OBJECTID)
      return err_new (ERR_super_field, "sys_chunk_array: key %s, expected a "
                      "CHUNK_ITEM", key_str (key, buf));
    r = chunk_check (&info, chunk, chunk_bytes (chunk), key.offset);
    if (r < 0)
      return err_note (r, "sys_chunk_array");
    if ((le64_get (chunk->type) & BTRFS_BG_SYSTEM) == 0)
      return err_new (ERR_super_field, "sys_chunk_array: chunk %" PRIu64
                      " is not of type SYSTEM", key.offset);
  }
  return 0;
}

int
super_check (const struct btrfs_super *sb, uint64_t physical)
{
  unsigned type = le16_get (sb->csum_type);
  int r;

  if (le64_get (sb->magic) != BTRFS_MAGIC)
    return err_new (ERR_super_magic, "magic 0x%016" PRIx64,
                    le64_get (sb->magic));
  if (!csum_type_known (type))
    return err_new (ERR_csum_type, "type %u", type);
  if (!tb_csum_ok (sb, sizeof *sb, type))
    return err_new (ERR_super_csum, "%s, copy at %" PRIu64, csum_name (type),
                    physical);
  if (le64_get (sb->bytenr) != physical)
    return err_new (ERR_super_field, "bytenr is %" PRIu64 ", expected %"
                    PRIu64, le64_get (sb->bytenr), physical);
  r = check_sizes (sb);
  if (r == 0)
    r = check_roots (sb);
  if (r == 0)
    r = check_space (sb);
  if (r == 0)
    r = check_features (sb);
  if (r == 0)
    r = check_sys_array (sb);
  return r;
}

int
super_sys_chunks (const struct btrfs_super *sb, super_sys_chunk_fn fn,
                  void *opaque)
{
  uint32_t size = le32_get (sb->sys_chunk_array_size), pos = 0;
  const struct btrfs_chunk *chunk = NULL;
  struct key key = KEY_MIN;
  int r;

  while (pos < size) {
    r = sys_chunk_at (sb, size, &pos, &key, &chunk);
    if (r < 0)
      return r;
    r = fn (opaque, key, chunk, chunk_bytes (chunk));
    if (r != 0)
      return r;
  }
  return 0;
}

int
super_sys_chunk_add (struct btrfs_super *sb, struct key key,
                     const struct btrfs_chunk *chunk, uint32_t size)
{
  uint32_t used = le32_get (sb->sys_chunk_array_size);
  struct btrfs_disk_key dk = key_to_disk (key);

  if (used > BTRFS_SYS_ARRAY_SIZE ||
      sizeof dk + size > BTRFS_SYS_ARRAY_SIZE - used)
    return err_new (ERR_sys_array, "%" PRIu32 " of %d bytes used, %zu more "
                    "for chunk %" PRIu64, used, BTRFS_SYS_ARRAY_SIZE,
                    sizeof dk + size, key.offset);
  memcpy (sb->sys_chunk_array + used, &dk, sizeof dk);
  memcpy (sb->sys_chunk_array + used + sizeof dk, chunk, size);
  sb->sys_chunk_array_size = le32_make (used + sizeof dk + size);
  return 0;
}

void
super_sys_chunk_del (struct btrfs_super *sb, uint64_t logical)
{
  uint32_t size = le32_get (sb->sys_chunk_array_size), pos = 0, start;
  const struct btrfs_chunk *chunk = NULL;
  struct key key = KEY_MIN;

  while (pos < size) {
    start = pos;
    if (sys_chunk_at (sb, size, &pos, &key, &chunk) < 0)
      return;
    if (key.offset != logical)
      continue;
    memmove (sb->sys_chunk_array + start, sb->sys_chunk_array + pos,
             size - pos);
    memset (sb->sys_chunk_array + size - (pos - start), 0, pos - start);
    sb->sys_chunk_array_size = le32_make (size - (pos - start));
    return;
  }
}

void
super_seal (struct btrfs_super *sb)
{
  tb_set_csum (sb, sizeof *sb, le16_get (sb->csum_type));
}
