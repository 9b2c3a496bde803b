/* extent: extent items and back references in memory form; no tree access.
 *
 *   refs | generation | flags | (tree_block_info) | inline references
 *
 * Order of inline references: type ascending, inside a type descending by
 * the parent, the root, or the hash of a data reference.
 */
#ifndef BTRNBD_EXTENT_ITEM_H
#define BTRNBD_EXTENT_ITEM_H

#include "format/check.h"

/* Who refers to an extent. */
struct ref_key {
  uint8_t type;                /* TREE_BLOCK_REF, SHARED_BLOCK_REF,
                                  EXTENT_DATA_REF, SHARED_DATA_REF */
  uint64_t id;                 /* root, or parent block for SHARED types */
  uint64_t objectid, offset;   /* EXTENT_DATA_REF */
};

static inline bool
ref_is_data (uint8_t type)
{
  return type == BTRFS_EXTENT_DATA_REF || type == BTRFS_SHARED_DATA_REF;
}

extern bool ref_key_eq (const struct ref_key *, const struct ref_key *);
/* A total order (not the one on disk). */
extern int ref_key_cmp (const struct ref_key *, const struct ref_key *);
/* Of an EXTENT_DATA_REF: offset of its keyed item, before collisions. */
extern uint64_t ref_hash (uint64_t root, uint64_t objectid, uint64_t offset);

struct item_ref {
  struct ref_key key;
  uint32_t count;
};

struct extent_item {
  uint64_t refs, generation, flags;
  bool has_info;               /* old form of tree blocks */
  struct btrfs_tree_block_info info;
  bool has_owner;              /* EXTENT_OWNER_REF of simple quotas */
  uint64_t owner;
  struct item_ref *inl;        /* in the order of the disk */
  size_t n, cap;
};

extern void extent_item_done (struct extent_item *);
#define CLEANUP_EXTENT_ITEM __attribute__ ((cleanup (extent_item_done)))

/* Decode what the disk says at KEY (EXTENT_ITEM or METADATA_ITEM). */
extern int extent_item_decode (struct extent_item *, struct key,
                               const void *data, uint32_t size);
extern uint32_t extent_item_size (const struct extent_item *);
extern void extent_item_encode (const struct extent_item *, void *buf);
/* Bytes that one inline reference of TYPE takes. */
extern uint32_t extent_item_ref_size (uint8_t type);

extern struct item_ref *extent_item_find (struct extent_item *,
                                          const struct ref_key *);
extern int extent_item_add (struct extent_item *, const struct ref_key *,
                            uint32_t count);
extern void extent_item_remove (struct extent_item *, struct item_ref *);
/* References that stand inline; the others are in keyed items. */
extern uint64_t extent_item_inline_count (const struct extent_item *);

#endif /* BTRNBD_EXTENT_ITEM_H */
