/* space: the inside of the room. */
#ifndef BTRNBD_SPACE_SPACE_PRIV_H
#define BTRNBD_SPACE_SPACE_PRIV_H

#include "base/containers.h"
#include "space/bitmap.h"
#include "space/space.h"
#include "trans/trans.h"

/* A range whose state in the free space tree is to change. */
struct fst_change {
  RB_ENTRY (fst_change) entry;
  uint64_t start, len;
  bool free;
};
RB_HEAD (fst_changes, fst_change);
RB_PROTOTYPE (fst_changes, fst_change, entry, fst_change_cmp)

enum fst_form { FST_UNKNOWN, FST_EXTENTS, FST_BITMAPS };

struct block_group {
  RB_ENTRY (block_group) entry;
  /* Constant. */
  uint64_t start, length, flags;
  enum space_kind kind;
  uint64_t super_bytes;        /* never allocated: superblock copies */

  /* Protected by space->lock. */
  uint64_t used, reserved, pinned;
  uint64_t item_used;          /* as the item says */
  bool dirty;                  /* used != item_used perhaps */
  bool fresh;                  /* items not made yet */
  bool removed;
  unsigned nocow;              /* writers in place */
  uint64_t held;               /* freed, but the image has it */
  /* Changed under both locks, read under either. */
  bool readonly;
  bool mapped;                 /* the image has this group */

  struct mutex lock;           /* RANK_BLOCK_GROUP; protects all below */
  bool loaded;
  struct free_map map;         /* of sectors that may be allocated */
  uint64_t cursor;             /* sector to search from */
  struct fst_changes changes;
  /* With `mapped`: sectors taken since the image's commit, and those that are
   * held.
   */
  struct free_map young, held_map;

  /* Protected by the free space tree's lock (exclusive). */
  bool fst_ready;              /* the tree has this group's items */
  enum fst_form form;          /* cached from the info item */
  uint32_t fst_count;          /* with form known: free runs */
  struct block_group *next_removed;
};
RB_HEAD (groups, block_group);
RB_PROTOTYPE (groups, block_group, entry, block_group_cmp)

struct space_info {
  uint64_t total, used, reserved, pinned, held, readonly, may_use;
};

/* What chunks have that is not free, promises aside. */
static inline uint64_t
space_gone (const struct space_info *i)
{
  return i->used + i->reserved + i->pinned + i->held + i->readonly;
}

/* A hold: see hold.c. */
enum hold_state {
  HOLD_NONE,
  HOLD_BEGUN,                  /* of the next commit that captures it */
  HOLD_CAPTURED,               /* that commit is under way */
  HOLD_ACTIVE,
};

struct space_range { uint64_t start, len; };
struct ranges {
  struct space_range *r;
  size_t n, cap;
};

struct space {
  struct block_cache *cache;
  struct volume *volume;
  struct roots *roots;
  struct trans *trans;
  int (*run_refs) (void *, struct txn *);
  void *run_refs_opaque;
  uint32_t sectorsize, nodesize;
  bool mixed;                  /* data and metadata share groups */
  bool has_bgt;
  int (*sys_chunk) (void *, struct key, const struct btrfs_chunk *,
                    uint32_t);
  void *sys_chunk_opaque;

  uint64_t chunk_transid;      /* newest that may have made a chunk; atomic */

  struct mutex load_lock;      /* RANK_RESERVE: reading of all items */
  struct mutex ticket_lock;    /* RANK_RESERVE: waiters for space */
  struct cond ticket_cond;
  uint64_t ticket_next, ticket_serving; /* under ticket_lock */

  struct mutex lock;           /* RANK_SPACE; protects all below */
  struct groups groups;
  bool loaded;
  struct space_info info[SPACE_KINDS];
  struct block_group *current[SPACE_KINDS]; /* last allocated from */
  /* What a search through all groups has taught: no free run is longer.  Void
   * (see space_freed) as soon as something becomes free.
   */
  uint64_t run_limit[SPACE_KINDS];
  uint64_t frees[SPACE_KINDS]; /* times that happened */
  uint64_t bytes_used;         /* of the superblock */
  uint64_t unallocated;        /* raw bytes outside of chunks */
  uint64_t global;             /* size of the global reserve */
  uint64_t global_to_free;     /* the part for who frees space; a commit needs
                                  the rest */
  unsigned meta_copies;        /* of a new metadata chunk */
  int64_t pending_refs;
  uint64_t data_promised;      /* the part of may_use that is for data */
  uint64_t data_owed;          /* promised data that has its place, and its
                                  items not yet */
  bool fst_enabled;            /* maintained */
  bool fst_trusted;            /* complete: may be loaded from */
  bool fst_one_by_one, fst_no_cache, discard;
  bool waiters;                /* somebody holds a ticket */
  bool discarding;             /* free space is out of its map for a moment */
  struct cond discard_cond;    /* not any more */
  enum hold_state hold;
  uint64_t hold_id;            /* of the newest hold */
  uint64_t hold_limit;         /* most bytes that it may keep */
  uint64_t hold_generation;    /* also read atomically; 0: there is no hold,
                                  UINT64_MAX: not captured yet */
  const char *hold_why;        /* how the newest one was ended, or NULL */
  unsigned nocow;              /* writers in place, in all groups */
  struct cond nocow_cond;      /* there is none */
  struct fst_stats fst_stats;
  uint64_t *dev_used;          /* per device: 1 + new bytes used, 0: same */
  struct ranges pinned, committing, discards;
  struct block_group *removed, *removed_committing, *graveyard;
};

/* In mixed pools data lives with metadata. */
static inline enum space_kind
space_kind_of (const struct space *sp, uint64_t flags)
{
  if (flags & BTRFS_BG_SYSTEM)
    return SPACE_SYSTEM;
  if (flags & BTRFS_BG_METADATA)
    return SPACE_METADATA;
  return sp->mixed ? SPACE_METADATA : SPACE_DATA;
}

static inline enum space_kind
space_data_kind (const struct space *sp)
{
  return sp->mixed ? SPACE_METADATA : SPACE_DATA;
}

/* Free space of KIND has grown; space->lock held. */
static inline void
space_freed (struct space *sp, enum space_kind kind)
{
  sp->run_limit[kind] = UINT64_MAX;
  sp->frees[kind]++;
}

/* The group that holds ADDR, or NULL.  space->lock held. */
extern struct block_group *space_find (struct space *, uint64_t addr);
/* Register a group; space->lock held. */
extern int space_add_group (struct space *, uint64_t start, uint64_t length,
                            uint64_t flags, struct block_group **ret);
/* A range that nobody counts any more is free in the group's map, too.
 * Without memory for that it counts as reserved, lost until the next open: the
 * map cannot be loaded again, because the committed tree does not know what is
 * allocated now.  space->lock held.
 */
extern void space_give_back (struct space *, struct block_group *,
                             uint64_t start, uint64_t len);
/* The same with the group's lock held, too. */
extern void space_give_back_locked (struct space *, struct block_group *,
                                    uint64_t start, uint64_t len);
extern int ranges_add (struct ranges *, uint64_t start, uint64_t len);

/* The tree that holds block group items. */
extern struct root *space_group_root (struct space *);

/* Fill BG's map from committed free space; no effect when loaded.  Neither
 * space->lock nor the group's lock is held.
 */
extern int space_load_free (struct space *, struct block_group *);

/* hold.c; space->lock held.  A range of one group that has been freed, by a
 * commit that is durable now, is free; or held, if the image has it.
 */
extern void space_range_unpinned (struct space *, struct block_group *,
                                  uint64_t start, uint64_t len);
/* After what a commit has freed was unpinned; the lock is not held. */
extern void space_hold_finish (struct space *);
/* May nothing be written over ADDR because the image has it? */
extern bool space_hold_has (struct space *, uint64_t addr);
extern void space_hold_cleanup (struct block_group *);
/* Whoever writes goes first: an image ends if it holds that many bytes of the
 * kind.  False: it does not, or there is none.  space->lock is not held.
 */
extern bool space_hold_yield (struct space *, enum space_kind,
                              uint64_t bytes);
/* The same if HELPS says so, called with space->lock held. */
extern bool space_hold_yield_all (struct space *,
                                  bool (*helps) (struct space *,
                                                 const void *opaque),
                                  const void *opaque);
/* What the end of an image makes free at most, commits included; and the
 * length of groups that go then.  space->lock held.
 */
extern uint64_t space_hold_gain (struct space *, uint64_t gain[SPACE_KINDS]);

/* Wait until a discard has given back what it holds; false: none is running.
 * Who finds no room asks this before giving up.
 */
extern bool space_wait_discard (struct space *);

/* Note a change of free space; the group's lock is not held. */
extern int space_fst_note (struct space *, struct txn *,
                           struct block_group *, uint64_t start,
                           uint64_t len, bool is_free);
/* The core of it, on one group's set. */
extern int fst_changes_add (struct fst_changes *, uint64_t start,
                            uint64_t len, bool is_free);
extern void fst_changes_clear (struct fst_changes *);

/* Make a chunk of KIND; *ret_made false: no room for one.  No lock of rank
 * >= RANK_TREE_CHUNK is held.
 */
extern int space_chunk_alloc (struct space *, struct txn *, enum space_kind,
                              bool *ret_made);
/* For a look ahead: bytes that chunks can be made of, and how large the next
 * one would be, were UNALLOCATED bytes left; 0: there is none.
 */
extern uint64_t space_usable (struct space *);
extern uint64_t space_next_chunk (struct space *, enum space_kind,
                                  uint64_t unallocated);
/* Look again at what is outside of chunks, and at the global reserve. */
extern void space_refresh (struct space *);
extern void space_refresh_reserve (struct space *); /* only the latter */
/* The profile of new chunks. */
extern uint64_t space_profile (struct space *, enum space_kind);
extern unsigned space_copies (uint64_t profile);

/* fst_tree.c */
struct fst_group {             /* one group's part of the tree */
  struct tree_txn *txn;
  struct tree *tree;
  struct block_group *bg;
  uint32_t sector;
  struct fst_stats *stats;
};
extern int fst_read_info (struct fst_group *);
extern int fst_write_info (struct fst_group *);
extern int fst_apply (struct fst_group *, uint64_t start, uint64_t len,
                      bool is_free);
/* INFO and the given free runs (ascending, not adjacent). */
extern int fst_populate (struct fst_group *, const struct space_range *,
                         size_t n);
extern int fst_remove_group (struct fst_group *);

#endif /* BTRNBD_SPACE_SPACE_PRIV_H */
