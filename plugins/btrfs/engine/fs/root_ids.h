/* fs: the numbers of all subvolumes, the top first, as of one moment. */
#ifndef BTRNBD_FS_ROOT_IDS_H
#define BTRNBD_FS_ROOT_IDS_H

#include "fs/core.h"

struct root_ids {
  uint64_t *v;
  size_t n, room;
};

/* ALSO_READ_ONLY: those that cannot be written, too.  RET is to be freed with
 * root_ids_done, also after an error; zero before.
 */
extern int root_ids_get (struct fs *, bool also_read_only,
                         struct root_ids *ret);
extern void root_ids_done (struct root_ids *);

#endif /* BTRNBD_FS_ROOT_IDS_H */
