/* data: what files occupy on disk, exactly, by walking their trees.
 *
 * An extent is known by its address; parts of it that items refer to are
 * collected, then each extent is judged once.  Memory is bounded: when there
 * are too many parts, extents are divided by a hash of their address into
 * classes, and the trees are walked once for each class.
 *
 * Nothing is locked for longer than some hundred items, so what is written
 * meanwhile may be counted or not.
 */
#ifndef BTRNBD_DATA_USAGE_H
#define BTRNBD_DATA_USAGE_H

#include "data/data.h"

struct data_usage {
  uint64_t extents;
  uint64_t allocated;          /* disk bytes of these extents */
  uint64_t exclusive;          /* of that, of extents that nobody else has */
  uint64_t dead;               /* of that, bytes that no item refers to */
  uint64_t inline_bytes;       /* of small files, in tree blocks */
};

/* Of one file. */
extern int data_usage (struct data *, struct inode *,
                       struct data_usage *ret);

/* Of all files of several subvolumes together, which NEXT tells (with a
 * reference; *ret NULL: no more), from the start for RESTART.  EXCLUSIVE is
 * not found out, and 0.
 */
struct data_roots {
  int (*next) (void *opaque, bool restart, struct root **ret);
  void *opaque;
};
extern int data_usage_of_roots (struct data *, const struct data_roots *,
                                struct data_usage *ret);

#endif /* BTRNBD_DATA_USAGE_H */
