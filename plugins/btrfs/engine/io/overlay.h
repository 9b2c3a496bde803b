/* io: a device whose writes stay in memory.
 *
 * Reads see what was written through the overlay, and below it the device,
 * which is never written, flushed or trimmed; it may be read-only.  For
 * opening a pool read-only as its log promises it to be.
 */
#ifndef BTRNBD_IO_OVERLAY_H
#define BTRNBD_IO_OVERLAY_H

#include "io/device.h"

/* Takes ownership of INNER on success. */
extern int device_overlay_new (struct device *inner, struct device **ret);

#endif /* BTRNBD_IO_OVERLAY_H */
