/* extent: insert, delete and look up checksums of data. */
#include <config.h>

#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/math.h"
#include "extent/csum_items.h"

/* One csum tree and its units. */
struct ctx {
  struct tree *tree;
  struct tree_txn *txn;
  uint32_t sector, size;       /* bytes of a sector, of a checksum */
  uint32_t max;                /* checksums per item */
};

static void
ctx_init_tree (struct ctx *x, struct tree *tree, struct tree_txn *txn)
{
  const struct format_info *f = block_cache_format (tree->cache);

  x->tree = tree;
  x->txn = txn;
  x->sector = f->sectorsize;
  x->size = f->csum_size;
  x->max = (tb_leaf_data_size (f->nodesize) - 2 * sizeof (struct btrfs_item))
    / f->csum_size - 1;
  x->max = MIN (x->max, UINT32_C (4096));
}

static int
ctx_init (struct ctx *x, struct roots *rs, struct txn *txn)
{
  struct root *root = roots_pool_tree (rs, BTRFS_CSUM_TREE);

  if (root == NULL)
    return err_new (ERR_subvol_missing, "the csum tree is missing");
  ctx_init_tree (x, root->tree, txn ? &txn->tree : NULL);
  return 0;
}

static struct key
csum_key (uint64_t addr)
{
  return KEY (BTRFS_EXTENT_CSUM_OBJECTID, BTRFS_EXTENT_CSUM, addr);
}

static bool
at_csum (const struct cursor *c)
{
  struct key k;

  if (!cursor_at_item (c))
    return false;
  k = cursor_key (c);
  return k.objectid == BTRFS_EXTENT_CSUM_OBJECTID &&
    k.type == BTRFS_EXTENT_CSUM;
}

/* The range of the item at C. */
static void
item_range (const struct ctx *x, const struct cursor *c, uint64_t *ret_start,
            uint64_t *ret_end)
{
  *ret_start = cursor_key (c).offset;
  *ret_end = *ret_start + (uint64_t) (cursor_size (c) / x->size) * x->sector;
}

/* The last item that begins at or below ADDR; *ret_found false: none. */
static int
find_below (const struct ctx *x, uint64_t addr, struct cursor *c,
            bool *ret_found)
{
  int r = tree_find_le (x->tree, csum_key (addr), c, NULL);

  *ret_found = r == 0 && at_csum (c);
  return r;
}

/* Sectors from ADDR on, at most N, before the next item begins. */
static int
gap_after (const struct ctx *x, uint64_t addr, size_t n, size_t *ret)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  int r = tree_find (x->tree, csum_key (addr), &c, NULL);

  *ret = n;
  if (r == 0 && at_csum (&c))
    *ret = MIN ((uint64_t) n, (cursor_key (&c).offset - addr) / x->sector);
  return r;
}

/* One step of an insert: *ret_done checksums have found their place. */
static int
insert_some (const struct ctx *x, uint64_t start, const uint8_t *sums,
             size_t n, size_t *ret_done)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  uint64_t is = 0, ie = 0;
  uint32_t have = 0;
  struct key key;
  bool found;
  size_t k;
  int r;

  r = find_below (x, start, &c, &found);
  if (r < 0)
    return r;
  if (found) {
    item_range (x, &c, &is, &ie);
    have = cursor_size (&c) / x->size;
  }
  if (found && start < ie) {
    k = MIN ((uint64_t) n, (ie - start) / x->sector);
    r = cursor_make_writable (x->txn, &c);
    if (r == 0)
      memcpy ((uint8_t *) cursor_data_rw (&c) +
              (start - is) / x->sector * x->size, sums, k * x->size);
    *ret_done = k;
    return r;
  }
  r = gap_after (x, start, n, &k);
  if (r < 0)
    return r;
  if (found && ie == start && have < x->max) {
    k = MIN (k, (size_t) (x->max - have));
    key = cursor_key (&c);
    cursor_done (&c);
    r = tree_find_rw (x->txn, x->tree, key, &c);
    if (r == 0)
      r = cursor_resize (x->txn, &c, (have + k) * x->size);
    if (r == 0)
      memcpy ((uint8_t *) cursor_data_rw (&c) + have * x->size, sums,
              k * x->size);
    *ret_done = k;
    return r;
  }
  cursor_done (&c);
  k = MIN (k, (size_t) x->max);
  *ret_done = k;
  return tree_insert_data (x->txn, x->tree, csum_key (start), sums,
                           k * x->size);
}

static int
insert_all (const struct ctx *x, uint64_t start, const uint8_t *sums,
            size_t n)
{
  size_t done;
  int r = 0;

  while (n > 0 && r == 0) {
    done = 0;
    r = insert_some (x, start, sums, n, &done);
    if (r == 0 && done == 0)
      r = err_new (ERR_item_format, "checksum item at %llu overlaps",
                   (unsigned long long) start);
    start += (uint64_t) done * x->sector;
    sums += done * x->size;
    n -= done;
  }
  return r < 0 ? err_note (r, "inserting checksums") : 0;
}

int
csum_items_insert (struct roots *rs, struct txn *txn, uint64_t start,
                   const uint8_t *sums, size_t n)
{
  struct ctx x;
  int r = ctx_init (&x, rs, txn);

  if (r < 0)
    return r;
  rwlock_wrlock (&x.tree->lock);
  r = insert_all (&x, start, sums, n);
  rwlock_unlock (&x.tree->lock);
  return r;
}

int
csum_items_insert_in (struct tree *tree, struct tree_txn *txn,
                      uint64_t start, const uint8_t *sums, size_t n)
{
  struct ctx x;

  assert (rwlock_is_mine (&tree->lock));
  ctx_init_tree (&x, tree, txn);
  return insert_all (&x, start, sums, n);
}

/* Remove [START, END) from the item at C (range IS..IE, which overlaps). */
static int
cut_item (const struct ctx *x, struct cursor *c, uint64_t start, uint64_t end)
{
  struct key key = cursor_key (c);
  uint64_t is, ie;
  uint32_t keep;
  uint8_t *data;
  int r;

  item_range (x, c, &is, &ie);
  cursor_done (c);
  r = tree_find_rw (x->txn, x->tree, key, c);
  if (r < 0)
    return r;
  if (is >= start && ie <= end)
    return cursor_delete (x->txn, c, 1);
  if (is < start) {
    if (ie > end) {
      r = cursor_split_item (x->txn, c, csum_key (end),
                             (end - is) / x->sector * x->size);
      if (r < 0)
        return r;
    }
    return cursor_resize (x->txn, c, (start - is) / x->sector * x->size);
  }
  /* The front goes: what stays moves to the front under a new key. */
  keep = (ie - end) / x->sector * x->size;
  data = cursor_data_rw (c);
  memmove (data, data + (end - is) / x->sector * x->size, keep);
  r = cursor_resize (x->txn, c, keep);
  if (r < 0)
    return r;
  return cursor_set_key (x->txn, c, csum_key (end));
}

int
csum_items_delete (struct roots *rs, struct txn *txn, uint64_t start,
                   uint64_t len)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  uint64_t end = start + len, is, ie;
  struct ctx x;
  bool found;
  int r = ctx_init (&x, rs, txn);

  if (r < 0)
    return r;
  rwlock_wrlock (&x.tree->lock);
  for (;;) {
    r = find_below (&x, end - 1, &c, &found);
    if (r < 0 || !found)
      break;
    item_range (&x, &c, &is, &ie);
    if (ie <= start)
      break;
    r = cut_item (&x, &c, start, end);
    if (r < 0)
      break;
    cursor_done (&c);
  }
  cursor_done (&c);
  rwlock_unlock (&x.tree->lock);
  return r < 0 ? err_note (r, "deleting checksums") : 0;
}

static int
lookup_all (const struct ctx *x, uint64_t start, size_t n, uint8_t *sums,
            bool *present)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  const uint64_t end = start + (uint64_t) n * x->sector;
  uint64_t is, ie, from, to;
  bool found;
  int r;

  memset (present, 0, n * sizeof *present);
  r = find_below (x, start, &c, &found);
  if (r == 0 && !found) {
    cursor_done (&c);
    r = tree_find (x->tree, csum_key (start), &c, NULL);
  }
  while (r == 0 && at_csum (&c)) {
    item_range (x, &c, &is, &ie);
    if (is >= end)
      break;
    from = MAX (is, start);
    to = MIN (ie, end);
    if (from < to) {
      memcpy (sums + (from - start) / x->sector * x->size,
              (const uint8_t *) cursor_data (&c) +
              (from - is) / x->sector * x->size,
              (to - from) / x->sector * x->size);
      memset (present + (from - start) / x->sector, true,
              (to - from) / x->sector * sizeof *present);
    }
    r = cursor_next (&c);
  }
  return r < 0 ? err_note (r, "looking up checksums") : 0;
}

int
csum_items_lookup (struct roots *rs, uint64_t start, size_t n, uint8_t *sums,
                   bool *present)
{
  struct ctx x;
  int r = ctx_init (&x, rs, NULL);

  if (r < 0)
    return r;
  rwlock_rdlock (&x.tree->lock);
  r = lookup_all (&x, start, n, sums, present);
  rwlock_unlock (&x.tree->lock);
  return r;
}

int
csum_items_lookup_in (struct tree *tree, uint64_t start, size_t n,
                      uint8_t *sums, bool *present)
{
  struct ctx x;

  ctx_init_tree (&x, tree, NULL);
  return lookup_all (&x, start, n, sums, present);
}

int
csum_items_any (struct roots *rs, uint64_t start, uint64_t len, bool *ret_any)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  uint64_t is, ie;
  struct ctx x;
  bool found;
  int r = ctx_init (&x, rs, NULL);

  *ret_any = false;
  if (r < 0)
    return r;
  rwlock_rdlock (&x.tree->lock);
  r = find_below (&x, start + len - 1, &c, &found);
  if (r == 0 && found) {
    item_range (&x, &c, &is, &ie);
    *ret_any = ie > start;
  }
  cursor_done (&c);
  rwlock_unlock (&x.tree->lock);
  return r < 0 ? err_note (r, "looking up checksums") : 0;
}
