/* data: what the files of this room share.
 *
 * Order of the logical locks, outermost first:
 *
 *   gate of a subvolume, passed as an operation (punch, zero, truncate) ->
 *   range lock of a file (writers, punch, zero, truncate; never write-out) ->
 *   gate, as a step (pages are put in) or a batch (write-out)
 *   inode.lock -> transaction -> tree locks -> map_lock
 *   dirty_lock -> shard of the clean cache -> free pages
 *
 * Write-out takes no range lock and waits for no one who holds one, so
 * whoever holds a range may wait for write-out; nobody waits for write-out
 * with inode.lock held.
 *
 * What keeps readers right without a lock across their I/O:
 *   - a dirty page is consulted before the extent map, and leaves the dirty
 *     ranges only after the map knows its new place;
 *   - the extent map equals the tree wherever it knows something: it is
 *     filled under the shared and changed under the exclusive tree lock;
 *   - after copying, a reader compares map_seq; if it moved, every mapping
 *     used is looked up again and the read repeated when one is different
 *     (the extent may have been freed and used by somebody else);
 *   - whoever writes to a disk address makes pages that are being read from
 *     it unfit for the cache (cache.h).
 */
#ifndef BTRNBD_DATA_DATA_PRIV_H
#define BTRNBD_DATA_DATA_PRIV_H

#include "base/containers.h"
#include "base/lock.h"
#include "data/cache.h"
#include "data/data.h"
#include "data/extent_map.h"
#include "data/pages.h"
#include "data/range_lock.h"

#define DATA_FLUSHERS 2
#define DATA_BATCH_PAGES 4096        /* most pages in one write-out batch */
#define DATA_WINDOW DATA_UNIT_MAX    /* regrouping looks at one at a time */
#define DATA_FILE_END (UINT64_C (1) << 63) /* offsets stay below */

/* Sequential readers, see convoy.c. */
#define CONVOY_MAX 64
struct stream {
  struct file_data *f;         /* NULL: free */
  uint64_t pos, seen;          /* where, and when (ms): atomic */
  uint64_t mark, mark_pos;     /* since when its pace is measured (atomic),
                                  and where it was then */
  uint64_t pace, free_pace;    /* as measured last, and last without a hold */
  bool measured, held;
};
struct convoy {
  unsigned n;                  /* streams (atomic) */
  struct mutex lock;           /* RANK_CONVOY; protects all below */
  struct stream stream[CONVOY_MAX];
};

struct data {
  struct data_env env;
  const struct format_info *fmt;
  uint32_t ps;                 /* page size == sectorsize */
  unsigned ppf;                /* pages in a frame */
  bool no_holes;
  struct pages *pages;
  struct cache *cache;

  /* Pages that are dirty or being written, and pages promised to writers
   * that are about to add some (atomic).
   */
  size_t dirty_pages;
  size_t dirty_limit, dirty_background;
  uint64_t taken_pages;        /* by writers, so far (atomic) */
  size_t map_entries;          /* of all files (atomic) */
  uint64_t written_pages;      /* so far (atomic) */
  uint64_t failures;           /* of write-out (atomic) */
  uint64_t flipped;            /* last transaction that made prealloc of data
                                  (atomic) */

  /* Pages that are lent to others (lend.c): of who has set `lending`. */
  bool lending;
  uint32_t *lent;
  size_t num_lent, max_lent;

  struct regroup *regroup;
  struct convoy convoy;

  uint64_t beyond_log;         /* last transaction that changed a file in a way
                                  that a log cannot say (atomic) */

  struct mutex lock;           /* RANK_DATA; protects all below */
  struct cond progress;        /* dirty_pages went down, a file became idle */
  struct cond work;            /* for the flushers */
  TAILQ_HEAD (file_list, file_data) dirty_files;
  uint64_t sync_gen;           /* of the newest data_write_out_all */
  uint64_t freeze_gen;         /* of the newest look for files to freeze */
  bool stop;
  unsigned waiters;            /* writers beyond the limit (atomic) */
  pthread_t flushers[DATA_FLUSHERS];
  unsigned num_flushers;

  struct data_stats stats;     /* atomic counters */
};

/* Dirty pages of 64 KiB of a file.  A page may have two states at once: being
 * written (`wb`, contents frozen) and dirty again (`cur`).
 */
struct dirty_frame {
  RB_ENTRY (dirty_frame) link;
  uint64_t offset;
  uint64_t seq;                /* when the oldest `cur` page came */
  uint16_t cur, wb;
  uint16_t reserved;           /* `cur` pages that hold data space */
  uint16_t frozen;             /* `wb` pages that no batch has taken yet */
  uint16_t frozen_reserved;    /* of those, the ones that hold data space */
  uint32_t page[CACHE_PAGES], wb_page[CACHE_PAGES];
};
RB_HEAD (dirty_tree, dirty_frame);

struct dirty_batch;
struct dirty_hold;

/* Protected by inode.lock. */
struct changed {
  uint64_t transid;            /* whose changes these are */
  struct data_range *v;
  size_t n, cap;
  bool lost;                   /* not all are known */
  bool beyond_log;             /* something that a log cannot say */
};

struct file_data {
  struct data *d;
  struct inode *inode;         /* borrowed: the inode owns this */
  struct range_locks ranges;

  struct changed changed;
  struct regroup_note *note;   /* or NULL; set with inode.lock held (atomic) */

  struct mutex map_lock;       /* RANK_EXTENT_MAP */
  struct extent_map map;
  uint64_t shares;             /* times that extents got other owners */
  /* A leaf that was the tree's alone, and last_snapshot then. */
  uint64_t own_leaf, own_leaf_snapshot;
  uint64_t map_seq;            /* atomic: a mapping was dropped */

  struct mutex dirty_lock;     /* RANK_DIRTY; protects all below */
  struct cond dirty_cond;      /* pages left `wb`, a batch or hold ended */
  struct dirty_tree dirty;
  size_t num_dirty;            /* cur + wb pages (also read atomically) */
  size_t num_wb;
  TAILQ_HEAD (, dirty_batch) batches; /* under way, ascending by id */
  TAILQ_HEAD (, dirty_hold) holds;
  uint64_t batch_id;           /* of the newest batch */
  uint64_t seq;                /* of the last page that became dirty */
  uint64_t failures;           /* of write-out so far (atomic) */
  bool stamp;                  /* written in place, times behind (atomic) */

  /* Under data.lock. */
  TAILQ_ENTRY (file_data) dirty_link;
  bool on_list;
  unsigned busy;               /* flushers that use this */
  uint64_t dirty_since;        /* ms */
  uint64_t retry_at;           /* ms: flushers leave it alone until then */
  uint64_t sync_gen;           /* newest that has taken this file on */
  uint64_t freeze_gen;         /* the same of freezes */
  TAILQ_ENTRY (file_data) frozen_link; /* of who froze it */

  uint32_t unit;               /* see file_unit; 0: not known yet (atomic) */

  /* Hints (atomic). */
  uint64_t cursor;             /* where background write-out goes on */
  uint64_t hint;               /* where the next extent may go */
  uint64_t ra_next, ra_end;
  uint32_t ra_window, ra_most;
  uint32_t ra_busy;
  unsigned convoy;             /* 1 + its stream, or 0; changed under the lock
                                  of the convoy (atomic) */
};

#define PAGE_SIZE_OF(f) ((f)->d->ps)

/* Milliseconds of the monotonic clock. */
extern uint64_t now_ms (void);

/* The state of INODE, made at first use. */
extern int file_get (struct data *, struct inode *, struct file_data **ret);
/* Bytes of the allocation unit of the file.  No lock of a tree is held. */
extern uint64_t file_unit (struct file_data *);
static inline struct tree *
file_tree (const struct file_data *f)
{
  return f->inode->root->tree;
}
static inline uint64_t
file_size (const struct file_data *f)
{
  return __atomic_load_n (&f->inode->size, __ATOMIC_RELAXED);
}
/* Changed with inode.lock held, read without. */
static inline uint64_t
file_flags (const struct file_data *f)
{
  return __atomic_load_n (&f->inode->flags, __ATOMIC_RELAXED);
}
extern int file_check_range (const struct file_data *, uint64_t offset,
                             uint64_t len);
extern int file_check_writable (const struct file_data *);
/* The state of INODE for a change of these bytes: they lie in the file, and
 * it may be changed.
 */
extern int file_get_for_change (struct data *, struct inode *,
                                uint64_t offset, uint64_t len,
                                struct file_data **ret);
static inline bool
file_has_csums (const struct file_data *f)
{
  return (file_flags (f) & BTRFS_INODE_NODATASUM) == 0;
}
static inline void
data_count (uint64_t *counter, uint64_t n)
{
  __atomic_fetch_add (counter, n, __ATOMIC_RELAXED);
}

/* --- lend.c --- */
extern int lend_init (struct data *);
extern void lend_done (struct data *);

/* --- changed.c --- */
extern void changed_init (struct file_data *);
extern void changed_done (struct file_data *);
/* The extents in [START, END) change in TXN; inode.lock held. */
extern void file_changed (struct file_data *, const struct txn *,
                          uint64_t start, uint64_t end);
/* The same when the log has been told already. */
extern void file_changed_in_log (struct file_data *, const struct txn *,
                                 uint64_t start, uint64_t end);
/* The same when nobody has to look at them for regrouping. */
extern void file_moved (struct file_data *, const struct txn *,
                        uint64_t start, uint64_t end);
/* TXN changes the file in a way that a log cannot say: flushes commit. */
extern void file_changed_beyond_log (struct file_data *, const struct txn *);

/* --- read.c --- */

/* As data_read without the check against the size: whole sectors around the
 * end of the file may be read.
 */
extern int file_read (struct file_data *, void *buf, size_t len,
                      uint64_t offset);
/* --- readahead.c --- */
extern void readahead_note (struct file_data *, uint64_t offset, size_t len);

/* --- convoy.c --- */
extern void convoy_init (struct convoy *);
extern void convoy_done (struct convoy *);
/* F is being read sequentially and has come to POS. */
extern void convoy_note (struct file_data *, uint64_t pos);
/* Nobody reads it any more. */
extern void convoy_leave (struct file_data *);
/* F is about to read from disk at OFFSET: is that too far before others who
 * come that way?
 */
extern bool convoy_is_ahead (struct file_data *, uint64_t offset);
/* Then wait for a moment.  No lock is held. */
extern void convoy_wait (struct file_data *, uint64_t offset);

/* --- read_disk.c: verified reads into the cache --- */

/* A piece of a read that the cache did not have: DISK is the logical address,
 * LEN at most MISS_MAX; DST may be NULL (prefetch).
 */
#define MISS_MAX (1024 * 1024)
struct miss {
  uint64_t disk;
  size_t len;
  uint8_t *dst;
};
/* Bring the pages of all pieces in and copy the bytes out; of a prefetch up
 * to AHEAD_PAGES are sorted and read together.
 */
#define AHEAD_PAGES 8192
extern int read_misses (struct file_data *, struct miss *, size_t n,
                        bool csums);
/* LEN bytes (sectors) at DISK with checksums verified, other copies tried;
 * BUF aligned for I/O.
 */
extern int read_sectors (struct data *, uint64_t disk, uint8_t *buf,
                         size_t len, bool csums);
/* Plain bytes [offset, offset+len) of the compressed extent of MAP. */
extern int read_compressed (struct file_data *, const struct mapping *map,
                            uint64_t offset, size_t len, uint8_t *dst,
                            bool nowait, bool *ret_done);
extern int read_inline (struct file_data *, uint64_t offset, size_t len,
                        uint8_t *dst, bool *ret_found);

/* --- dirty.c --- */

RB_PROTOTYPE (dirty_tree, dirty_frame, link, dirty_frame_cmp)

/* Copy what is dirty in [offset, offset+len) to BUF (may be NULL); FN is told
 * the byte ranges that are not, in order, after the lock is dropped... see
 * struct gap.
 */
struct gap {
  uint64_t offset;
  size_t len;
};
struct gaps {
  struct gap *v;
  size_t n, max;
  struct gap few[16];
};
extern void gaps_init (struct gaps *);
extern void gaps_done (struct gaps *);
extern int dirty_copy (struct file_data *, uint8_t *buf, size_t len,
                       uint64_t offset, struct gaps *);
/* What is known of each sector of the range is or'ed into STATE.  With the
 * range locked, a sector may lose its states but gains none.
 */
enum { DIRTY_CUR = 1, DIRTY_WB = 2 };
extern void dirty_states (struct file_data *, uint64_t start, uint64_t end,
                          uint8_t *state);
/* Is the sector dirty, and where; for block status: the first dirty page at
 * or above START (false: none below END) and the end of its run.
 */
extern bool dirty_next (struct file_data *, uint64_t start, uint64_t end,
                        uint64_t *ret_start, uint64_t *ret_end);
/* Wait until N more pages (an eighth of the limit at most) may be dirty, and
 * count them.  -ERR_write_lost: what is dirty cannot be written.
 */
extern int dirty_throttle (struct data *, size_t n);
/* False instead of waiting. */
extern bool dirty_try_throttle (struct data *, size_t n);
extern void dirty_unthrottle (struct data *, size_t n);
/* Put a page (contents complete, already counted by dirty_throttle) in as the
 * newest state of the sector; RESERVED: it holds a sector of data space.
 * *ret_replaced: the sector was dirty: its page was freed, and its space kept
 * (the caller keeps its own reservation and one count).
 */
extern int dirty_put (struct file_data *, uint64_t sector, uint32_t page,
                      bool reserved, bool *ret_replaced);
/* Change bytes of a sector that is dirty; false when it is not.  BASE (may be
 * NULL) receives the contents under write-out, if any; *ret_base tells.
 */
extern bool dirty_patch (struct file_data *, uint64_t offset,
                         const uint8_t *buf, size_t len, uint8_t *base,
                         bool *ret_base);
/* Keep write-out away from the sector range: waits for pages under write-out
 * there; dirty pages stay where readers see them.  The caller has the range
 * locked, so no more come.  At the release those below DISCARD are forgotten
 * (0: none).
 */
struct dirty_hold {
  TAILQ_ENTRY (dirty_hold) link;
  uint64_t start, end;
};
extern void dirty_hold (struct file_data *, struct dirty_hold *,
                        uint64_t start, uint64_t end);
extern void dirty_release (struct file_data *, struct dirty_hold *,
                           uint64_t discard);

struct dirty_page {
  uint64_t offset;
  uint32_t page;
  bool reserved;
};
/* Pages under write-out together. */
struct dirty_batch {
  TAILQ_ENTRY (dirty_batch) link;
  uint64_t id;
  uint64_t seq;                /* of the oldest page in it */
};
/* Move at most MAX pages in the range that became dirty at or before SEQ and
 * are not under write-out to `wb`; ascending.  When there are some, the batch
 * is on the file's list until dirty_batch_end.
 */
extern size_t dirty_collect (struct file_data *, uint64_t start, uint64_t end,
                             uint64_t seq, struct dirty_page *, size_t max,
                             struct dirty_batch *);
extern void dirty_batch_end (struct file_data *, struct dirty_batch *);
/* Wait for the batches that are under way, and for holds in the range. */
extern void dirty_wait_written (struct file_data *, uint64_t start,
                                uint64_t end);
/* Pages under write-out are written, DISK[i] is their address: they become
 * clean cache.
 */
extern void dirty_finish (struct file_data *, const struct dirty_page *,
                          const uint64_t *disk, size_t n);
/* Pages under write-out could not be written: they are dirty as before, but
 * for those that are replaced by newer ones.  The number of sectors of space
 * that these held.
 */
extern size_t dirty_return (struct file_data *, const struct dirty_page *,
                            size_t n, const struct dirty_batch *);
/* Some page of the range is `cur` and old enough, or some batch that is being
 * written has such a page.
 */
extern bool dirty_any (struct file_data *, uint64_t start, uint64_t end,
                       uint64_t seq);
/* The same, BATCH left out. */
extern bool dirty_any_but (struct file_data *, const struct dirty_batch *batch,
                           uint64_t start, uint64_t end, uint64_t seq);
extern uint64_t dirty_now (struct file_data *);
extern void dirty_drop_all (struct file_data *);

/* --- freeze.c --- */

/* The dirty pages become pages under write-out without a batch.  Nothing of
 * the file may be under write-out, nothing is put meanwhile.
 */
extern void dirty_freeze (struct file_data *);
/* As dirty_collect, of those pages. */
extern size_t dirty_collect_frozen (struct file_data *, struct dirty_page *,
                                    size_t max, struct dirty_batch *);
/* What is frozen and was not collected is dirty as before. */
extern void dirty_unfreeze (struct file_data *);
extern void dirty_batch_add (struct file_data *, struct dirty_batch *);

/* --- write.c --- */
extern int file_write (struct file_data *, const void *buf, size_t len,
                       uint64_t offset, bool range_locked);
/* Zero bytes inside one sector (nothing if it is a hole already); the caller
 * holds the range.
 */
extern int file_zero_bytes (struct file_data *, uint64_t offset, size_t len);

/* --- nocow.c --- */

/* May [offset, ...) be written in place?  *ret_map is the mapping there;
 * a verdict is good for its whole length.  The block group is not asked.
 */
extern int nocow_check (struct file_data *, uint64_t offset,
                        struct mapping *ret_map, bool *ret_nocow);
/* Of an uncompressed extent: is this the only reference to it (conditions 2
 * to 6 and 8)?
 */
extern int nocow_is_ours (struct file_data *, const struct mapping *,
                          bool *ret_ours);
/* The same of an extent that may have been another's too, until lately. */
extern int nocow_is_alone (struct file_data *, const struct mapping *,
                           bool *ret_alone);
static inline bool
file_may_nocow (const struct file_data *f)
{
  return (file_flags (f)
          & (BTRFS_INODE_NODATACOW | BTRFS_INODE_PREALLOC)) != 0;
}

/* --- writeout.c --- */

/* Write out pages of the range that are dirty since SEQ or before, and wait
 * for those that others are writing.
 */
extern int file_write_out (struct file_data *, uint64_t start, uint64_t end,
                           uint64_t seq);
/* The same within an operation at the gate of the file's subvolume. */
extern int file_write_out_inside (struct file_data *, uint64_t start,
                                  uint64_t end, uint64_t seq);
/* What dirty_freeze has frozen. */
extern int file_write_out_frozen (struct file_data *);
static inline struct gate *
file_gate (const struct file_data *f)
{
  return &f->inode->root->gate;
}
/* One batch in the background; false when there was nothing. */
extern bool file_write_some (struct file_data *, uint64_t seq);

/* --- drop_extents.c --- */

/* The cursor is at a file extent of the file. */
extern bool at_extent (const struct file_data *, const struct cursor *);
/* To the last extent that begins at or before OFFSET, else to the first one
 * (or whatever follows): tree lock held.
 */
extern int seek_extent (struct file_data *, uint64_t offset,
                        struct cursor *);
/* What the item says, checked (extent_map.c). */
extern int map_parse (struct file_data *, const struct cursor *,
                      struct mapping *ret);

struct drop {
  struct txn *txn;
  struct file_data *f;
  uint64_t start, end;         /* sectors */
  unsigned max_items;          /* most items to remove; 0: no bound */
  /* Results. */
  uint64_t done;               /* everything below is dropped */
  uint64_t nbytes;             /* that the inode has less now */
};
/* Remove what the file's items say about [start, end), splitting those that
 * stick out; tree lock exclusive.  The caller tells the map.  An error:
 * abort.
 */
extern int drop_extents (struct drop *);
/* Insert a file extent item. */
extern int insert_extent (struct txn *, struct file_data *,
                          const struct mapping *);
extern void mapping_to_disk (const struct mapping *, uint64_t generation,
                             struct btrfs_file_extent *);
/* M lies inside one uncompressed item of kind FROM and is the same slice of
 * its extent: it becomes what M says.  Tree lock exclusive; the caller tells
 * the map.
 */
extern int convert_slice (struct txn *, struct file_data *,
                          enum map_kind from, const struct mapping *m);
/* Without NO_HOLES: say in the tree that [start, end) is a hole. */
extern int insert_hole (struct txn *, struct file_data *, uint64_t start,
                        uint64_t end);
static inline struct key
file_extent_key (const struct file_data *f, uint64_t offset)
{
  return KEY (f->inode->ino, BTRFS_EXTENT_DATA, offset);
}
static inline struct data_ref
mapping_ref (const struct file_data *f, const struct mapping *m)
{
  return (struct data_ref) { .bytenr = m->disk, .num_bytes = m->disk_len,
    .root = f->inode->root->id, .objectid = f->inode->ino,
    .offset = m->offset - m->ext_offset };
}
/* Account bytes that the inode has more and less, touch it, write its item;
 * inode.lock held, no tree lock.
 */
extern int inode_finish_change (struct txn *, struct file_data *,
                                uint64_t added, uint64_t removed);

/* --- punch.c --- */

/* Make the sectors of [start, end) a hole, in transactions of bounded size;
 * range locked, write-out held off.
 */
extern int punch_items (struct file_data *, uint64_t start, uint64_t end);
/* Bytes that shall read zero: edges are zeroed, FN does whole sectors, with
 * the range locked and held against write-out, what was dirty is forgotten.
 * PLACES: FN makes a file one of which parts are written in place; where it
 * was none before, all of it is locked (see clone.c).
 */
extern int file_clear (struct data *, struct inode *, uint64_t offset,
                       uint64_t len, bool places,
                       int (*fn) (struct file_data *, uint64_t start,
                                  uint64_t end));

/* --- csums.c --- */

/* Checksums of the sectors at DISK into OUT (csum_size each); every sector
 * must have one.
 */
extern int csums_lookup (struct data *, uint64_t disk, size_t len,
                         uint8_t *out);
/* Of N sectors, some of which need not have one: HAVE says which do. */
extern int csums_lookup_some (struct data *, uint64_t disk, size_t n,
                              uint8_t *out, bool *have);
/* The error when one that must is not among them. */
extern int csums_missing (uint64_t disk);
extern int csums_any (struct data *, uint64_t disk, uint64_t len,
                      bool *ret_any);
extern int csums_delete (struct data *, struct txn *, uint64_t disk,
                         uint64_t len);
extern int csums_insert (struct data *, struct txn *, uint64_t disk,
                         size_t len, const uint8_t *csums);

#endif /* BTRNBD_DATA_DATA_PRIV_H */
