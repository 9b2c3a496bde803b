/* fs: who may have how much of the cache; for fs/ only. */
#ifndef BTRNBD_FS_MEMORY_H
#define BTRNBD_FS_MEMORY_H

#include "fs/core.h"

/* Bytes of opts.cache_size for tree blocks; the rest is for data. */
extern size_t memory_blocks (const struct fs *);
/* References that may be pending before they are run. */
extern size_t memory_refs (const struct fs *);
/* For extents_set_watch: keep memory in bounds while the transaction TRANSID
 * makes blocks dirty.
 */
extern void memory_watch (void *fs, uint64_t transid);
/* The same for who is about to join the running transaction; may commit. */
extern int memory_limit (struct fs *);

/* For the commit thread: make room, by early writes or a commit. */
extern int memory_relieve (struct fs *);

#endif /* BTRNBD_FS_MEMORY_H */
