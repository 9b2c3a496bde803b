/* extent: references that wait to be written into the extent tree.
 *
 * One head per extent address, sorted; below it the net change per referrer.
 * Changes by the same referrer are summed up, zero vanishes.  A head whose
 * extent is not in the extent tree yet has must_insert: its first run inserts
 * the item, or, when nothing is left of its references, gives the space back.
 */
#ifndef BTRNBD_EXTENT_DELAYED_H
#define BTRNBD_EXTENT_DELAYED_H

#include "base/containers.h"
#include "extent/extent.h"
#include "extent/item.h"

struct delayed_ref {
  RB_ENTRY (delayed_ref) entry;
  struct ref_key key;
  int64_t mod;                 /* never 0 */
};
RB_HEAD (delayed_refs, delayed_ref);
RB_PROTOTYPE (delayed_refs, delayed_ref, entry, delayed_ref_cmp)

struct delayed_head {
  RB_ENTRY (delayed_head) entry;
  uint64_t bytenr, num_bytes;
  struct delayed_refs refs;
  uint64_t set_flags;          /* to be ored into the item */
  bool is_data, must_insert;
  uint8_t level;               /* of a tree block */
};
RB_HEAD (delayed_heads, delayed_head);
RB_PROTOTYPE (delayed_heads, delayed_head, entry, delayed_head_cmp)

/* What is changed, by how much. */
struct delayed_change {
  uint64_t bytenr, num_bytes;
  bool is_data, must_insert;
  uint8_t level;
  struct ref_key key;
  int64_t mod;                 /* 0: only set_flags */
  uint64_t set_flags;
};

/* The queue alone; the caller locks. */
struct delayed {
  struct delayed_heads heads;
  size_t count;
};
extern void delayed_init (struct delayed *);
extern void delayed_done (struct delayed *);
extern int delayed_add (struct delayed *, const struct delayed_change *);
/* The head at BYTENR, or NULL. */
extern struct delayed_head *delayed_find (struct delayed *, uint64_t bytenr);
/* Take the first head at or above FROM out of the queue; NULL: none. */
extern struct delayed_head *delayed_take (struct delayed *, uint64_t from,
                                          bool new_blocks);
extern void delayed_head_free (struct delayed_head *);
/* Sum of all changes. */
extern int64_t delayed_head_mod (const struct delayed_head *);

struct extents {
  struct roots *roots;
  struct space *space;
  struct block_cache *cache;
  uint32_t nodesize;
  bool skinny;
  void (*watch) (void *, uint64_t); /* see extents_set_watch */
  void *watch_opaque;

  struct mutex share_lock;     /* RANK_EXTENT_SHARE */

  struct mutex lock;           /* RANK_DELAYED_REFS; protects all below */
  struct delayed queue;
  struct extents_stats stats;
  void (*timer) (void *, uint64_t);
  void *timer_opaque;
};

/* Queue a change (takes the lock). */
extern int extents_queue (struct extents *, const struct delayed_change *);

#endif /* BTRNBD_EXTENT_DELAYED_H */
