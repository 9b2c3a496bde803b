/* btree: what the files of this room share.
 *
 * Invariants while a tree is not being changed:
 *   - the first key of a block equals the key of the pointer to it;
 *   - the generation of a pointer equals that of the block's header;
 *   - no block but the root is empty; a root node has two children or more
 *     (trees made by others may have one: accepted, not kept).
 *
 * A change works on the path of one cursor, which is made writable first,
 * root to leaf.  From then on the blocks of the path belong to the running
 * transaction alone.  Siblings that a change needs are made writable one by
 * one through their parent, which is in the path.
 */
#ifndef BTRNBD_BTREE_TREE_PRIV_H
#define BTRNBD_BTREE_TREE_PRIV_H

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/math.h"
#include "btree/tree.h"

#define ITEM_HEADER sizeof (struct btrfs_item)

static inline uint32_t
cache_nodesize (struct block_cache *cache)
{
  return block_cache_format (cache)->nodesize;
}

static inline uint32_t
tree_nodesize (const struct tree *t)
{
  return block_cache_format (t->cache)->nodesize;
}

/* --- leaf.c: one leaf in memory --- */

/* Lowest offset of item data. */
static inline uint32_t
leaf_data_start (const void *buf, uint32_t nodesize)
{
  uint32_t n = tb_nritems (buf);

  return n == 0 ? tb_leaf_data_size (nodesize)
    : le32_get (tb_item_c (buf, n - 1)->offset);
}

static inline uint32_t
leaf_free (const void *buf, uint32_t nodesize)
{
  return leaf_data_start (buf, nodesize) - tb_nritems (buf) * ITEM_HEADER;
}

static inline uint32_t
leaf_used (const void *buf, uint32_t nodesize)
{
  return tb_leaf_data_size (nodesize) - leaf_free (buf, nodesize);
}

static inline void
tb_set_nritems (void *buf, uint32_t n)
{
  tb_header (buf)->nritems = le32_make (n);
}

/* Lowest slot in [lo, hi) whose key is >= KEY, or HI. */
extern uint32_t leaf_lower_bound (const void *buf, uint32_t lo, uint32_t hi,
                                  struct key key);
/* A new item at SLOT, zero data; there is room. */
extern void leaf_insert (void *buf, uint32_t nodesize, uint32_t slot,
                         struct key, uint32_t size);
/* N items with keys that are absent; there is room.  Every byte of the leaf
 * moves at most once.
 */
extern void leaf_merge (void *buf, uint32_t nodesize,
                        const struct tree_item *, uint32_t n);
extern void leaf_delete (void *buf, uint32_t nodesize, uint32_t slot,
                         uint32_t n);
/* Change a size at the end of the data; there is room; new bytes are zero. */
extern void leaf_resize (void *buf, uint32_t nodesize, uint32_t slot,
                         uint32_t size);
/* Move the first N items of SRC behind all of DST. */
extern void leaf_move_head (void *src, uint32_t n, void *dst,
                            uint32_t nodesize);
/* Move the items of SRC from SLOT on before all of DST. */
extern void leaf_move_tail (void *src, uint32_t slot, void *dst,
                            uint32_t nodesize);

/* --- cursor.c --- */

/* Give the cursor a root. */
extern int cursor_start (struct cursor *, struct tree *,
                         struct block_cache *, struct block *root,
                         uint64_t tree_id);
/* Read the child at the slot of LEVEL into path[LEVEL - 1]. */
extern int cursor_read_child (struct cursor *, unsigned level);
/* From path[LEVEL] down to the leaf, where slot[0] is the first item >= KEY,
 * or the end of that leaf (the place where KEY is to be inserted).
 */
extern int cursor_descend (struct cursor *, unsigned level, struct key,
                           bool *ret_exact);
/* The same for a positioned cursor and a KEY not below the first one of its
 * leaf; keeps what it can of the path.
 */
extern int cursor_seek_forward (struct cursor *, struct key,
                                bool *ret_exact);
/* First key behind the leaf; false in the last leaf. */
extern bool cursor_upper_bound (const struct cursor *, struct key *ret);
/* To the first item of the next leaf; false and unchanged in the last. */
extern int cursor_next_leaf (struct cursor *, bool *ret_moved);
/* Past the end of a leaf: to the next leaf, if there is one. */
extern int cursor_settle (struct cursor *);
/* Put B (whose reference is taken over) into the path. */
extern void cursor_set_block (struct cursor *, unsigned level,
                              struct block *b);
/* The first key of path[LEVEL] may have changed: tell the nodes above. */
extern void cursor_fix_keys (struct cursor *, unsigned level);
/* As tree_find, without leaving the leaf at its end. */
extern int tree_find_place (struct tree *, struct key, struct cursor *,
                            bool *ret_exact);

/* --- cow.c --- */

extern bool tree_block_writable (const struct tree_txn *,
                                 const struct tree *, const struct block *);
/* An empty block of TREE for the running transaction. */
extern int tree_new_block (struct tree_txn *, struct tree *, unsigned level,
                           uint64_t hint, struct block **ret);
/* The same with the items of FROM (NULL: none). */
extern int tree_new_copy (struct tree_txn *, struct tree *, unsigned level,
                          uint64_t hint, const struct block *from,
                          struct block **ret);
/* The child of PARENT (writable) at SLOT, itself writable.  *B: a reference
 * to the child, replaced by one to the copy.
 */
extern int tree_cow_child (struct tree_txn *, struct tree *,
                           struct block *parent, uint32_t slot,
                           struct block **b);
/* An empty block that nothing points to any more. */
extern int tree_free_block (struct tree_txn *, struct tree *,
                            struct block *);

/* --- node.c --- */

extern void node_set_ptr (void *buf, uint32_t slot, const struct block *);
extern void node_set_key (void *buf, uint32_t slot, struct key);
extern void node_delete_ptr (void *buf, uint32_t slot);
/* Move N pointers from SRC at FROM to DST at TO. */
extern void node_move (void *src, uint32_t from, uint32_t n, void *dst,
                       uint32_t to);
/* A pointer to B right behind the cursor's at LEVEL; the cursor stays at the
 * pointer where it was, in whichever node that now is.
 */
extern int cursor_insert_behind (struct tree_txn *, struct cursor *,
                                 unsigned level, const struct block *);

/* --- split.c --- */

/* An item of a leaf that is laid out anew: COPY bytes of DATA, then zeros. */
struct split_item {
  struct key key;
  const void *data;
  uint32_t copy, size;
};

/* The contents of the cursor's leaf are replaced by N items, spread over it
 * and as many new leaves behind it as needed; the cursor ends at item TRACK.
 * The items do not point into the leaf.
 */
extern int cursor_spread (struct tree_txn *, struct cursor *,
                          const struct split_item *, uint32_t n,
                          uint32_t track);
/* Copies the leaf to *RET_COPY (freed by the caller) and lists its items,
 * with SPARE more places in the array.
 */
extern int leaf_list_items (const void *buf, uint32_t nodesize,
                            uint32_t spare, void **ret_copy,
                            struct split_item **ret);
/* NEED free bytes in the leaf where an item for the cursor's slot goes; the
 * cursor moves with it.  *ret_done false: nothing cheap could be done.
 */
extern int cursor_push_siblings (struct tree_txn *, struct cursor *,
                                 uint32_t need, bool *ret_done);

/* --- balance.c --- */

/* path[LEVEL] is empty: take it out of the tree, and balance above. */
extern int cursor_remove_block (struct tree_txn *, struct cursor *,
                                unsigned level);
/* path[0] is poorly filled: merge it with a neighbour if both fit into one.
 * *ret_changed: the cursor must search again.
 */
extern int cursor_merge_leaf (struct tree_txn *, struct cursor *,
                              bool *ret_changed);

#endif /* BTRNBD_BTREE_TREE_PRIV_H */
