/* format: building and searching tree blocks. */
#include <config.h>

#include "base/csum.h"
#include "base/math.h"
#include "format/tree_block.h"

uint32_t
tb_leaf_free (const void *buf, uint32_t nodesize)
{
  uint64_t n = tb_nritems (buf);
  uint64_t used = n * sizeof (struct btrfs_item);
  uint32_t size = tb_leaf_data_size (nodesize), data = size;

  if (used > size)
    return 0;
  if (n > 0)
    data = le32_get (tb_item_c (buf, n - 1)->offset);
  return data < used || data > size ? 0 : data - used;
}

uint32_t
tb_search (const void *buf, struct key key, bool *ret_exact)
{
  uint32_t lo = 0, hi = tb_nritems (buf);

  *ret_exact = false;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    int c = key_cmp (tb_key (buf, mid), key);

    if (c == 0) {
      *ret_exact = true;
      return mid;
    }
    if (c < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

void
tb_init (void *buf, uint32_t nodesize, const struct tb_ident *id)
{
  struct btrfs_header *h = buf;

  memset (buf, 0, nodesize);
  memcpy (h->fsid, id->fsid, BTRFS_UUID_SIZE);
  memcpy (h->chunk_tree_uuid, id->chunk_tree_uuid, BTRFS_UUID_SIZE);
  h->bytenr = le64_make (id->bytenr);
  h->generation = le64_make (id->generation);
  h->owner = le64_make (id->owner);
  h->flags = le64_make (BTRFS_MIXED_BACKREF_REV
                        << BTRFS_HEADER_BACKREF_REV_SHIFT);
  h->level = id->level;
}

void *
tb_leaf_append (void *buf, uint32_t nodesize, struct key key, uint32_t size)
{
  uint32_t n = tb_nritems (buf), offset;
  struct btrfs_item *item;

  assert (tb_level (buf) == 0);
  assert (n == 0 || key_cmp (tb_item_key (buf, n - 1), key) < 0);
  if ((uint64_t) size + sizeof *item > tb_leaf_free (buf, nodesize))
    return NULL;
  offset = n > 0 ? le32_get (tb_item_c (buf, n - 1)->offset)
    : tb_leaf_data_size (nodesize);
  item = tb_item (buf, n);
  item->key = key_to_disk (key);
  item->offset = le32_make (offset - size);
  item->size = le32_make (size);
  tb_header (buf)->nritems = le32_make (n + 1);
  memset (tb_item_data (buf, n), 0, size);
  return tb_item_data (buf, n);
}

void
tb_set_csum (void *buf, uint32_t len, unsigned csum_type)
{
  memset (buf, 0, BTRFS_CSUM_FIELD);
  csum_data (csum_type, (uint8_t *) buf + BTRFS_CSUM_FIELD,
             len - BTRFS_CSUM_FIELD, buf);
}

bool
tb_csum_ok (const void *buf, uint32_t len, unsigned csum_type)
{
  uint8_t csum[CSUM_SIZE_MAX];

  csum_data (csum_type, (const uint8_t *) buf + BTRFS_CSUM_FIELD,
             len - BTRFS_CSUM_FIELD, csum);
  return memcmp (csum, buf, csum_size (csum_type)) == 0;
}
