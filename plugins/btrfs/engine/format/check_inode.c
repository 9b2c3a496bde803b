/* format: inode items, their back references, orphans. */
#include <config.h>

#include <sys/stat.h>

#include "format/check_internal.h"

#define INODE_FLAGS_KNOWN                                               \
  (BTRFS_INODE_NODATASUM | BTRFS_INODE_NODATACOW | BTRFS_INODE_READONLY | \
   BTRFS_INODE_NOCOMPRESS | BTRFS_INODE_PREALLOC | BTRFS_INODE_SYNC |   \
   BTRFS_INODE_IMMUTABLE | BTRFS_INODE_APPEND | BTRFS_INODE_NODUMP |    \
   BTRFS_INODE_NOATIME | BTRFS_INODE_DIRSYNC | BTRFS_INODE_COMPRESS |   \
   BTRFS_INODE_ROOT_ITEM_INIT | INODE_RO_FLAG_VERITY)
/* The upper 32 bits are flags of the read-only compatible kind. */
#define INODE_RO_FLAG_VERITY (UINT64_C (1) << 32)

static bool
file_type_ok (uint32_t mode)
{
  return S_ISREG (mode) || S_ISDIR (mode) || S_ISLNK (mode) ||
    S_ISCHR (mode) || S_ISBLK (mode) || S_ISFIFO (mode) || S_ISSOCK (mode);
}

int
check_inode_item (const struct item_check *c)
{
  const struct btrfs_inode_item *i = (const void *) c->data;
  uint32_t mode;
  int r;

  if (!inode_number_ok (c->key.objectid))
    return item_bad (c, "objectid is no inode number");
  if (c->key.offset != 0)
    return item_bad (c, "key offset, expected 0");
  r = item_want_size (c, sizeof *i);
  if (r == 0)
    r = item_want_generation (c, "generation", le64_get (i->generation));
  if (r == 0)
    r = item_want_generation (c, "transid", le64_get (i->transid));
  if (r < 0)
    return r;
  mode = le32_get (i->mode);
  if ((mode & ~(S_IFMT | 07777)) != 0 || !file_type_ok (mode))
    return item_bad (c, "mode is 0%" PRIo32, mode);
  if (S_ISDIR (mode) && le32_get (i->nlink) > 1)
    return item_bad (c, "nlink of a directory is %" PRIu32
                     ", expected at most 1", le32_get (i->nlink));
  if ((le64_get (i->flags) & ~INODE_FLAGS_KNOWN) != 0)
    return item_bad (c, "flags are 0x%" PRIx64, le64_get (i->flags));
  if (le64_get (i->size) > INT64_MAX)
    return item_bad (c, "size is %" PRIu64 ", expected below 2^63",
                     le64_get (i->size));
  return 0;
}

static int
check_name_len (const struct item_check *c, uint32_t len, uint32_t left)
{
  if (len == 0 || len > BTRFS_NAME_MAX)
    return item_bad (c, "name_len is %" PRIu32 ", expected 1 to %d", len,
                     BTRFS_NAME_MAX);
  if (len > left)
    return item_bad (c, "name_len is %" PRIu32 ", but %" PRIu32
                     " bytes are left", len, left);
  return 0;
}

/* References, packed one behind the other: a head of HEAD bytes, the length
 * of the name at LEN_AT in it, and the name.
 */
static int
check_refs (const struct item_check *c, uint32_t head, uint32_t len_at)
{
  const le16 *len;
  uint32_t pos = 0;
  int r;

  r = item_want_inode_before (c);
  if (r < 0)
    return r;
  if (c->size == 0)
    return item_bad (c, "item is empty");
  while (pos < c->size) {
    if (c->size - pos < head)
      return item_bad (c, "%" PRIu32 " bytes left over", c->size - pos);
    len = (const void *) (c->data + pos + len_at);
    pos += head;
    r = check_name_len (c, le16_get (*len), c->size - pos);
    if (r < 0)
      return r;
    pos += le16_get (*len);
  }
  return 0;
}

int
check_inode_ref (const struct item_check *c)
{
  return check_refs (c, sizeof (struct btrfs_inode_ref),
                     offsetof (struct btrfs_inode_ref, name_len));
}

int
check_inode_extref (const struct item_check *c)
{
  return check_refs (c, sizeof (struct btrfs_inode_extref),
                     offsetof (struct btrfs_inode_extref, name_len));
}

int
check_orphan (const struct item_check *c)
{
  if (c->key.objectid != BTRFS_ORPHAN_OBJECTID)
    return item_bad (c, "objectid, expected ORPHAN");
  return item_want_size (c, 0);
}
