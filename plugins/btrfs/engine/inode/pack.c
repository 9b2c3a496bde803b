/* inode: items that hold a list of records.
 *
 * Names whose hashes collide share an item, as do the names of one inode in
 * one directory.  The records follow each other without padding; their heads
 * tell their lengths.
 */
#include <config.h>

#include "inode/items.h"

static size_t
head_size (enum pack_kind kind)
{
  switch (kind) {
  case PACK_DIR:
    return sizeof (struct btrfs_dir_item);
  case PACK_REF:
    return sizeof (struct btrfs_inode_ref);
  case PACK_EXTREF:
    return sizeof (struct btrfs_inode_extref);
  }
  return SIZE_MAX;
}

static void
lengths (enum pack_kind kind, const void *head, uint32_t *name_len,
         uint32_t *data_len)
{
  *data_len = 0;
  switch (kind) {
  case PACK_DIR: {
    const struct btrfs_dir_item *d = head;

    *name_len = le16_get (d->name_len);
    *data_len = le16_get (d->data_len);
    break;
  }
  case PACK_REF:
    *name_len = le16_get (((const struct btrfs_inode_ref *) head)->name_len);
    break;
  case PACK_EXTREF:
    *name_len =
      le16_get (((const struct btrfs_inode_extref *) head)->name_len);
    break;
  }
}

int
pack_next (enum pack_kind kind, const void *item, uint32_t size,
           struct pack_rec *rec, bool *ret_found)
{
  const size_t head = head_size (kind);
  uint32_t at = rec->head == NULL ? 0 : rec->offset + rec->len;
  uint32_t name_len = 0, data_len;

  *ret_found = false;
  if (at >= size)
    return 0;
  if (size - at < head)
    return err_new (ERR_item_format, "%u bytes left behind the last record",
                    size - at);
  rec->head = (const char *) item + at;
  lengths (kind, rec->head, &name_len, &data_len);
  if (size - at - head < (uint64_t) name_len + data_len)
    return err_new (ERR_item_format,
                    "record at %u of %u bytes: name %u and data %u too long",
                    at, size, name_len, data_len);
  rec->offset = at;
  rec->len = head + name_len + data_len;
  rec->name = (const char *) rec->head + head;
  rec->name_len = name_len;
  rec->data = rec->name + name_len;
  rec->data_len = data_len;
  *ret_found = true;
  return 0;
}

int
pack_append (struct txn *txn, struct root *root, struct key key,
             const void *rec, uint32_t len)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  uint32_t old = 0;
  int r;

  r = tree_insert (&txn->tree, root->tree, key, len, &cur);
  if (r == -ERR_key_exists) {
    err_clear ();
    old = cursor_size (&cur);
    r = cursor_make_writable (&txn->tree, &cur);
    if (r == 0)
      r = cursor_resize (&txn->tree, &cur, old + len);
  }
  if (r < 0)
    return r;
  memcpy ((char *) cursor_data_rw (&cur) + old, rec, len);
  return 0;
}

int
pack_remove (struct txn *txn, struct root *root, struct key key,
             uint32_t offset, uint32_t len)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  uint32_t size;
  char *data;
  int r;

  r = tree_find_rw (&txn->tree, root->tree, key, &cur);
  if (r < 0)
    return r;
  size = cursor_size (&cur);
  assert (offset <= size && len <= size - offset);
  if (len == size)
    return cursor_delete (&txn->tree, &cur, 1);
  data = cursor_data_rw (&cur);
  memmove (data + offset, data + offset + len, size - offset - len);
  return cursor_resize (&txn->tree, &cur, size - len);
}

int
pack_room (struct root *root, struct key key, uint32_t len, uint32_t less,
           int full)
{
  const struct format_info *fi = block_cache_format (root->tree->cache);
  uint32_t size = 0;
  bool found;
  int r;

  r = tree_get (root->tree, key, NULL, 0, &size, &found);
  if (r < 0)
    return r;
  if (!found)
    size = less = 0;
  if ((uint64_t) size - MIN (less, size) + len >
      tb_max_item_size (fi->nodesize))
    return err_new (full, "%u bytes more in an item of %u", len, size);
  return 0;
}
