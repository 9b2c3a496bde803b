/* format: the structure of nodes and leaves, and the way to item checks.
 *
 * The rules are those by which Linux accepts a block (its tree-checker), as
 * far as they follow from the format: what Linux writes passes, and what
 * passes can be used without further bounds checks.
 *
 * Not checked: the chunk tree uuid in headers, which Linux ignores too and
 * old tools left zero; the WRITTEN flag, for blocks are checked before they
 * are written.
 */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "base/csum.h"
#include "format/check_internal.h"

int
item_bad (const struct item_check *c, const char *fmt, ...)
{
  char what[256], key[KEY_STR_MAX], tree[TREE_STR_MAX];
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (what, sizeof what, fmt, ap);
  va_end (ap);
  return err_new (ERR_item_format, "tree %s block %" PRIu64 " slot %" PRIu32
                  " key %s: %s", tree_str (c->owner, tree),
                  tb_bytenr (c->leaf), c->slot, key_str (c->key, key), what);
}

static int
block_bad (int code, const void *buf, const char *fmt, ...)
  __attribute__ ((format (printf, 3, 4), cold));

static int
block_bad (int code, const void *buf, const char *fmt, ...)
{
  char what[256], tree[TREE_STR_MAX];
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (what, sizeof what, fmt, ap);
  va_end (ap);
  return err_new (code, "tree %s block %" PRIu64 " level %u: %s",
                  tree_str (tb_owner (buf), tree), tb_bytenr (buf),
                  tb_level (buf), what);
}

bool
tree_id_is_fs (uint64_t id)
{
  /* Ids with the top 16 bits set are qgroups of a level, or negative. */
  return id == BTRFS_FS_TREE ||
    (id >= BTRFS_FIRST_FREE_OBJECTID && id >> 48 == 0);
}

bool
inode_number_ok (uint64_t ino)
{
  return (ino >= BTRFS_FIRST_FREE_OBJECTID &&
          ino <= BTRFS_LAST_FREE_OBJECTID) ||
    ino == BTRFS_ROOT_TREE_DIR || ino == BTRFS_FREE_INO_OBJECTID;
}

int
item_want_size (const struct item_check *c, uint32_t size)
{
  if (c->size != size)
    return item_bad (c, "item size is %" PRIu32 ", expected %" PRIu32,
                     c->size, size);
  return 0;
}

int
item_want_inode_before (const struct item_check *c)
{
  if (c->slot == 0 || !tree_id_is_fs (c->owner) ||
      c->prev.objectid == c->key.objectid)
    return 0;
  return item_bad (c, "no item of this inode before it, but of %" PRIu64,
                   c->prev.objectid);
}

int
item_want_aligned (const struct item_check *c, const char *field,
                   uint64_t value)
{
  if (!is_aligned (value, c->info->sectorsize))
    return item_bad (c, "%s is %" PRIu64 ", expected a multiple of %" PRIu32,
                     field, value, c->info->sectorsize);
  return 0;
}

int
item_want_generation (const struct item_check *c, const char *field,
                      uint64_t value)
{
  if (value > c->max_generation)
    return item_bad (c, "%s is %" PRIu64 ", expected no more than %" PRIu64,
                     field, value, c->max_generation);
  return 0;
}

static int
check_item (const struct item_check *c)
{
  switch (c->key.type) {
  case 0:
    return check_space_cache (c);
  case BTRFS_INODE_ITEM:
    return check_inode_item (c);
  case BTRFS_INODE_REF:
    return check_inode_ref (c);
  case BTRFS_INODE_EXTREF:
    return check_inode_extref (c);
  case BTRFS_XATTR_ITEM:
  case BTRFS_DIR_ITEM:
  case BTRFS_DIR_INDEX:
    return check_dir_entries (c);
  case BTRFS_DIR_LOG_ITEM:
  case BTRFS_DIR_LOG_INDEX:
    return check_dir_log (c);
  case BTRFS_ORPHAN_ITEM:
    return check_orphan (c);
  case BTRFS_EXTENT_DATA:
    return check_file_extent (c);
  case BTRFS_EXTENT_CSUM:
    return check_data_csum (c);
  case BTRFS_ROOT_ITEM:
    return check_root_item (c);
  case BTRFS_ROOT_REF:
  case BTRFS_ROOT_BACKREF:
    return check_root_ref (c);
  case BTRFS_EXTENT_ITEM:
  case BTRFS_METADATA_ITEM:
    return check_extent_item (c);
  case BTRFS_TREE_BLOCK_REF:
  case BTRFS_SHARED_BLOCK_REF:
  case BTRFS_SHARED_DATA_REF:
    return check_keyed_ref (c);
  case BTRFS_EXTENT_DATA_REF:
    return check_keyed_data_ref (c);
  case BTRFS_BLOCK_GROUP_ITEM:
    return check_block_group (c);
  case BTRFS_FREE_SPACE_INFO:
  case BTRFS_FREE_SPACE_EXTENT:
  case BTRFS_FREE_SPACE_BITMAP:
    return check_free_space (c);
  case BTRFS_DEV_EXTENT:
    return check_dev_extent (c);
  case BTRFS_DEV_ITEM:
    return check_dev_item (c);
  case BTRFS_CHUNK_ITEM:
    return check_chunk_item (c);
  case BTRFS_RAID_STRIPE:
    return check_raid_stripe (c);
  case BTRFS_QGROUP_STATUS:
  case BTRFS_QGROUP_INFO:
  case BTRFS_QGROUP_LIMIT:
  case BTRFS_QGROUP_RELATION:
    return check_qgroup (c);
  case BTRFS_UUID_SUBVOL:
  case BTRFS_UUID_RECEIVED_SUBVOL:
    return check_uuid_item (c);
  default:
    return 0;                   /* nothing here relies on others */
  }
}

/* Only the root node of a tree can be a leaf without items, and some trees
 * are never empty.
 */
static int
check_empty_leaf (const void *buf)
{
  switch (tb_owner (buf)) {
  case 0:
  case BTRFS_ROOT_TREE:
  case BTRFS_EXTENT_TREE:
  case BTRFS_CHUNK_TREE:
  case BTRFS_DEV_TREE:
  case BTRFS_FS_TREE:
  case BTRFS_DATA_RELOC_TREE:
    return block_bad (ERR_leaf_format, buf, "no items");
  default:
    return 0;
  }
}

/* Keys ascend; the data areas lie back to back from the end of the block,
 * first item last, and stay clear of the item array.
 */
static int
check_leaf_slot (const struct item_check *c, uint32_t data_end)
{
  const struct btrfs_item *item = tb_item_c (c->leaf, c->slot);
  uint32_t offset = le32_get (item->offset), n = tb_nritems (c->leaf);
  char k[KEY_STR_MAX], p[KEY_STR_MAX];

  if (c->slot > 0 && key_cmp (c->prev, c->key) >= 0)
    return block_bad (ERR_leaf_format, c->leaf, "slot %" PRIu32 ": key %s "
                      "after %s", c->slot, key_str (c->key, k),
                      key_str (c->prev, p));
  if ((uint64_t) offset + c->size != data_end)
    return block_bad (ERR_leaf_format, c->leaf, "slot %" PRIu32 " key %s: "
                      "data ends at %" PRIu64 ", expected %" PRIu32, c->slot,
                      key_str (c->key, k), (uint64_t) offset + c->size,
                      data_end);
  if (offset < n * sizeof *item)
    return block_bad (ERR_leaf_format, c->leaf, "slot %" PRIu32 " key %s: "
                      "data at %" PRIu32 " is inside the item array",
                      c->slot, key_str (c->key, k), offset);
  return 0;
}

static int
check_leaf (const struct format_info *info, const void *buf,
            uint64_t max_generation)
{
  struct item_check c = { .info = info, .leaf = buf,
    .owner = tb_owner (buf), .max_generation = max_generation };
  uint32_t n = tb_nritems (buf), end = tb_leaf_data_size (info->nodesize);
  int r;

  if (n == 0)
    return check_empty_leaf (buf);
  if (n > end / sizeof (struct btrfs_item))
    return block_bad (ERR_leaf_format, buf, "nritems is %" PRIu32
                      ", expected no more than %zu", n,
                      end / sizeof (struct btrfs_item));
  for (c.slot = 0; c.slot < n; ++c.slot) {
    c.key = tb_item_key (buf, c.slot);
    c.size = tb_item_size (buf, c.slot);
    r = check_leaf_slot (&c, end);
    if (r < 0)
      return r;
    end -= c.size;
    c.data = tb_item_data_c (buf, c.slot);
    r = check_item (&c);
    if (r < 0)
      return r;
    c.prev = c.key;
  }
  return 0;
}

static int
check_node (const struct format_info *info, const void *buf)
{
  uint32_t n = tb_nritems (buf), max = tb_node_max_ptrs (info->nodesize);
  char k[KEY_STR_MAX], p[KEY_STR_MAX];
  struct key prev = KEY_MIN, key;
  uint64_t child;

  if (n == 0 || n > max)
    return block_bad (ERR_node_format, buf, "nritems is %" PRIu32
                      ", expected 1 to %" PRIu32, n, max);
  for (uint32_t i = 0; i < n; ++i) {
    key = key_from_disk (&tb_ptr_c (buf, i)->key);
    child = le64_get (tb_ptr_c (buf, i)->blockptr);
    if (child == 0 || !is_aligned (child, info->sectorsize))
      return block_bad (ERR_node_format, buf, "slot %" PRIu32 " key %s: "
                        "points to %" PRIu64, i, key_str (key, k), child);
    if (i > 0 && key_cmp (prev, key) >= 0)
      return block_bad (ERR_node_format, buf, "slot %" PRIu32 ": key %s "
                        "after %s", i, key_str (key, k), key_str (prev, p));
    prev = key;
  }
  return 0;
}

static int
check_contents (const struct format_info *info, const void *buf,
                uint64_t max_generation)
{
  unsigned level = tb_level (buf);

  if (level >= BTRFS_MAX_LEVEL)
    return block_bad (ERR_block_header, buf, "level, expected below %d",
                      BTRFS_MAX_LEVEL);
  return level == 0 ? check_leaf (info, buf, max_generation)
    : check_node (info, buf);
}

int
tree_check_contents (const struct format_info *info, const void *buf)
{
  return check_contents (info, buf, UINT64_MAX);
}

/* The owner in the header is the tree that allocated the block: in trees with
 * files any of them, since snapshots share blocks.  Log trees and relocation
 * trees hold blocks under the number of the tree that they stand for, which
 * the caller may not know.
 */
static int
check_block_owner (const void *buf, uint64_t want)
{
  uint64_t owner = tb_owner (buf);
  char t[TREE_STR_MAX];
  bool ok;

  if (want == 0 || want == BTRFS_TREE_LOG || want == BTRFS_TREE_RELOC)
    return 0;
  if (tree_id_is_fs (want))
    ok = tree_id_is_fs (owner);
  else
    ok = owner == want;
  if (!ok)
    return block_bad (ERR_block_parent, buf, "owner, expected %s",
                      tree_str (want, t));
  return 0;
}

/* What the pointer said about the block. */
static int
check_expectations (const void *buf, const struct tree_expect *e)
{
  uint64_t gen = tb_generation (buf);
  char k[KEY_STR_MAX], f[KEY_STR_MAX];
  struct key first;

  if (e->has_level && tb_level (buf) != e->level)
    return block_bad (ERR_block_parent, buf, "expected level %u", e->level);
  if (e->generation != 0 && gen != e->generation)
    return block_bad (ERR_block_parent, buf, "generation is %" PRIu64
                      ", expected %" PRIu64, gen, e->generation);
  if (!e->has_first_key)
    return check_block_owner (buf, e->owner);
  if (tb_nritems (buf) == 0)
    return block_bad (ERR_block_parent, buf, "no items, expected first key "
                      "%s", key_str (e->first_key, k));
  first = tb_key (buf, 0);
  if (key_cmp (first, e->first_key) != 0)
    return block_bad (ERR_block_parent, buf, "first key is %s, expected %s",
                      key_str (first, f), key_str (e->first_key, k));
  return check_block_owner (buf, e->owner);
}

struct tree_expect
tree_expect_child (const void *parent, uint32_t slot, uint64_t owner)
{
  const struct btrfs_key_ptr *ptr = tb_ptr_c (parent, slot);

  return (struct tree_expect) {
    .bytenr = le64_get (ptr->blockptr),
    .generation = le64_get (ptr->generation),
    .owner = owner,
    .first_key = key_from_disk (&ptr->key),
    .has_first_key = true,
    .level = tb_level (parent) - 1,
    .has_level = true,
  };
}

int
tree_check_block (const struct format_info *info, const void *buf,
                  const struct tree_expect *e)
{
  uint64_t max = UINT64_MAX;
  int r;

  if (!tb_csum_ok (buf, info->nodesize, info->csum_type))
    return err_new (ERR_block_csum, "block %" PRIu64 ", %s", e->bytenr,
                    csum_name (info->csum_type));
  if (tb_bytenr (buf) != e->bytenr)
    return err_new (ERR_block_header, "block %" PRIu64 ": bytenr is %" PRIu64,
                    e->bytenr, tb_bytenr (buf));
  if (memcmp (tb_header_c (buf)->fsid, info->metadata_uuid,
              BTRFS_UUID_SIZE) != 0)
    return block_bad (ERR_block_header, buf, "fsid of another pool");
  /* Blocks of a log are one generation ahead of the superblock. */
  if (e->max_generation != 0 && e->max_generation != UINT64_MAX)
    max = e->max_generation + 1;
  if (tb_generation (buf) > max)
    return block_bad (ERR_block_header, buf, "generation is %" PRIu64
                      ", expected no more than %" PRIu64,
                      tb_generation (buf), max);
  r = check_contents (info, buf, max);
  if (r < 0)
    return r;
  return check_expectations (buf, e);
}
