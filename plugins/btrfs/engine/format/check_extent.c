/* format: extent items, their back references inline and keyed. */
#include <config.h>

#include "format/check_internal.h"
#include "format/names.h"

/* Trees whose items refer to data extents: those with files, the root tree
 * (space cache of old pools), data relocation.
 */
static bool
data_root_ok (uint64_t root)
{
  return tree_id_is_fs (root) || root == BTRFS_ROOT_TREE ||
    root == BTRFS_DATA_RELOC_TREE;
}

static int
check_data_ref (const struct item_check *c,
                const struct btrfs_extent_data_ref *d)
{
  if (!data_root_ok (le64_get (d->root)))
    return item_bad (c, "data reference from root %" PRIu64,
                     le64_get (d->root));
  if (!inode_number_ok (le64_get (d->objectid)))
    return item_bad (c, "data reference from inode %" PRIu64,
                     le64_get (d->objectid));
  if (!is_aligned (le64_get (d->offset), c->info->sectorsize))
    return item_bad (c, "data reference at offset %" PRIu64,
                     le64_get (d->offset));
  if (le32_get (d->count) == 0)
    return item_bad (c, "data reference with count 0");
  return 0;
}

/* The walk over the references inside one item. */
struct inline_walk {
  const struct item_check *c;
  bool is_data;
  uint32_t pos;
  unsigned last_type;
  uint64_t last_seq;
  uint64_t total;               /* references seen */
};

static bool
inline_type_ok (const struct inline_walk *w, unsigned type)
{
  switch (type) {
  case BTRFS_TREE_BLOCK_REF:
  case BTRFS_SHARED_BLOCK_REF:
    return !w->is_data;
  case BTRFS_EXTENT_DATA_REF:
  case BTRFS_SHARED_DATA_REF:
    return w->is_data;
  case BTRFS_EXTENT_OWNER_REF:
    return w->is_data &&
      (w->c->info->incompat & BTRFS_INCOMPAT_SIMPLE_QUOTA) != 0;
  default:
    return false;
  }
}

static uint32_t
inline_ref_size (unsigned type)
{
  switch (type) {
  case BTRFS_EXTENT_DATA_REF:
    return 1 + sizeof (struct btrfs_extent_data_ref);
  case BTRFS_SHARED_DATA_REF:
    return 1 + 8 + sizeof (struct btrfs_shared_data_ref);
  default:
    return sizeof (struct btrfs_extent_inline_ref);
  }
}

/* One reference: its fields, its count and its place in the order. */
static int
check_inline_ref (struct inline_walk *w, unsigned type, const uint8_t *body,
                  uint64_t *ret_seq)
{
  const struct item_check *c = w->c;
  const struct btrfs_extent_data_ref *d;
  const struct btrfs_shared_data_ref *s;
  le64 raw;

  memcpy (&raw, body, sizeof raw);
  *ret_seq = le64_get (raw);
  switch (type) {
  case BTRFS_EXTENT_DATA_REF:
    d = (const void *) body;
    w->total += le32_get (d->count);
    *ret_seq = data_ref_hash (le64_get (d->root), le64_get (d->objectid),
                              le64_get (d->offset));
    return check_data_ref (c, d);
  case BTRFS_SHARED_DATA_REF:
    s = (const void *) (body + sizeof raw);
    if (le32_get (s->count) == 0)
      return item_bad (c, "shared data reference with count 0");
    w->total += le32_get (s->count);
    return item_want_aligned (c, "parent of a reference", *ret_seq);
  case BTRFS_SHARED_BLOCK_REF:
    ++w->total;
    return item_want_aligned (c, "parent of a reference", *ret_seq);
  case BTRFS_TREE_BLOCK_REF:
    ++w->total;
    return 0;
  default:                      /* the owner of simple quotas counts not */
    return 0;
  }
}

/* References are sorted by type ascending, then by parent, root or hash
 * descending.
 */
static int
check_inline_refs (struct inline_walk *w)
{
  const struct item_check *c = w->c;
  unsigned type;
  uint64_t seq;
  int r;

  while (w->pos < c->size) {
    type = c->data[w->pos];
    if (!inline_type_ok (w, type))
      return item_bad (c, "inline reference of type %u", type);
    if (inline_ref_size (type) > c->size - w->pos)
      return item_bad (c, "inline reference is cut off");
    r = check_inline_ref (w, type, c->data + w->pos + 1, &seq);
    if (r < 0)
      return r;
    if (type < w->last_type ||
        (type == w->last_type && seq > w->last_seq))
      return item_bad (c, "inline references are out of order, type %u "
                       "after %u", type, w->last_type);
    w->last_type = type;
    w->last_seq = seq;
    w->pos += inline_ref_size (type);
  }
  return 0;
}

/* Key, flags and the head of a tree block's item; *ret_len is the length of
 * the extent, *ret_head that of what precedes the references.
 */
static int
check_head (const struct item_check *c, bool is_data, uint64_t *ret_len,
            uint32_t *ret_head)
{
  const struct btrfs_extent_item *e = (const void *) c->data;
  const struct btrfs_tree_block_info *info;

  *ret_head = sizeof *e;
  *ret_len = c->key.offset;
  if (is_data) {
    if (c->key.type != BTRFS_EXTENT_ITEM)
      return item_bad (c, "METADATA_ITEM of a data extent");
    if (c->key.offset == 0)
      return item_bad (c, "length is 0");
    if ((le64_get (e->flags) & BTRFS_EXTENT_FLAG_FULL_BACKREF) != 0)
      return item_bad (c, "FULL_BACKREF of a data extent");
    return item_want_aligned (c, "length", c->key.offset);
  }
  if (c->key.type == BTRFS_METADATA_ITEM) {
    *ret_len = c->info->nodesize;
    if (c->key.offset >= BTRFS_MAX_LEVEL)
      return item_bad (c, "level, expected below %d", BTRFS_MAX_LEVEL);
    return 0;
  }
  if (c->key.offset != c->info->nodesize)
    return item_bad (c, "length of a tree block, expected %" PRIu32,
                     c->info->nodesize);
  *ret_head += sizeof *info;
  if (c->size < *ret_head)
    return item_bad (c, "no room for the tree block's key");
  info = (const void *) (e + 1);
  if (info->level >= BTRFS_MAX_LEVEL)
    return item_bad (c, "level is %u, expected below %d", info->level,
                     BTRFS_MAX_LEVEL);
  return 0;
}

static int
check_not_overlapping (const struct item_check *c)
{
  uint64_t end;

  if (c->prev.type == BTRFS_METADATA_ITEM)
    end = c->prev.objectid + c->info->nodesize;
  else if (c->prev.type == BTRFS_EXTENT_ITEM)
    end = c->prev.objectid + c->prev.offset;
  else
    return 0;
  if (end > c->key.objectid)
    return item_bad (c, "overlaps the extent before it, which ends at %"
                     PRIu64, end);
  return 0;
}

int
check_extent_item (const struct item_check *c)
{
  const struct btrfs_extent_item *e = (const void *) c->data;
  struct inline_walk w = { .c = c };
  uint64_t kind, len, end;
  int r;

  if (c->key.type == BTRFS_METADATA_ITEM &&
      (c->info->incompat & BTRFS_INCOMPAT_SKINNY_METADATA) == 0)
    return item_bad (c, "METADATA_ITEM without feature skinny-metadata");
  if (c->size < sizeof *e)
    return item_bad (c, "item size is %" PRIu32 ", expected at least %zu",
                     c->size, sizeof *e);
  r = item_want_aligned (c, "address", c->key.objectid);
  if (r == 0)
    r = item_want_generation (c, "generation", le64_get (e->generation));
  if (r < 0)
    return r;
  kind = le64_get (e->flags);
  if ((kind & ~(BTRFS_EXTENT_FLAG_DATA | BTRFS_EXTENT_FLAG_TREE_BLOCK |
                BTRFS_EXTENT_FLAG_FULL_BACKREF)) != 0 ||
      ((kind & BTRFS_EXTENT_FLAG_DATA) != 0) ==
      ((kind & BTRFS_EXTENT_FLAG_TREE_BLOCK) != 0))
    return item_bad (c, "flags are 0x%" PRIx64, kind);
  w.is_data = (kind & BTRFS_EXTENT_FLAG_DATA) != 0;
  r = check_head (c, w.is_data, &len, &w.pos);
  if (r < 0)
    return r;
  if (!add_ok (c->key.objectid, len, &end))
    return item_bad (c, "length %" PRIu64 " wraps", len);
  r = check_inline_refs (&w);
  if (r < 0)
    return r;
  if (le64_get (e->refs) == 0 || w.total > le64_get (e->refs))
    return item_bad (c, "refs is %" PRIu64 ", but %" PRIu64
                     " references are inside", le64_get (e->refs), w.total);
  return check_not_overlapping (c);
}

int
check_keyed_ref (const struct item_check *c)
{
  const struct btrfs_shared_data_ref *s = (const void *) c->data;
  int r;

  r = item_want_size (c, c->key.type == BTRFS_SHARED_DATA_REF
                      ? sizeof *s : 0);
  if (r == 0)
    r = item_want_aligned (c, "address", c->key.objectid);
  if (r == 0 && c->key.type != BTRFS_TREE_BLOCK_REF)
    r = item_want_aligned (c, "parent", c->key.offset);
  if (r < 0)
    return r;
  if (c->key.type == BTRFS_SHARED_DATA_REF && le32_get (s->count) == 0)
    return item_bad (c, "count is 0");
  return 0;
}

/* The key's offset is the hash, or the next free number after it. */
int
check_keyed_data_ref (const struct item_check *c)
{
  const struct btrfs_extent_data_ref *d = (const void *) c->data;
  int r;

  r = item_want_size (c, sizeof *d);
  if (r == 0)
    r = item_want_aligned (c, "address", c->key.objectid);
  if (r == 0)
    r = check_data_ref (c, d);
  return r;
}
