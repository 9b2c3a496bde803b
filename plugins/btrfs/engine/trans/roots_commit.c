/* trans: what a commit does with root items and committed roots. */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/math.h"
#include "trans/roots_priv.h"

int
roots_tree_dirtied (struct tree_txn *txn, struct tree *tree)
{
  struct root *root = root_of_tree (tree);
  struct root_priv *p;

  (void) txn;
  if (root == NULL)
    return 0;
  p = root->priv;
  root->dirty = true;
  SCOPED_LOCK (&p->roots->lock);
  if (!p->listed) {
    p->listed = true;
    TAILQ_INSERT_TAIL (&p->roots->dirty, p, dirty_entry);
  }
  return 0;
}

void
roots_tree_used (struct tree *tree, int64_t bytes)
{
  struct root *root = root_of_tree (tree);
  uint64_t used;

  if (root == NULL)
    return;
  used = le64_get (root->item.bytes_used);
  if (bytes < 0 && used < (uint64_t) -bytes)
    used = 0;
  else
    used += bytes;
  root->item.bytes_used = le64_make (used);
  root->priv->used = used;
}

/* Make the item say what ROOT is now; *ret_moved: where it is has changed.
 * The tree's lock is held.
 */
static void
refresh (struct root *root, bool *ret_moved)
{
  struct btrfs_root_item *it = &root->item;
  const struct tree *tree = root->tree;
  uint64_t bytenr = tree->root->bytenr;
  uint64_t gen = tb_generation (tree->root->data);
  bool moved = le64_get (it->bytenr) != bytenr ||
    le64_get (it->generation) != gen || it->level != tree_level (tree);
  struct timespec now;

  *ret_moved = moved ||
    le64_get (it->last_snapshot) != tree->last_snapshot;
  it->bytenr = le64_make (bytenr);
  it->generation = it->generation_v2 = le64_make (gen);
  it->level = tree_level (tree);
  it->last_snapshot = le64_make (tree->last_snapshot);
  /* Being the source of a snapshot is no change. */
  if (tree->shareable && moved) {
    clock_gettime (CLOCK_REALTIME, &now);
    it->ctransid = le64_make (gen);
    it->ctime.sec = le64_make (now.tv_sec);
    it->ctime.nsec = le32_make (now.tv_nsec);
  }
}

/* Bring the item in the root tree up to date; old short ones grow. */
static int
write_item (struct roots *rs, struct txn *txn, struct root *root,
            bool *ret_changed)
{
  struct tree *rt = rs->root_root->tree;
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct btrfs_root_item item;
  bool moved, same = false;
  char name[TREE_STR_MAX];
  int r = 0;

  rwlock_wrlock (&root->tree->lock);
  refresh (root, &moved);
  item = root->item;
  rwlock_unlock (&root->tree->lock);

  rwlock_wrlock (&rt->lock);
  if (!moved) {
    r = tree_find (rt, root->key, &c, &same);
    same = r == 0 && same && cursor_size (&c) == sizeof item &&
      memcmp (cursor_data (&c), &item, sizeof item) == 0;
    cursor_done (&c);
  }
  if (r == 0 && !same) {
    r = tree_find_rw (&txn->tree, rt, root->key, &c);
    if (r == 0 && cursor_size (&c) != sizeof item)
      r = cursor_resize (&txn->tree, &c, sizeof item);
    if (r == 0)
      memcpy (cursor_data_rw (&c), &item, sizeof item);
    cursor_done (&c);
    *ret_changed = true;
  }
  rwlock_unlock (&rt->lock);
  if (r < 0)
    return err_note (r, "root item of tree %s", tree_str (root->id, name));
  return 0;
}

static int
write_dirty (struct roots *rs, struct txn *txn, bool subvols,
             bool *ret_changed)
{
  struct root_priv *p;
  int r;

  /* Only this thread is in the transaction: the list grows at its tail by
   * what is written here, and nothing leaves it.
   */
  mutex_lock (&rs->lock);
  TAILQ_FOREACH (p, &rs->dirty, dirty_entry) {
    mutex_unlock (&rs->lock);
    r = 0;
    if (p->root.tree->shareable == subvols &&
        p->root.id != BTRFS_ROOT_TREE && p->root.id != BTRFS_CHUNK_TREE)
      r = write_item (rs, txn, &p->root, ret_changed);
    if (r < 0)
      return r;
    mutex_lock (&rs->lock);
  }
  mutex_unlock (&rs->lock);
  return 0;
}

int
roots_write_subvols (struct roots *rs, struct txn *txn)
{
  bool changed;

  return write_dirty (rs, txn, true, &changed);
}

int
roots_write_pool (struct roots *rs, struct txn *txn, bool *ret_changed)
{
  *ret_changed = false;
  return write_dirty (rs, txn, false, ret_changed);
}

int
roots_cow_root_tree (struct roots *rs, struct txn *txn)
{
  struct tree *rt = rs->root_root->tree;
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  int r;

  /* A path to the first item begins at the root. */
  rwlock_wrlock (&rt->lock);
  r = tree_find (rt, KEY_MIN, &c, NULL);
  if (r == 0 && !cursor_at_item (&c))
    r = err_new (ERR_key_missing, "the root tree is empty");
  if (r == 0)
    r = cursor_make_writable (&txn->tree, &c);
  cursor_done (&c);
  rwlock_unlock (&rt->lock);
  return r;
}

void
roots_capture (struct roots *rs)
{
  struct root_priv *p, *next, *dead = NULL;

  mutex_lock (&rs->lock);
  TAILQ_FOREACH_SAFE (p, &rs->dirty, dirty_entry, next) {
    TAILQ_REMOVE (&rs->dirty, p, dirty_entry);
    p->listed = false;
    p->root.dirty = false;
    if (!p->root.tree->shareable) {
      block_put (p->captured);
      p->captured = block_get (p->root.tree->root);
    }
    else if (p->refs == 0) {
      RB_REMOVE (roots_tree, &rs->by_id, p);
      rs->departures++;
      p->dirty_entry.tqe_next = dead;
      dead = p;
    }
  }
  mutex_unlock (&rs->lock);
  for (; dead != NULL; dead = next) {
    next = dead->dirty_entry.tqe_next;
    root_free (dead);
  }
}

void
roots_commit (struct roots *rs)
{
  struct root_priv *p;

  SCOPED_LOCK (&rs->lock);
  RB_FOREACH (p, roots_tree, &rs->by_id) {
    if (p->captured == NULL)
      continue;
    block_put (p->committed);
    p->committed = p->captured;
    p->captured = NULL;
  }
}

uint64_t
roots_reserve_bytes (struct roots *rs)
{
  struct root_priv *p;
  uint64_t sum = 0;

  SCOPED_LOCK (&rs->lock);
  RB_FOREACH (p, roots_tree, &rs->by_id)
    switch (p->root.id) {
    case BTRFS_ROOT_TREE:
    case BTRFS_EXTENT_TREE:
    case BTRFS_CSUM_TREE:
    case BTRFS_FREE_SPACE_TREE:
    case BTRFS_BLOCK_GROUP_TREE:
      sum += p->used;
    }
  return sum;
}

/* --- early write-out --- */

#define EARLY_BATCH 256        /* blocks */
#define EARLY_BATCHES 8        /* at most, each time */

static bool
write_early_once (struct roots *rs, uint64_t transid)
{
  struct block *v[EARLY_BATCH];
  struct root *root;
  uint64_t owner;
  size_t n;
  int r;

  owner = block_early_owner (rs->cache, transid);
  root = owner == 0 ? NULL : roots_peek (rs, owner);
  if (root == NULL)
    return false;
  rwlock_rdlock (&root->tree->lock);
  n = block_seal_some (rs->cache, transid, owner, v, EARLY_BATCH);
  rwlock_unlock (&root->tree->lock);
  roots_put (rs, root);
  if (n == 0)
    return false;
  r = block_write_sealed (rs->cache, v, n);
  if (r < 0)
    err_clear ();
  return r == 0;
}

void
roots_write_early (struct roots *rs, uint64_t transid, uint64_t keep)
{
  unsigned i;

  for (i = 0; i < EARLY_BATCHES
       && block_cache_all_dirty_bytes (rs->cache) > keep; i++)
    if (!write_early_once (rs, transid))
      return;
}
