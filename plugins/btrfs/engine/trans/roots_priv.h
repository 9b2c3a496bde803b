/* trans: inside of the registry of trees. */
#ifndef BTRNBD_TRANS_ROOTS_PRIV_H
#define BTRNBD_TRANS_ROOTS_PRIV_H

#include <stdatomic.h>

#include "base/containers.h"
#include "trans/roots.h"

struct root_priv {
  struct root root;
  struct roots *roots;
  RB_ENTRY (root_priv) entry;
  atomic_uint_fast64_t used;   /* item.bytes_used, for readers without lock */
  /* Protected by roots->lock. */
  unsigned refs;
  bool listed;                 /* on the dirty list */
  bool gone;                   /* deleted: not in by_id */
  TAILQ_ENTRY (root_priv) dirty_entry;
  /* Of trees of the pool: last commit; the one being written. */
  struct block *committed, *captured;
};

RB_HEAD (roots_tree, root_priv);
RB_PROTOTYPE (roots_tree, root_priv, entry, root_cmp)
TAILQ_HEAD (dirty_roots, root_priv);

struct roots {
  struct block_cache *cache;
  struct root *root_root, *chunk_root;
  struct rwlock committed_lock;

  struct mutex lock;           /* RANK_TRANS; protects all below */
  struct roots_tree by_id;
  uint64_t departures;         /* subvolumes that have left by_id */
  struct dirty_roots dirty;    /* changed in the running transaction */
  uint64_t families;           /* snapshots made and subvolumes dropped,
                                  plus 1 (atomic) */
  uint64_t epoch;              /* last given to a tree, see tree_snapshot */
};

extern struct root_priv *root_alloc (uint64_t id);
extern void root_free (struct root_priv *);
/* Registers P or, if another thread was faster, frees it; the registered one
 * with a reference to *ret.  SEEN, if not NULL, is the number of departures
 * before P was read: if another root has left since, it may have been P's own
 * tree, changed since, so P is freed and NULL returned: read it again.
 */
extern void roots_publish (struct roots *, struct root_priv *,
                           const uint64_t *seen, struct root **ret);
/* The item of P, a new tree, and P's registration, with a reference to *ret:
 * within one lock of the root tree, so nobody who finds the item can open the
 * tree a second time.  On error P is freed.
 */
extern int roots_insert (struct roots *, struct txn *, struct root_priv *,
                         struct root **ret);
/* The tree ID with a reference if it is open, else NULL. */
extern struct root *roots_peek (struct roots *, uint64_t id);

#endif /* BTRNBD_TRANS_ROOTS_PRIV_H */
