/* fs: all regular files that can be written, one after the other, for
 * regrouping: what was left to do when the pool was closed is not known.
 */
#ifndef BTRNBD_FS_REGROUP_SCAN_H
#define BTRNBD_FS_REGROUP_SCAN_H

#include "data/data.h"
#include "fs/root_ids.h"

struct regroup_scan {
  struct root_ids ids;         /* as of the first call */
  size_t next;
  uint64_t ino;                /* look from here on, in ids.v[next] */
  bool listed;
};

/* The whole of the next file; false: that was all.  What cannot be read is
 * passed over.  Zero before the first call.
 */
extern bool regroup_scan_next (struct fs *, struct regroup_scan *,
                               struct data_regroup_job *ret);
extern void regroup_scan_done (struct regroup_scan *);

#endif /* BTRNBD_FS_REGROUP_SCAN_H */
