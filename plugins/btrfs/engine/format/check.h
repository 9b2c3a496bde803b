/* format: the tree-checker.  Nothing that a disk holds is used before it has
 * passed here, and nothing is written before it has passed either.  Pure: no
 * I/O, no allocation.  Failures are err_new codes whose notes name tree,
 * block, slot, key, field, value and what was expected.
 */
#ifndef BTRNBD_FORMAT_CHECK_H
#define BTRNBD_FORMAT_CHECK_H

#include "format/key.h"

/* What every check of a pool needs to know, constant while it is open. */
struct format_info {
  uint32_t nodesize, sectorsize;
  uint16_t csum_type;             /* enum csum_type */
  uint16_t csum_size;             /* bytes */
  uint64_t incompat, compat_ro;
  uint8_t fsid[BTRFS_UUID_SIZE];
  uint8_t metadata_uuid[BTRFS_UUID_SIZE]; /* == fsid without the feature */
  uint8_t chunk_tree_uuid[BTRFS_UUID_SIZE]; /* zero until known */
};

/* What the pointer that led to a block promises.  A zero generation, owner
 * or a false flag means "do not check".
 */
struct tree_expect {
  uint64_t bytenr;
  uint64_t generation;            /* of the pointer; must be equal */
  uint64_t owner;                 /* tree id; see check_block_owner */
  uint64_t max_generation;        /* of the superblock; 0: do not check */
  struct key first_key;
  bool has_first_key;
  uint8_t level;
  bool has_level;
};

/* What pointer SLOT of the node PARENT promises, in a tree of OWNER. */
extern struct tree_expect tree_expect_child (const void *parent,
                                             uint32_t slot, uint64_t owner);

/* Fill INFO from a superblock that has passed super_check. */
extern void format_info_init (struct format_info *,
                              const struct btrfs_super *);

/* After a read: checksum, header against EXPECT, then tree_check_contents. */
extern int tree_check_block (const struct format_info *, const void *buf,
                             const struct tree_expect *);

/* Structure of a node or leaf and every item in it; used after reads and
 * before writes (when the checksum is not there yet).
 */
extern int tree_check_contents (const struct format_info *, const void *buf);

/* One chunk item at LOGICAL, SIZE bytes of data (chunk tree or sys array). */
extern int chunk_check (const struct format_info *,
                        const struct btrfs_chunk *, uint32_t size,
                        uint64_t logical);

#endif /* BTRNBD_FORMAT_CHECK_H */
