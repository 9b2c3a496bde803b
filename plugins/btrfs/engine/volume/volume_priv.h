/* volume: inside of the room. */
#ifndef BTRNBD_VOLUME_PRIV_H
#define BTRNBD_VOLUME_PRIV_H

#include <stdatomic.h>

#include "base/containers.h"
#include "base/lock.h"
#include "volume/profile.h"
#include "volume/volume.h"

#define COPIES_MAX 4

struct chunk {
  RB_ENTRY (chunk) entry;
  struct chunk_info info;         /* .stripes == stripes */
  const struct profile *profile;
  struct chunk_place {
    uint8_t uuid[BTRFS_UUID_SIZE];
    unsigned dev;                 /* index */
  } *places;                      /* beside stripes */
  struct chunk_stripe stripes[];
};
RB_HEAD (volume_chunks, chunk);

struct vol_dev {
  struct volume_device pub;       /* bytes: under the volume's lock */
  struct btrfs_dev_item item;     /* of its own superblock, as read */
  atomic_uint in_flight;
  atomic_bool write_warned;
  _Atomic uint64_t stats[DEV_STATS];
};

struct volume {
  /* Constant while open. */
  struct format_info format;
  struct btrfs_super super;
  unsigned ndevs;
  struct vol_dev *devs;

  atomic_bool read_only;

  struct chunk_source source;     /* set while the pool is opened */
  struct mutex source_lock;       /* RANK_CHUNK_SOURCE: it is at work */
  atomic_bool whole;              /* the source has given all; set under
                                     source_lock */

  /* RANK_MEND: held shared while something is written or discarded,
   * exclusive while a copy is mended from another.
   */
  struct rwlock mend_lock;

  struct rwlock lock;             /* protects everything below */
  struct volume_chunks chunks;
};

/* One consecutive part of a logical range, on each of its copies. */
struct piece {
  uint64_t len;
  unsigned copies;
  unsigned tolerated;
  struct place {
    unsigned dev;                 /* index */
    uint64_t physical;
  } at[COPIES_MAX];
};

extern void chunk_map_init (struct volume *);
extern void chunk_map_done (struct volume *);

/* The chunk that covers LOGICAL, or NULL.  The volume's lock is held. */
extern const struct chunk *chunk_find (const struct volume *,
                                       uint64_t logical);
/* Nothing is left to be got from the source. */
static inline bool
chunk_map_is_whole (const struct volume *v)
{
  return v->source.all == NULL ||
    atomic_load_explicit (&v->whole, memory_order_acquire);
}
/* Ask the source when no chunk covers LOGICAL: whoever finds none afterwards
 * may say that there is none.
 */
extern int chunk_need (struct volume *, uint64_t logical);
/* Map LOGICAL (inside CHUNK) and at most LEN bytes after it. */
extern int chunk_map (const struct chunk *, uint64_t logical, uint64_t len,
                      struct piece *ret);
/* Is the loss of the devices for which LOST is set survived by all chunks? */
extern bool chunk_map_survives (struct volume *, const bool *lost);

/* A copy of the superblock, ready to be written. */
struct super_copy {
  unsigned dev;                   /* index */
  uint64_t offset;
  struct iovec iov;
};
/* SUPER for every place but the first of each device.  Their number is at most
 * SUPER_OTHERS_MAX per device; buffers are the caller's to free.
 */
#define SUPER_OTHERS_MAX (BTRFS_SUPER_COPIES - 1)
extern int supers_prepare_others (struct volume *, const struct btrfs_super *,
                                  struct super_copy *ret, size_t *ret_n);

extern int supers_load (struct volume *, struct device **devs, size_t n,
                        unsigned copy);

static inline void
dev_stat_add (struct volume *v, unsigned dev, enum dev_stat stat)
{
  atomic_fetch_add_explicit (&v->devs[dev].stats[stat], 1,
                             memory_order_relaxed);
}

/* Reads, as volume_run, with what the map has now. */
extern int volume_run_mapped (struct volume *, struct volume_op *ops,
                              size_t n);
/* Write to the one copy MIRROR (1 ..), for repair. */
extern int volume_write_mirror (struct volume *, uint64_t logical,
                                unsigned mirror, const void *buf,
                                size_t len);

#endif /* BTRNBD_VOLUME_PRIV_H */
