/* btree: changes of one leaf in memory.
 *
 * Item headers grow up from the front, data grows down from the end, in the
 * same order and without gaps: the data of item I ends where that of item
 * I - 1 starts.
 */

#include <config.h>

#include "btree/tree_priv.h"

/* Where the data of an item at SLOT would end. */
static uint32_t
data_end (const void *buf, uint32_t nodesize, uint32_t slot)
{
  return slot == 0 ? tb_leaf_data_size (nodesize)
    : le32_get (tb_item_c (buf, slot - 1)->offset);
}

/* Offset 0 of item data. */
static uint8_t *
data_base (void *buf)
{
  return (uint8_t *) buf + TB_HEADER_SIZE;
}

static void
set_item (void *buf, uint32_t slot, struct key key, uint32_t offset,
          uint32_t size)
{
  *tb_item (buf, slot) = (struct btrfs_item) {
    .key = key_to_disk (key), .offset = le32_make (offset),
    .size = le32_make (size) };
}

/* Add DELTA (modulo 2^32) to the data offsets of items [from, to). */
static void
shift_offsets (void *buf, uint32_t from, uint32_t to, uint32_t delta)
{
  struct btrfs_item *item = tb_item (buf, from), *end = tb_item (buf, to);

  for (; item < end; item++)
    item->offset = le32_make (le32_get (item->offset) + delta);
}

uint32_t
leaf_lower_bound (const void *buf, uint32_t lo, uint32_t hi, struct key key)
{
  uint32_t mid;

  while (lo < hi) {
    mid = lo + (hi - lo) / 2;
    if (key_cmp (tb_item_key (buf, mid), key) < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

/* Make room for SHIFT_ITEMS headers and SHIFT_DATA bytes before the old items
 * [from, to), whatever is above TO having been moved before.
 */
static void
open_gap (void *buf, uint32_t nodesize, uint32_t from, uint32_t to,
          uint32_t shift_items, uint32_t shift_data)
{
  uint32_t start, end;

  if (from == to)
    return;
  start = le32_get (tb_item_c (buf, to - 1)->offset);
  end = data_end (buf, nodesize, from);
  if (shift_data != 0) {
    memmove (data_base (buf) + start - shift_data, data_base (buf) + start,
             end - start);
    shift_offsets (buf, from, to, -shift_data);
  }
  memmove (tb_item (buf, from + shift_items), tb_item (buf, from),
           (to - from) * ITEM_HEADER);
}

void
leaf_insert (void *buf, uint32_t nodesize, uint32_t slot, struct key key,
             uint32_t size)
{
  uint32_t n = tb_nritems (buf);
  uint32_t end = data_end (buf, nodesize, slot);

  assert (slot <= n);
  assert (leaf_free (buf, nodesize) >= size + ITEM_HEADER);
  open_gap (buf, nodesize, slot, n, 1, size);
  set_item (buf, slot, key, end - size, size);
  memset (data_base (buf) + end - size, 0, size);
  tb_set_nritems (buf, n + 1);
}

void
leaf_merge (void *buf, uint32_t nodesize, const struct tree_item *items,
            uint32_t n)
{
  uint32_t old = tb_nritems (buf), hi = old, i, at, end, total = 0;

  for (i = 0; i < n; i++)
    total += items[i].size;
  assert (leaf_free (buf, nodesize) >= total + n * ITEM_HEADER);
  /* From the last item to the first: what lies above the place of item I
   * moves by I + 1 headers and the data of items 0 .. I.
   */
  for (i = n; i-- > 0; hi = at) {
    at = leaf_lower_bound (buf, 0, hi, items[i].key);
    end = data_end (buf, nodesize, at);
    open_gap (buf, nodesize, at, hi, i + 1, total);
    set_item (buf, at + i, items[i].key, end - total, items[i].size);
    if (items[i].data != NULL)
      memcpy (data_base (buf) + end - total, items[i].data, items[i].size);
    else
      memset (data_base (buf) + end - total, 0, items[i].size);
    total -= items[i].size;
  }
  tb_set_nritems (buf, old + n);
}

void
leaf_delete (void *buf, uint32_t nodesize, uint32_t slot, uint32_t n)
{
  uint32_t old = tb_nritems (buf), start, first, size;

  assert (slot + n <= old);
  if (n == 0)
    return;
  if (slot + n < old) {
    start = leaf_data_start (buf, nodesize);
    first = le32_get (tb_item_c (buf, slot + n - 1)->offset);
    size = data_end (buf, nodesize, slot) - first;
    memmove (data_base (buf) + start + size, data_base (buf) + start,
             first - start);
    shift_offsets (buf, slot + n, old, size);
    memmove (tb_item (buf, slot), tb_item (buf, slot + n),
             (old - slot - n) * ITEM_HEADER);
  }
  tb_set_nritems (buf, old - n);
}

void
leaf_resize (void *buf, uint32_t nodesize, uint32_t slot, uint32_t size)
{
  uint32_t n = tb_nritems (buf);
  uint32_t old = tb_item_size (buf, slot);
  uint32_t start = leaf_data_start (buf, nodesize);
  uint32_t offset = le32_get (tb_item_c (buf, slot)->offset);
  uint32_t keep = MIN (old, size);

  if (size == old)
    return;
  /* The front of the item stays its front: it moves together with all that
   * lies below it.
   */
  memmove (data_base (buf) + start + old - size, data_base (buf) + start,
           offset + keep - start);
  shift_offsets (buf, slot, n, old - size);
  tb_item (buf, slot)->size = le32_make (size);
  if (size > old)
    memset ((uint8_t *) tb_item_data (buf, slot) + old, 0, size - old);
}

void
leaf_move_head (void *src, uint32_t n, void *dst, uint32_t nodesize)
{
  uint32_t to = tb_nritems (dst), size, from, end;

  if (n == 0)
    return;
  from = le32_get (tb_item_c (src, n - 1)->offset);
  size = tb_leaf_data_size (nodesize) - from;
  end = leaf_data_start (dst, nodesize);
  assert (leaf_free (dst, nodesize) >= size + n * ITEM_HEADER);
  memcpy (data_base (dst) + end - size, data_base (src) + from, size);
  memcpy (tb_item (dst, to), tb_item (src, 0), n * ITEM_HEADER);
  shift_offsets (dst, to, to + n, end - size - from);
  tb_set_nritems (dst, to + n);
  leaf_delete (src, nodesize, 0, n);
}

void
leaf_move_tail (void *src, uint32_t slot, void *dst, uint32_t nodesize)
{
  uint32_t n = tb_nritems (src) - slot, from, size, top;

  if (n == 0)
    return;
  from = leaf_data_start (src, nodesize);
  size = data_end (src, nodesize, slot) - from;
  top = tb_leaf_data_size (nodesize);
  assert (leaf_free (dst, nodesize) >= size + n * ITEM_HEADER);
  open_gap (dst, nodesize, 0, tb_nritems (dst), n, size);
  memcpy (data_base (dst) + top - size, data_base (src) + from, size);
  memcpy (tb_item (dst, 0), tb_item (src, slot), n * ITEM_HEADER);
  shift_offsets (dst, 0, n, top - size - from);
  tb_set_nritems (dst, tb_nritems (dst) + n);
  tb_set_nritems (src, slot);
}
