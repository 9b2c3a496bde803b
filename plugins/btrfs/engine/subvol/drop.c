/* subvol: freeing the blocks and extents of a deleted subvolume.
 *
 * The tree is walked from its root, depth first, and every pointer's claim on
 * its child is dropped:
 *
 *   - a child with more references than ours lives on; ours is dropped.  But
 *     if the child is owned by this tree and its children have normal
 *     references, these would name a tree that no longer exists: first the
 *     whole subtree, as far as this tree owns it, is turned to FULL_BACKREF;
 *   - a child with one reference is ours alone: its own children first, then
 *     itself.
 *
 * Blocks are not changed, so pointers to freed blocks stay in them.  The root
 * item tells how far the walk has come: everything before the key
 * drop_progress at level drop_level has been dropped, the blocks on the path
 * to it have not.  That is saved before a transaction ends, and Linux does
 * the same: either side can finish what the other began.
 */
#include <config.h>

#include "subvol/priv.h"

struct step {
  struct block *block;         /* referenced */
  uint32_t slot;               /* next pointer */
  bool full;                   /* FULL_BACKREF */
};

struct drop {
  struct subvols *ss;
  struct root *root;           /* referenced */
  uint64_t older;              /* children of this generation or below cannot
                                  be owned by this tree */
  struct txn *txn;             /* running, or NULL */
  unsigned budget;             /* blocks left in this transaction */
  bool (*stop) (void *opaque);
  void *opaque;
  bool stopped;

  unsigned top;                /* level of the root */
  unsigned level;              /* of the lowest block of the path */
  struct step path[BTRFS_MAX_LEVEL];
  bool done;
};

/* --- transactions --- */

static int
begin (struct drop *d)
{
  d->budget = d->ss->drop_batch;
  return txn_begin_to_free (d->ss->env.trans, 8, &d->txn);
}

static int
save_progress (struct drop *d, struct txn *txn)
{
  struct root *root = d->root;
  const struct step *s = &d->path[d->level];
  int r;

  if (d->done || s->block == NULL)
    return 0;
  assert (d->level > 0 && s->slot < tb_nritems (s->block->data));
  rwlock_wrlock (&root->tree->lock);
  root->item.drop_progress =
    key_to_disk (tb_key (s->block->data, s->slot));
  root->item.drop_level = d->level;
  r = roots_tree_dirtied (&txn->tree, root->tree);
  rwlock_unlock (&root->tree->lock);
  return r;
}

/* Leave the transaction with outcome R. */
static int
end (struct drop *d, int r)
{
  struct txn *txn = d->txn;

  if (txn == NULL)
    return r;
  d->txn = NULL;
  if (r == 0)
    r = save_progress (d, txn);
  return txn_leave (txn, r, true);
}

/* Between two steps: let a commit have its turn. */
static int
breathe (struct drop *d)
{
  int r;

  if (d->budget > 0 && !txn_should_end (d->txn))
    return 0;
  r = end (d, 0);
  if (r < 0)
    return r;
  d->stopped = d->stop != NULL && d->stop (d->opaque);
  return d->stopped ? 0 : begin (d);
}

/* A leaf costs more, as each of its file extents is a reference. */
static void
spend (struct drop *d, const struct block *b)
{
  unsigned cost = 1;

  if (b != NULL)
    cost += tb_nritems (b->data) / 16;
  d->budget -= MIN (d->budget, cost);
}

/* --- subtrees that others keep --- */

static int
refs_of (struct drop *d, uint64_t bytenr, unsigned level, uint64_t *ret_refs,
         bool *ret_full)
{
  uint64_t flags;
  int r;

  r = extent_refs (d->ss->env.extents, bytenr, true, level, ret_refs, &flags);
  if (r < 0)
    return r;
  if (*ret_refs == 0)
    return err_new (ERR_ref_count, "block %llu at level %u has no reference",
                    (unsigned long long) bytenr, level);
  *ret_full = flags & BTRFS_EXTENT_FLAG_FULL_BACKREF;
  return 0;
}

/* Turn the references of B's children from "of our tree" to "of B". */
static int
convert_block (struct drop *d, struct block *b)
{
  struct extents *ex = d->ss->env.extents;
  const unsigned level = tb_level (b->data);
  uint64_t refs;
  bool full;
  int r;

  extent_share_lock (ex);
  r = refs_of (d, b->bytenr, level, &refs, &full);
  if (r == 0 && !full) {
    r = extent_children (ex, d->txn, b, true, true);
    if (r == 0)
      r = extent_children (ex, d->txn, b, false, false);
    if (r == 0)
      r = extent_set_full_backref (ex, d->txn, b->bytenr, level);
  }
  extent_share_unlock (ex);
  spend (d, b);
  return r;
}

/* Is the child at SLOT of B owned by our tree?  *ret_child when so. */
static int
owned_child (struct drop *d, struct block *b, uint32_t slot,
             struct block **ret_child)
{
  const struct tree_expect e =
    tree_expect_child (b->data, slot, d->root->id);
  struct block *child;
  int r;

  *ret_child = NULL;
  if (e.generation <= d->older)
    return 0;
  r = block_read (d->ss->env.cache, &e, &child);
  if (r < 0)
    return r;
  if (tb_owner (child->data) == d->root->id)
    *ret_child = child;
  else
    block_put (child);
  return 0;
}

static void
path_done (struct step path[BTRFS_MAX_LEVEL])
{
  unsigned i;

  for (i = 0; i < BTRFS_MAX_LEVEL; ++i) {
    block_put (path[i].block);
    path[i].block = NULL;
  }
}

/* One transaction is not enough for a big subtree; doing a part again after
 * a crash does no harm, as blocks that were converted are passed over.
 */
static int
convert_walk (struct drop *d, struct step path[BTRFS_MAX_LEVEL],
              unsigned top)
{
  unsigned level = top;
  struct block *child;
  int r;

  r = convert_block (d, path[top].block);
  while (r == 0) {
    struct step *s = &path[level];

    if (level == 0 || s->slot == tb_nritems (s->block->data)) {
      if (level == top)
        return 0;
      block_put (s->block);
      s->block = NULL;
      ++path[++level].slot;
      continue;
    }
    r = breathe (d);
    if (r < 0 || d->stopped)
      return r;
    r = owned_child (d, s->block, s->slot, &child);
    if (r == 0 && child == NULL)
      ++s->slot;
    else if (r == 0) {
      path[--level] = (struct step) { .block = child };
      r = convert_block (d, child);
    }
  }
  return r;
}

static int
convert (struct drop *d, struct block *b)
{
  struct step path[BTRFS_MAX_LEVEL] = { { .block = NULL } };
  const unsigned top = tb_level (b->data);
  int r;

  path[top].block = block_get (b);
  r = convert_walk (d, path, top);
  path_done (path);
  return r;
}

/* --- the walk --- */

/* Drop the reference on B that comes from the path at B's level + 1. */
static int
drop_ref (struct drop *d, uint64_t bytenr, unsigned level)
{
  const struct step *up = level == d->top ? NULL : &d->path[level + 1];
  struct tree_ref ref = {
    .bytenr = bytenr, .level = level, .root = d->root->id,
  };

  if (up != NULL && up->full)
    ref.parent = up->block->bytenr;
  else if (up != NULL && tb_owner (up->block->data) != d->root->id)
    return err_new (ERR_ref_count,
                    "block %llu of tree %llu has normal references but is "
                    "reached from another tree",
                    (unsigned long long) up->block->bytenr,
                    (unsigned long long) tb_owner (up->block->data));
  return extent_tree_dec (d->ss->env.extents, d->txn, ref);
}

/* The last reference of B goes.  If this transaction made it, it need not be
 * written: that is said before its address can be given to another block.
 */
static int
free_block (struct drop *d, struct block *b)
{
  if (block_is_writable (b, d->txn->tree.transid))
    block_drop (d->ss->env.cache, b);
  return drop_ref (d, b->bytenr, tb_level (b->data));
}

enum visit { VISIT_DROPPED, VISIT_OURS };

/* Others may hold the child that E describes: if so, drop our reference.
 * Read it (*ret_block) if it is ours alone.
 */
static int
visit (struct drop *d, const struct tree_expect *e, struct block **ret_block,
       bool *ret_full, enum visit *ret)
{
  struct extents *ex = d->ss->env.extents;
  CLEANUP_BLOCK_PUT struct block *b = NULL;
  bool converted = false;
  uint64_t refs = 0;
  int r;

  *ret_block = NULL;
  *ret = VISIT_DROPPED;
  for (;;) {
    bool ours;

    extent_share_lock (ex);
    r = refs_of (d, e->bytenr, e->level, &refs, ret_full);
    ours = b != NULL && tb_owner (b->data) == d->root->id;
    if (r == 0 && refs > 1 &&
        (converted || e->generation <= d->older || (b != NULL && !ours))) {
      r = drop_ref (d, e->bytenr, e->level);
      extent_share_unlock (ex);
      return r;
    }
    extent_share_unlock (ex);
    if (r == 0 && b == NULL)
      r = block_read (d->ss->env.cache, e, &b);
    if (r < 0)
      return r;
    if (refs == 1)
      break;
    if (tb_owner (b->data) == d->root->id) {
      r = convert (d, b);
      if (r < 0 || d->stopped)
        return r;
      converted = true;
    }
  }
  *ret = VISIT_OURS;
  *ret_block = take (b);
  return 0;
}

/* B is ours alone, and a leaf. */
static int
drop_leaf (struct drop *d, struct block *b, bool full)
{
  int r;

  if (!full && tb_owner (b->data) != d->root->id)
    return err_new (ERR_ref_count, "leaf %llu is of tree %llu",
                    (unsigned long long) b->bytenr,
                    (unsigned long long) tb_owner (b->data));
  spend (d, b);
  r = extent_children (d->ss->env.extents, d->txn, b, full, false);
  return r < 0 ? r : free_block (d, b);
}

/* The child at the current slot. */
static int
drop_child (struct drop *d)
{
  struct step *s = &d->path[d->level];
  const struct tree_expect e =
    tree_expect_child (s->block->data, s->slot, d->root->id);
  CLEANUP_BLOCK_PUT struct block *b = NULL;
  enum visit v;
  bool full;
  int r;

  spend (d, NULL);
  r = visit (d, &e, &b, &full, &v);
  if (r < 0 || d->stopped)
    return r;
  if (v == VISIT_OURS && e.level > 0) {
    d->path[--d->level] = (struct step) { .block = take (b), .full = full };
    return 0;
  }
  if (v == VISIT_OURS)
    r = drop_leaf (d, b, full);
  ++s->slot;
  return r;
}

/* Free the blocks of the path whose children are all gone. */
static int
pop_finished (struct drop *d)
{
  int r;

  for (;;) {
    struct step *s = &d->path[d->level];

    if (s->slot < tb_nritems (s->block->data))
      return 0;
    r = free_block (d, s->block);
    if (r < 0)
      return r;
    block_put (s->block);
    s->block = NULL;
    if (d->level == d->top) {
      d->done = true;
      return 0;
    }
    ++d->path[++d->level].slot;
  }
}

/* From the beginning: the root may be shared, or the only block. */
static int
start (struct drop *d)
{
  struct block *root = d->path[d->top].block;
  const struct tree_expect e = {
    .bytenr = root->bytenr, .generation = tb_generation (root->data),
    .owner = d->root->id, .level = d->top, .has_level = true,
  };
  CLEANUP_BLOCK_PUT struct block *b = NULL;
  enum visit v;
  bool full;
  int r;

  r = visit (d, &e, &b, &full, &v);
  if (r < 0 || d->stopped)
    return r;
  d->path[d->top].full = full;
  if (v == VISIT_OURS && d->top > 0)
    return 0;
  d->done = true;
  return v == VISIT_OURS ? drop_leaf (d, b, full) : 0;
}

/* Where an interrupted walk, ours or that of Linux, goes on. */
static int
resume (struct drop *d)
{
  const struct btrfs_root_item *item = &d->root->item;
  const struct key key = key_from_disk (&item->drop_progress);
  uint64_t refs;
  bool exact;
  int r;

  if (item->drop_level == 0 || item->drop_level > d->top)
    return err_new (ERR_item_format, "drop level %u of a tree of level %u",
                    item->drop_level, d->top);
  for (;;) {
    struct step *s = &d->path[d->level];
    struct tree_expect e;

    s->slot = tb_search (s->block->data, key, &exact);
    if (!exact && s->slot > 0)
      --s->slot;
    r = refs_of (d, s->block->bytenr, d->level, &refs, &s->full);
    if (r < 0)
      return r;
    if (refs > 1 && d->level == d->top)
      return start (d);         /* nothing below it was dropped */
    if (refs > 1)
      return err_new (ERR_ref_count, "block %llu, half dropped, is shared",
                      (unsigned long long) s->block->bytenr);
    if (d->level == item->drop_level)
      return 0;
    e = tree_expect_child (s->block->data, s->slot, d->root->id);
    r = block_read (d->ss->env.cache, &e, &d->path[d->level - 1].block);
    if (r < 0)
      return r;
    --d->level;
  }
}

static int
walk (struct drop *d)
{
  int r;

  d->level = d->top = tree_level (d->root->tree);
  d->path[d->top].block = block_get (d->root->tree->root);
  if (key_cmp (key_from_disk (&d->root->item.drop_progress), KEY_MIN) != 0)
    r = resume (d);
  else
    r = start (d);
  while (r == 0 && !d->done && !d->stopped) {
    r = pop_finished (d);
    if (r == 0 && !d->done)
      r = breathe (d);
    if (r == 0 && !d->done && !d->stopped)
      r = drop_child (d);
  }
  return r;
}

/* Nothing is left: the items go, in the transaction of the last block. */
static int
finish (struct drop *d)
{
  struct roots *roots = d->ss->env.roots;
  struct tree *rt = roots_pool_tree (roots, BTRFS_ROOT_TREE)->tree;
  int r;

  r = roots_delete (roots, d->txn, d->root);
  if (r < 0)
    return r;
  rwlock_wrlock (&rt->lock);
  r = tree_delete (&d->txn->tree, rt,
                   KEY (BTRFS_ORPHAN_OBJECTID, BTRFS_ORPHAN_ITEM,
                        d->root->id));
  rwlock_unlock (&rt->lock);
  return r;
}

int
drop_run (struct subvols *ss, uint64_t id, bool (*stop) (void *opaque),
          void *opaque, bool *ret_done)
{
  struct drop d = { .ss = ss, .stop = stop, .opaque = opaque };
  int r;

  *ret_done = false;
  r = roots_get_dead (ss->env.roots, id, &d.root);
  if (r < 0)
    return r;
  d.older = d.root->key.offset;
  r = begin (&d);
  if (r == 0) {
    r = walk (&d);
    if (r == 0 && d.done)
      r = finish (&d);
    r = end (&d, r);
  }
  path_done (d.path);
  roots_put (ss->env.roots, d.root);
  if (r == 0 && d.done)
    data_regroup_again (ss->env.data);
  *ret_done = d.done;
  return r;
}
