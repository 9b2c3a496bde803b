/* trans: the registry of trees, root items, committed roots. */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <uuid/uuid.h>

#include "base/cleanup.h"
#include "base/containers.h"
#include "base/err.h"
#include "base/math.h"
#include "trans/roots_priv.h"

static int
root_cmp (const struct root_priv *a, const struct root_priv *b)
{
  return a->root.id < b->root.id ? -1 : a->root.id > b->root.id;
}

RB_GENERATE (roots_tree, root_priv, entry, root_cmp)

int
roots_new (struct block_cache *cache, struct roots **ret)
{
  struct roots *rs = calloc (1, sizeof *rs);

  if (rs == NULL)
    return err_new (ERR_nomem, "tree registry");
  rs->cache = cache;
  rs->families = 1;
  RB_INIT (&rs->by_id);
  TAILQ_INIT (&rs->dirty);
  mutex_init (&rs->lock, RANK_TRANS);
  rwlock_init (&rs->committed_lock, RANK_COMMIT_ROOTS);
  *ret = rs;
  return 0;
}

struct root_priv *
root_alloc (uint64_t id)
{
  struct root_priv *p = calloc (1, sizeof *p);

  if (p == NULL)
    return NULL;
  p->root.id = id;
  gate_init (&p->root.gate);
  return p;
}

void
root_free (struct root_priv *p)
{
  block_put (p->committed);
  block_put (p->captured);
  tree_free (p->root.tree);
  gate_done (&p->root.gate);
  free (p);
}

void
roots_free (struct roots *rs)
{
  struct root_priv *p;

  if (rs == NULL)
    return;
  while ((p = RB_MIN (roots_tree, &rs->by_id)) != NULL) {
    RB_REMOVE (roots_tree, &rs->by_id, p);
    root_free (p);
  }
  rwlock_done (&rs->committed_lock);
  mutex_done (&rs->lock);
  free (rs);
}

/* Subvolumes may share blocks; all other trees belong to the pool. */
static bool
is_subvol_id (uint64_t id)
{
  return id == BTRFS_FS_TREE || id == BTRFS_DATA_RELOC_TREE ||
    (id >= BTRFS_FIRST_FREE_OBJECTID && id <= BTRFS_LAST_FREE_OBJECTID);
}

static enum lock_rank
rank_of (uint64_t id)
{
  switch (id) {
  case BTRFS_ROOT_TREE:
  case BTRFS_UUID_TREE:
  case BTRFS_QUOTA_TREE: return RANK_TREE_ROOT;
  case BTRFS_CSUM_TREE: return RANK_TREE_CSUM;
  case BTRFS_EXTENT_TREE: return RANK_TREE_EXTENT;
  case BTRFS_BLOCK_GROUP_TREE: return RANK_TREE_BG;
  case BTRFS_FREE_SPACE_TREE: return RANK_TREE_FST;
  case BTRFS_DEV_TREE: return RANK_TREE_DEV;
  case BTRFS_CHUNK_TREE: return RANK_TREE_CHUNK;
  default: return RANK_TREE_FS;
  }
}

static struct root_priv *
lookup (struct roots *rs, uint64_t id)
{
  struct root_priv find = { .root.id = id };

  return RB_FIND (roots_tree, &rs->by_id, &find);
}

void
roots_publish (struct roots *rs, struct root_priv *p, const uint64_t *seen,
               struct root **ret)
{
  struct root_priv *old;

  p->root.priv = p;
  p->roots = rs;
  p->root.tree->opaque = &p->root;
  p->used = le64_get (p->root.item.bytes_used);
  mutex_lock (&rs->lock);
  if (seen && *seen != rs->departures) {
    mutex_unlock (&rs->lock);
    root_free (p);
    *ret = NULL;
    return;
  }
  old = RB_INSERT (roots_tree, &rs->by_id, p);
  if (old)
    old->refs++;
  else
    p->refs++;
  mutex_unlock (&rs->lock);
  if (old)
    root_free (p);
  *ret = old ? &old->root : &p->root;
}

static int
open_root (struct roots *rs, struct root_priv *p, uint64_t bytenr,
           uint64_t generation, unsigned level)
{
  uint64_t id = p->root.id;
  struct tree_expect expect = {
    .bytenr = bytenr, .generation = generation, .level = level,
    .has_level = true, .owner = id,
  };
  char name[TREE_STR_MAX];
  int r;

  r = tree_open (rs->cache, id, &expect, rank_of (id), is_subvol_id (id),
                 &p->root.tree);
  if (r < 0)
    return err_note (r, "root of tree %s", tree_str (id, name));
  p->root.tree->last_snapshot = le64_get (p->root.item.last_snapshot);
  if (!is_subvol_id (id))
    p->committed = block_get (p->root.tree->root);
  return 0;
}

static int
open_first (struct roots *rs, uint64_t id, uint64_t bytenr,
            uint64_t generation, unsigned level, struct root **ret)
{
  struct root_priv *p = root_alloc (id);
  int r;

  if (p == NULL)
    return err_new (ERR_nomem, "root of a tree");
  r = open_root (rs, p, bytenr, generation, level);
  if (r < 0) {
    root_free (p);
    return r;
  }
  roots_publish (rs, p, NULL, ret);
  return 0;
}

int
roots_open_chunk_tree (struct roots *rs, const struct btrfs_super *sb)
{
  return open_first (rs, BTRFS_CHUNK_TREE, le64_get (sb->chunk_root),
                     le64_get (sb->chunk_root_generation),
                     sb->chunk_root_level, &rs->chunk_root);
}

int
roots_open_root_tree (struct roots *rs, const struct btrfs_super *sb)
{
  return open_first (rs, BTRFS_ROOT_TREE, le64_get (sb->root),
                     le64_get (sb->generation), sb->root_level,
                     &rs->root_root);
}

/* Old items are shorter; fields behind generation_v2 are void unless it
 * equals generation.
 */
static int
parse_item (struct root *root, const void *data, uint32_t size)
{
  struct btrfs_root_item *it = &root->item;

  if (size < BTRFS_ROOT_ITEM_SIZE_V0)
    return err_new (ERR_item_format, "root item of %u bytes", size);
  memcpy (it, data, MIN (size, (uint32_t) sizeof *it));
  if (size < sizeof *it ||
      le64_get (it->generation_v2) != le64_get (it->generation)) {
    size_t from = offsetof (struct btrfs_root_item, generation_v2);
    memset ((uint8_t *) it + from, 0, sizeof *it - from);
  }
  if (le64_get (it->bytenr) == 0 || it->level >= BTRFS_MAX_LEVEL)
    return err_new (ERR_item_format, "root item: bytenr %llu level %u",
                    (unsigned long long) le64_get (it->bytenr), it->level);
  return 0;
}

/* The root item of the tree ID with the highest offset. */
static int
read_item (struct roots *rs, uint64_t id, struct root *root, bool dead_ok)
{
  struct tree *tree = rs->root_root->tree;
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct key key;
  char name[TREE_STR_MAX];
  int r;

  rwlock_rdlock (&tree->lock);
  r = tree_find_le (tree, KEY (id, BTRFS_ROOT_ITEM, UINT64_MAX), &c, NULL);
  if (r == 0) {
    key = cursor_at_item (&c) ? cursor_key (&c) : KEY_MIN;
    if (key.objectid != id || key.type != BTRFS_ROOT_ITEM)
      r = err_new (ERR_subvol_missing, "tree %s has no root item",
                   tree_str (id, name));
    else {
      root->key = key;
      r = parse_item (root, cursor_data (&c), cursor_size (&c));
    }
  }
  cursor_done (&c);
  rwlock_unlock (&tree->lock);
  if (r < 0)
    return r;
  if (!dead_ok && is_subvol_id (id) && id != BTRFS_DATA_RELOC_TREE &&
      le32_get (root->item.refs) == 0)
    return err_new (ERR_subvol_missing, "subvolume %s is deleted",
                    tree_str (id, name));
  return 0;
}

/* The registered root ID with a reference; NULL and *RET_SEEN when there is
 * none.
 */
static struct root *
get_registered (struct roots *rs, uint64_t id, uint64_t *ret_seen)
{
  struct root_priv *p;

  SCOPED_LOCK (&rs->lock);
  p = lookup (rs, id);
  *ret_seen = rs->departures;
  if (p == NULL)
    return NULL;
  p->refs++;
  return &p->root;
}

static int
read_root (struct roots *rs, uint64_t id, bool dead_ok,
           struct root_priv **ret)
{
  struct root_priv *p = root_alloc (id);
  int r;

  if (p == NULL)
    return err_new (ERR_nomem, "root of a tree");
  r = read_item (rs, id, &p->root, dead_ok);
  if (r == 0)
    r = open_root (rs, p, le64_get (p->root.item.bytenr),
                   le64_get (p->root.item.generation), p->root.item.level);
  if (r < 0)
    root_free (p);
  else
    *ret = p;
  return r;
}

static int
get (struct roots *rs, uint64_t id, bool dead_ok, struct root **ret)
{
  struct root_priv *p = NULL;
  uint64_t seen, now;
  int r;

  for (;;) {
    *ret = get_registered (rs, id, &seen);
    if (*ret != NULL)
      return 0;
    r = read_root (rs, id, dead_ok, &p);
    if (r == 0) {
      roots_publish (rs, p, &seen, ret);
      if (*ret != NULL)
        return 0;
      continue;
    }
    /* The same for a root block that was replaced while we looked. */
    *ret = get_registered (rs, id, &now);
    if (*ret != NULL) {
      err_clear ();
      return 0;
    }
    if (now == seen)
      return r;
  }
}

int
roots_get (struct roots *rs, uint64_t id, struct root **ret)
{
  return get (rs, id, false, ret);
}

int
roots_get_dead (struct roots *rs, uint64_t id, struct root **ret)
{
  return get (rs, id, true, ret);
}

int
roots_delete (struct roots *rs, struct txn *txn, struct root *root)
{
  struct tree *rt = rs->root_root->tree;
  struct root_priv *p = root->priv;
  int r;

  rwlock_wrlock (&rt->lock);
  r = tree_delete (&txn->tree, rt, root->key);
  rwlock_unlock (&rt->lock);
  if (r < 0)
    return r;
  __atomic_fetch_add (&rs->families, 1, __ATOMIC_RELEASE);
  SCOPED_LOCK (&rs->lock);
  if (p->listed)
    TAILQ_REMOVE (&rs->dirty, p, dirty_entry);
  p->listed = false;
  if (!p->gone) {
    RB_REMOVE (roots_tree, &rs->by_id, p);
    rs->departures++;
  }
  p->gone = true;
  return 0;
}

void
roots_put (struct roots *rs, struct root *root)
{
  struct root_priv *p;

  if (root == NULL)
    return;
  p = root->priv;
  mutex_lock (&rs->lock);
  assert (p->refs > 0);
  if (--p->refs > 0 || p->listed || !is_subvol_id (root->id))
    p = NULL;
  else if (!p->gone) {
    RB_REMOVE (roots_tree, &rs->by_id, p);
    rs->departures++;
  }
  mutex_unlock (&rs->lock);
  if (p)
    root_free (p);
}

struct root *
roots_pool_tree (struct roots *rs, uint64_t id)
{
  struct root_priv *p;

  SCOPED_LOCK (&rs->lock);
  p = lookup (rs, id);
  return p ? &p->root : NULL;
}

struct root *
roots_peek (struct roots *rs, uint64_t id)
{
  uint64_t seen;

  return get_registered (rs, id, &seen);
}

/* --- creating --- */

static void
fill_new_item (struct roots *rs, struct root *root, uint64_t transid)
{
  struct btrfs_root_item *it = &root->item;
  uint32_t nodesize = block_cache_format (rs->cache)->nodesize;
  struct timespec now;

  memset (it, 0, sizeof *it);
  it->inode.generation = le64_make (1);
  it->inode.size = le64_make (3);
  it->inode.nlink = le32_make (1);
  it->inode.nbytes = le64_make (nodesize);
  it->inode.mode = le32_make (040755);
  it->inode.flags = le64_make (BTRFS_INODE_ROOT_ITEM_INIT);
  it->generation = it->generation_v2 = le64_make (transid);
  it->bytenr = le64_make (root->tree->root->bytenr);
  it->bytes_used = le64_make (nodesize);
  it->refs = le32_make (1);
  it->level = tree_level (root->tree);
  if (!is_subvol_id (root->id))
    return;
  it->root_dirid = le64_make (BTRFS_FIRST_FREE_OBJECTID);
  uuid_generate (it->uuid);
  clock_gettime (CLOCK_REALTIME, &now);
  it->ctransid = it->otransid = le64_make (transid);
  it->ctime.sec = it->otime.sec = le64_make (now.tv_sec);
  it->ctime.nsec = it->otime.nsec = le32_make (now.tv_nsec);
}

/* Subvolumes are found by uuid through the uuid tree, if the pool has one. */
static int
insert_uuid (struct roots *rs, struct txn *txn, const struct root *root)
{
  struct root *uuids;
  le64 lo, hi, id = le64_make (root->id);
  int r;

  if (roots_get (rs, BTRFS_UUID_TREE, &uuids) < 0) {
    err_clear ();
    return 0;
  }
  memcpy (&lo, root->item.uuid, 8);
  memcpy (&hi, root->item.uuid + 8, 8);
  rwlock_wrlock (&uuids->tree->lock);
  r = tree_insert_data (&txn->tree, uuids->tree,
                        KEY (le64_get (lo), BTRFS_UUID_SUBVOL, le64_get (hi)),
                        &id, sizeof id);
  rwlock_unlock (&uuids->tree->lock);
  roots_put (rs, uuids);
  return r;
}

int
roots_insert (struct roots *rs, struct txn *txn, struct root_priv *p,
              struct root **ret)
{
  struct tree *rt = rs->root_root->tree;
  int r;

  rwlock_wrlock (&rt->lock);
  r = tree_insert_data (&txn->tree, rt, p->root.key, &p->root.item,
                        sizeof p->root.item);
  if (r == 0) {
    roots_publish (rs, p, NULL, ret);
    assert (*ret == &p->root);
  }
  rwlock_unlock (&rt->lock);
  if (r < 0)
    root_free (p);
  return r;
}

int
roots_create (struct roots *rs, struct txn *txn, uint64_t id, bool shareable,
              struct root **ret)
{
  struct root_priv *p = root_alloc (id);
  int r;

  if (p == NULL)
    return err_new (ERR_nomem, "new tree");
  assert (shareable == is_subvol_id (id));
  p->root.key = KEY (id, BTRFS_ROOT_ITEM, 0);
  r = tree_create (&txn->tree, rs->cache, id, rank_of (id), shareable,
                   &p->root.tree);
  if (r < 0) {
    root_free (p);
    return r;
  }
  fill_new_item (rs, &p->root, txn->tree.transid);
  if (shareable && id != BTRFS_DATA_RELOC_TREE)
    r = insert_uuid (rs, txn, &p->root);
  if (r < 0) {
    root_free (p);
    return r;
  }
  r = roots_insert (rs, txn, p, ret);
  return r < 0 ? r : roots_tree_dirtied (&txn->tree, (*ret)->tree);
}

int
roots_new_id (struct roots *rs, struct txn *txn, uint64_t *ret_id)
{
  struct root *rr = rs->root_root;
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  uint64_t top = BTRFS_FIRST_FREE_OBJECTID - 1;
  int r = 0;

  (void) txn;
  rwlock_wrlock (&rr->tree->lock);
  if (rr->free_objectid == 0) {
    r = tree_find_le (rr->tree, KEY (BTRFS_LAST_FREE_OBJECTID, UINT8_MAX,
                                     UINT64_MAX), &c, NULL);
    if (r == 0 && cursor_at_item (&c))
      top = MAX (top, cursor_key (&c).objectid);
    cursor_done (&c);
    if (r == 0)
      rr->free_objectid = top + 1;
  }
  if (r == 0 && rr->free_objectid > BTRFS_LAST_FREE_OBJECTID)
    r = err_new (ERR_nospace, "no subvolume id left");
  if (r == 0)
    *ret_id = rr->free_objectid++;
  rwlock_unlock (&rr->tree->lock);
  return r;
}

struct block *
roots_committed (struct roots *rs, uint64_t id)
{
  struct root_priv *p;

  SCOPED_LOCK (&rs->lock);
  p = lookup (rs, id);
  return p && p->committed ? block_get (p->committed) : NULL;
}

void
roots_committed_rdlock (struct roots *rs)
{
  rwlock_rdlock (&rs->committed_lock);
}

void
roots_committed_wrlock (struct roots *rs)
{
  rwlock_wrlock (&rs->committed_lock);
}

void
roots_committed_unlock (struct roots *rs)
{
  rwlock_unlock (&rs->committed_lock);
}
