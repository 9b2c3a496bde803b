/* fs: the pool itself as a read-only image.
 *
 * An image is what the devices of the pool would hold if everything had
 * stopped at one commit: superblocks without a log, trees, data; bytes that
 * it does not lead to read zero, but for the first MiB.  There is one at a
 * time, shared by all who open it while it is open.  Opening it makes the
 * commit, so all that was acknowledged before is in it.
 *
 * What it needs stays in place (space_hold_begin) until it is closed, or is
 * in the way of somebody who writes; then reads fail.
 */
#ifndef BTRNBD_FS_IMAGE_H
#define BTRNBD_FS_IMAGE_H

#include "fs/core.h"

struct images;
struct image;

extern int images_new (struct fs *, struct images **ret);
extern void images_free (struct images *); /* nothing is open; accepts NULL */

/* Open it.  No lock is held.  Of a pool that is read-only by now, for whatever
 * reason, it is the last commit, which nobody writes over.
 */
extern int image_get (struct images *, struct image **ret);
extern void image_put (struct image *);

/* DEV: an index, as of the volume. */
extern uint64_t image_size (const struct image *, unsigned dev);
/* -ERR_file_range, -ERR_image_ended, or what the device says. */
extern int image_read (struct image *, unsigned dev, void *buf, size_t len,
                       uint64_t offset);
/* The run from OFFSET on, at most LEN bytes, of bytes that may be something,
 * or that read zero because the image does not lead to them: outside of
 * chunks, or free there.
 */
extern bool image_is_data (struct image *, unsigned dev, uint64_t offset,
                           uint64_t len, uint64_t *ret_len);

struct image_info {
  unsigned clients;            /* of the newest */
  uint64_t generation;         /* 0: none is open */
  uint64_t limit;              /* of what it may hold; 0: no images */
  const char *ended;           /* why the newest was ended before its time */
};
extern void images_get_info (struct images *, struct image_info *ret);

/* For the commit thread: tell the host of an image that was ended. */
extern void images_tell (struct images *);

/* For commits: the next capture is IMAGE's, called with joins shut out when
 * SUPER is complete.
 */
extern void image_capture (struct image *, const struct btrfs_super *super);

#endif /* BTRNBD_FS_IMAGE_H */
