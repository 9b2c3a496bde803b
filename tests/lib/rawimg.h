/* A btrfs image in memory, read without the engine's I/O: for tests of the
 * checker, for making damaged images, for fuzzing.  One device; profiles
 * single, DUP and RAID0 of one stripe.
 */
#ifndef BTRNBD_TESTS_LIB_RAWIMG_H
#define BTRNBD_TESTS_LIB_RAWIMG_H

#include "format/check.h"
#include "format/super.h"
#include "format/tree_block.h"

struct rawimg_chunk {
  uint64_t logical, length;
  uint64_t physical[2];
  unsigned copies;
};

struct rawimg {
  uint8_t *base;
  uint64_t size;
  struct btrfs_super *super;    /* the first copy */
  struct format_info info;
  struct rawimg_chunk *chunks;
  size_t nr_chunks;
  bool mapped;
};

/* Map a file; changes reach it when WRITABLE. */
extern int rawimg_open (const char *path, bool writable, struct rawimg *ret);
/* Use a buffer of the caller. */
extern void rawimg_attach (void *base, uint64_t size, struct rawimg *ret);
extern void rawimg_close (struct rawimg *);

/* Check the superblock and read the chunk tree. */
extern int rawimg_load (struct rawimg *);

/* Copy COPY of the block at LOGICAL, or NULL; nothing is checked. */
extern void *rawimg_block (const struct rawimg *, uint64_t logical,
                           unsigned copy);
extern unsigned rawimg_copies (const struct rawimg *, uint64_t logical);

/* A tree's root as found in the superblock or the root tree. */
struct rawimg_root {
  uint64_t id, offset;          /* of the ROOT_ITEM's key */
  uint64_t bytenr, generation;
  uint8_t level;
};
extern int rawimg_find_root (const struct rawimg *, uint64_t id,
                             struct rawimg_root *ret, bool *ret_found);

/* Check and visit every block of a tree or of all trees, the log included. */
typedef int (*rawimg_fn) (void *opaque, const void *block,
                          const struct rawimg_root *);
extern int rawimg_walk (const struct rawimg *, const struct rawimg_root *,
                        rawimg_fn, void *opaque);
extern int rawimg_walk_all (const struct rawimg *, rawimg_fn, void *opaque);

#endif /* BTRNBD_TESTS_LIB_RAWIMG_H */
