/* fs: a step of opening: the rest of the chunk map comes from the chunk tree,
 * as it is needed.
 */
#ifndef BTRNBD_FS_CHUNK_SOURCE_H
#define BTRNBD_FS_CHUNK_SOURCE_H

#include "fs/core.h"

extern int chunk_source_open (struct fs *);
extern void chunk_source_close (struct fs *);

#endif /* BTRNBD_FS_CHUNK_SOURCE_H */
