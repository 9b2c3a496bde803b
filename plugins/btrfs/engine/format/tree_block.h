/* format: accessors of a tree block held in a buffer of nodesize bytes.
 *
 *   leaf:  header | item 0 | item 1 | ...  free ...  | data 1 | data 0
 *   node:  header | key pointer 0 | key pointer 1 | ...
 *
 * Readers here do not check: the block has passed tree_check_block (check.h).
 * Writers change the buffer only; locking and dirtying are the caller's.
 */
#ifndef BTRNBD_FORMAT_TREE_BLOCK_H
#define BTRNBD_FORMAT_TREE_BLOCK_H

#include <assert.h>

#include "format/key.h"

#define TB_HEADER_SIZE sizeof (struct btrfs_header)

/* Bytes for items and data in a leaf; most pointers in a node; largest item
 * data (one item alone in a leaf).
 */
static inline uint32_t
tb_leaf_data_size (uint32_t nodesize)
{
  return nodesize - TB_HEADER_SIZE;
}

static inline uint32_t
tb_node_max_ptrs (uint32_t nodesize)
{
  return tb_leaf_data_size (nodesize) / sizeof (struct btrfs_key_ptr);
}

static inline uint32_t
tb_max_item_size (uint32_t nodesize)
{
  return tb_leaf_data_size (nodesize) - sizeof (struct btrfs_item);
}

static inline struct btrfs_header *
tb_header (void *buf)
{
  return buf;
}

static inline const struct btrfs_header *
tb_header_c (const void *buf)
{
  return buf;
}

static inline uint32_t
tb_nritems (const void *buf)
{
  return le32_get (tb_header_c (buf)->nritems);
}

static inline unsigned
tb_level (const void *buf)
{
  return tb_header_c (buf)->level;
}

static inline uint64_t
tb_bytenr (const void *buf)
{
  return le64_get (tb_header_c (buf)->bytenr);
}

static inline uint64_t
tb_generation (const void *buf)
{
  return le64_get (tb_header_c (buf)->generation);
}

static inline uint64_t
tb_owner (const void *buf)
{
  return le64_get (tb_header_c (buf)->owner);
}

static inline uint64_t
tb_flags (const void *buf)
{
  return le64_get (tb_header_c (buf)->flags);
}

/* Leaf. */
static inline struct btrfs_item *
tb_item (void *buf, uint32_t slot)
{
  return (struct btrfs_item *) ((uint8_t *) buf + TB_HEADER_SIZE) + slot;
}

static inline const struct btrfs_item *
tb_item_c (const void *buf, uint32_t slot)
{
  return (const struct btrfs_item *) ((const uint8_t *) buf + TB_HEADER_SIZE)
    + slot;
}

static inline struct key
tb_item_key (const void *buf, uint32_t slot)
{
  return key_from_disk (&tb_item_c (buf, slot)->key);
}

static inline uint32_t
tb_item_size (const void *buf, uint32_t slot)
{
  return le32_get (tb_item_c (buf, slot)->size);
}

static inline void *
tb_item_data (void *buf, uint32_t slot)
{
  return (uint8_t *) buf + TB_HEADER_SIZE +
    le32_get (tb_item_c (buf, slot)->offset);
}

static inline const void *
tb_item_data_c (const void *buf, uint32_t slot)
{
  return (const uint8_t *) buf + TB_HEADER_SIZE +
    le32_get (tb_item_c (buf, slot)->offset);
}

/* Node. */
static inline struct btrfs_key_ptr *
tb_ptr (void *buf, uint32_t slot)
{
  return (struct btrfs_key_ptr *) ((uint8_t *) buf + TB_HEADER_SIZE) + slot;
}

static inline const struct btrfs_key_ptr *
tb_ptr_c (const void *buf, uint32_t slot)
{
  return (const struct btrfs_key_ptr *)
    ((const uint8_t *) buf + TB_HEADER_SIZE) + slot;
}

/* First key of slot SLOT in a block of either kind. */
static inline struct key
tb_key (const void *buf, uint32_t slot)
{
  return tb_level (buf) == 0 ? tb_item_key (buf, slot)
    : key_from_disk (&tb_ptr_c (buf, slot)->key);
}

/* Free bytes of a leaf (0 for a malformed one). */
extern uint32_t tb_leaf_free (const void *buf, uint32_t nodesize);

/* Lowest slot whose key is >= KEY (nritems when none); *ret_exact tells
 * whether it is equal.
 */
extern uint32_t tb_search (const void *buf, struct key key, bool *ret_exact);

/* An empty block: header filled from the arguments, flags = WRITTEN clear and
 * the mixed back reference revision, the rest zero.
 */
struct tb_ident {
  const uint8_t *fsid;            /* metadata_uuid, 16 bytes */
  const uint8_t *chunk_tree_uuid; /* 16 bytes */
  uint64_t bytenr, generation, owner;
  uint8_t level;
};
extern void tb_init (void *buf, uint32_t nodesize, const struct tb_ident *);

/* Append an item to a leaf under construction (mkfs, tests): KEY above all
 * present.  Returns the data area, SIZE zero bytes, or NULL when full.
 */
extern void *tb_leaf_append (void *buf, uint32_t nodesize, struct key key,
                             uint32_t size);

/* Compute and store the checksum of a finished block or superblock. */
extern void tb_set_csum (void *buf, uint32_t len, unsigned csum_type);
extern bool tb_csum_ok (const void *buf, uint32_t len, unsigned csum_type);

#endif /* BTRNBD_FORMAT_TREE_BLOCK_H */
