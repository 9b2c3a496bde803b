/* data: one batch of write-out; for writeout*.c only. */
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

/* Change the trees for all runs that were written; sets `inserted`. */
extern int writeout_insert (struct writeout *);

#endif /* BTRNBD_DATA_WRITEOUT_H */
