/* format: superblocks and feature gates; no I/O. */
#ifndef BTRNBD_FORMAT_SUPER_H
#define BTRNBD_FORMAT_SUPER_H

#include "format/key.h"

/* Physical address of superblock copy I (0 .. BTRFS_SUPER_COPIES-1). */
static inline uint64_t
super_offset (unsigned i)
{
  return i == 0 ? UINT64_C (65536) : UINT64_C (65536) << (10 + 12 * (i - 1));
}

/* Magic, checksum, own address, every field's range, sys array structure. */
extern int super_check (const struct btrfs_super *, uint64_t physical);

/* How far a pool with these features may be opened. */
enum super_access { SUPER_READ_WRITE, SUPER_READ_ONLY };

/* 0 and *ret_access, or -ERR_feature_incompat naming the feature.  When only
 * reading is possible, *ret_why (static string or one built in WHY_BUF) names
 * the feature.
 */
#define SUPER_WHY_MAX 128
extern int super_access (const struct btrfs_super *,
                         enum super_access *ret_access,
                         char why[SUPER_WHY_MAX]);

/* Walk the system chunk array; stops at the first non-zero return of FN.
 * The array has passed super_check.
 */
typedef int (*super_sys_chunk_fn) (void *opaque, struct key,
                                   const struct btrfs_chunk *, uint32_t size);
extern int super_sys_chunks (const struct btrfs_super *, super_sys_chunk_fn,
                             void *opaque);
/* Append a chunk; -ERR_sys_array when it does not fit. */
extern int super_sys_chunk_add (struct btrfs_super *, struct key,
                                const struct btrfs_chunk *, uint32_t size);
/* Remove the chunk at LOGICAL; no effect when absent. */
extern void super_sys_chunk_del (struct btrfs_super *, uint64_t logical);

/* Set the checksum; the copy's own bytenr must be set before. */
extern void super_seal (struct btrfs_super *);
/* The superblock becomes copy I of it. */
static inline void
super_seal_copy (struct btrfs_super *super, unsigned i)
{
  super->bytenr = le64_make (super_offset (i));
  super_seal (super);
}

/* Names of feature bits, for messages, info and mkfs -O; NULL when unknown.
 * BIT is a single-bit mask.
 */
extern const char *super_incompat_name (uint64_t bit);
extern const char *super_compat_ro_name (uint64_t bit);

#endif /* BTRNBD_FORMAT_SUPER_H */
