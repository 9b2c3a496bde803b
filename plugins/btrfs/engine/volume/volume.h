/* volume: the devices of a pool as one logical address space.
 *
 * Knows superblocks, the chunk map and the profiles.  Boots from the system
 * chunk array of the newest superblock; from there on chunks come from a
 * source, the chunk tree, when an address is asked for that none of them
 * covers.
 *
 * Locks: the chunk map has one rwlock (RANK_VOLUME), held while a request is
 * mapped, never during I/O.
 */
#ifndef BTRNBD_VOLUME_VOLUME_H
#define BTRNBD_VOLUME_VOLUME_H

#include "format/check.h"
#include "io/device.h"

struct volume;

/* Read the superblocks of N devices (ownership of the devices passes to the
 * volume on success), choose the newest generation, check that the devices
 * belong together and that none is missing, and load the system chunks.
 */
extern int volume_open (struct device **devs, size_t n, bool read_only,
                        struct volume **ret);
/* For recovery, when somebody asks for it: as volume_open, from superblock
 * copy COPY (0 .. BTRFS_SUPER_COPIES-1).  The other copies may be older than
 * what was acknowledged, therefore volume_open never takes them by itself.
 */
extern int volume_open_copy (struct device **devs, size_t n, bool read_only,
                             unsigned copy, struct volume **ret);
extern void volume_close (struct volume *); /* closes devices; accepts NULL */

extern bool volume_read_only (const struct volume *);
/* From now on nothing is written, also not by repair; cannot be undone. */
extern void volume_set_read_only (struct volume *);

extern const struct format_info *volume_format (const struct volume *);
/* The superblock does not tell it, a block of the chunk tree does: set it once
 * when opening, before anything is written.
 */
extern void volume_set_chunk_tree_uuid (struct volume *,
                                        const uint8_t uuid[BTRFS_UUID_SIZE]);
/* The superblock as read at open (the newest good copy). */
extern const struct btrfs_super *volume_super (const struct volume *);

/* --- devices --- */

struct volume_device {
  uint64_t devid;
  struct device *dev;        /* borrowed */
  uint64_t total_bytes;      /* of the device item: what may be used */
  uint64_t bytes_used;       /* of the device item: in chunks */
  uint8_t uuid[BTRFS_UUID_SIZE];
  bool stale;                /* missed the last commit before open */
};
extern unsigned volume_num_devices (const struct volume *);
extern const struct volume_device *volume_device (const struct volume *,
                                                  unsigned index);
/* The device item has these values now; supers tell them from here on. */
extern void volume_device_set_bytes (struct volume *, unsigned index,
                                     uint64_t total_bytes,
                                     uint64_t bytes_used);
/* Counters of the dev stats item, in on-disk order. */
enum dev_stat { DEV_STAT_WRITE, DEV_STAT_READ, DEV_STAT_FLUSH,
                DEV_STAT_CORRUPTION, DEV_STAT_GENERATION, DEV_STATS };
extern uint64_t volume_dev_stat (const struct volume *, unsigned index,
                                 enum dev_stat);
extern void volume_dev_stat_set (struct volume *, unsigned index,
                                 enum dev_stat, uint64_t value);

/* Bytes of device INDEX as they are there. */
extern int volume_read_device (struct volume *, unsigned index,
                               uint64_t offset, void *buf, size_t len);

/* --- chunk map --- */

struct chunk_stripe {
  uint64_t devid;
  uint64_t physical;
};
struct chunk_info {
  uint64_t logical, length;  /* bytes */
  uint64_t type;             /* BTRFS_BG_* */
  uint32_t stripe_len;
  unsigned num_stripes, sub_stripes;
  uint64_t physical_len;     /* bytes on each stripe */
  const struct chunk_stripe *stripes;
};

/* Add a chunk that has passed chunk_check; an identical one is accepted
 * again, an overlapping one refused.
 */
extern int volume_add_chunk (struct volume *, uint64_t logical,
                             const struct btrfs_chunk *);
extern void volume_remove_chunk (struct volume *, uint64_t logical);

/* Where chunks come from that are not in the map yet: the tree of the
 * superblock as it was read at open.  That does not change before the map is
 * whole: nothing is written before, see volume_run.
 *
 * The functions add chunks by volume_add_chunk.  They are called one at a
 * time, with any lock up to RANK_CHUNK_SOURCE held by the caller, so they take
 * none below it, wait for nobody's I/O, and read by volume_read_mapped alone.
 */
struct chunk_source {
  void *opaque;
  /* At least the chunk that covers LOGICAL, if there is one. */
  int (*around) (void *opaque, uint64_t logical);
  int (*all) (void *opaque);
};
/* While the pool is opened; NULL: no more.  Without one the map is what was
 * added to it.
 */
extern void volume_set_chunk_source (struct volume *,
                                     const struct chunk_source *);
/* Make the map whole: every chunk is known, and overlaps no other. */
extern int volume_load_chunks (struct volume *);

/* The chunk that covers LOGICAL; -ERR_unmapped when none does.  The copy in
 * *ret is valid until the chunk is removed.
 */
extern int volume_get_chunk (struct volume *, uint64_t logical,
                             struct chunk_info *ret);
/* The same, or the next one above it; false when none.  The map is whole. */
extern bool volume_next_chunk (struct volume *, uint64_t logical,
                               struct chunk_info *ret);
/* Number of copies a reader may choose from at LOGICAL; 0 when unmapped. */
extern unsigned volume_num_mirrors (struct volume *, uint64_t logical);

struct volume_extent { uint64_t start, len; };
/* Logical ranges inside chunk LOGICAL whose physical place holds a superblock
 * copy (whole stripes): never to be allocated.  Returns the number stored in
 * RET (at most MAX).
 */
extern unsigned volume_super_ranges (struct volume *, uint64_t logical,
                                     struct volume_extent *ret, unsigned max);

/* --- I/O at logical addresses --- */

struct volume_op {
  enum io_kind kind;         /* IO_READ, IO_WRITE, IO_DISCARD */
  unsigned mirror;           /* IO_READ: 1 .. mirrors, 0 chooses */
  uint64_t logical, len;
  const struct iovec *iov;
  unsigned iovcnt;
  int result;
};
/* As device_run.  A range may cross stripes, not the end of its chunk.  A
 * write goes to all copies and succeeds when no more copies failed than the
 * profile tolerates, decided after all have finished.  Nothing is written
 * before the chunk map is whole.
 */
extern int volume_run (struct volume *, struct volume_op *ops, size_t n);
/* The same, and beside it OTHERS goes to all copies of the superblock but the
 * first (volume_write_supers), not to wait for the disk once more.
 */
extern int volume_run_beside (struct volume *, struct volume_op *ops,
                              size_t n, const struct btrfs_super *others);
extern int volume_read (struct volume *, uint64_t logical, unsigned mirror,
                        void *buf, size_t len);
extern int volume_write (struct volume *, uint64_t logical, const void *buf,
                         size_t len);

/* Read with VERIFY as judge: mirrors are tried once each until one passes;
 * then, if the volume is writable, the copies that failed verification or
 * reading are rewritten with the good data, and the device counters move.
 * -ERR_no_mirror with the notes of the last failure when none passes.
 * FIRST is the mirror that was already tried and failed verification (its
 * error is in the thread's notes), or 0.
 */
typedef int (*volume_verify_fn) (void *opaque, const void *buf, size_t len);
extern int volume_read_verified (struct volume *, uint64_t logical, void *buf,
                                 size_t len, unsigned first,
                                 volume_verify_fn, void *opaque);

/* For a chunk source: the first copy that passes, of an address that is mapped
 * already.  Repairs nothing.
 */
extern int volume_read_mapped (struct volume *, uint64_t logical, void *buf,
                               size_t len, volume_verify_fn, void *opaque);

/* Flush every writable device, in parallel; an error unless every chunk
 * tolerates the loss of the devices that failed.
 */
extern int volume_flush (struct volume *);

/* Which copies of the superblock.  The first is the one that Linux looks at;
 * the others are for recovery: losing one is a warning.
 */
enum super_copies {
  SUPER_ALL,                /* the first, then the others */
  SUPER_FIRST,
  SUPER_OTHERS,
};

/* Write SUPER (fields of the pool filled in; device item, bytenr, flags and
 * checksum are set here) to every device.  The first copy is durable on
 * return; the others are after the next volume_flush.  What SUPER leads to is
 * durable before the call.
 */
extern int volume_write_supers (struct volume *, const struct btrfs_super *,
                                enum super_copies);
/* SUPER, as for volume_write_supers, becomes that of device INDEX, but for
 * what super_seal_copy does.
 */
extern void volume_super_fill (struct volume *, unsigned index,
                               struct btrfs_super *);
/* Copy COPY as device INDEX has it, checked; SUPER aligned for I/O. */
extern int volume_super_read (struct volume *, unsigned index, unsigned copy,
                              struct btrfs_super *);
/* Is every copy that a device has room for intact and of GENERATION?  After a
 * crash between the first and the others it is not.
 */
extern bool volume_supers_current (struct volume *, uint64_t generation);

#endif /* BTRNBD_VOLUME_VOLUME_H */
