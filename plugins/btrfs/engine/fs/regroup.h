/* fs: the thread that gives dead space back and puts fragments together, when
 * nobody else has anything to do.
 */
#ifndef BTRNBD_FS_REGROUP_H
#define BTRNBD_FS_REGROUP_H

#include "fs/core.h"

extern int regroup_start (struct fs *);
/* May be called twice, and when it was never started. */
extern void regroup_stop (struct fs *);

#endif /* BTRNBD_FS_REGROUP_H */
