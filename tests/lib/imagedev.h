/* An image in memory as a device of the engine. */
#ifndef BTRNBD_TESTS_LIB_IMAGEDEV_H
#define BTRNBD_TESTS_LIB_IMAGEDEV_H

#include <btrnbd/engine.h>

#include "io/device.h"

/* The image as it is now; the device does not refer to BASE later. */
extern int imagedev_new (const uint8_t *base, uint64_t size,
                         struct device **ret);
/* A fresh device over it, with LEN bytes at each of N places replaced by what
 * BASE holds there.
 */
struct imagedev_patch {
  const uint8_t *at;            /* in the image that BASE is */
  uint32_t len;
};
extern int imagedev_overlay (struct device *below, const uint8_t *base,
                             const struct imagedev_patch *, unsigned n,
                             struct device **ret);

/* Open the device (which is consumed), read everything, close.  The text of
 * the first error is in WHAT (READALL_TEXT bytes).
 */
extern int imagedev_read_pool (struct device *, char *what);
/* Open for writing, change this and that, close: errors are fine, crashes
 * are not.  Returns what opening returned; *RET_WRITABLE: it was not opened
 * read-only.
 */
extern int imagedev_write_pool (struct device *, bool *ret_writable);

#endif /* BTRNBD_TESTS_LIB_IMAGEDEV_H */
