/* extent: writing pending references into the extent tree. */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/math.h"
#include "extent/csum_items.h"
#include "extent/delayed.h"
#include "extent/keyed.h"

#define RUN_BATCH 128          /* heads per hold of the extent tree's lock */
#define PREFETCH_KEYS (3 * RUN_BATCH)

/* Data whose last reference went: its checksums go after the batch. */
struct freed {
  uint64_t start, len;
};

struct run {
  struct extents *ex;
  struct txn *txn;
  struct tree *tree;
  struct freed freed[RUN_BATCH];
  size_t nfreed;
};

/* Biggest item with inline references, as Linux limits it. */
static uint32_t
max_inline_size (const struct extents *ex)
{
  return tb_leaf_data_size (ex->nodesize) / 16 - sizeof (struct btrfs_item);
}

/* Account for an extent that nobody refers to any more. */
static int
space_freed (struct run *run, const struct delayed_head *h, bool in_tree)
{
  if (h->is_data) {
    assert (run->nfreed < RUN_BATCH);
    run->freed[run->nfreed++] = (struct freed) { h->bytenr, h->num_bytes };
  }
  if (in_tree)
    return space_extent_freed (run->ex->space, run->txn, h->bytenr,
                               h->num_bytes);
  return space_extent_cancelled (run->ex->space, run->txn, h->bytenr,
                                 h->num_bytes);
}

static int
add_one (struct run *run, const struct delayed_head *h,
         struct extent_item *it, const struct delayed_ref *ref)
{
  struct item_ref *have = extent_item_find (it, &ref->key);
  uint64_t keyed;
  bool done = false;
  int r;

  if (have) {
    if (!h->is_data || have->count + (uint64_t) ref->mod > UINT32_MAX)
      return err_new (ERR_ref_count, "extent %llu: reference exists already",
                      (unsigned long long) h->bytenr);
    have->count += ref->mod;
    it->refs += ref->mod;
    return 0;
  }
  keyed = it->refs - extent_item_inline_count (it);
  if (keyed > 0) {
    r = keyed_ref_change (&run->txn->tree, run->tree, h->bytenr, &ref->key,
                          ref->mod, &done);
    if (r < 0)
      return r;
  }
  if (!done && keyed == 0 && extent_item_size (it) +
      extent_item_ref_size (ref->key.type) < max_inline_size (run->ex)) {
    if (ref->mod > UINT32_MAX)
      return err_new (ERR_ref_count, "too many references");
    r = extent_item_add (it, &ref->key, ref->mod);
    if (r < 0)
      return r;
    done = true;
  }
  if (!done) {
    r = keyed_ref_insert (&run->txn->tree, run->tree, h->bytenr, &ref->key,
                          ref->mod);
    if (r < 0)
      return r;
  }
  it->refs += ref->mod;
  return 0;
}

static int
drop_one (struct run *run, const struct delayed_head *h,
          struct extent_item *it, const struct delayed_ref *ref)
{
  struct item_ref *have = extent_item_find (it, &ref->key);
  uint64_t n = -ref->mod;
  bool done = true;
  int r = 0;

  if (it->refs < n)
    return err_new (ERR_ref_count, "extent %llu: %llu references, dropping "
                    "%llu", (unsigned long long) h->bytenr,
                    (unsigned long long) it->refs, (unsigned long long) n);
  if (have) {
    if (have->count < n)
      return err_new (ERR_ref_count, "extent %llu: count %u, dropping %llu",
                      (unsigned long long) h->bytenr, have->count,
                      (unsigned long long) n);
    have->count -= n;
    if (have->count == 0)
      extent_item_remove (it, have);
  }
  else
    r = keyed_ref_change (&run->txn->tree, run->tree, h->bytenr, &ref->key,
                          ref->mod, &done);
  if (r < 0)
    return r;
  if (!done)
    return err_new (ERR_ref_missing, "extent %llu: type %u id %llu (%llu "
                    "%llu)", (unsigned long long) h->bytenr, ref->key.type,
                    (unsigned long long) ref->key.id,
                    (unsigned long long) ref->key.objectid,
                    (unsigned long long) ref->key.offset);
  it->refs -= n;
  return 0;
}

/* Additions first: the count may not touch zero on the way. */
static int
apply (struct run *run, struct delayed_head *h, struct extent_item *it)
{
  struct delayed_ref *ref;
  int r;

  RB_FOREACH (ref, delayed_refs, &h->refs)
    if (ref->mod > 0) {
      r = add_one (run, h, it, ref);
      if (r < 0)
        return r;
    }
  RB_FOREACH (ref, delayed_refs, &h->refs)
    if (ref->mod < 0) {
      r = drop_one (run, h, it, ref);
      if (r < 0)
        return r;
    }
  it->flags |= h->set_flags;
  return 0;
}

static struct key
item_key (const struct run *run, const struct delayed_head *h)
{
  if (!h->is_data && run->ex->skinny)
    return KEY (h->bytenr, BTRFS_METADATA_ITEM, h->level);
  return KEY (h->bytenr, BTRFS_EXTENT_ITEM, h->num_bytes);
}

/* Old form of tree blocks: the item names the block's first key. */
static void
fill_info (struct run *run, const struct delayed_head *h,
           struct extent_item *it)
{
  struct tree_expect expect = { .bytenr = h->bytenr,
                                .generation = run->txn->tree.transid };
  struct block *b = NULL;

  it->has_info = true;
  it->info.level = h->level;
  if (!block_peek (run->ex->cache, &expect, &b))
    return;
  if (tb_nritems (b->data) > 0)
    it->info.key = key_to_disk (tb_key (b->data, 0));
  block_put (b);
}

static int
insert_new (struct run *run, struct delayed_head *h)
{
  CLEANUP_EXTENT_ITEM struct extent_item it = { 0 };
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  int r;

  it.generation = run->txn->tree.transid;
  it.flags = h->is_data ? BTRFS_EXTENT_FLAG_DATA
    : BTRFS_EXTENT_FLAG_TREE_BLOCK;
  if (!h->is_data && !run->ex->skinny)
    fill_info (run, h, &it);
  r = apply (run, h, &it);
  if (r < 0)
    return r;
  r = tree_insert (&run->txn->tree, run->tree, item_key (run, h),
                   extent_item_size (&it), &c);
  if (r < 0)
    return r;
  extent_item_encode (&it, cursor_data_rw (&c));
  cursor_done (&c);
  return space_extent_inserted (run->ex->space, run->txn, h->bytenr,
                                h->num_bytes);
}

/* The item of H, with the path writable. */
static int
find_writable (struct run *run, const struct delayed_head *h,
               struct cursor *c)
{
  struct key key = item_key (run, h);
  int r = tree_find_rw (&run->txn->tree, run->tree, key, c);

  if (r == -ERR_key_missing && key.type == BTRFS_METADATA_ITEM) {
    cursor_done (c);
    key = KEY (h->bytenr, BTRFS_EXTENT_ITEM, h->num_bytes);
    r = tree_find_rw (&run->txn->tree, run->tree, key, c);
  }
  if (r == -ERR_key_missing)
    return err_new (ERR_extent_missing, "%llu+%llu",
                    (unsigned long long) h->bytenr,
                    (unsigned long long) h->num_bytes);
  return r;
}

/* Put IT in place of the item, which keyed references have not moved out of
 * this cursor's reach: it is searched again.
 */
static int
store (struct run *run, const struct delayed_head *h,
       const struct extent_item *it)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  uint32_t size = extent_item_size (it);
  int r = find_writable (run, h, &c);

  if (r == 0 && size != cursor_size (&c))
    r = cursor_resize (&run->txn->tree, &c, size);
  if (r == 0)
    extent_item_encode (it, cursor_data_rw (&c));
  return r;
}

/* More references than the margin in change_existing allows for. */
static bool
many_refs (struct delayed_head *h)
{
  struct delayed_ref *ref;
  unsigned n = 0;

  RB_FOREACH (ref, delayed_refs, &h->refs)
    if (++n > 8)
      return true;
  return false;
}

static int
change_existing (struct run *run, struct delayed_head *h)
{
  CLEANUP_EXTENT_ITEM struct extent_item it = { 0 };
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  bool keyed;
  int r;

  r = find_writable (run, h, &c);
  if (r == 0)
    r = extent_item_decode (&it, cursor_key (&c), cursor_data (&c),
                            cursor_size (&c));
  if (r < 0)
    return r;
  if (h->is_data != ((it.flags & BTRFS_EXTENT_FLAG_DATA) != 0))
    return err_new (ERR_extent_format, "extent %llu: data taken for tree "
                    "block or vice versa", (unsigned long long) h->bytenr);
  /* References beyond the inline ones, now or soon: other items will be
   * changed, and C with them.
   */
  keyed = it.refs > extent_item_inline_count (&it) || many_refs (h) ||
    extent_item_size (&it) + 8 * 29 >= max_inline_size (run->ex);
  if (keyed)
    cursor_done (&c);
  r = apply (run, h, &it);
  if (r < 0)
    return r;
  if (it.refs == 0) {
    if (keyed)
      r = find_writable (run, h, &c);
    if (r == 0)
      r = cursor_delete (&run->txn->tree, &c, 1);
    cursor_done (&c);
    return r < 0 ? r : space_freed (run, h, true);
  }
  if (keyed)
    return store (run, h, &it);
  if (extent_item_size (&it) != cursor_size (&c))
    r = cursor_resize (&run->txn->tree, &c, extent_item_size (&it));
  if (r == 0)
    extent_item_encode (&it, cursor_data_rw (&c));
  return r;
}

static int
run_head (struct run *run, struct delayed_head *h)
{
  int r;

  if (h->must_insert && RB_EMPTY (&h->refs))
    r = space_freed (run, h, false);
  else if (h->must_insert)
    r = insert_new (run, h);
  else
    r = change_existing (run, h);
  if (r < 0)
    return err_note (r, "references of %s %llu+%llu",
                     h->is_data ? "data" : "tree block",
                     (unsigned long long) h->bytenr,
                     (unsigned long long) h->num_bytes);
  return 0;
}

static uint64_t
now_ns (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * UINT64_C (1000000000) + ts.tv_nsec;
}

/* Keys that the changes of H touch, ROOM at most: the item's, and those of
 * references, which are elsewhere when there are many.
 */
static size_t
keys_of (const struct run *run, struct delayed_head *h, struct key *ret,
         size_t room)
{
  struct delayed_ref *ref;
  size_t n = 0;

  ret[n++] = item_key (run, h);
  RB_FOREACH (ref, delayed_refs, &h->refs) {
    if (n == room)
      break;
    ret[n++] = keyed_ref_key (h->bytenr, &ref->key);
  }
  return n;
}

/* The leaves that the next MAX heads change, all read at once and before the
 * lock is taken.
 */
static void
prefetch_batch (struct run *run, uint64_t from, size_t max)
{
  struct delayed_head find = { .bytenr = from }, *h;
  struct key key[PREFETCH_KEYS];
  size_t n = 0;

  mutex_lock (&run->ex->lock);
  h = RB_NFIND (delayed_heads, &run->ex->queue.heads, &find);
  for (; h && max > 0 && n < PREFETCH_KEYS; --max) {
    n += keys_of (run, h, key + n, PREFETCH_KEYS - n);
    h = RB_NEXT (delayed_heads, &run->ex->queue.heads, h);
  }
  mutex_unlock (&run->ex->lock);
  tree_prefetch_many (run->tree, key, n);
}

/* Run up to RUN_BATCH heads from *FROM on; *ret_n of them were run. */
static int
run_batch (struct run *run, uint64_t *from, size_t max, bool new_blocks,
           size_t *ret_n)
{
  struct extents *ex = run->ex;
  struct delayed_head *h;
  uint64_t t0, t1;
  size_t n = 0;
  int r = 0;

  prefetch_batch (run, *from, max);
  t0 = now_ns ();
  rwlock_wrlock (&run->tree->lock);
  while (r == 0 && n < max) {
    mutex_lock (&ex->lock);
    h = delayed_take (&ex->queue, *from, new_blocks);
    mutex_unlock (&ex->lock);
    if (h == NULL)
      break;
    *from = h->bytenr + 1;
    r = run_head (run, h);
    if (ex->timer && !h->is_data) {
      t1 = now_ns ();
      ex->timer (ex->timer_opaque, t1 - t0);
      t0 = t1;
    }
    delayed_head_free (h);
    n++;
  }
  rwlock_unlock (&run->tree->lock);
  if (n > 0)
    space_refs_run (ex->space, n);
  *ret_n = n;
  return r;
}

static int
freed_cmp (const void *a, const void *b)
{
  const struct freed *x = a, *y = b;

  return x->start < y->start ? -1 : x->start > y->start;
}

static void
prefetch_csums (struct run *run)
{
  struct root *root = roots_pool_tree (run->ex->roots, BTRFS_CSUM_TREE);
  struct key key[RUN_BATCH];
  size_t i;

  for (i = 0; i < run->nfreed; i++)
    key[i] = KEY (BTRFS_EXTENT_CSUM_OBJECTID, BTRFS_EXTENT_CSUM,
                  run->freed[i].start);
  if (root != NULL)
    tree_prefetch_many (root->tree, key, run->nfreed);
}

/* The extents are pinned: nobody can have given them new checksums. */
static int
delete_csums (struct run *run)
{
  size_t i, n = run->nfreed;
  uint64_t start, end;
  int r = 0;

  qsort (run->freed, n, sizeof *run->freed, freed_cmp);
  prefetch_csums (run);
  for (i = 0; i < n && r == 0; ) {
    start = run->freed[i].start;
    end = start + run->freed[i].len;
    while (++i < n && run->freed[i].start == end)
      end += run->freed[i].len;
    r = csum_items_delete (run->ex->roots, run->txn, start, end - start);
  }
  run->nfreed = 0;
  return r;
}

void
extents_set_watch (struct extents *ex, void (*fn) (void *, uint64_t),
                   void *opaque)
{
  ex->watch = fn;
  ex->watch_opaque = opaque;
}

int
extents_run (struct extents *ex, struct txn *txn, size_t max, bool exclusive)
{
  struct root *root = roots_pool_tree (ex->roots, BTRFS_EXTENT_TREE);
  struct run *run;
  uint64_t from = 0, begin = now_ns ();
  const size_t early = extents_pending (ex);
  size_t n, total = 0;
  int r = 0;

  if (root == NULL)
    return err_new (ERR_subvol_missing, "the extent tree is missing");
  run = calloc (1, sizeof *run);
  if (run == NULL)
    return err_new (ERR_nomem, "running references");
  run->ex = ex;
  run->txn = txn;
  run->tree = root->tree;
  while (r == 0 && (max == 0 || total < max)) {
    n = max == 0 ? RUN_BATCH : MIN ((size_t) RUN_BATCH, max - total);
    r = run_batch (run, &from, n, exclusive || ex->skinny, &n);
    if (r == 0 && run->nfreed > 0)
      r = delete_csums (run);
    /* Not for those that this makes: it must come to rest. */
    if (total < early && ex->watch != NULL)
      ex->watch (ex->watch_opaque, txn->tree.transid);
    total += n;
    if (n == 0) {
      /* New ones may have come up below. */
      if (from == 0 || max != 0)
        break;
      from = 0;
    }
  }
  free (run);
  {
    SCOPED_LOCK (&ex->lock);
    ex->stats.refs_run += total;
    ex->stats.run_ns += now_ns () - begin;
  }
  return r;
}
