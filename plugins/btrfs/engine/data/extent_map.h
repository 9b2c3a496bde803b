/* data: what the file extents of one file say, in memory.
 *
 * Holds pieces of what the tree says, holes included; where it knows nothing
 * the tree is asked (map_lookup fills a part of a leaf in).  Equal to the
 * tree wherever it knows something: filled with the tree lock shared,
 * changed with the tree lock exclusive.  Bounded: knowledge may be dropped
 * at any time.
 */
#ifndef BTRNBD_DATA_EXTENT_MAP_H
#define BTRNBD_DATA_EXTENT_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/containers.h"

enum map_kind { MAP_HOLE, MAP_REGULAR, MAP_PREALLOC, MAP_INLINE };

struct mapping {
  uint64_t offset, len;        /* of the file, whole sectors */
  uint64_t disk, disk_len;     /* the extent on disk */
  uint64_t ext_offset;         /* of the first byte in the extent, plain */
  uint64_t ram;                /* plain size of the extent */
  uint64_t generation;
  uint64_t nocow_snapshot;     /* last_snapshot that the verdict was for */
  uint64_t nocow_commit;       /* last commit when it was NOCOW_NO: whoever
                                  shared it may have gone since */
  uint8_t kind, compression;
  uint8_t nocow;               /* enum nocow_verdict */
  bool used;                   /* of the map: since eviction came by */
};
enum nocow_verdict { NOCOW_UNKNOWN, NOCOW_YES, NOCOW_NO };

/* Logical address of file offset AT in an uncompressed extent. */
static inline uint64_t
mapping_disk (const struct mapping *m, uint64_t at)
{
  return m->disk + m->ext_offset + (at - m->offset);
}

struct map_entry;
RB_HEAD (map_tree, map_entry);

struct extent_map {
  struct map_tree tree;
  size_t n;
  uint64_t hand;               /* file offset where eviction goes on */
  uint64_t next;               /* where the last look-up in the tree ended */
};

struct file_data;

extern void map_init (struct file_data *);
extern void map_clear (struct file_data *);

/* The mapping that covers OFFSET.  *ret_found false: not known (map_peek
 * only; map_lookup asks the tree; no tree lock may be held).
 */
extern void map_peek (struct file_data *, uint64_t offset,
                      struct mapping *ret, bool *ret_found);
extern int map_lookup (struct file_data *, uint64_t offset,
                       struct mapping *ret);
/* With the tree lock exclusive: the tree now says M / the range is a hole /
 * nothing is known of the range any more.  Out of memory forgets the range.
 */
extern void map_set (struct file_data *, const struct mapping *m);
/* As map_set, with the verdict, for write-out of a file without checksums: M
 * is an extent that the running transaction has made, in a tree whose last
 * snapshot is SNAPSHOT, ...
 */
extern void map_set_fresh (struct file_data *, const struct mapping *m,
                           uint64_t snapshot);
/* ... or a part of a prealloc extent that was written. */
extern void map_set_converted (struct file_data *, const struct mapping *m);
extern void map_set_hole (struct file_data *, uint64_t start, uint64_t end);
extern void map_forget (struct file_data *, uint64_t start, uint64_t end);
/* Store a verdict, if the mapping is still that, and nothing of the file was
 * shared since the count of that was SHARES.
 */
extern void map_set_nocow (struct file_data *, const struct mapping *,
                           uint64_t shares);
/* The extents that begin at file offset BASE (may wrap below zero) and are LEN
 * bytes long have got another owner: nothing is known of that.
 */
extern void map_shared (struct file_data *, uint64_t base, uint64_t len);
/* Would a reader who used M read the same place now? */
extern bool map_still (struct file_data *, const struct mapping *m,
                       uint64_t offset, uint64_t len);

#endif /* BTRNBD_DATA_EXTENT_MAP_H */
