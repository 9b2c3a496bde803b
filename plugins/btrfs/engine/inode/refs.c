/* inode: references from an inode to its names.
 *
 * The names of an inode in one directory share an INODE_REF item.  When that
 * is full, further ones become INODE_EXTREF items, keyed by a hash over
 * directory and name (colliding ones share an item).
 */
#include <config.h>

#include "format/names.h"
#include "inode/items.h"

static struct key
ref_key (uint64_t ino, uint64_t parent)
{
  return KEY (ino, BTRFS_INODE_REF, parent);
}

static struct key
extref_key (uint64_t ino, uint64_t parent, struct name n)
{
  return KEY (ino, BTRFS_INODE_EXTREF, extref_hash (parent, n.s, n.len));
}

int
iref_room (struct root *root, uint64_t ino, uint64_t parent, struct name n,
           bool extref_ok, enum iref_place *ret)
{
  int r;

  *ret = IREF_ITEM;
  r = pack_room (root, ref_key (ino, parent),
                 sizeof (struct btrfs_inode_ref) + n.len, 0, ERR_links);
  if (r != -ERR_links)
    return r;
  if (!extref_ok)
    return err_note (r, "more names need extended references");
  *ret = IREF_EXTREF;
  return pack_room (root, extref_key (ino, parent, n),
                    sizeof (struct btrfs_inode_extref) + n.len, 0, ERR_links);
}

int
iref_add (struct txn *txn, struct root *root, uint64_t ino, uint64_t parent,
          struct name n, uint64_t index, enum iref_place place)
{
  uint8_t rec[sizeof (struct btrfs_inode_extref) + BTRFS_NAME_MAX];
  struct btrfs_inode_ref ref = { le64_make (index), le16_make (n.len) };
  struct btrfs_inode_extref ext = { le64_make (parent), le64_make (index),
                                    le16_make (n.len) };

  assert (n.len <= BTRFS_NAME_MAX);
  if (place == IREF_ITEM) {
    memcpy (rec, &ref, sizeof ref);
    memcpy (rec + sizeof ref, n.s, n.len);
    return pack_append (txn, root, ref_key (ino, parent), rec,
                        sizeof ref + n.len);
  }
  memcpy (rec, &ext, sizeof ext);
  memcpy (rec + sizeof ext, n.s, n.len);
  return pack_append (txn, root, extref_key (ino, parent, n), rec,
                      sizeof ext + n.len);
}

struct found_ref {
  struct key key;
  uint32_t offset, len;
  uint64_t index;
};

static int
find_in (struct root *root, struct key key, uint64_t parent, struct name n,
         struct found_ref *ret, bool *ret_found)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  const bool ext = key.type == BTRFS_INODE_EXTREF;
  struct pack_rec rec = { .head = NULL };
  bool more;
  int r;

  *ret_found = false;
  r = tree_find (root->tree, key, &cur, &more);
  if (r < 0 || !more)
    return r;
  for (;;) {
    r = pack_next (ext ? PACK_EXTREF : PACK_REF, cursor_data (&cur),
                   cursor_size (&cur), &rec, &more);
    if (r < 0 || !more)
      return r;
    if (rec.name_len != n.len || memcmp (rec.name, n.s, n.len) != 0)
      continue;
    if (ext) {
      const struct btrfs_inode_extref *e = rec.head;

      if (le64_get (e->parent) != parent)
        continue;
      ret->index = le64_get (e->index);
    }
    else
      ret->index = le64_get (((const struct btrfs_inode_ref *)
                              rec.head)->index);
    ret->key = key;
    ret->offset = rec.offset;
    ret->len = rec.len;
    *ret_found = true;
    return 0;
  }
}

static int
find_ref (struct root *root, uint64_t ino, uint64_t parent, struct name n,
          struct found_ref *ret, bool *ret_found)
{
  int r;

  r = find_in (root, ref_key (ino, parent), parent, n, ret, ret_found);
  if (r < 0 || *ret_found)
    return r;
  return find_in (root, extref_key (ino, parent, n), parent, n, ret,
                  ret_found);
}

int
iref_find (struct root *root, uint64_t ino, uint64_t parent, struct name n,
           uint64_t *ret_index, bool *ret_found)
{
  struct found_ref f;
  int r;

  r = find_ref (root, ino, parent, n, &f, ret_found);
  if (r == 0 && *ret_found)
    *ret_index = f.index;
  return r;
}

int
iref_del (struct txn *txn, struct root *root, uint64_t ino, uint64_t parent,
          struct name n)
{
  struct found_ref f;
  bool found;
  int r;

  r = find_ref (root, ino, parent, n, &f, &found);
  if (r < 0)
    return r;
  if (!found)
    return err_new (ERR_dir_format,
                    "inode %llu has no reference to \"%.*s\" in %llu",
                    (unsigned long long) ino, (int) n.len, n.s,
                    (unsigned long long) parent);
  return pack_remove (txn, root, f.key, f.offset, f.len);
}

int
iref_parent (struct root *root, uint64_t ino, uint64_t *ret_parent)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  struct key k;
  int r;

  r = tree_find (root->tree, ref_key (ino, 0), &cur, NULL);
  if (r < 0)
    return r;
  if (cursor_at_item (&cur)) {
    k = cursor_key (&cur);
    if (k.objectid == ino && k.type == BTRFS_INODE_REF) {
      *ret_parent = k.offset;
      return 0;
    }
  }
  return err_new (ERR_dir_format, "directory %llu has no parent",
                  (unsigned long long) ino);
}
