/* data: what is inside regular files.
 *
 * Reads: dirty ranges of the file first, then the extent map, then the clean
 * cache (keyed by disk address, so everything that shares an extent shares
 * its cached copy), then the disk, verified.
 *
 * Writes land in the dirty ranges with their space reserved and are
 * acknowledged; write-out turns merged ranges into extents.
 */
#ifndef BTRNBD_DATA_DATA_H
#define BTRNBD_DATA_DATA_H

#include "base/workers.h"
#include "inode/inode.h"

struct data;                   /* context of the room */

struct data_env {
  struct volume *volume;
  struct trans *trans;
  struct roots *roots;
  struct space *space;
  struct extents *extents;
  struct workers *workers;
  size_t cache_bytes;          /* budget of clean + dirty data */
  bool read_only;
  bool regroup;                /* note what regrouping shall look at */
  bool nocow_no_early, nocow_no_cache; /* for measurements, see nocow.c */
};

extern int data_new (const struct data_env *, struct data **ret);
/* Nothing is dirty any more (data_flush_all), no file is open. */
extern void data_free (struct data *);

/* Somebody else uses BYTES more than his share of the cache: go without as
 * much, as far as possible.  May be called at any time with no lock of rank
 * >= RANK_DATA_CACHE held; returns at once when another thread is at it.
 */
extern void data_lend (struct data *, uint64_t bytes);

/* Fill in the hooks that inode/ needs (evict_data, drop_data,
 * truncate_items).
 */
extern int data_evict (void *data, struct inode *);
extern void data_drop (void *data, struct inode *);
extern int data_truncate_items (void *data, struct inode *, uint64_t size);

/* Every operation takes any byte range; [offset, offset+len) must lie inside
 * the file for reads, writes, zero and trim (-ERR_file_range): size changes
 * only by data_set_size.
 */
extern int data_read (struct data *, struct inode *, void *buf, size_t len,
                      uint64_t offset);
/* True and the bytes, if that needs no lock that may wait for a disk and no
 * I/O; false: use data_read.
 */
extern bool data_try_read (struct data *, struct inode *, void *buf,
                           size_t len, uint64_t offset);
/* -ERR_nospace when it does not fit, with no effect. */
extern int data_write (struct data *, struct inode *, const void *buf,
                       size_t len, uint64_t offset);
/* True: written, as by data_write, which needed no waiting for space, memory,
 * a disk or another operation.  False: use data_write; some of it may have
 * been written.
 */
extern bool data_try_write (struct data *, struct inode *, const void *buf,
                            size_t len, uint64_t offset);
/* Reads zero afterwards, space stays allocated (prealloc). */
extern int data_zero (struct data *, struct inode *, uint64_t offset,
                      uint64_t len);
/* A hole: whole sectors are freed, edges zeroed. */
extern int data_punch (struct data *, struct inode *, uint64_t offset,
                       uint64_t len);
/* The allocation unit: most bytes of a new extent of a file that is copied on
 * write; each lies within one such aligned piece of the file.  What is
 * overwritten of an extent stays dead until all of it is, so large units waste
 * space where small writes and snapshots meet; small ones cost items, some 160
 * bytes of metadata each.  A file keeps its own in an attribute, in decimal
 * bytes, a power of two; one that cannot be read is the usual one.
 */
#define DATA_UNIT_XATTR "user.btrnbd.alloc-unit"
#define DATA_UNIT_MIN (16 * 1024)
#define DATA_UNIT_USUAL (16 * 1024)
#define DATA_UNIT_MAX (256 * 1024)
extern bool data_unit_ok (uint64_t bytes);
extern uint64_t data_unit (struct data *, struct inode *);
extern int data_prefetch (struct data *, struct inode *, uint64_t offset,
                          uint64_t len);
extern int data_set_size (struct data *, struct inode *, uint64_t size);

/* Write out what is dirty in the range: afterwards its file extents are in
 * the running transaction.  What cannot be written stays dirty, is what
 * readers see, and makes every call fail until it is written.
 */
extern int data_write_out (struct data *, struct inode *, uint64_t offset,
                           uint64_t len);
extern int data_write_out_all (struct data *);

/* As data_write_out, but where the range has nothing more to write than few
 * pages that take the place of extents or holes, that is left to the log: its
 * caller writes them beside the blocks of the log, not to wait for the disk
 * twice.  *ret NULL: all is written out, as by data_write_out.
 *
 * Else: either data_flush_write, or, with inode.lock held from the first to
 * the last and a handle with room for data_flush_items, data_flush_fits,
 * data_flush_get for each extent, data_flush_op is run, data_flush_insert.
 * Then data_flush_end.
 */
struct data_flush;
extern int data_flush_begin (struct data *, struct inode *, uint64_t offset,
                             uint64_t len, struct data_flush **ret);
extern unsigned data_flush_items (const struct data_flush *);
/* False: the file is no longer fit for it. */
extern bool data_flush_fits (const struct data_flush *, size_t *ret_extents);
struct data_flush_extent {
  uint64_t offset, len;        /* in the file */
  uint64_t disk;
  const uint8_t *sums;         /* of each sector; NULL: none */
  struct btrfs_file_extent item;
};
/* Number K, in the order of the file. */
extern void data_flush_get (const struct data_flush *, size_t k,
                            uint64_t transid, struct data_flush_extent *ret);
extern struct volume_op *data_flush_op (struct data_flush *);
/* The extents enter the file if the operation was a success. */
extern int data_flush_insert (struct data_flush *, struct txn *);
extern int data_flush_write (struct data_flush *);
/* The error of the write, if any; then the data is dirty as before. */
extern int data_flush_end (struct data_flush *);

/* Bytes that write-outs have overwritten in place so far: durable after a
 * device flush that began later, which no commit need cause.
 */
extern uint64_t data_in_place (struct data *);

/* Files of the N subvolumes stand still, in the trees, as they were at one
 * moment during the call, whatever is written meanwhile: until data_thaw
 * nothing of what came after it is written out, and nothing else is done to
 * these files.  What was acknowledged before the call is in.  V ascending by
 * id; no lock, no handle.  -ERR: nothing stands still.
 */
extern int data_freeze (struct data *, struct root *const *v, size_t n);
extern void data_thaw (struct data *, struct root *const *v, size_t n);

enum data_extent_kind { DATA_EXTENT_HOLE, DATA_EXTENT_PREALLOC,
                        DATA_EXTENT_DATA };
struct data_extent {
  uint64_t offset, len;
  enum data_extent_kind kind;
};
/* Adjacent, ascending, covering the range exactly (clipped), dirty ranges
 * included; FN returns non-zero to stop (which is returned).
 */
typedef int (*data_extent_fn) (void *opaque, const struct data_extent *);
extern int data_extents (struct data *, struct inode *, uint64_t offset,
                         uint64_t len, data_extent_fn, void *opaque);

/* [TO, TO + LEN) of DST gets the extents that SRC has from FROM on, LEN 0: to
 * its end; DST grows if need be.  All are whole sectors, but for an end that
 * is the end of both files.  -ERR_invalid also when only one of the files has
 * checksums, or ranges of one file overlap.  A crash, or an error, may leave
 * it done in part.
 */
extern int data_clone (struct data *, struct inode *src, uint64_t from,
                       uint64_t len, struct inode *dst, uint64_t to);
/* The same if both ranges, inside of their files, hold the same bytes, which
 * are compared while nobody can write there; else -ERR_differs, with no
 * effect.  *ret_shared: bytes of DST that had other extents until now.
 */
extern int data_dedupe (struct data *, struct inode *src, uint64_t from,
                        uint64_t len, struct inode *dst, uint64_t to,
                        uint64_t *ret_shared);

/* Byte ranges, ascending and apart, where two files do not have the same
 * extents, or where only one of them has bytes.  Subtrees that both trees
 * share are passed over.  FN runs without locks and returns non-zero to stop,
 * which is returned.
 */
typedef int (*data_range_fn) (void *opaque, uint64_t offset, uint64_t len);
extern int data_compare (struct data *, struct inode *, struct inode *,
                         data_range_fn, void *opaque);

/* --- regrouping (regroup.c) --- */

/* Extents of the file that begin in [*POS, END) and are its alone: those that
 * are mostly dead are freed, by writing what is left of them elsewhere, and
 * fragments are put together.  *POS moves on; now and then the call returns
 * early, above all when something was moved.  Contents are the same at every
 * moment, and what is shared stays shared.
 */
struct data_regrouped {
  uint64_t moved;              /* bytes that were written anew */
  bool busy;                   /* somebody else was at work there: later */
};
extern int data_regroup (struct data *, struct inode *, uint64_t *pos,
                         uint64_t end, struct data_regrouped *ret);

/* Where files have changed since it was looked at.  Waits for a job; false
 * when it is over (data_regroup_stop).
 */
struct data_regroup_job {
  uint64_t root_id, ino, start, end;
};
extern bool data_regroup_next (struct data *, struct data_regroup_job *ret);
/* The same without waiting; false: there is none now. */
extern bool data_regroup_try (struct data *, struct data_regroup_job *ret);
/* The file is gone. */
extern void data_regroup_forget (struct data *,
                                 const struct data_regroup_job *);
/* A subvolume is gone: what others shared with it may be theirs alone. */
extern void data_regroup_again (struct data *);
/* Wait some time; false when it is over. */
extern bool data_regroup_pause (struct data *, unsigned ms);
extern void data_regroup_stop (struct data *);

struct data_regroup_stats {
  uint64_t moved, failed;      /* bytes; windows that could not be moved */
  uint64_t noted;              /* bytes of files to look at */
};
extern void data_regroup_get_stats (struct data *,
                                    struct data_regroup_stats *ret);
/* Bytes read from disks, for whomever, and written by clients so far. */
extern uint64_t data_activity (struct data *);

/* --- for log/ --- */

/* What the transaction TRANSID has changed in the extents of the file, since
 * the last call.  inode.lock held.
 */
struct data_range {
  uint64_t start, end;
};
#define DATA_CHANGED_MAX 4096
enum data_changed {
  DATA_CHANGED_RANGES,         /* N ranges, ascending and apart, malloc'd */
  DATA_CHANGED_UNKNOWN,        /* anything may have changed; what will from
                                  now on is known */
  DATA_CHANGED_BEYOND_LOG,     /* something that a log cannot say */
};
extern enum data_changed data_changed_take (struct data *, struct inode *,
                                            uint64_t transid,
                                            struct data_range **ret,
                                            size_t *ret_n);

/* Put one logged file extent item (SIZE bytes) in the place of what the file
 * has in its range; an extent that is not in the extent tree gets its space
 * and its item.  nbytes follows; the inode item is the caller's to write, the
 * checksums are, too.  TAKEN: space_take has been called for the extent.
 * inode.lock held.
 */
extern int data_replay_extent (struct data *, struct inode *, struct txn *,
                               uint64_t offset,
                               const struct btrfs_file_extent *,
                               uint32_t size, bool taken);
/* Drop everything behind inode->size.  inode.lock held. */
extern int data_replay_cut (struct data *, struct inode *, struct txn *);

struct data_stats {
  uint64_t cache_bytes, dirty_bytes, hits, misses;
  /* Of disks, not of clients. */
  uint64_t read_bytes, written_bytes, nocow_bytes, extent_tree_searches;
};
extern void data_get_stats (struct data *, struct data_stats *ret);

#endif /* BTRNBD_DATA_DATA_H */
