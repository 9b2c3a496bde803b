/* space: building the free space tree from the extent tree.
 *
 * A group whose items are there already (fst_ready) has its changes noted
 * like any other; the others are read from the extent tree later.  Both the
 * extent tree and the notes change in the same place (when references are
 * run), so reading and getting ready under the extent tree's lock leaves no
 * gap.
 */
#include <config.h>

#include <stdlib.h>

#include "base/err.h"
#include "base/math.h"
#include "space/space_priv.h"

#define DELETE_ITEMS 20000     /* per transaction */
#define GROUPS_PER_TXN 32

/* Free runs of BG by the running extent tree (its lock is held). */
static int
gather (struct space *sp, struct tree *tree, struct block_group *bg,
        struct ranges *ret)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  uint64_t pos = bg->start, end = bg->start + bg->length, len;
  struct key k;
  int r;

  r = tree_find (tree, KEY (bg->start, BTRFS_EXTENT_ITEM, 0), &c, NULL);
  for (; r == 0 && cursor_at_item (&c); r = cursor_next (&c)) {
    k = cursor_key (&c);
    if (k.objectid >= end)
      break;
    if (k.type != BTRFS_EXTENT_ITEM && k.type != BTRFS_METADATA_ITEM)
      continue;
    len = k.type == BTRFS_EXTENT_ITEM ? k.offset : sp->nodesize;
    if (k.objectid < pos || len > end - k.objectid ||
        !is_aligned (k.objectid, sp->sectorsize))
      return err_new (ERR_extent_format, "extent %llu+%llu overlaps",
                      (unsigned long long) k.objectid,
                      (unsigned long long) len);
    if (k.objectid > pos)
      r = ranges_add (ret, pos, k.objectid - pos);
    if (r < 0)
      return r;
    pos = k.objectid + len;
  }
  if (r == 0 && pos < end)
    r = ranges_add (ret, pos, end - pos);
  return r;
}

static int
build_group (struct space *sp, struct txn *txn, struct block_group *bg)
{
  struct tree *et = roots_pool_tree (sp->roots, BTRFS_EXTENT_TREE)->tree;
  struct tree *ft = roots_pool_tree (sp->roots, BTRFS_FREE_SPACE_TREE)->tree;
  struct fst_group g = { .txn = &txn->tree, .tree = ft, .bg = bg,
    .sector = sp->sectorsize };
  struct ranges runs = { 0 };
  int r;

  rwlock_rdlock (&et->lock);
  r = gather (sp, et, bg, &runs);
  if (r == 0) {
    rwlock_wrlock (&ft->lock);
    r = fst_populate (&g, runs.r, runs.n);
    bg->fst_ready = true;
    rwlock_unlock (&ft->lock);
  }
  rwlock_unlock (&et->lock);
  free (runs.r);
  return r;
}

static int
delete_some (struct space *sp, struct txn *txn, bool *ret_more)
{
  struct root *root = roots_pool_tree (sp->roots, BTRFS_FREE_SPACE_TREE);
  uint64_t n = 0;
  int r;

  rwlock_wrlock (&root->tree->lock);
  r = tree_delete_range (&txn->tree, root->tree, KEY_MIN, KEY_MAX,
                         DELETE_ITEMS, &n);
  rwlock_unlock (&root->tree->lock);
  *ret_more = n >= DELETE_ITEMS;
  return r;
}

static int
start_tree (struct space *sp, struct txn *txn, bool *ret_more)
{
  struct root *root = roots_pool_tree (sp->roots, BTRFS_FREE_SPACE_TREE);

  *ret_more = false;
  if (root)
    return delete_some (sp, txn, ret_more);
  return roots_create (sp->roots, txn, BTRFS_FREE_SPACE_TREE, false, &root);
}

static struct block_group *
next_unready (struct space *sp)
{
  struct block_group *bg;

  SCOPED_LOCK (&sp->lock);
  RB_FOREACH (bg, groups, &sp->groups)
    if (!bg->fst_ready)
      return bg;
  return NULL;
}

static int
build_some (struct space *sp, struct txn *txn, bool *ret_more)
{
  struct block_group *bg = NULL;
  unsigned i;
  int r = 0;

  for (i = 0; r == 0 && i < GROUPS_PER_TXN; i++) {
    bg = next_unready (sp);
    if (bg == NULL)
      break;
    r = build_group (sp, txn, bg);
  }
  *ret_more = bg != NULL;
  return r;
}

/* FN in transactions of its own until it has no more to do. */
static int
in_steps (struct space *sp,
          int (*fn) (struct space *, struct txn *, bool *),
          int (*commit) (void *), void *opaque)
{
  struct txn *txn;
  bool more = true;
  int r = 0;

  while (r == 0 && more) {
    r = txn_join (sp->trans, &txn);
    if (r < 0)
      return r;
    r = fn (sp, txn, &more);
    r = txn_leave (txn, r, true);
    if (r == 0)
      r = commit (opaque);
  }
  return r;
}

int
space_fst_build (struct space *sp, int (*commit) (void *), void *opaque)
{
  struct block_group *bg;
  int r = space_load_groups (sp);

  if (r < 0)
    return r;
  {
    SCOPED_LOCK (&sp->lock);
    RB_FOREACH (bg, groups, &sp->groups)
      bg->fst_ready = false;
  }
  r = in_steps (sp, start_tree, commit, opaque);
  if (r == 0) {
    SCOPED_LOCK (&sp->lock);
    sp->fst_enabled = true;
  }
  if (r == 0)
    r = in_steps (sp, build_some, commit, opaque);
  return r < 0 ? err_note (r, "building the free space tree") : 0;
}
