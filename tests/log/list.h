/* What a pool holds, as lines of text. */
#ifndef BTRNBD_TESTS_LOG_LIST_H
#define BTRNBD_TESTS_LOG_LIST_H

#include <stddef.h>

#include <btrnbd/engine.h>

/* Lines in order, malloc'd: path, mode, uid:gid, links, inode, time of change,
 * size, checksum of what is in it (of a symlink: the target), attributes.
 * NULL, and the text of an error in WHY (WHY_SIZE bytes).  replay.py makes
 * the same of a mounted pool.
 */
extern char *list_pool (struct btrnbd_pool *, char *why, size_t why_size);

#endif /* BTRNBD_TESTS_LOG_LIST_H */
