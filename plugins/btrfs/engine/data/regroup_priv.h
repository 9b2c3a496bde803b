/* data: what is kept of files that regrouping shall look at; for regroup*.c
 * and changed.c only.
 *
 * Whoever changes the extents of a file notes where.  A note outlives the
 * file's stay in memory, because a client that goes away closes its file.
 * All of it is a hint: it may be forgotten, and costs only that nobody looks.
 */
#ifndef BTRNBD_DATA_REGROUP_PRIV_H
#define BTRNBD_DATA_REGROUP_PRIV_H

#include "data/data_priv.h"

#define NOTE_REGIONS 4096
#define NOTE_SHIFT 22          /* a region of a small file: 4 MiB */
#define NOTES_MAX 1024         /* of files that are not in memory */

/* Regions of one file, each 1 << SHIFT bytes, that were changed. */
struct regroup_note {
  TAILQ_ENTRY (regroup_note) link;
  uint64_t root_id, ino;
  struct file_data *file;      /* whose f->note this is, or NULL */
  unsigned shift, n;           /* n: regions that are set */
  uint64_t end;                /* of the file, when it was noted last */
  uint64_t set[NOTE_REGIONS / 64]; /* also read without the lock */
};

struct regroup {
  bool on;                     /* constant */
  struct mutex lock;           /* RANK_REGROUP; protects all below */
  struct cond work, stopping;
  TAILQ_HEAD (, regroup_note) notes; /* whose turn it is comes first */
  unsigned num_notes;
  bool stop;
  uint64_t working;            /* bytes of the file of the last job */
  uint64_t moved, failed;      /* bytes; windows (atomic) */
};

extern int regroup_new (bool on, struct regroup **ret);
extern void regroup_free (struct regroup *); /* accepts NULL */

/* Extents in [START, END) change; inode.lock held. */
extern void regroup_note (struct file_data *, uint64_t start, uint64_t end);
/* The file leaves memory. */
extern void regroup_file_left (struct file_data *);

#endif /* BTRNBD_DATA_REGROUP_PRIV_H */
