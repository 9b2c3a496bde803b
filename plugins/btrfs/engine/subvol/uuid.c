/* subvol: the uuid tree, an index of subvolumes by uuid.
 *
 * The key is the uuid itself, as two little-endian halves around the type;
 * the item is a list of subvolume ids.  A pool may have no such tree.
 */
#include <config.h>

#include "subvol/priv.h"

static struct key
uuid_key (const uint8_t uuid[BTRFS_UUID_SIZE], uint8_t kind)
{
  le64 half[2];

  memcpy (half, uuid, sizeof half);
  return KEY (le64_get (half[0]), kind, le64_get (half[1]));
}

static const uint8_t no_uuid[BTRFS_UUID_SIZE];

/* The uuid tree, referenced; NULL when the pool has none. */
static int
get_tree (struct roots *roots, struct root **ret)
{
  int r = roots_get (roots, BTRFS_UUID_TREE, ret);

  if (r != -ERR_subvol_missing)
    return r;
  err_clear ();
  *ret = NULL;
  return 0;
}

/* Tree lock exclusive.  Several subvolumes may have been received from one;
 * when an item is full, the rest is not entered: Linux bears it, too.
 */
static int
add_locked (struct txn *txn, struct tree *tree, struct key key, uint64_t id)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  const le64 v = le64_make (id);
  uint32_t size, max;
  bool exact;
  int r;

  r = tree_find (tree, key, &cur, &exact);
  if (r < 0)
    return r;
  size = exact ? cursor_size (&cur) : 0;
  cursor_done (&cur);
  if (!exact)
    return tree_insert_data (&txn->tree, tree, key, &v, sizeof v);
  max = tb_max_item_size (block_cache_format (tree->cache)->nodesize);
  if (size + sizeof v > max)
    return 0;
  r = tree_find_rw (&txn->tree, tree, key, &cur);
  if (r == 0)
    r = cursor_resize (&txn->tree, &cur, size + sizeof v);
  if (r == 0)
    memcpy ((uint8_t *) cursor_data_rw (&cur) + size, &v, sizeof v);
  return r;
}

/* Tree lock exclusive.  An entry that is not there is no error: Linux leaves
 * some out when an item is full.
 */
static int
del_locked (struct txn *txn, struct tree *tree, struct key key, uint64_t id)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  uint32_t size, at;
  uint8_t *data;
  bool exact;
  int r;

  r = tree_find (tree, key, &cur, &exact);
  if (r < 0 || !exact)
    return r;
  size = cursor_size (&cur);
  data = (uint8_t *) cursor_data (&cur);
  for (at = 0; size - at >= sizeof (le64); at += sizeof (le64)) {
    le64 v;

    memcpy (&v, data + at, sizeof v);
    if (le64_get (v) == id)
      break;
  }
  if (size - at < sizeof (le64))
    return 0;
  cursor_done (&cur);
  r = tree_find_rw (&txn->tree, tree, key, &cur);
  if (r < 0)
    return r;
  if (size == sizeof (le64))
    return cursor_delete (&txn->tree, &cur, 1);
  data = cursor_data_rw (&cur);
  memmove (data + at, data + at + sizeof (le64), size - at - sizeof (le64));
  return cursor_resize (&txn->tree, &cur, size - sizeof (le64));
}

/* FN on the item of UUID, if that is one and the pool has the tree. */
static int
change_entry (struct roots *roots, struct txn *txn, const uint8_t *uuid,
              uint8_t kind, uint64_t id,
              int (*fn) (struct txn *, struct tree *, struct key, uint64_t))
{
  struct root *root = NULL;
  int r;

  if (memcmp (uuid, no_uuid, sizeof no_uuid) == 0)
    return 0;
  r = get_tree (roots, &root);
  if (r < 0 || root == NULL)
    return r;
  rwlock_wrlock (&root->tree->lock);
  r = fn (txn, root->tree, uuid_key (uuid, kind), id);
  rwlock_unlock (&root->tree->lock);
  roots_put (roots, root);
  return r;
}

int
uuid_add (struct roots *roots, struct txn *txn,
          const uint8_t uuid[BTRFS_UUID_SIZE], uint8_t kind, uint64_t id)
{
  return change_entry (roots, txn, uuid, kind, id, add_locked);
}

int
uuid_del (struct roots *roots, struct txn *txn,
          const uint8_t uuid[BTRFS_UUID_SIZE], uint8_t kind, uint64_t id)
{
  return change_entry (roots, txn, uuid, kind, id, del_locked);
}
