/* subvol: what the files of this room share. */
#ifndef BTRNBD_SUBVOL_PRIV_H
#define BTRNBD_SUBVOL_PRIV_H

#include "base/containers.h"
#include "inode/items.h"
#include "subvol/subvol.h"

/* Tree blocks looked at in one transaction of a drop. */
#define DROP_BATCH 512

struct dead {
  STAILQ_ENTRY (dead) entry;
  uint64_t id;
};
STAILQ_HEAD (dead_list, dead);

struct subvols {
  struct subvols_env env;
  unsigned drop_batch;         /* see DROP_BATCH; set before use */

  struct mutex lock;           /* RANK_SUBVOLS; protects all below */
  struct dead_list dead;
  bool dropping;
};

/* Queue a deleted subvolume; in two steps, so that the second cannot fail. */
extern int subvols_add_dead (struct subvols *, uint64_t id);
extern int dead_new (struct dead **ret);
extern void subvols_link_dead (struct subvols *, struct dead *, uint64_t id);

/* Free what the deleted subvolume ID occupies (drop.c); *ret_done false when
 * STOP said so.
 */
extern int drop_run (struct subvols *, uint64_t id,
                     bool (*stop) (void *opaque), void *opaque,
                     bool *ret_done);

/* A subvolume's name: its entry in DIR and the pair of references. */
struct place {
  struct inode *dir;
  struct name name;
};
/* DIR's lock held, which keeps the answer true: may the name be added? */
extern int place_check (const struct place *);
/* Add it for subvolume ID. */
extern int place_add (struct subvols *, struct txn *, const struct place *,
                      uint64_t id);

/* What stands at a place; no lock held. */
struct entry {
  struct sref ref;
  uint64_t index;
};
extern int place_find (struct subvols *, const struct place *,
                       struct entry *ret);
/* Take the name away; DIR's lock held. */
extern int place_take (struct subvols *, struct txn *, const struct place *,
                       const struct entry *);
/* N places that are about to get names, each of which has room by itself: is
 * there room for all of them together?
 */
extern int places_check (const struct place *, size_t n);

/* A subvolume on its way out. */
struct deletion {
  struct subvols *ss;
  struct place place;
  struct entry entry;
  struct root *root;           /* referenced, to be put by the caller */
};
/* `names` held: nobody else takes names or deletes subvolumes.  Find it; may
 * it go?  Nobody gets an inode of it from 0 on until deletion_end.
 */
extern int deletion_begin (struct deletion *);
extern void deletion_end (struct deletion *);
/* DIR's lock held. */
extern int deletion_apply (struct txn *, struct deletion *);

/* A copy of SOURCE with a new id, without a name yet; alone in TXN. */
extern int snapshot_make (struct subvols *, struct txn *, struct root *source,
                          bool read_only, uint64_t *ret_id);

/* Entries of the uuid tree, if the pool has one: KIND is a key type. */
extern int uuid_add (struct roots *, struct txn *,
                     const uint8_t uuid[BTRFS_UUID_SIZE], uint8_t kind,
                     uint64_t id);
extern int uuid_del (struct roots *, struct txn *,
                     const uint8_t uuid[BTRFS_UUID_SIZE], uint8_t kind,
                     uint64_t id);

#endif /* BTRNBD_SUBVOL_PRIV_H */
