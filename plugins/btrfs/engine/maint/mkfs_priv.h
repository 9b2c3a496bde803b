/* maint: what the parts of mkfs share.
 *
 *   mkfs_opts.c   options -> mkfs_params, size of the device -> mkfs_chunk
 *   mkfs_trees.c  the items of every tree, packed into blocks
 *   mkfs.c        the device: probe, wipe, write, superblocks
 */
#ifndef BTRNBD_MAINT_MKFS_PRIV_H
#define BTRNBD_MAINT_MKFS_PRIV_H

#include <time.h>

#include <btrnbd/engine.h>
#include <btrnbd/ondisk.h>

#include "base/csum.h"
#include "format/key.h"

#define MKFS_GENERATION 1
#define MKFS_DEVID 1
/* Linux keeps megabytes of metadata in reserve: in less it could mount but
 * not write.
 */
#define MKFS_MIN_SIZE (UINT64_C (32) << 20)
#define MKFS_MIN_SIZE_MIXED (UINT64_C (16) << 20)

/* A chunk and its block group.  Addresses and lengths are multiples of the
 * stripe length, so a superblock copy falls into exactly one stripe.
 */
struct mkfs_chunk {
  uint64_t type;              /* BTRFS_BG_ bits, with the profile */
  uint64_t logical, length;
  unsigned copies;            /* 1 or 2, all on the one device */
  uint64_t phys[2];
  uint64_t run_start;         /* of the tree blocks in it; run_len 0: none */
  uint64_t run_len;
};

/* The first chunk is the system chunk, the second holds the metadata. */
#define MKFS_CHUNKS_MAX 3

struct mkfs_params {
  uint64_t total_bytes;
  uint32_t nodesize, sectorsize;
  enum csum_type csum_type;
  uint64_t incompat, compat_ro;
  bool mixed;
  unsigned data_copies, metadata_copies;
  uint8_t fsid[BTRFS_UUID_SIZE];
  uint8_t dev_uuid[BTRFS_UUID_SIZE];
  uint8_t chunk_tree_uuid[BTRFS_UUID_SIZE];
  uint8_t fs_tree_uuid[BTRFS_UUID_SIZE];
  char label[BTRFS_LABEL_SIZE];
  struct timespec now;

  struct mkfs_chunk chunks[MKFS_CHUNKS_MAX];
  unsigned num_chunks;
};

/* Check the options; everything but total_bytes and the chunks. */
extern int mkfs_params_init (struct mkfs_params *,
                             const struct btrnbd_mkfs_opts *);
/* Lay the chunks out on a device of total_bytes. */
extern int mkfs_plan_chunks (struct mkfs_params *);

/* Sum of the device extents. */
extern uint64_t mkfs_dev_bytes_used (const struct mkfs_params *);

/* The dev item, as in the chunk tree and in the superblock. */
extern void mkfs_dev_item (const struct mkfs_params *,
                           struct btrfs_dev_item *ret);
/* The chunk item of chunk I, at most MKFS_CHUNK_ITEM_MAX bytes; its size. */
#define MKFS_CHUNK_ITEM_MAX                                             \
  (sizeof (struct btrfs_chunk) + 2 * sizeof (struct btrfs_stripe))
extern uint32_t mkfs_chunk_item (const struct mkfs_params *, unsigned i,
                                 void *ret);

/* The trees of a new pool, in memory. */
struct mkfs_trees;
struct mkfs_root {
  uint64_t bytenr;
  uint8_t level;
};

/* Build all items; places the tree blocks in the chunks of PARAMS. */
extern int mkfs_trees_new (struct mkfs_params *, struct mkfs_trees **ret);
extern void mkfs_trees_free (struct mkfs_trees *);
/* Call FN with each finished block (nodesize bytes) and where it belongs. */
typedef int (*mkfs_block_fn) (void *opaque, const struct mkfs_chunk *,
                              uint64_t bytenr, const void *block);
extern int mkfs_trees_render (const struct mkfs_params *,
                              const struct mkfs_trees *, mkfs_block_fn,
                              void *opaque);
/* ID must be a tree of the new pool. */
extern struct mkfs_root mkfs_trees_root (const struct mkfs_trees *,
                                         const struct mkfs_params *,
                                         uint64_t id);

#endif /* BTRNBD_MAINT_MKFS_PRIV_H */
