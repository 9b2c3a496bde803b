/* btree: one copy-on-write B-tree.
 *
 * A tree has one rwlock.  All functions below demand it: shared for finding
 * and reading, exclusive for everything that takes a transaction.  Cursors
 * hold references to the blocks of their path and are valid only while the
 * lock is held without a change by somebody else; an exclusive holder may
 * change the tree through one cursor at a time, other cursors on the tree
 * are then void.
 *
 * COW needs space and references, which live in trees themselves: the
 * operations in `struct tree_alloc_ops` break that cycle; extent/ fills them
 * in.
 */
#ifndef BTRNBD_BTREE_TREE_H
#define BTRNBD_BTREE_TREE_H

#include "base/lock.h"
#include "block/block.h"

struct tree;

/* What a change of a tree needs to know of its transaction.  trans/ embeds
 * this first in its own handle.
 */
struct tree_txn {
  uint64_t transid;
  const struct tree_alloc_ops *ops;
};

enum tree_cow_action {
  TREE_COW_FREE_OLD,     /* the old block is not used by anyone else */
  TREE_COW_KEEP_OLD,     /* it is still referenced elsewhere */
};

struct tree_alloc_ops {
  /* A free logical address for one block of TREE at LEVEL; HINT is the
   * address of a neighbour or 0.  Adds the reference for the new block,
   * owned by tree->id.
   */
  int (*alloc) (struct tree_txn *, struct tree *, unsigned level,
                uint64_t hint, uint64_t *ret_bytenr);
  /* OLD is about to be replaced by COPY (same contents, new address) in
   * TREE: adjust the references of OLD's children by the sharing rules (may
   * set flags in the header of COPY), and drop TREE's reference on OLD.
   * *ret_action tells whether OLD lives on.
   */
  int (*cow) (struct tree_txn *, struct tree *, struct block *old,
              struct block *copy, enum tree_cow_action *ret_action);
  /* A block that became empty has left TREE (its parent no longer points to
   * it).  It has no children.
   */
  int (*free) (struct tree_txn *, struct tree *, struct block *);
  /* The address is free again although the block was never used: undo of
   * `alloc` on an error path.
   */
  void (*abort) (struct tree_txn *, int err);
  /* COPY, the new root of TREE, has the items of a root that lives on: add a
   * reference to each of its children, by TREE's id.
   */
  int (*share) (struct tree_txn *, struct tree *, struct block *copy);
  /* TREE was changed for the first time in this transaction (its root node
   * now has generation == transid).
   */
  int (*dirtied) (struct tree_txn *, struct tree *);
};

struct tree {
  /* Constant. */
  uint64_t id;                 /* owner in headers and references */
  struct block_cache *cache;
  bool shareable;              /* subvolume (or reloc) tree: blocks may be
                                  shared between trees */
  void *opaque;                /* of whoever opened the tree */

  struct rwlock lock;          /* protects all below */
  struct block *root;          /* referenced; generation of its header */
  uint64_t last_snapshot;      /* from the root item */
  /* A block of the running transaction is this tree's alone only if it has
   * the same number: a snapshot, which shares all that are there, changes it.
   */
  uint64_t epoch;
};

/* ROOT names address, generation, level and owner of the root node.  RANK is
 * the lock's place.  The new tree is not registered anywhere.
 */
extern int tree_open (struct block_cache *, uint64_t id,
                      const struct tree_expect *root, enum lock_rank,
                      bool shareable, struct tree **ret);
/* A new empty tree: one empty leaf, allocated in TXN. */
extern int tree_create (struct tree_txn *, struct block_cache *, uint64_t id,
                        enum lock_rank, bool shareable, struct tree **ret);
extern void tree_free (struct tree *); /* accepts NULL */
/* A new tree ID with the contents of SRC (lock exclusive), with which it
 * shares everything below the root.  EPOCH and EPOCH + 1 have never been used.
 */
extern int tree_snapshot (struct tree_txn *, struct tree *src, uint64_t id,
                          uint64_t epoch, struct tree **ret);

static inline unsigned
tree_level (const struct tree *t)
{
  return tb_level (t->root->data);
}

/* --- cursors --- */

struct cursor {
  struct tree *tree;           /* NULL in a committed root */
  struct block_cache *cache;
  uint64_t tree_id;
  struct block *path[BTRFS_MAX_LEVEL]; /* [0] leaf .. [level] root */
  uint32_t slot[BTRFS_MAX_LEVEL];
  unsigned level;              /* of the root */
  bool positioned;             /* path is filled */
  uint8_t ahead;               /* leaves read ahead, grows while walking */
};

#define CURSOR_INIT ((struct cursor) { .positioned = false })
/* Drops the references; the cursor is as CURSOR_INIT afterwards. */
extern void cursor_done (struct cursor *);
#define CLEANUP_CURSOR __attribute__ ((cleanup (cursor_done)))

/* At an item (false: before the first search or past the last item). */
extern bool cursor_at_item (const struct cursor *);
extern struct key cursor_key (const struct cursor *);
extern uint32_t cursor_size (const struct cursor *);
extern const void *cursor_data (const struct cursor *);
/* Generation of the leaf the cursor is in. */
extern uint64_t cursor_leaf_generation (const struct cursor *);

/* --- finding (lock shared) --- */

/* The first item with key >= KEY; *ret_exact (may be NULL) tells equality.
 * Past the end: !cursor_at_item.
 */
extern int tree_find (struct tree *, struct key, struct cursor *,
                      bool *ret_exact);
/* The last item with key <= KEY; none: !cursor_at_item. */
extern int tree_find_le (struct tree *, struct key, struct cursor *,
                         bool *ret_exact);
extern int cursor_next (struct cursor *);
extern int cursor_prev (struct cursor *);
/* Copy an item of exactly KEY out: *ret_found; at most MAX bytes to BUF, its
 * whole size to *ret_size.
 */
extern int tree_get (struct tree *, struct key, void *buf, uint32_t max,
                     uint32_t *ret_size, bool *ret_found);
/* The same searches in a committed root without any lock: ROOT is a reference
 * to its root block and the caller keeps the blocks below from being reused
 * (see trans: committed roots).  The cursor's `tree` is NULL.
 */
extern int root_find (struct block_cache *, struct block *root,
                      uint64_t tree_id, struct key, struct cursor *,
                      bool *ret_exact);

/* Read into the cache what a later search for KEY will want (lock NOT held
 * exclusively by anyone waiting on it: takes it shared itself).
 */
extern int tree_prefetch (struct tree *, struct key);
/* For N keys at once; those that lie side by side in ascending order cost
 * least.  Errors are left to who reads.
 */
extern void tree_prefetch_many (struct tree *, const struct key *, size_t n);

/* --- changing (lock exclusive) --- */

/* Each of these makes the path writable by COW from the root down, as far as
 * it is not already.  On error the transaction must be aborted: the tree in
 * memory may be half changed (nothing of it can reach the disk then).
 */

/* Room for a new item of SIZE bytes; the cursor is at it, its data is zero
 * and writable through cursor_data_rw.  -ERR_key_exists: nothing changed, the
 * cursor is at the existing item.
 */
extern int tree_insert (struct tree_txn *, struct tree *, struct key,
                        uint32_t size, struct cursor *);
/* The same with data. */
extern int tree_insert_data (struct tree_txn *, struct tree *, struct key,
                             const void *data, uint32_t size);

struct tree_item {
  struct key key;
  const void *data;            /* NULL: zero bytes */
  uint32_t size;
};
/* N items, keys ascending, none present: as many as fit go into each leaf
 * with one move of what is there.
 */
extern int tree_insert_many (struct tree_txn *, struct tree *,
                             const struct tree_item *, size_t n);

/* As tree_find for an exact key, with the path writable; -ERR_key_missing
 * (without a change worth an abort) when absent.
 */
extern int tree_find_rw (struct tree_txn *, struct tree *, struct key,
                         struct cursor *);
/* Make the path of a positioned cursor writable. */
extern int cursor_make_writable (struct tree_txn *, struct cursor *);
/* Data of the current item for changing (path writable). */
extern void *cursor_data_rw (struct cursor *);
/* Change the size of the current item at its end; new bytes are zero. */
extern int cursor_resize (struct tree_txn *, struct cursor *, uint32_t size);
/* Change the key of the current item; the order must stay. */
extern int cursor_set_key (struct tree_txn *, struct cursor *, struct key);
/* Delete COUNT items of the current leaf from the current one on.  The cursor
 * is then at the item that followed, or past the end.
 */
extern int cursor_delete (struct tree_txn *, struct cursor *, uint32_t count);
/* Split the current item in two: the first SPLIT bytes keep the key, the
 * rest becomes a new item with NEW_KEY right behind it.  The cursor stays at
 * the first.
 */
extern int cursor_split_item (struct tree_txn *, struct cursor *,
                              struct key new_key, uint32_t split);
/* Find, delete one item; -ERR_key_missing when absent. */
extern int tree_delete (struct tree_txn *, struct tree *, struct key);
/* Delete every item with FIRST <= key <= LAST, at most MAX items (0: all);
 * *ret_deleted may be NULL.
 */
extern int tree_delete_range (struct tree_txn *, struct tree *,
                              struct key first, struct key last,
                              uint64_t max, uint64_t *ret_deleted);

/* --- checking (tests; lock shared) --- */

/* Walk everything below the root: order between leaves, levels, generation
 * of pointers.
 */
extern int tree_check_all (struct tree *, uint64_t *ret_items);

#endif /* BTRNBD_BTREE_TREE_H */
