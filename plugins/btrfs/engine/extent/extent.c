/* extent: queueing references; looking them up. */
#include <config.h>

#include <stdlib.h>

#include "base/err.h"
#include "base/math.h"
#include "extent/delayed.h"

int
extents_new (struct roots *rs, struct space *sp, struct block_cache *cache,
             struct extents **ret)
{
  struct extents *ex = calloc (1, sizeof *ex);
  const struct format_info *f = block_cache_format (cache);

  if (ex == NULL)
    return err_new (ERR_nomem, "extents");
  ex->roots = rs;
  ex->space = sp;
  ex->cache = cache;
  ex->nodesize = f->nodesize;
  ex->skinny = (f->incompat & BTRFS_INCOMPAT_SKINNY_METADATA) != 0;
  mutex_init (&ex->share_lock, RANK_EXTENT_SHARE);
  mutex_init (&ex->lock, RANK_DELAYED_REFS);
  delayed_init (&ex->queue);
  *ret = ex;
  return 0;
}

void
extents_free (struct extents *ex)
{
  if (ex == NULL)
    return;
  delayed_done (&ex->queue);
  mutex_done (&ex->lock);
  mutex_done (&ex->share_lock);
  free (ex);
}

size_t
extents_pending (struct extents *ex)
{
  SCOPED_LOCK (&ex->lock);
  return ex->queue.count;
}

void
extents_get_stats (struct extents *ex, struct extents_stats *ret)
{
  SCOPED_LOCK (&ex->lock);
  *ret = ex->stats;
}

void
extents_set_timer (struct extents *ex, void (*fn) (void *, uint64_t),
                   void *opaque)
{
  SCOPED_LOCK (&ex->lock);
  ex->timer = fn;
  ex->timer_opaque = opaque;
}

int
extents_queue (struct extents *ex, const struct delayed_change *c)
{
  size_t before, after;
  int r;

  {
    SCOPED_LOCK (&ex->lock);
    before = ex->queue.count;
    r = delayed_add (&ex->queue, c);
    after = ex->queue.count;
  }
  space_pending_refs (ex->space, (int64_t) after - (int64_t) before);
  return r;
}

/* --- data --- */

static int
data_change (struct extents *ex, struct txn *txn, struct data_ref ref,
             uint64_t parent, int mod, bool fresh)
{
  struct delayed_change c = {
    .bytenr = ref.bytenr, .num_bytes = ref.num_bytes, .is_data = true,
    .must_insert = fresh, .mod = mod,
  };
  int r;

  if (parent)
    c.key = (struct ref_key) { .type = BTRFS_SHARED_DATA_REF, .id = parent };
  else
    c.key = (struct ref_key) { .type = BTRFS_EXTENT_DATA_REF, .id = ref.root,
      .objectid = ref.objectid, .offset = ref.offset };
  r = trans_check (txn->trans);
  if (r == 0)
    r = extents_queue (ex, &c);
  return r;
}

int
extent_data_new (struct extents *ex, struct txn *txn, struct data_ref ref)
{
  return data_change (ex, txn, ref, 0, 1, true);
}

int
extent_data_inc (struct extents *ex, struct txn *txn, struct data_ref ref)
{
  return data_change (ex, txn, ref, 0, 1, false);
}

int
extent_data_dec (struct extents *ex, struct txn *txn, struct data_ref ref)
{
  return data_change (ex, txn, ref, 0, -1, false);
}

int
extent_data_inc_shared (struct extents *ex, struct txn *txn,
                        struct data_ref ref, uint64_t parent)
{
  return data_change (ex, txn, ref, parent, 1, false);
}

int
extent_data_dec_shared (struct extents *ex, struct txn *txn,
                        struct data_ref ref, uint64_t parent)
{
  return data_change (ex, txn, ref, parent, -1, false);
}

/* --- tree blocks --- */

static int
tree_change (struct extents *ex, struct txn *txn, struct tree_ref ref,
             int mod)
{
  struct delayed_change c = {
    .bytenr = ref.bytenr, .num_bytes = ex->nodesize, .level = ref.level,
    .mod = mod,
    .key = { .type = ref.parent ? BTRFS_SHARED_BLOCK_REF
             : BTRFS_TREE_BLOCK_REF,
             .id = ref.parent ? ref.parent : ref.root },
  };
  int r = trans_check (txn->trans);

  return r < 0 ? r : extents_queue (ex, &c);
}

int
extent_tree_inc (struct extents *ex, struct txn *txn, struct tree_ref ref)
{
  return tree_change (ex, txn, ref, 1);
}

int
extent_tree_dec (struct extents *ex, struct txn *txn, struct tree_ref ref)
{
  return tree_change (ex, txn, ref, -1);
}

int
extent_set_full_backref (struct extents *ex, struct txn *txn, uint64_t bytenr,
                         unsigned level)
{
  struct delayed_change c = {
    .bytenr = bytenr, .num_bytes = ex->nodesize, .level = level,
    .set_flags = BTRFS_EXTENT_FLAG_FULL_BACKREF,
  };
  int r = trans_check (txn->trans);

  return r < 0 ? r : extents_queue (ex, &c);
}

void
extent_share_lock (struct extents *ex)
{
  mutex_lock (&ex->share_lock);
}

void
extent_share_unlock (struct extents *ex)
{
  mutex_unlock (&ex->share_lock);
}

/* --- children of a block --- */

static int
leaf_child (struct extents *ex, struct txn *txn, const struct block *b,
            uint32_t slot, uint64_t parent, bool add)
{
  const struct btrfs_file_extent *fe = tb_item_data_c (b->data, slot);
  struct key key = tb_item_key (b->data, slot);
  struct data_ref ref;

  if (key.type != BTRFS_EXTENT_DATA ||
      fe->type == BTRFS_FILE_EXTENT_INLINE ||
      le64_get (fe->disk_bytenr) == 0)
    return 0;
  ref.bytenr = le64_get (fe->disk_bytenr);
  ref.num_bytes = le64_get (fe->disk_num_bytes);
  ref.root = tb_owner (b->data);
  ref.objectid = key.objectid;
  ref.offset = key.offset - le64_get (fe->offset);
  return data_change (ex, txn, ref, parent, add ? 1 : -1, false);
}

int
extent_children (struct extents *ex, struct txn *txn, const struct block *b,
                 bool full_backref, bool add)
{
  uint64_t parent = full_backref ? b->bytenr : 0;
  unsigned level = tb_level (b->data);
  uint32_t i, n = tb_nritems (b->data);
  struct tree_ref ref;
  int r = 0;

  for (i = 0; i < n && r == 0; i++) {
    if (level == 0) {
      r = leaf_child (ex, txn, b, i, parent, add);
      continue;
    }
    ref.bytenr = le64_get (tb_ptr_c (b->data, i)->blockptr);
    ref.level = level - 1;
    ref.root = tb_owner (b->data);
    ref.parent = parent;
    r = tree_change (ex, txn, ref, add ? 1 : -1);
  }
  return r;
}

/* --- looking up --- */

/* The item of the extent at BYTENR: *ret_found.  The tree's lock is held. */
static int
find_item (struct tree *tree, uint64_t bytenr, bool metadata, bool skinny,
           struct extent_item *ret, struct key *ret_key, bool *ret_found)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct key key = KEY_MIN;
  int r;

  *ret_found = false;
  /* Keyed references sort behind the item, so the search from (bytenr, 0)
   * meets the item of either form first.
   */
  r = tree_find (tree, KEY (bytenr, BTRFS_EXTENT_ITEM, 0), &c, NULL);
  if (r < 0)
    return r;
  if (!cursor_at_item (&c))
    return 0;
  key = cursor_key (&c);
  if (key.objectid != bytenr ||
      (key.type != BTRFS_EXTENT_ITEM && key.type != BTRFS_METADATA_ITEM))
    return 0;
  if (key.type == BTRFS_METADATA_ITEM && (!metadata || !skinny))
    return err_new (ERR_extent_format, "unexpected metadata item at %llu",
                    (unsigned long long) bytenr);
  r = extent_item_decode (ret, key, cursor_data (&c), cursor_size (&c));
  if (r < 0)
    return r;
  *ret_key = key;
  *ret_found = true;
  return 0;
}

int
extent_refs (struct extents *ex, uint64_t bytenr, bool metadata,
             unsigned level, uint64_t *ret_refs, uint64_t *ret_flags)
{
  struct root *root = roots_pool_tree (ex->roots, BTRFS_EXTENT_TREE);
  CLEANUP_EXTENT_ITEM struct extent_item it = { 0 };
  struct delayed_head *h;
  uint64_t refs = 0, flags = 0;
  bool found, fresh = false;
  int64_t mod = 0;
  struct key key;
  int r;

  (void) level;
  if (root == NULL)
    return err_new (ERR_subvol_missing, "the extent tree is missing");
  rwlock_rdlock (&root->tree->lock);
  r = find_item (root->tree, bytenr, metadata, ex->skinny, &it, &key, &found);
  if (r == 0) {
    if (found) {
      refs = it.refs;
      flags = it.flags;
    }
    mutex_lock (&ex->lock);
    h = delayed_find (&ex->queue, bytenr);
    if (h) {
      mod = delayed_head_mod (h);
      flags |= h->set_flags;
      fresh = h->must_insert;
    }
    mutex_unlock (&ex->lock);
  }
  rwlock_unlock (&root->tree->lock);
  if (r < 0)
    return r;
  if (!found && !fresh)
    return err_new (ERR_extent_missing, "%llu",
                    (unsigned long long) bytenr);
  if (mod < 0 && refs < (uint64_t) -mod)
    return err_new (ERR_ref_count, "extent %llu: %llu references, %lld "
                    "pending", (unsigned long long) bytenr,
                    (unsigned long long) refs, (long long) mod);
  *ret_refs = refs + mod;
  *ret_flags = flags;
  return 0;
}

/* One inline reference, REF's own, and nothing else. */
static bool
only_ref (struct extent_item *it, const struct ref_key *k)
{
  return it->n == 1 && it->inl[0].count == it->refs &&
    ref_key_eq (&it->inl[0].key, k);
}

/* Pending: nothing but additions by REF's owner. */
static bool
only_pending (struct delayed_head *h, const struct ref_key *k)
{
  struct delayed_ref *ref;

  RB_FOREACH (ref, delayed_refs, &h->refs)
    if (!ref_key_eq (&ref->key, k))
      return false;
  return true;
}

int
extent_data_is_exclusive (struct extents *ex, struct data_ref ref,
                          bool *ret_exclusive, uint64_t *ret_generation)
{
  struct root *root = roots_pool_tree (ex->roots, BTRFS_EXTENT_TREE);
  CLEANUP_EXTENT_ITEM struct extent_item it = { 0 };
  struct ref_key k = { .type = BTRFS_EXTENT_DATA_REF, .id = ref.root,
    .objectid = ref.objectid, .offset = ref.offset };
  struct delayed_head *h;
  struct key key;
  bool found;
  int r;

  *ret_exclusive = false;
  if (root == NULL)
    return err_new (ERR_subvol_missing, "the extent tree is missing");
  rwlock_rdlock (&root->tree->lock);
  r = find_item (root->tree, ref.bytenr, false, ex->skinny, &it, &key,
                 &found);
  if (r == 0) {
    mutex_lock (&ex->lock);
    h = delayed_find (&ex->queue, ref.bytenr);
    if (h && !only_pending (h, &k))
      found = false;
    else if (h && h->must_insert && !found)
      *ret_exclusive = !RB_EMPTY (&h->refs);
    mutex_unlock (&ex->lock);
    if (found)
      *ret_exclusive = key.offset == ref.num_bytes && only_ref (&it, &k);
    if (ret_generation)
      *ret_generation = found ? it.generation : UINT64_MAX;
  }
  rwlock_unlock (&root->tree->lock);
  return r;
}
