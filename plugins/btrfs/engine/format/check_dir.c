/* format: directory entries, extended attributes, logged ranges. */
#include <config.h>

#include "format/check_internal.h"
#include "format/names.h"

static int
check_location (const struct item_check *c, const struct btrfs_dir_item *d)
{
  struct key loc = key_from_disk (&d->location);
  char buf[KEY_STR_MAX];
  bool ok;

  if (c->key.type == BTRFS_XATTR_ITEM)
    ok = key_cmp (loc, KEY_MIN) == 0;
  else if (loc.type == BTRFS_INODE_ITEM)
    ok = inode_number_ok (loc.objectid) && loc.offset == 0;
  else if (loc.type == BTRFS_ROOT_ITEM)
    ok = tree_id_is_fs (loc.objectid);
  else
    ok = false;
  if (!ok)
    return item_bad (c, "location is %s", key_str (loc, buf));
  return 0;
}

/* The fields of one entry; LEFT bytes follow its head. */
static int
check_entry (const struct item_check *c, const struct btrfs_dir_item *d,
             uint32_t left)
{
  uint32_t name_len = le16_get (d->name_len);
  uint32_t data_len = le16_get (d->data_len);
  bool xattr = c->key.type == BTRFS_XATTR_ITEM;
  uint64_t hash;
  int r;

  r = check_location (c, d);
  if (r < 0)
    return r;
  if (d->type == BTRFS_FT_UNKNOWN || d->type >= BTRFS_FT_MAX ||
      (d->type == BTRFS_FT_XATTR) != xattr)
    return item_bad (c, "type is %u", d->type);
  if (name_len == 0 || name_len > BTRFS_NAME_MAX)
    return item_bad (c, "name_len is %" PRIu32 ", expected 1 to %d",
                     name_len, BTRFS_NAME_MAX);
  if (data_len != 0 && !xattr)
    return item_bad (c, "data_len is %" PRIu32 ", expected 0", data_len);
  if (name_len + data_len > left)
    return item_bad (c, "name_len %" PRIu32 " and data_len %" PRIu32
                     ", but %" PRIu32 " bytes are left", name_len, data_len,
                     left);
  if (c->key.type == BTRFS_DIR_INDEX)
    return 0;
  hash = name_hash ((const char *) (d + 1), name_len);
  if (c->key.offset != hash)
    return item_bad (c, "the hash of the name is %" PRIu64, hash);
  return 0;
}

int
check_dir_entries (const struct item_check *c)
{
  const struct btrfs_dir_item *d;
  uint32_t pos = 0;
  int r;

  r = item_want_inode_before (c);
  if (r < 0)
    return r;
  if (c->size == 0)
    return item_bad (c, "item is empty");
  while (pos < c->size) {
    if (c->size - pos < sizeof *d)
      return item_bad (c, "%" PRIu32 " bytes left over", c->size - pos);
    d = (const void *) (c->data + pos);
    pos += sizeof *d;
    r = check_entry (c, d, c->size - pos);
    if (r < 0)
      return r;
    pos += le16_get (d->name_len) + le16_get (d->data_len);
  }
  return 0;
}

/* The end of a range of a directory that is complete in the log. */
int
check_dir_log (const struct item_check *c)
{
  return item_want_size (c, sizeof (le64));
}
