/* data: one batch of write-out; for writeout*.c and flush.c only. */
#ifndef BTRNBD_DATA_WRITEOUT_H
#define BTRNBD_DATA_WRITEOUT_H

#include "data/data_priv.h"

enum wo_mode {
  WO_COW,                      /* to a new extent */
  WO_PLACE,                    /* over the old data: no tree changes */
  WO_PREALLOC,                 /* in place; the item becomes regular */
};

/* Pages that follow each other in the file and on disk. */
struct wo_run {
  size_t first, n;             /* in page, disk, sums */
  enum wo_mode mode;
  bool failed;                 /* was not written */
  bool allocated;              /* COW: disk is ours */
  bool inserted;               /* the file points to it */
  uint64_t disk;
  uint64_t group;              /* not COW: what space_nocow_begin was given */
  struct mapping map;          /* not COW: the extent */
};

struct writeout {
  struct file_data *f;
  struct data *d;
  size_t n;
  struct dirty_page *page;
  uint64_t *disk;              /* of each page */
  uint8_t *sums;               /* of each page */
  struct wo_run *run;
  size_t runs;
  bool map_nocow;              /* verdict of the mapping looked at last */
  bool moved;                  /* the contents are what they were */
};

static inline uint64_t
run_offset (const struct writeout *w, const struct wo_run *r)
{
  return w->page[r->first].offset;
}
static inline uint64_t
run_len (const struct writeout *w, const struct wo_run *r)
{
  return (uint64_t) r->n * w->d->ps;
}

/* A batch: writeout_init; pages are collected; writeout_prepare; the pages are
 * written and the trees changed (writeout_run does both); writeout_finish, in
 * any case; writeout_done.
 */
extern int writeout_init (struct writeout *, struct file_data *, size_t max);
extern void writeout_done (struct writeout *);
/* Where each page goes, and its checksum. */
extern int writeout_prepare (struct writeout *);
/* The operations that write the pages, at most one and one vector for each;
 * FIRST[i]: the first page of operation i.  0: no memory.
 */
extern size_t writeout_ops (struct writeout *, struct volume_op *,
                            struct iovec *, size_t *first);
/* They have been run. */
extern void writeout_written (struct writeout *);
/* Write W->n pages, neighbours in the file, all of which hold a promise of
 * space, to new extents, and let the file point to them: what it has there now
 * is the same bytes.  Nobody else changes the file there.  If it takes more
 * than MOST says nothing is done.  The pages and promises are gone.
 */
struct wo_most {
  size_t extents, places;      /* places: on disk, apart from each other */
};
extern int writeout_move (struct writeout *, const struct wo_most *most);

/* Change the trees for all runs that were written; sets `inserted`. */
extern int writeout_insert (struct writeout *);
/* Items to promise space for when so many runs are inserted. */
extern unsigned writeout_items (size_t runs);
/* The same in TXN, which has room for those items, for a batch of few runs,
 * none of which goes in place; the log has them already.  inode.lock held.
 */
#define WRITEOUT_LOGGED_RUNS 32
extern int writeout_insert_logged (struct writeout *, struct txn *);
extern int writeout_run (struct writeout *);
extern void writeout_note_failure (struct writeout *, int r);
/* Give back what the batch still holds; pages become clean, or dirty again. */
extern void writeout_finish (struct writeout *, const struct dirty_batch *);

#endif /* BTRNBD_DATA_WRITEOUT_H */
