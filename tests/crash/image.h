/* What a power cut left on a disk, and what others say of it. */
#ifndef BTRNBD_TESTS_CRASH_IMAGE_H
#define BTRNBD_TESTS_CRASH_IMAGE_H

#include <stdbool.h>

#include "crash/journal.h"

extern bool image_first_super_is_bad (struct device *);
/* Does the first superblock lead to a log? */
extern bool image_has_log (struct device *);

/* Write the contents to a sparse file. */
extern void image_dump (struct device *, const char *path);

/* Is `btrfs check` content with the file PATH?  COPY: its superblock copy that
 * counts.  Prints what it says if it is not.
 */
extern bool image_check (const char *path, unsigned copy);

/* Linux mounts the file PATH at directory TOP, which replays a log, reads all
 * files, and unmounts.  Otherwise false, and WHY says what went wrong.
 */
extern bool image_mount (const char *path, const char *top,
                         char why[JWHY_MAX]);

#endif /* BTRNBD_TESTS_CRASH_IMAGE_H */
