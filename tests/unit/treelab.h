/* A pool without a filesystem: one chunk with two copies on a memory device,
 * a block cache, and an allocator that counts references itself, to test
 * block/ and btree/ without the rooms above.
 *
 * References are counted per block: copying a block that is used more than
 * once adds a reference to each of its children.  Addresses that were freed
 * are given out again after the next lab_commit.
 */
#ifndef BTRNBD_TESTS_UNIT_TREELAB_H
#define BTRNBD_TESTS_UNIT_TREELAB_H

#include "btree/tree.h"

struct lab_opts {
  uint32_t nodesize;
  size_t cache_bytes;
  uint32_t blocks;             /* that can be allocated; 0: 16384 */
};

struct lab {
  struct tree_txn txn;         /* first: the operations find the lab by it */
  struct lab_opts opts;
  struct device *dev;          /* owned by vol */
  struct volume *vol;
  struct block_cache *cache;
  uint32_t *refs;              /* by index of the block */
  uint32_t *free_list, nr_free; /* indexes that may be reused */
  uint32_t *pinned, nr_pinned; /* freed since the last commit */
  uint32_t next;               /* never used so far */
  unsigned nr_dirtied, nr_aborts;
  unsigned fail_alloc;         /* the n-th allocation from now on fails; 0:
                                  none */
};

/* All exit the program with a message on failure. */
extern void lab_open (struct lab *, const struct lab_opts *);
extern void lab_close (struct lab *);
/* Write out, new transaction; freed blocks may be used again. */
extern void lab_commit (struct lab *);
/* The same in steps: a new transaction begins (the number of blocks pinned
 * until then), the caller writes the old one out, those blocks are free.
 */
extern uint32_t lab_switch (struct lab *);
extern void lab_release (struct lab *, uint32_t pinned);
/* What happened since the last commit did not; T is read anew from the root
 * that it had then.
 */
struct lab_state {
  struct tree_expect root;
  uint32_t *refs;
  uint32_t nr_free;
};
extern void lab_save (struct lab *, struct tree *t, struct lab_state *);
extern struct tree *lab_roll_back (struct lab *, struct tree *t,
                                   struct lab_state *);
/* A new empty cache on the same volume. */
extern void lab_drop_cache (struct lab *);
/* Where copy MIRROR (1 or 2) of a block lies on the device. */
extern uint64_t lab_physical (const struct lab *, uint64_t bytenr,
                              unsigned mirror);
/* Read a tree anew whose root is where T's is. */
extern struct tree *lab_reopen_tree (struct lab *, struct tree *t);

/* One more reference to the root: a snapshot of T. */
extern struct block *lab_snapshot (struct lab *, struct tree *t);
/* Drop it, and every block that nobody else uses. */
extern void lab_drop (struct lab *, struct block *root, uint64_t tree_id);
/* The references of all blocks are those that N roots have, no more. */
extern void lab_check_refs (struct lab *, struct block **roots, size_t n,
                            uint64_t tree_id);

/* Exit with a message unless R is 0. */
extern void lab_ok (int r, const char *what);

/* xorshift, seeded */
extern uint64_t lab_random (uint64_t *state);

#endif /* BTRNBD_TESTS_UNIT_TREELAB_H */
