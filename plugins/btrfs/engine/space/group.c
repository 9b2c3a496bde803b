/* space: block groups and their items; counters. */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/math.h"
#include "space/space_priv.h"

static int
block_group_cmp (const struct block_group *a, const struct block_group *b)
{
  return a->start < b->start ? -1 : a->start > b->start;
}

RB_GENERATE (groups, block_group, entry, block_group_cmp)

int
space_new (struct block_cache *cache, struct roots *rs, struct space **ret)
{
  const struct format_info *f = block_cache_format (cache);
  struct space *sp = calloc (1, sizeof *sp);

  if (sp == NULL)
    return err_new (ERR_nomem, "space");
  sp->cache = cache;
  sp->volume = block_cache_volume (cache);
  sp->roots = rs;
  sp->sectorsize = f->sectorsize;
  sp->nodesize = f->nodesize;
  sp->mixed = (f->incompat & BTRFS_INCOMPAT_MIXED_GROUPS) != 0;
  sp->has_bgt = (f->compat_ro & BTRFS_COMPAT_RO_BLOCK_GROUP_TREE) != 0;
  sp->bytes_used = le64_get (volume_super (sp->volume)->bytes_used);
  mutex_init (&sp->load_lock, RANK_RESERVE);
  mutex_init (&sp->ticket_lock, RANK_RESERVE);
  cond_init (&sp->ticket_cond);
  cond_init (&sp->discard_cond);
  cond_init (&sp->nocow_cond);
  mutex_init (&sp->lock, RANK_SPACE);
  RB_INIT (&sp->groups);
  *ret = sp;
  return 0;
}

static void
group_free (struct block_group *bg)
{
  fst_changes_clear (&bg->changes);
  free_map_done (&bg->map);
  space_hold_cleanup (bg);
  mutex_done (&bg->lock);
  free (bg);
}

static void
free_list (struct block_group *bg)
{
  struct block_group *next;

  for (; bg; bg = next) {
    next = bg->next_removed;
    group_free (bg);
  }
}

void
space_free (struct space *sp)
{
  struct block_group *bg;

  if (sp == NULL)
    return;
  while ((bg = RB_ROOT (&sp->groups)) != NULL) {
    RB_REMOVE (groups, &sp->groups, bg);
    group_free (bg);
  }
  free_list (sp->removed);
  free_list (sp->removed_committing);
  free_list (sp->graveyard);
  free (sp->dev_used);
  free (sp->pinned.r);
  free (sp->committing.r);
  free (sp->discards.r);
  mutex_done (&sp->lock);
  cond_done (&sp->nocow_cond);
  cond_done (&sp->discard_cond);
  cond_done (&sp->ticket_cond);
  mutex_done (&sp->ticket_lock);
  mutex_done (&sp->load_lock);
  free (sp);
}

void
space_set_trans (struct space *sp, struct trans *t,
                 int (*run_refs) (void *opaque, struct txn *), void *opaque)
{
  sp->trans = t;
  sp->run_refs = run_refs;
  sp->run_refs_opaque = opaque;
}

void
space_set_sys_chunk_hook (struct space *sp,
                          int (*fn) (void *, struct key,
                                     const struct btrfs_chunk *, uint32_t),
                          void *opaque)
{
  sp->sys_chunk = fn;
  sp->sys_chunk_opaque = opaque;
}

int
ranges_add (struct ranges *rs, uint64_t start, uint64_t len)
{
  struct space_range *p;
  size_t cap;

  if (rs->n > 0 && rs->r[rs->n - 1].start + rs->r[rs->n - 1].len == start) {
    rs->r[rs->n - 1].len += len;
    return 0;
  }
  if (rs->n == rs->cap) {
    cap = rs->cap ? 2 * rs->cap : 64;
    p = realloc (rs->r, cap * sizeof *p);
    if (p == NULL)
      return err_new (ERR_nomem, "freed extents");
    rs->r = p;
    rs->cap = cap;
  }
  rs->r[rs->n++] = (struct space_range) { start, len };
  return 0;
}

struct block_group *
space_find (struct space *sp, uint64_t addr)
{
  struct block_group *bg = RB_ROOT (&sp->groups), *below = NULL;

  while (bg) {
    if (addr < bg->start)
      bg = RB_LEFT (bg, entry);
    else {
      below = bg;
      bg = RB_RIGHT (bg, entry);
    }
  }
  return below && addr - below->start < below->length ? below : NULL;
}

struct root *
space_group_root (struct space *sp)
{
  return roots_pool_tree (sp->roots, sp->has_bgt ? BTRFS_BLOCK_GROUP_TREE
                          : BTRFS_EXTENT_TREE);
}

#define MAX_SUPER_RANGES 64
/* A group bigger than this is never allocated from: its map would be too. */
#define MAX_GROUP_LENGTH (UINT64_C (1) << 37)

int
space_add_group (struct space *sp, uint64_t start, uint64_t length,
                 uint64_t flags, struct block_group **ret)
{
  struct volume_extent supers[MAX_SUPER_RANGES];
  struct block_group *bg = calloc (1, sizeof *bg);
  struct space_info *info;
  unsigned i, n;

  if (bg == NULL)
    return err_new (ERR_nomem, "block group");
  bg->start = start;
  bg->length = length;
  bg->flags = flags;
  bg->kind = space_kind_of (sp, flags);
  bg->fst_ready = true;
  mutex_init (&bg->lock, RANK_BLOCK_GROUP);
  RB_INIT (&bg->changes);
  n = volume_super_ranges (sp->volume, start, supers, MAX_SUPER_RANGES);
  for (i = 0; i < n; i++)
    bg->super_bytes += supers[i].len;
  if (RB_INSERT (groups, &sp->groups, bg) != NULL) {
    group_free (bg);
    return err_new (ERR_bg_format, "two block groups at %llu",
                    (unsigned long long) start);
  }
  info = &sp->info[bg->kind];
  info->total += length;
  space_freed (sp, bg->kind);
  info->readonly += bg->super_bytes;
  if (length > MAX_GROUP_LENGTH || n == MAX_SUPER_RANGES)
    bg->readonly = true;
  *ret = bg;
  return 0;
}

/* --- reading the items --- */

static int
read_group_item (struct space *sp, struct root *root,
                 const struct chunk_info *chunk)
{
  struct key key = KEY (chunk->logical, BTRFS_BLOCK_GROUP_ITEM,
                        chunk->length);
  struct btrfs_block_group_item item;
  struct block_group *bg;
  uint64_t used, free_bytes;
  uint32_t size;
  bool found;
  int r;

  rwlock_rdlock (&root->tree->lock);
  r = tree_get (root->tree, key, &item, sizeof item, &size, &found);
  rwlock_unlock (&root->tree->lock);
  if (r < 0)
    return r;
  if (!found)
    return err_new (ERR_bg_missing, "chunk %llu+%llu has no block group item",
                    (unsigned long long) chunk->logical,
                    (unsigned long long) chunk->length);
  used = le64_get (item.used);
  if (size != sizeof item || used > chunk->length ||
      (le64_get (item.flags) & (BTRFS_BG_TYPE_MASK | BTRFS_BG_PROFILE_MASK))
      != (chunk->type & (BTRFS_BG_TYPE_MASK | BTRFS_BG_PROFILE_MASK)))
    return err_new (ERR_bg_format, "block group %llu: used %llu flags %#llx",
                    (unsigned long long) chunk->logical,
                    (unsigned long long) used,
                    (unsigned long long) le64_get (item.flags));

  SCOPED_LOCK (&sp->lock);
  r = space_add_group (sp, chunk->logical, chunk->length, chunk->type, &bg);
  if (r < 0)
    return r;
  bg->used = bg->item_used = used;
  sp->info[bg->kind].used += used;
  free_bytes = bg->length - used;
  if (bg->readonly)
    sp->info[bg->kind].readonly += free_bytes - MIN (free_bytes,
                                                     bg->super_bytes);
  return 0;
}

#define LOAD_BATCH 128

/* The next chunks from *AT on (0 afterwards: these were the last); their items
 * are read ahead together.
 */
static size_t
next_chunks (struct space *sp, struct root *root, uint64_t *at,
             struct chunk_info *chunks)
{
  struct key keys[LOAD_BATCH];
  size_t n = 0;

  while (n < LOAD_BATCH && volume_next_chunk (sp->volume, *at, &chunks[n])) {
    keys[n] = KEY (chunks[n].logical, BTRFS_BLOCK_GROUP_ITEM,
                   chunks[n].length);
    if (!add_ok (chunks[n].logical, chunks[n].length, at))
      *at = 0;
    n++;
    if (*at == 0)
      break;
  }
  if (n > 1)
    tree_prefetch_many (root->tree, keys, n);
  return n;
}

static bool
is_loaded (struct space *sp)
{
  SCOPED_LOCK (&sp->lock);
  return sp->loaded;
}

int
space_load_groups (struct space *sp)
{
  struct chunk_info chunks[LOAD_BATCH];
  struct root *root;
  uint64_t at = 0;
  size_t n, i;
  int r;

  if (is_loaded (sp))
    return 0;
  SCOPED_LOCK (&sp->load_lock);
  if (is_loaded (sp))
    return 0;
  root = space_group_root (sp);
  if (root == NULL)
    return err_new (ERR_subvol_missing, "the tree of block groups is missing");
  r = volume_load_chunks (sp->volume);
  if (r < 0)
    return r;
  do {
    n = next_chunks (sp, root, &at, chunks);
    for (i = 0; i < n; i++) {
      bool known;
      {
        SCOPED_LOCK (&sp->lock);
        known = space_find (sp, chunks[i].logical) != NULL;
      }
      /* Known after a try that failed later. */
      r = known ? 0 : read_group_item (sp, root, &chunks[i]);
      if (r < 0)
        return err_note (r, "loading block groups");
    }
  } while (n > 0 && at != 0);
  space_refresh (sp);
  SCOPED_LOCK (&sp->lock);
  sp->loaded = true;
  return 0;
}

/* --- writing the items --- */

static int
write_group_item (struct space *sp, struct txn *txn, struct root *root,
                  struct block_group *bg)
{
  struct key key = KEY (bg->start, BTRFS_BLOCK_GROUP_ITEM, bg->length);
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct btrfs_block_group_item *item;
  uint64_t used;
  int r;

  rwlock_wrlock (&root->tree->lock);
  r = tree_find_rw (&txn->tree, root->tree, key, &c);
  if (r == 0 && cursor_size (&c) != sizeof *item)
    r = err_new (ERR_bg_format, "item of %u bytes", cursor_size (&c));
  if (r == 0) {
    mutex_lock (&sp->lock);
    used = bg->item_used = bg->used;
    bg->dirty = false;
    mutex_unlock (&sp->lock);
    item = cursor_data_rw (&c);
    item->used = le64_make (used);
  }
  cursor_done (&c);
  rwlock_unlock (&root->tree->lock);
  if (r < 0)
    return err_note (r, "block group item at %llu",
                     (unsigned long long) bg->start);
  return 0;
}

/* The first group at or above ADDR whose item is out of date. */
static struct block_group *
next_dirty (struct space *sp, uint64_t addr)
{
  struct block_group find = { .start = addr }, *bg;

  SCOPED_LOCK (&sp->lock);
  for (bg = RB_NFIND (groups, &sp->groups, &find); bg;
       bg = RB_NEXT (groups, &sp->groups, bg))
    if (bg->dirty && !bg->fresh) {
      if (bg->used != bg->item_used)
        return bg;
      bg->dirty = false;
    }
  return NULL;
}

int
space_write_groups (struct space *sp, struct txn *txn, bool *ret_changed)
{
  struct root *root = space_group_root (sp);
  struct block_group *bg;
  uint64_t at = 0;
  int r;

  *ret_changed = false;
  while ((bg = next_dirty (sp, at)) != NULL) {
    r = write_group_item (sp, txn, root, bg);
    if (r < 0)
      return r;
    *ret_changed = true;
    at = bg->start + 1;
  }
  return 0;
}

/* --- numbers --- */

int
space_get_numbers (struct space *sp, enum space_kind kind,
                   struct space_numbers *ret)
{
  const struct space_info *i;
  int r = space_load_groups (sp);

  if (r < 0)
    return r;
  memset (ret, 0, sizeof *ret);
  ret->profile = space_profile (sp, kind);
  SCOPED_LOCK (&sp->lock);
  i = &sp->info[kind];
  ret->total = i->total;
  ret->used = i->used;
  ret->reserved = i->reserved;
  ret->pinned = i->pinned;
  ret->held = i->held;
  ret->may_use = i->may_use;
  ret->promised = kind == space_data_kind (sp) ? sp->data_promised : 0;
  ret->readonly = i->readonly;
  return 0;
}

uint64_t
space_bytes_used (struct space *sp)
{
  SCOPED_LOCK (&sp->lock);
  return sp->bytes_used;
}

bool
space_is_readonly (struct space *sp, uint64_t start)
{
  struct block_group *bg;

  SCOPED_LOCK (&sp->lock);
  bg = space_find (sp, start);
  return bg == NULL || bg->readonly;
}

bool
space_nocow_begin (struct space *sp, uint64_t start)
{
  struct block_group *bg;

  if (space_load_groups (sp) < 0) {
    err_clear ();
    return false;
  }
  SCOPED_LOCK (&sp->lock);
  bg = space_find (sp, start);
  if (bg == NULL || bg->readonly || space_hold_has (sp, start))
    return false;
  bg->nocow++;
  sp->nocow++;
  return true;
}

void
space_nocow_end (struct space *sp, uint64_t start)
{
  struct block_group *bg;

  SCOPED_LOCK (&sp->lock);
  bg = space_find (sp, start);
  assert (bg && bg->nocow > 0 && sp->nocow > 0);
  bg->nocow--;
  if (--sp->nocow == 0)
    cond_broadcast (&sp->nocow_cond);
}

/* --- the way of a byte --- */

static int
underflow (const struct block_group *bg, const char *what, uint64_t start,
           uint64_t len)
{
  return err_new (ERR_bg_used, "block group %llu: %s %llu, extent %llu+%llu",
                  (unsigned long long) bg->start, what,
                  (unsigned long long) (*what == 'u' ? bg->used
                                        : bg->reserved),
                  (unsigned long long) start, (unsigned long long) len);
}

static int
no_group (uint64_t start, uint64_t len)
{
  return err_new (ERR_bg_missing, "extent %llu+%llu",
                  (unsigned long long) start, (unsigned long long) len);
}

int
space_extent_inserted (struct space *sp, struct txn *txn, uint64_t start,
                       uint64_t len)
{
  struct block_group *bg;

  {
    SCOPED_LOCK (&sp->lock);
    bg = space_find (sp, start);
    if (bg == NULL || len > bg->start + bg->length - start)
      return no_group (start, len);
    if (bg->reserved < len)
      return underflow (bg, "reserved", start, len);
    bg->reserved -= len;
    bg->used += len;
    bg->dirty = true;
    sp->info[bg->kind].reserved -= len;
    sp->info[bg->kind].used += len;
    sp->bytes_used += len;
  }
  return space_fst_note (sp, txn, bg, start, len, false);
}

int
space_extent_freed (struct space *sp, struct txn *txn, uint64_t start,
                    uint64_t len)
{
  struct block_group *bg;
  int r;

  {
    SCOPED_LOCK (&sp->lock);
    bg = space_find (sp, start);
    if (bg == NULL || len > bg->start + bg->length - start)
      return no_group (start, len);
    if (bg->used < len || sp->bytes_used < len)
      return underflow (bg, "used", start, len);
    r = ranges_add (&sp->pinned, start, len);
    if (r < 0)
      return r;
    bg->used -= len;
    bg->pinned += len;
    bg->dirty = true;
    sp->info[bg->kind].used -= len;
    sp->info[bg->kind].pinned += len;
    sp->bytes_used -= len;
  }
  return space_fst_note (sp, txn, bg, start, len, true);
}

int
space_extent_cancelled (struct space *sp, struct txn *txn, uint64_t start,
                        uint64_t len)
{
  struct block_group *bg;
  int r;

  (void) txn;
  SCOPED_LOCK (&sp->lock);
  bg = space_find (sp, start);
  if (bg == NULL || len > bg->start + bg->length - start)
    return no_group (start, len);
  if (bg->reserved < len)
    return underflow (bg, "reserved", start, len);
  r = ranges_add (&sp->pinned, start, len);
  if (r < 0)
    return r;
  bg->reserved -= len;
  bg->pinned += len;
  sp->info[bg->kind].reserved -= len;
  sp->info[bg->kind].pinned += len;
  return 0;
}

void
space_pending_refs (struct space *sp, int64_t delta)
{
  SCOPED_LOCK (&sp->lock);
  sp->pending_refs += delta;
}

/* The trees have grown instead, and what copying them takes. */
void
space_refs_run (struct space *sp, uint64_t n)
{
  space_refresh_reserve (sp);
  space_pending_refs (sp, -(int64_t) n);
}

/* --- end of a commit --- */

/* The superblock's device items agree with the chunk tree of their commit. */
static void
capture_devices (struct space *sp)
{
  unsigned i;

  for (i = 0; sp->dev_used && i < volume_num_devices (sp->volume); i++) {
    if (sp->dev_used[i])
      volume_device_set_bytes (sp->volume, i,
                               volume_device (sp->volume, i)->total_bytes,
                               sp->dev_used[i] - 1);
    sp->dev_used[i] = 0;
  }
}

void
space_capture (struct space *sp)
{
  struct block_group *bg;

  SCOPED_LOCK (&sp->lock);
  assert (sp->committing.n == 0 && sp->removed_committing == NULL);
  bg = sp->removed;
  sp->removed = NULL;
  sp->removed_committing = bg;
  {
    struct ranges t = sp->committing;
    sp->committing = sp->pinned;
    sp->pinned = t;
  }
  capture_devices (sp);
}

void
space_give_back (struct space *sp, struct block_group *bg, uint64_t start,
                 uint64_t len)
{
  SCOPED_LOCK (&bg->lock);
  space_give_back_locked (sp, bg, start, len);
}

void
space_give_back_locked (struct space *sp, struct block_group *bg,
                        uint64_t start, uint64_t len)
{
  space_freed (sp, bg->kind);
  if (!bg->loaded ||
      free_map_set (&bg->map, (start - bg->start) / sp->sectorsize,
                    len / sp->sectorsize, true, NULL) == 0)
    return;
  err_clear ();
  bg->reserved += len;
  sp->info[bg->kind].reserved += len;
}

static void
unpin (struct space *sp, uint64_t start, uint64_t len)
{
  struct block_group *bg;
  uint64_t part;

  /* A range may have grown across adjacent groups. */
  while (len > 0) {
    bg = space_find (sp, start);
    assert (bg);
    part = MIN (len, bg->start + bg->length - start);
    assert (bg->pinned >= part);
    bg->pinned -= part;
    sp->info[bg->kind].pinned -= part;
    space_range_unpinned (sp, bg, start, part);
    start += part;
    len -= part;
  }
}

/* Tree blocks whose addresses become free now are of no use in the cache. */
static void
forget_blocks (struct space *sp)
{
  const uint32_t nodesize = block_cache_format (sp->cache)->nodesize;
  uint64_t at, end;
  struct block_group *bg;
  bool data;
  size_t i;

  for (i = 0; i < sp->committing.n; i++) {
    at = sp->committing.r[i].start;
    end = at + sp->committing.r[i].len;
    mutex_lock (&sp->lock);
    bg = space_find (sp, at);
    data = bg == NULL || bg->kind == SPACE_DATA;
    mutex_unlock (&sp->lock);
    for (; !data && at < end; at += nodesize)
      block_forget (sp->cache, at);
  }
}

static void
finish_locked (struct space *sp)
{
  struct block_group *bg, *next;
  size_t i;

  for (i = 0; i < sp->committing.n; i++)
    unpin (sp, sp->committing.r[i].start, sp->committing.r[i].len);
  sp->committing.n = 0;
  for (bg = sp->removed_committing; bg; bg = next) {
    next = bg->next_removed;
    volume_remove_chunk (sp->volume, bg->start);
    bg->next_removed = sp->graveyard;
    sp->graveyard = bg;
  }
  sp->removed_committing = NULL;
}

void
space_finish_commit (struct space *sp)
{
  forget_blocks (sp);
  {
    SCOPED_LOCK (&sp->lock);
    finish_locked (sp);
  }
  space_hold_finish (sp);
  space_refresh (sp);
}
