/* btrnbd: error codes.
 *
 * Functions of the engine return 0 or a negative code of this list, never a
 * negative errno and never a positive number.  Each code has a parent errno
 * (what an NBD client or a system call would see) and a sentence.  A code is
 * thrown in one place or for one reason; the context (which tree, key, block,
 * device, and what was expected) travels beside it, see base/err.h.
 *
 * The list is an x-macro: X (name, errno, sentence).  Add a code to the
 * section of the room that throws it.  The numbers are not stable between
 * releases; the names are (they appear in --json output).
 */
#ifndef BTRNBD_ERRORS_H
#define BTRNBD_ERRORS_H

#include <errno.h>

#define BTRNBD_ERRORS(X)                                                      \
  /* base */                                                                  \
  X (nomem, ENOMEM, "out of memory")                                          \
  X (invalid, EINVAL, "invalid argument")                                     \
  X (overflow, EOVERFLOW, "a value is too large")                             \
  X (shutdown, ESHUTDOWN, "the pool is being closed")                         \
  X (thread, EAGAIN, "a thread could not be started")                         \
                                                                              \
  /* format: supers, nodes, leaves and items that break a rule */             \
  X (super_magic, EINVAL, "no btrfs superblock")                              \
  X (super_csum, EIO, "superblock checksum mismatch")                         \
  X (super_field, EUCLEAN, "superblock field out of range")                   \
  X (feature_incompat, EOPNOTSUPP, "unsupported incompatible feature")        \
  X (feature_ro, EROFS, "feature cannot be maintained, read-only access only")\
  X (csum_type, EOPNOTSUPP, "unknown checksum type")                          \
  X (block_csum, EIO, "tree block checksum mismatch")                         \
  X (block_header, EUCLEAN, "tree block header does not match its place")     \
  X (block_parent, EUCLEAN, "tree block does not match its parent's pointer") \
  X (node_format, EUCLEAN, "tree node is malformed")                          \
  X (leaf_format, EUCLEAN, "tree leaf is malformed")                          \
  X (item_format, EUCLEAN, "tree item is malformed")                          \
  X (chunk_format, EUCLEAN, "chunk item is malformed")                        \
                                                                              \
  /* io */                                                                    \
  X (dev_open, EIO, "cannot open device")                                     \
  X (dev_busy, EBUSY, "device is in use")                                     \
  X (dev_read, EIO, "read error on device")                                   \
  X (dev_write, EIO, "write error on device")                                 \
  X (dev_flush, EIO, "flush error on device")                                 \
  X (dev_discard, EIO, "discard error on device")                             \
  X (dev_range, EINVAL, "access beyond the end of the device")                \
  X (dev_readonly, EROFS, "device is open read-only")                         \
                                                                              \
  /* volume */                                                                \
  X (no_super, EINVAL, "no valid superblock found")                           \
  X (device_missing, ENODEV, "a device of the pool is missing")               \
  X (device_fsid, EINVAL, "device belongs to another pool")                   \
  X (unmapped, EUCLEAN, "logical address is not mapped by any chunk")         \
  X (chunk_overlap, EUCLEAN, "chunks overlap")                                \
  X (chunk_device, EUCLEAN, "chunk refers to an unknown device")              \
  X (profile, EOPNOTSUPP, "block group profile is not supported yet")         \
  X (no_mirror, EIO, "no good copy left")                                     \
                                                                              \
  /* block, btree */                                                          \
  X (tree_depth, EUCLEAN, "tree is deeper than allowed")                      \
  X (tree_cycle, EUCLEAN, "tree block is reached twice on one path")          \
  X (key_exists, EEXIST, "an item with that key exists")                      \
  X (key_missing, EUCLEAN, "an item that must exist is missing")              \
  X (item_too_big, EOVERFLOW, "item does not fit into a leaf")                \
                                                                              \
  /* trans */                                                                 \
  X (aborted, EROFS, "the pool went read-only after an error")                \
  X (readonly, EROFS, "the pool is open read-only")                           \
  X (generation, EUCLEAN, "unexpected generation")                            \
                                                                              \
  /* space */                                                                 \
  X (nospace, ENOSPC, "no space left in the pool")                            \
  X (nospace_meta, ENOSPC, "no metadata space left in the pool")              \
  X (bg_format, EUCLEAN, "block group item is malformed")                     \
  X (bg_missing, EUCLEAN, "block group is missing")                           \
  X (bg_used, EUCLEAN, "block group usage does not add up")                   \
  X (fst_format, EUCLEAN, "free space tree is malformed")                     \
  X (fst_count, EUCLEAN, "free space tree extent count mismatch")             \
  X (fst_state, EUCLEAN, "free space tree disagrees with an allocation")      \
  X (sys_array, ENOSPC, "system chunk array of the superblock is full")       \
                                                                              \
  /* extent */                                                                \
  X (extent_format, EUCLEAN, "extent item is malformed")                      \
  X (extent_missing, EUCLEAN, "extent item is missing")                       \
  X (ref_missing, EUCLEAN, "back reference is missing")                       \
  X (ref_count, EUCLEAN, "reference count does not add up")                   \
                                                                              \
  /* inode, data */                                                           \
  X (not_found, ENOENT, "no such file or directory")                          \
  X (exists, EEXIST, "file exists")                                           \
  X (not_dir, ENOTDIR, "not a directory")                                     \
  X (is_dir, EISDIR, "is a directory")                                        \
  X (not_file, EINVAL, "not a regular file")                                  \
  X (not_empty, ENOTEMPTY, "directory not empty")                             \
  X (name_bad, EINVAL, "bad file name")                                       \
  X (name_long, ENAMETOOLONG, "file name too long")                           \
  X (name_hash, EOVERFLOW, "too many names with the same hash")               \
  X (links, EMLINK, "too many links")                                         \
  X (cross_subvol, EXDEV, "not within one subvolume")                         \
  X (is_subvol, EISDIR, "is a subvolume")                                     \
  X (inode_readonly, EROFS, "subvolume is read-only")                         \
  X (inode_missing, EUCLEAN, "inode item is missing")                         \
  X (dir_format, EUCLEAN, "directory is inconsistent")                        \
  X (xattr_missing, ENODATA, "no such extended attribute")                    \
  X (xattr_big, E2BIG, "extended attribute is too large")                     \
  X (file_big, EFBIG, "file too large")                                       \
  X (file_range, EINVAL, "access beyond the end of the file")                 \
  X (file_extent, EUCLEAN, "file extent is inconsistent")                     \
  X (data_csum, EIO, "data checksum mismatch")                                \
  X (data_csum_missing, EIO, "data checksum missing")                         \
  X (compress_type, EOPNOTSUPP, "unknown compression type")                   \
  X (compress_data, EIO, "compressed data is damaged")                        \
  X (busy, EBUSY, "in use")                                                   \
  X (fast_zero, EOPNOTSUPP, "zeroing would not be fast")                      \
  X (has_snapshots, ENOTEMPTY, "the volume has snapshots")                    \
  X (differs, EINVAL, "the ranges hold different bytes")                      \
  X (image_ended, EIO, "the image of the pool has been ended")                \
  X (write_lost, EIO, "an earlier write could not be completed")              \
                                                                              \
  /* subvol, log, maint, fs */                                                \
  X (subvol_missing, EUCLEAN, "subvolume or tree is missing")                 \
  X (log_pending, EROFS, "the log tree has not been replayed")                \
  X (log_format, EUCLEAN, "the log is inconsistent")                          \
  X (has_filesystem, EEXIST, "device already holds a filesystem")             \
  X (too_small, EINVAL, "device is too small")                                \
  X (unsupported, EOPNOTSUPP, "not supported")

enum btrnbd_error {
  BTRNBD_ERR_BASE = 1000,
#define BTRNBD_X(name, err, text) ERR_##name,
  BTRNBD_ERRORS (BTRNBD_X)
#undef BTRNBD_X
  BTRNBD_ERR_END
};

/* All three accept the code with either sign and never return NULL; a number
 * outside the list is "unknown", EIO.
 */
extern const char *btrnbd_error_name (int code);
extern const char *btrnbd_error_text (int code);
extern int btrnbd_error_errno (int code);

#endif /* BTRNBD_ERRORS_H */
