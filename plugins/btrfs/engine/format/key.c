/* format: names of keys and trees. */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>

#include "base/math.h"
#include "format/key.h"

bool
key_next (struct key k, struct key *ret_next)
{
  if (k.offset < UINT64_MAX) {
    ++k.offset;
  }
  else if (k.type < UINT8_MAX) {
    ++k.type;
    k.offset = 0;
  }
  else if (k.objectid < UINT64_MAX) {
    ++k.objectid;
    k.type = 0;
    k.offset = 0;
  }
  else {
    return false;
  }
  *ret_next = k;
  return true;
}

static const struct {
  uint64_t id;
  const char *name;
} trees[] = {
  { BTRFS_ROOT_TREE, "ROOT_TREE" },
  { BTRFS_EXTENT_TREE, "EXTENT_TREE" },
  { BTRFS_CHUNK_TREE, "CHUNK_TREE" },
  { BTRFS_DEV_TREE, "DEV_TREE" },
  { BTRFS_FS_TREE, "FS_TREE" },
  { BTRFS_ROOT_TREE_DIR, "ROOT_TREE_DIR" },
  { BTRFS_CSUM_TREE, "CSUM_TREE" },
  { BTRFS_QUOTA_TREE, "QUOTA_TREE" },
  { BTRFS_UUID_TREE, "UUID_TREE" },
  { BTRFS_FREE_SPACE_TREE, "FREE_SPACE_TREE" },
  { BTRFS_BLOCK_GROUP_TREE, "BLOCK_GROUP_TREE" },
  { BTRFS_RAID_STRIPE_TREE, "RAID_STRIPE_TREE" },
  { BTRFS_REMAP_TREE, "REMAP_TREE" },
  { BTRFS_TREE_LOG, "TREE_LOG" },
  { BTRFS_TREE_LOG_FIXUP, "TREE_LOG_FIXUP" },
  { BTRFS_TREE_RELOC, "TREE_RELOC" },
  { BTRFS_DATA_RELOC_TREE, "DATA_RELOC_TREE" },
};

const char *
tree_str (uint64_t tree_id, char buf[TREE_STR_MAX])
{
  for (size_t i = 0; i < ARRAY_SIZE (trees); ++i) {
    if (trees[i].id == tree_id) {
      snprintf (buf, TREE_STR_MAX, "%s", trees[i].name);
      return buf;
    }
  }
  snprintf (buf, TREE_STR_MAX, "%" PRIu64, tree_id);
  return buf;
}

const char *
key_type_name (uint8_t type)
{
  static const char *const names[256] = {
    [BTRFS_INODE_ITEM] = "INODE_ITEM",
    [BTRFS_INODE_REF] = "INODE_REF",
    [BTRFS_INODE_EXTREF] = "INODE_EXTREF",
    [BTRFS_XATTR_ITEM] = "XATTR_ITEM",
    [BTRFS_VERITY_DESC_ITEM] = "VERITY_DESC_ITEM",
    [BTRFS_VERITY_MERKLE_ITEM] = "VERITY_MERKLE_ITEM",
    [BTRFS_ORPHAN_ITEM] = "ORPHAN_ITEM",
    [BTRFS_DIR_LOG_ITEM] = "DIR_LOG_ITEM",
    [BTRFS_DIR_LOG_INDEX] = "DIR_LOG_INDEX",
    [BTRFS_DIR_ITEM] = "DIR_ITEM",
    [BTRFS_DIR_INDEX] = "DIR_INDEX",
    [BTRFS_EXTENT_DATA] = "EXTENT_DATA",
    [BTRFS_EXTENT_CSUM] = "EXTENT_CSUM",
    [BTRFS_ROOT_ITEM] = "ROOT_ITEM",
    [BTRFS_ROOT_BACKREF] = "ROOT_BACKREF",
    [BTRFS_ROOT_REF] = "ROOT_REF",
    [BTRFS_EXTENT_ITEM] = "EXTENT_ITEM",
    [BTRFS_METADATA_ITEM] = "METADATA_ITEM",
    [BTRFS_EXTENT_OWNER_REF] = "EXTENT_OWNER_REF",
    [BTRFS_TREE_BLOCK_REF] = "TREE_BLOCK_REF",
    [BTRFS_EXTENT_DATA_REF] = "EXTENT_DATA_REF",
    [BTRFS_SHARED_BLOCK_REF] = "SHARED_BLOCK_REF",
    [BTRFS_SHARED_DATA_REF] = "SHARED_DATA_REF",
    [BTRFS_BLOCK_GROUP_ITEM] = "BLOCK_GROUP_ITEM",
    [BTRFS_FREE_SPACE_INFO] = "FREE_SPACE_INFO",
    [BTRFS_FREE_SPACE_EXTENT] = "FREE_SPACE_EXTENT",
    [BTRFS_FREE_SPACE_BITMAP] = "FREE_SPACE_BITMAP",
    [BTRFS_DEV_EXTENT] = "DEV_EXTENT",
    [BTRFS_DEV_ITEM] = "DEV_ITEM",
    [BTRFS_CHUNK_ITEM] = "CHUNK_ITEM",
    [BTRFS_RAID_STRIPE] = "RAID_STRIPE",
    [BTRFS_QGROUP_STATUS] = "QGROUP_STATUS",
    [BTRFS_QGROUP_INFO] = "QGROUP_INFO",
    [BTRFS_QGROUP_LIMIT] = "QGROUP_LIMIT",
    [BTRFS_QGROUP_RELATION] = "QGROUP_RELATION",
    [BTRFS_TEMPORARY_ITEM] = "TEMPORARY_ITEM",
    [BTRFS_PERSISTENT_ITEM] = "PERSISTENT_ITEM",
    [BTRFS_DEV_REPLACE] = "DEV_REPLACE",
    [BTRFS_UUID_SUBVOL] = "UUID_KEY_SUBVOL",
    [BTRFS_UUID_RECEIVED_SUBVOL] = "UUID_KEY_RECEIVED_SUBVOL",
    [BTRFS_STRING_ITEM] = "STRING_ITEM",
  };

  return names[type];
}

/* Object ids that are no tree: the negative ones. */
static const char *
objectid_name (uint64_t id)
{
  switch (id) {
  case BTRFS_BALANCE_OBJECTID: return "BALANCE";
  case BTRFS_ORPHAN_OBJECTID: return "ORPHAN";
  case BTRFS_TREE_LOG: return "TREE_LOG";
  case BTRFS_TREE_LOG_FIXUP: return "TREE_LOG_FIXUP";
  case BTRFS_TREE_RELOC: return "TREE_RELOC";
  case BTRFS_DATA_RELOC_TREE: return "DATA_RELOC_TREE";
  case BTRFS_EXTENT_CSUM_OBJECTID: return "EXTENT_CSUM";
  case BTRFS_FREE_SPACE_OBJECTID: return "FREE_SPACE";
  case BTRFS_FREE_INO_OBJECTID: return "FREE_INO";
  default: return NULL;
  }
}

const char *
key_str (struct key k, char buf[KEY_STR_MAX])
{
  const char *oname = objectid_name (k.objectid);
  const char *tname = key_type_name (k.type);
  char obj[24], type[32];

  if (oname == NULL) {
    snprintf (obj, sizeof obj, "%" PRIu64, k.objectid);
    oname = obj;
  }
  if (tname == NULL) {
    snprintf (type, sizeof type, "%u", k.type);
    tname = type;
  }
  snprintf (buf, KEY_STR_MAX, "(%s %s %" PRIu64 ")", oname, tname, k.offset);
  return buf;
}
