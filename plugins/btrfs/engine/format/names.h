/* format: hashes of names and back references. */
#ifndef BTRNBD_FORMAT_NAMES_H
#define BTRNBD_FORMAT_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* Key offset of DIR_ITEM and XATTR_ITEM. */
extern uint64_t name_hash (const char *name, size_t len);
/* Key offset of INODE_EXTREF. */
extern uint64_t extref_hash (uint64_t parent, const char *name, size_t len);
/* Key offset of a keyed EXTENT_DATA_REF, and sort key of an inline one. */
extern uint64_t data_ref_hash (uint64_t root, uint64_t objectid,
                               uint64_t offset);

#endif /* BTRNBD_FORMAT_NAMES_H */
