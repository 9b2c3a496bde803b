/* extent: back references in items of their own. */
#include <config.h>

#include <string.h>

#include "base/err.h"
#include "extent/keyed.h"

struct key
keyed_ref_key (uint64_t bytenr, const struct ref_key *k)
{
  if (k->type == BTRFS_EXTENT_DATA_REF)
    return KEY (bytenr, k->type, ref_hash (k->id, k->objectid, k->offset));
  return KEY (bytenr, k->type, k->id);
}

static int
malformed (struct key key)
{
  char buf[KEY_STR_MAX];

  return err_new (ERR_extent_format, "reference item %s",
                  key_str (key, buf));
}

/* The count of the item at C if it is K's: *ret_match. */
static int
read_count (const struct cursor *c, const struct ref_key *k,
            uint32_t *ret_count, bool *ret_match)
{
  const void *data = cursor_data (c);
  const struct btrfs_extent_data_ref *dr = data;
  const struct btrfs_shared_data_ref *sr = data;

  *ret_match = true;
  *ret_count = 1;
  switch (k->type) {
  case BTRFS_EXTENT_DATA_REF:
    if (cursor_size (c) != sizeof *dr)
      return malformed (cursor_key (c));
    *ret_match = le64_get (dr->root) == k->id &&
      le64_get (dr->objectid) == k->objectid &&
      le64_get (dr->offset) == k->offset;
    *ret_count = le32_get (dr->count);
    break;
  case BTRFS_SHARED_DATA_REF:
    if (cursor_size (c) != sizeof *sr)
      return malformed (cursor_key (c));
    *ret_count = le32_get (sr->count);
    break;
  }
  return 0;
}

/* The item of K: *ret_found, its place and count.  Collisions may have moved
 * a data reference up from its hash, and deletions may have left gaps.  But
 * it was moved by one for each item that stood in its way, and an extent has
 * fewer than 2^32 of them, while hashes are spread over 2^64: whoever looks
 * no further does not walk all references of the extent for one that is not
 * there.
 */
static int
find (struct tree *tree, uint64_t bytenr, const struct ref_key *k,
      struct key *ret_key, uint32_t *ret_count, bool *ret_found)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct key key = keyed_ref_key (bytenr, k), at;
  bool exact;
  int r;

  *ret_found = false;
  r = tree_find (tree, key, &c, &exact);
  if (r < 0 || (k->type != BTRFS_EXTENT_DATA_REF && !exact))
    return r;
  while (cursor_at_item (&c)) {
    at = cursor_key (&c);
    if (at.objectid != bytenr || at.type != k->type
        || at.offset - key.offset > UINT32_MAX)
      return 0;
    r = read_count (&c, k, ret_count, ret_found);
    if (r < 0)
      return r;
    if (*ret_found) {
      *ret_key = at;
      return 0;
    }
    r = cursor_next (&c);
    if (r < 0)
      return r;
  }
  return 0;
}

static void
write_count (void *data, const struct ref_key *k, uint32_t count)
{
  struct btrfs_extent_data_ref *dr = data;
  struct btrfs_shared_data_ref *sr = data;

  if (k->type == BTRFS_EXTENT_DATA_REF)
    dr->count = le32_make (count);
  else if (k->type == BTRFS_SHARED_DATA_REF)
    sr->count = le32_make (count);
}

int
keyed_ref_change (struct tree_txn *txn, struct tree *tree, uint64_t bytenr,
                  const struct ref_key *k, int64_t mod, bool *ret_done)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct key key;
  uint32_t count = 0;
  int64_t sum;
  int r;

  r = find (tree, bytenr, k, &key, &count, ret_done);
  if (r < 0 || !*ret_done)
    return r;
  sum = (int64_t) count + mod;
  if (sum < 0 || sum > UINT32_MAX || (!ref_is_data (k->type) && sum > 1))
    return err_new (ERR_ref_count, "reference item of %llu: %u %+lld",
                    (unsigned long long) bytenr, count, (long long) mod);
  r = tree_find_rw (txn, tree, key, &c);
  if (r < 0)
    return r;
  if (sum == 0)
    return cursor_delete (txn, &c, 1);
  write_count (cursor_data_rw (&c), k, sum);
  return 0;
}

int
keyed_ref_insert (struct tree_txn *txn, struct tree *tree, uint64_t bytenr,
                  const struct ref_key *k, int64_t count)
{
  struct btrfs_extent_data_ref dr = { .root = le64_make (k->id),
    .objectid = le64_make (k->objectid), .offset = le64_make (k->offset),
    .count = le32_make (count) };
  struct btrfs_shared_data_ref sr = { .count = le32_make (count) };
  struct key key = keyed_ref_key (bytenr, k);
  int r;

  if (count <= 0 || count > UINT32_MAX ||
      (!ref_is_data (k->type) && count != 1))
    return err_new (ERR_ref_count, "new reference of %llu, count %lld",
                    (unsigned long long) bytenr, (long long) count);
  switch (k->type) {
  case BTRFS_SHARED_DATA_REF:
    return tree_insert_data (txn, tree, key, &sr, sizeof sr);
  case BTRFS_EXTENT_DATA_REF:
    do
      r = tree_insert_data (txn, tree, key, &dr, sizeof dr);
    while (r == -ERR_key_exists && ++key.offset != 0);
    return r;
  default:
    return tree_insert_data (txn, tree, key, NULL, 0);
  }
}
