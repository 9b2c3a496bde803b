/* format: what the files of the tree-checker share. */
#ifndef BTRNBD_FORMAT_CHECK_INTERNAL_H
#define BTRNBD_FORMAT_CHECK_INTERNAL_H

#include <inttypes.h>

#include "base/err.h"
#include "base/math.h"
#include "format/check.h"
#include "format/tree_block.h"

/* One item of a leaf whose keys and data areas have been checked up to and
 * including this slot.
 */
struct item_check {
  const struct format_info *info;
  const void *leaf;
  uint64_t owner;               /* tree id in the leaf's header */
  uint64_t max_generation;      /* no generation in an item may be above */
  uint32_t slot;
  struct key key;
  struct key prev;              /* key of slot - 1; KEY_MIN when slot is 0 */
  const uint8_t *data;
  uint32_t size;
};

/* -ERR_item_format (or -ERR_chunk_format) with tree, block, slot and key. */
extern int item_bad (const struct item_check *, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3), cold));

/* A tree with files in it: the first one or a subvolume. */
extern bool tree_id_is_fs (uint64_t tree_id);
extern bool inode_number_ok (uint64_t ino);

/* -ERR_item_format unless the item has SIZE bytes. */
extern int item_want_size (const struct item_check *, uint32_t size);
/* In trees with files every item of an inode but the first follows another
 * item of the same inode.
 */
extern int item_want_inode_before (const struct item_check *);
extern int item_want_aligned (const struct item_check *, const char *field,
                              uint64_t value);
extern int item_want_generation (const struct item_check *,
                                 const char *field, uint64_t value);

/* One function per kind of item. */
extern int check_inode_item (const struct item_check *);
extern int check_inode_ref (const struct item_check *);
extern int check_inode_extref (const struct item_check *);
extern int check_dir_entries (const struct item_check *);
extern int check_dir_log (const struct item_check *);
extern int check_orphan (const struct item_check *);
extern int check_file_extent (const struct item_check *);
extern int check_data_csum (const struct item_check *);
extern int check_root_item (const struct item_check *);
extern int check_root_ref (const struct item_check *);
extern int check_uuid_item (const struct item_check *);
extern int check_extent_item (const struct item_check *);
extern int check_keyed_ref (const struct item_check *);
extern int check_keyed_data_ref (const struct item_check *);
extern int check_block_group (const struct item_check *);
extern int check_chunk_item (const struct item_check *);
extern int check_dev_item (const struct item_check *);
extern int check_dev_extent (const struct item_check *);
extern int check_free_space (const struct item_check *);
extern int check_space_cache (const struct item_check *);
extern int check_qgroup (const struct item_check *);
extern int check_raid_stripe (const struct item_check *);

#endif /* BTRNBD_FORMAT_CHECK_INTERNAL_H */
