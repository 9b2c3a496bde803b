/* fs: steps of opening, see prepare.c; for open.c only. */
#ifndef BTRNBD_FS_PREPARE_H
#define BTRNBD_FS_PREPARE_H

#include "fs/core.h"

/* From now on nothing is written; WHY is what the user is told. */
extern void fs_make_read_only (struct fs *, const char *why);

extern int prepare_relocation (struct fs *);
extern int prepare_dev_stats (struct fs *);
extern int prepare_fst (struct fs *);
extern int prepare_quota (struct fs *);

#endif /* BTRNBD_FS_PREPARE_H */
