/* space: making chunks and taking empty ones away.
 *
 * In two phases.  Under the chunk tree's lock: a hole on the device, the
 * chunk item, the device item (and the superblock's array for a system
 * chunk), the chunk in the volume's map, the block group in memory; from then
 * on it may be allocated from.  Later in the same transaction: block group
 * item, device extents, free space items (space_create_pending).
 *
 * Nothing else changes device extents, and the chunk map tells all of them,
 * so holes are found without reading the device tree.  A removed chunk stays
 * in the map until the commit is durable: neither its place on the device nor
 * its logical address is given out before.
 */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "space/space_priv.h"

#define MIB (UINT64_C (1) << 20)
#define GIB (UINT64_C (1) << 30)
#define MIN_STRIPE (1 * MIB)

unsigned
space_copies (uint64_t profile)
{
  return profile & BTRFS_BG_DUP ? 2 : 1;
}

static uint64_t
type_bits (const struct space *sp, enum space_kind kind)
{
  switch (kind) {
  case SPACE_SYSTEM: return BTRFS_BG_SYSTEM;
  case SPACE_METADATA:
    return BTRFS_BG_METADATA | (sp->mixed ? BTRFS_BG_DATA : 0);
  default: return BTRFS_BG_DATA;
  }
}

/* New chunks are like the newest one of their kind. */
uint64_t
space_profile (struct space *sp, enum space_kind kind)
{
  struct block_group *bg;

  SCOPED_LOCK (&sp->lock);
  RB_FOREACH_REVERSE (bg, groups, &sp->groups)
    if (bg->kind == kind)
      return bg->flags & BTRFS_BG_PROFILE_MASK;
  return kind == SPACE_DATA ? 0 : BTRFS_BG_DUP;
}

/* --- holes --- */

static int
range_cmp (const void *a, const void *b)
{
  const struct space_range *x = a, *y = b;

  return x->start < y->start ? -1 : x->start > y->start;
}

/* Everything that chunks take on DEVID, sorted. */
static int
used_ranges (struct space *sp, uint64_t devid, struct ranges *ret)
{
  struct chunk_info c;
  uint64_t at = 0;
  unsigned i;
  int r;

  while (volume_next_chunk (sp->volume, at, &c)) {
    for (i = 0; i < c.num_stripes; i++)
      if (c.stripes[i].devid == devid) {
        r = ranges_add (ret, c.stripes[i].physical, c.physical_len);
        if (r < 0)
          return r;
      }
    if (!add_ok (c.logical, c.length, &at))
      break;
  }
  qsort (ret->r, ret->n, sizeof *ret->r, range_cmp);
  return 0;
}

/* The first hole of WANT bytes, else the largest; *ret_len 0: none. */
static int
find_hole (struct space *sp, const struct volume_device *dev, uint64_t want,
           uint64_t *ret_start, uint64_t *ret_len)
{
  struct ranges used = { 0 };
  uint64_t pos = BTRFS_DEV_RESERVED, end = dev->total_bytes, s;
  size_t i;
  int r = used_ranges (sp, dev->devid, &used);

  *ret_len = 0;
  for (i = 0; r == 0 && i <= used.n && *ret_len < want; i++) {
    s = i < used.n ? MIN (used.r[i].start, end) : end;
    if (s > pos && s - pos > *ret_len) {
      *ret_start = pos;
      *ret_len = MIN (s - pos, want);
    }
    if (i < used.n)
      pos = MAX (pos, used.r[i].start + used.r[i].len);
  }
  free (used.r);
  return r;
}

static uint64_t
count_unallocated (struct space *sp)
{
  const struct volume_device *dev;
  uint64_t total = 0, used;
  struct ranges rs;
  unsigned i;
  size_t j;

  for (i = 0; i < volume_num_devices (sp->volume); i++) {
    dev = volume_device (sp->volume, i);
    rs = (struct ranges) { 0 };
    used = BTRFS_DEV_RESERVED;
    if (used_ranges (sp, dev->devid, &rs) == 0) {
      for (j = 0; j < rs.n; j++)
        used += rs.r[j].len;
      if (dev->total_bytes > used)
        total += dev->total_bytes - used;
    }
    else
      err_clear ();
    free (rs.r);
  }
  return total;
}

/* What chunks can still be made of: not in pieces too small for one. */
uint64_t
space_usable (struct space *sp)
{
  const struct volume_device *dev = volume_device (sp->volume, 0);
  struct ranges used = { 0 };
  uint64_t pos = BTRFS_DEV_RESERVED, total = 0, s;
  size_t i;

  if (volume_num_devices (sp->volume) != 1)
    return 0;
  if (used_ranges (sp, dev->devid, &used) < 0)
    err_clear ();
  else
    for (i = 0; i <= used.n; i++) {
      s = i < used.n ? MIN (used.r[i].start, dev->total_bytes)
        : dev->total_bytes;
      if (s > pos && s - pos >= 2 * MIN_STRIPE)
        total += round_down (s - pos, 2 * BTRFS_STRIPE_LEN);
      if (i < used.n)
        pos = MAX (pos, used.r[i].start + used.r[i].len);
    }
  free (used.r);
  return total;
}

static uint64_t
max_stripe (struct space *sp, enum space_kind kind)
{
  if (kind == SPACE_SYSTEM)
    return 32 * MIB;
  if (kind == SPACE_DATA || sp->mixed
      || volume_device (sp->volume, 0)->total_bytes > 50 * GIB)
    return GIB;
  return 256 * MIB;
}

/* How large the next chunk of KIND would be, were UNALLOCATED bytes in one
 * piece left; 0: none.
 */
static uint64_t
chunk_bytes (struct space *sp, enum space_kind kind, uint64_t unallocated,
             unsigned copies)
{
  const uint64_t most = max_stripe (sp, kind);
  const uint64_t total = volume_device (sp->volume, 0)->total_bytes;
  const uint64_t max_chunk = MIN (kind == SPACE_DATA ? 10 * GIB : most,
                                  total / 10);
  uint64_t len = MIN (most * copies, unallocated) / copies;

  if (len > max_chunk)
    len = MIN (len, round_up (max_chunk, 16 * MIB));
  len = round_down (len, BTRFS_STRIPE_LEN);
  return len < MIN_STRIPE ? 0 : len;
}

uint64_t
space_next_chunk (struct space *sp, enum space_kind kind,
                  uint64_t unallocated)
{
  return chunk_bytes (sp, kind, unallocated,
                      space_copies (space_profile (sp, kind)));
}

uint64_t
space_unallocated (struct space *sp)
{
  if (space_load_groups (sp) < 0)
    err_clear ();
  SCOPED_LOCK (&sp->lock);
  return sp->unallocated;
}

/* A commit may have to copy all of the pool's trees; that part is never for
 * anybody else.
 */
void
space_refresh_reserve (struct space *sp)
{
  uint64_t copy, global;

  copy = roots_reserve_bytes (sp->roots) + (uint64_t) sp->nodesize * 16;
  copy = MIN (copy, 512 * MIB);
  global = copy + MAX (copy / 4, (uint64_t) sp->nodesize * 16 * 10);
  SCOPED_LOCK (&sp->lock);
  sp->global = MIN (global, sp->info[SPACE_METADATA].total / 4);
  sp->global_to_free = sp->global > copy ? sp->global - copy
    : sp->global / 2;
}

void
space_refresh (struct space *sp)
{
  uint64_t unallocated = count_unallocated (sp);
  unsigned copies = space_copies (space_profile (sp, SPACE_METADATA));

  {
    SCOPED_LOCK (&sp->lock);
    sp->unallocated = unallocated;
    sp->meta_copies = copies;
  }
  space_refresh_reserve (sp);
}

/* --- phase one --- */

struct new_chunk {
  const struct volume_device *dev;
  uint64_t type;               /* with profile */
  unsigned stripes;
  uint64_t physical, stripe_len;
  uint64_t logical;
};

/* Size and place; *ret_ok false: it does not fit. */
static int
plan (struct space *sp, enum space_kind kind, struct new_chunk *n,
      bool *ret_ok)
{
  uint64_t hole, end = 0;
  struct chunk_info c;
  int r;

  *ret_ok = false;
  n->type = type_bits (sp, kind) | space_profile (sp, kind);
  if (volume_num_devices (sp->volume) != 1 ||
      (n->type & BTRFS_BG_PROFILE_MASK &
       ~(BTRFS_BG_DUP | BTRFS_BG_RAID0)) != 0)
    return 0;                   /* cannot be made on one device */
  n->dev = volume_device (sp->volume, 0);
  n->stripes = space_copies (n->type);
  r = find_hole (sp, n->dev, max_stripe (sp, kind) * n->stripes,
                 &n->physical, &hole);
  if (r < 0)
    return r;
  n->stripe_len = chunk_bytes (sp, kind, hole, n->stripes);
  if (n->stripe_len == 0)
    return 0;
  while (volume_next_chunk (sp->volume, end, &c))
    end = c.logical + c.length;
  n->logical = round_up (end, BTRFS_STRIPE_LEN);
  *ret_ok = true;
  return 0;
}

/* Told to the volume when the transaction has its final shape. */
static int
space_set_dev_used (struct space *sp, uint64_t devid, uint64_t used)
{
  unsigned i, n = volume_num_devices (sp->volume);

  SCOPED_LOCK (&sp->lock);
  if (sp->dev_used == NULL) {
    sp->dev_used = calloc (n, sizeof *sp->dev_used);
    if (sp->dev_used == NULL)
      return err_new (ERR_nomem, "device usage");
  }
  for (i = 0; i < n; i++)
    if (volume_device (sp->volume, i)->devid == devid)
      sp->dev_used[i] = used + 1;
  return 0;
}

static int
change_device_item (struct space *sp, struct txn *txn, struct tree *ct,
                    uint64_t devid, int64_t delta)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct btrfs_dev_item *item;
  uint64_t used;
  int r;

  r = tree_find_rw (&txn->tree, ct, KEY (BTRFS_DEV_ITEMS_OBJECTID,
                                         BTRFS_DEV_ITEM, devid), &c);
  if (r < 0)
    return err_note (r, "device item");
  item = cursor_data_rw (&c);
  used = le64_get (item->bytes_used) + delta;
  item->bytes_used = le64_make (used);
  return space_set_dev_used (sp, devid, used);
}

static uint32_t
fill_chunk (struct space *sp, const struct new_chunk *n,
            struct btrfs_chunk *chunk)
{
  unsigned i;

  memset (chunk, 0, sizeof *chunk);
  chunk->length = le64_make (n->stripe_len);
  chunk->owner = le64_make (BTRFS_EXTENT_TREE);
  chunk->stripe_len = le64_make (BTRFS_STRIPE_LEN);
  chunk->type = le64_make (n->type);
  chunk->io_align = chunk->io_width = le32_make (BTRFS_STRIPE_LEN);
  chunk->sector_size = le32_make (sp->sectorsize);
  chunk->num_stripes = le16_make (n->stripes);
  chunk->sub_stripes = le16_make (1);
  for (i = 0; i < n->stripes; i++) {
    chunk->stripes[i].devid = le64_make (n->dev->devid);
    chunk->stripes[i].offset = le64_make (n->physical + i * n->stripe_len);
    memcpy (chunk->stripes[i].dev_uuid, n->dev->uuid, BTRFS_UUID_SIZE);
  }
  return sizeof *chunk + n->stripes * sizeof (struct btrfs_stripe);
}

static int
register_group (struct space *sp, const struct new_chunk *n)
{
  struct block_group *bg;
  int r;

  {
    SCOPED_LOCK (&sp->lock);
    r = space_add_group (sp, n->logical, n->stripe_len, n->type, &bg);
    if (r < 0)
      return r;
    bg->fresh = true;
    /* One that is made before there is a tree is built into it later. */
    bg->fst_ready = sp->fst_enabled;
  }
  space_refresh (sp);
  /* Now, while it is known to be empty. */
  return space_load_free (sp, bg);
}

static int
make_chunk (struct space *sp, struct txn *txn, struct tree *ct,
            enum space_kind kind, bool *ret_made)
{
  CLEANUP_FREE struct btrfs_chunk *chunk = NULL;
  struct new_chunk n = { 0 };
  struct key key;
  uint32_t size;
  int r;

  r = plan (sp, kind, &n, ret_made);
  if (r < 0 || !*ret_made)
    return r;
  chunk = malloc (sizeof *chunk + n.stripes * sizeof (struct btrfs_stripe));
  if (chunk == NULL)
    return err_new (ERR_nomem, "new chunk");
  size = fill_chunk (sp, &n, chunk);
  key = KEY (BTRFS_FIRST_CHUNK_TREE_OBJECTID, BTRFS_CHUNK_ITEM, n.logical);
  if (kind == SPACE_SYSTEM && sp->sys_chunk) {
    r = sp->sys_chunk (sp->sys_chunk_opaque, key, chunk, size);
    if (r < 0)
      return r;
  }
  r = change_device_item (sp, txn, ct, n.dev->devid,
                          n.stripe_len * n.stripes);
  if (r == 0)
    r = tree_insert_data (&txn->tree, ct, key, chunk, size);
  if (r == 0)
    r = volume_add_chunk (sp->volume, n.logical, chunk);
  if (r == 0)
    r = register_group (sp, &n);
  if (r < 0)
    return r;
  log_debug ("new chunk at %llu, %llu bytes, type %#llx",
             (unsigned long long) n.logical,
             (unsigned long long) n.stripe_len, (unsigned long long) n.type);
  return 0;
}

/* The chunk tree itself must find room: its path twice, and splits. */
static int
check_system (struct space *sp, struct txn *txn, struct tree *ct)
{
  const struct space_info *i = &sp->info[SPACE_SYSTEM];
  uint64_t need = (uint64_t) sp->nodesize * 2 * (tree_level (ct) + 3), gone;
  bool low, made;

  {
    SCOPED_LOCK (&sp->lock);
    gone = space_gone (i);
    low = gone + need > i->total;
  }
  return low ? make_chunk (sp, txn, ct, SPACE_SYSTEM, &made) : 0;
}

int
space_chunk_alloc (struct space *sp, struct txn *txn, enum space_kind kind,
                   bool *ret_made)
{
  struct root *root = roots_pool_tree (sp->roots, BTRFS_CHUNK_TREE);
  int r;

  *ret_made = false;
  /* Before anything can be allocated from it. */
  __atomic_store_n (&sp->chunk_transid, txn->tree.transid, __ATOMIC_RELEASE);
  rwlock_wrlock (&root->tree->lock);
  r = check_system (sp, txn, root->tree);
  if (r == 0)
    r = make_chunk (sp, txn, root->tree, kind, ret_made);
  rwlock_unlock (&root->tree->lock);
  if (r < 0) {
    txn_abort (txn, r);
    return err_note (r, "new chunk");
  }
  return 0;
}

/* --- phase two --- */

static int
insert_dev_extents (struct space *sp, struct txn *txn,
                    const struct chunk_info *c, bool remove)
{
  struct root *root = roots_pool_tree (sp->roots, BTRFS_DEV_TREE);
  const struct format_info *f = block_cache_format (sp->cache);
  struct btrfs_dev_extent de;
  struct key key;
  unsigned i;
  int r = 0;

  if (root == NULL)
    return err_new (ERR_subvol_missing, "the device tree is missing");
  de.chunk_tree = le64_make (BTRFS_CHUNK_TREE);
  de.chunk_objectid = le64_make (BTRFS_FIRST_CHUNK_TREE_OBJECTID);
  de.chunk_offset = le64_make (c->logical);
  de.length = le64_make (c->physical_len);
  memcpy (de.chunk_tree_uuid, f->chunk_tree_uuid, BTRFS_UUID_SIZE);
  rwlock_wrlock (&root->tree->lock);
  for (i = 0; i < c->num_stripes && r == 0; i++) {
    key = KEY (c->stripes[i].devid, BTRFS_DEV_EXTENT, c->stripes[i].physical);
    r = remove ? tree_delete (&txn->tree, root->tree, key)
      : tree_insert_data (&txn->tree, root->tree, key, &de, sizeof de);
  }
  rwlock_unlock (&root->tree->lock);
  return r < 0 ? err_note (r, "device extents") : 0;
}

static int
insert_group_item (struct space *sp, struct txn *txn, struct block_group *bg)
{
  struct root *root = space_group_root (sp);
  struct btrfs_block_group_item item;
  int r;

  {
    SCOPED_LOCK (&sp->lock);
    bg->item_used = bg->used;
    item.used = le64_make (bg->used);
  }
  item.chunk_objectid = le64_make (BTRFS_FIRST_CHUNK_TREE_OBJECTID);
  item.flags = le64_make (bg->flags);
  rwlock_wrlock (&root->tree->lock);
  r = tree_insert_data (&txn->tree, root->tree,
                        KEY (bg->start, BTRFS_BLOCK_GROUP_ITEM, bg->length),
                        &item, sizeof item);
  rwlock_unlock (&root->tree->lock);
  return r < 0 ? err_note (r, "block group item") : 0;
}

static int
insert_free_space (struct space *sp, struct txn *txn, struct block_group *bg)
{
  struct root *root = roots_pool_tree (sp->roots, BTRFS_FREE_SPACE_TREE);
  struct space_range all = { bg->start, bg->length };
  struct fst_group g;
  int r;

  if (!sp->fst_enabled || !bg->fst_ready)
    return 0;
  g = (struct fst_group) { .txn = &txn->tree, .tree = root->tree, .bg = bg,
    .sector = sp->sectorsize };
  rwlock_wrlock (&root->tree->lock);
  r = fst_populate (&g, &all, 1);
  rwlock_unlock (&root->tree->lock);
  return r < 0 ? err_note (r, "free space items") : 0;
}

static int
create_items (struct space *sp, struct txn *txn, struct block_group *bg)
{
  struct chunk_info c;
  int r;

  r = volume_get_chunk (sp->volume, bg->start, &c);
  if (r < 0)
    return r;
  r = insert_group_item (sp, txn, bg);
  if (r == 0)
    r = insert_dev_extents (sp, txn, &c, false);
  if (r == 0)
    r = insert_free_space (sp, txn, bg);
  if (r < 0)
    return err_note (r, "new block group %llu",
                     (unsigned long long) bg->start);
  SCOPED_LOCK (&sp->lock);
  bg->fresh = false;
  bg->dirty = true;
  return 0;
}

static struct block_group *
next_fresh (struct space *sp, uint64_t addr)
{
  struct block_group find = { .start = addr }, *bg;

  SCOPED_LOCK (&sp->lock);
  for (bg = RB_NFIND (groups, &sp->groups, &find); bg;
       bg = RB_NEXT (groups, &sp->groups, bg))
    if (bg->fresh)
      return bg;
  return NULL;
}

/* Ascending, so that leaves fill up.  What is made meanwhile has a higher
 * address.
 */
int
space_create_pending (struct space *sp, struct txn *txn, bool *ret_changed)
{
  struct block_group *bg;
  uint64_t at = 0;
  int r;

  *ret_changed = false;
  while ((bg = next_fresh (sp, at)) != NULL) {
    r = create_items (sp, txn, bg);
    if (r < 0)
      return r;
    *ret_changed = true;
    at = bg->start + 1;
  }
  return 0;
}

/* --- removal --- */

/* Empty since before this transaction, nobody in it, in the free space tree if
 * there is one, and others of its kind stay that are enough for what was
 * promised.
 */
static bool
may_remove (struct space *sp, struct block_group *bg, unsigned empty_left)
{
  const struct space_info *i = &sp->info[bg->kind];
  uint64_t gone = space_gone (i) + i->may_use;

  /* The map is ahead of the counters while an allocation is under way. */
  if (bg->loaded &&
      bg->map.nset != (bg->length - bg->super_bytes) / sp->sectorsize)
    return false;
  return bg->kind != SPACE_SYSTEM && !bg->readonly && !bg->fresh &&
    !bg->mapped && (bg->fst_ready || !sp->fst_enabled) &&
    bg->used == 0 && bg->item_used == 0 && bg->reserved == 0 &&
    bg->pinned == 0 && bg->nocow == 0 && RB_EMPTY (&bg->changes) &&
    empty_left > 1 &&
    gone - MIN (gone, bg->super_bytes) + bg->length + sp->nodesize <=
      i->total;
}

/* Take one empty group out of the pool in memory; NULL: there is none. */
static struct block_group *
pick_empty (struct space *sp)
{
  unsigned empty[SPACE_KINDS] = { 0 };
  struct block_group *bg, *found = NULL;
  struct space_info *i;

  SCOPED_LOCK (&sp->lock);
  RB_FOREACH (bg, groups, &sp->groups)
    if (bg->used == 0)
      empty[bg->kind]++;
  RB_FOREACH_REVERSE (bg, groups, &sp->groups) {
    mutex_lock (&bg->lock);
    if (may_remove (sp, bg, empty[bg->kind])) {
      bg->readonly = true;
      found = bg;
    }
    mutex_unlock (&bg->lock);
    if (found)
      break;
  }
  if (found == NULL)
    return NULL;
  RB_REMOVE (groups, &sp->groups, found);
  found->removed = true;
  i = &sp->info[found->kind];
  i->total -= found->length;
  i->readonly -= found->super_bytes;
  if (sp->current[found->kind] == found)
    sp->current[found->kind] = NULL;
  found->next_removed = sp->removed;
  sp->removed = found;
  return found;
}

static int
remove_chunk_items (struct space *sp, struct txn *txn,
                    const struct chunk_info *c)
{
  struct root *root = roots_pool_tree (sp->roots, BTRFS_CHUNK_TREE);
  unsigned i;
  int r;

  rwlock_wrlock (&root->tree->lock);
  r = check_system (sp, txn, root->tree);
  if (r == 0)
    r = tree_delete (&txn->tree, root->tree,
                     KEY (BTRFS_FIRST_CHUNK_TREE_OBJECTID, BTRFS_CHUNK_ITEM,
                          c->logical));
  for (i = 0; i < c->num_stripes && r == 0; i++)
    r = change_device_item (sp, txn, root->tree, c->stripes[i].devid,
                            -(int64_t) c->physical_len);
  rwlock_unlock (&root->tree->lock);
  return r;
}

static int
remove_group (struct space *sp, struct txn *txn, struct block_group *bg)
{
  struct root *fst = roots_pool_tree (sp->roots, BTRFS_FREE_SPACE_TREE);
  struct root *root = space_group_root (sp);
  struct fst_group g = { .txn = &txn->tree, .bg = bg,
    .sector = sp->sectorsize };
  struct chunk_info c;
  int r;

  r = volume_get_chunk (sp->volume, bg->start, &c);
  if (r == 0 && sp->fst_enabled && fst) {
    g.tree = fst->tree;
    rwlock_wrlock (&fst->tree->lock);
    r = fst_remove_group (&g);
    rwlock_unlock (&fst->tree->lock);
  }
  if (r == 0) {
    rwlock_wrlock (&root->tree->lock);
    r = tree_delete (&txn->tree, root->tree,
                     KEY (bg->start, BTRFS_BLOCK_GROUP_ITEM, bg->length));
    rwlock_unlock (&root->tree->lock);
  }
  if (r == 0)
    r = insert_dev_extents (sp, txn, &c, true);
  if (r == 0)
    r = remove_chunk_items (sp, txn, &c);
  return r;
}

int
space_remove_empty (struct space *sp, struct txn *txn)
{
  struct block_group *bg;
  int r;

  while ((bg = pick_empty (sp)) != NULL) {
    r = remove_group (sp, txn, bg);
    if (r < 0)
      return err_note (r, "removing block group %llu",
                       (unsigned long long) bg->start);
    log_debug ("removed empty block group %llu",
               (unsigned long long) bg->start);
  }
  return 0;
}
