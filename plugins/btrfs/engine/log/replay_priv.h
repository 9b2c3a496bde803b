/* log: what the files of replay share. */
#ifndef BTRNBD_LOG_REPLAY_PRIV_H
#define BTRNBD_LOG_REPLAY_PRIV_H

#include "base/containers.h"
#include "inode/items.h"
#include "log/replay.h"

/* The log tree of one subvolume. */
struct replay_log {
  uint64_t root_id;
  struct tree_expect expect;   /* of its root block */
};

/* All log trees, highest subvolume id first; malloc'd. */
extern int replay_logs (const struct replay_env *, struct replay_log **ret,
                        size_t *ret_n);
/* Every block of the log, the log root tree included, read and checked. */
typedef int (*replay_block_fn) (void *opaque, uint64_t bytenr);
extern int replay_blocks (const struct replay_env *,
                          const struct replay_log *, size_t n,
                          replay_block_fn, void *opaque);
extern int replay_open (const struct replay_env *, const struct replay_log *,
                        struct tree **ret);

/* --- a replay under way --- */

/* Space of logged data that was taken before anything was allocated. */
struct replay_taken {
  RB_ENTRY (replay_taken) link;
  uint64_t start, len;
  bool used;                   /* an item of a file has it now */
};
RB_HEAD (replay_takens, replay_taken);

struct replay {
  const struct replay_env *env;
  struct txn *txn;
  uint32_t nodesize, sectorsize, csum_size;
  bool mixed;                  /* data and metadata share block groups */
  struct replay_takens taken;  /* mixed only */
  unsigned inodes;             /* put back so far */
  uint64_t sums;               /* checksums put back so far */

  /* Of the subvolume at hand. */
  struct tree *log;            /* nobody else knows it: no lock is taken */
  struct root *root;
  /* Of the items at hand. */
  uint64_t ino;
  bool skip;                   /* without links: not put back */
  struct inode *in;            /* while extents are put back: lock held */
};

/* An item of the log at the cursor goes into the subvolume.  None of these
 * holds the tree's lock on entry or return.
 */
extern int replay_inode_item (struct replay *, const struct cursor *);
extern int replay_xattr (struct replay *, const struct cursor *);
extern int replay_extent (struct replay *, const struct cursor *);
/* The extents of the inode at hand are done. */
extern int replay_extents_end (struct replay *);
extern int replay_dir_index (struct replay *, const struct cursor *);
extern int replay_refs (struct replay *, const struct cursor *);
/* After all items: the numbers of links are what the references say, and what
 * has none is left to be deleted.
 */
extern int replay_fix_links (struct replay *);

/* Mixed block groups: take the space of logged data, before a tree block
 * could be put there; and give back what was not needed.
 */
extern int replay_take_extents (struct replay *);
extern void replay_give_extents (struct replay *);

/* --- names and inode items; tree lock exclusive --- */

/* A copy, since names lie in blocks that change. */
struct replay_name {
  size_t len;
  char s[BTRFS_NAME_MAX];
};
extern int replay_name_copy (struct replay_name *, const struct pack_rec *);
static inline struct name
replay_name (const struct replay_name *n)
{
  return NAME (n->s, n->len);
}

extern int replay_inode_get (struct replay *, uint64_t ino,
                             struct btrfs_inode_item *, bool *ret_found);
/* Write the item of an inode that has one. */
extern int replay_inode_put (struct replay *, uint64_t ino,
                             const struct btrfs_inode_item *);
/* The number of links of INO will be counted at the end. */
extern int replay_note_links (struct replay *, uint64_t ino);
/* Take the name, which must be there, out of directory DIR. */
extern int replay_unlink (struct replay *, uint64_t dir, struct name);
/* What the log removed from the directory at hand. */
extern int replay_dir_deletes (struct replay *, uint64_t dir);
/* Every entry of a directory that is being deleted. */
extern int replay_dir_empty (struct replay *, uint64_t dir);

#endif /* BTRNBD_LOG_REPLAY_PRIV_H */
