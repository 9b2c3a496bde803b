/* host: the opaque lists that plugins fill in (extents, exports). */
#ifndef BTRNBDD_HOST_LISTS_H
#define BTRNBDD_HOST_LISTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nbd/request.h"

/* Extents of one block status request: [offset, offset + length). */
struct nbdkit_extents {
  uint64_t offset, length;     /* asked for; results are clipped to it */
  uint64_t next;               /* where the next extent must begin */
  bool started, full;
  size_t count, max;
  struct nbd_extent *v;        /* owned */
};
extern void host_extents_init (struct nbdkit_extents *, uint64_t offset,
                               uint64_t length, size_t max);
extern void host_extents_done (struct nbdkit_extents *);

#define HOST_EXPORTS_MAX 10000
struct nbdkit_exports {
  size_t count;
  struct host_export { char *name, *description; } *v; /* owned */
  bool use_default;            /* nbdkit_use_default_export was called */
};
extern void host_export_done (struct host_export *);
extern void host_exports_done (struct nbdkit_exports *);
extern int host_exports_add (struct nbdkit_exports *, const char *name,
                             const char *description);

#endif /* BTRNBDD_HOST_LISTS_H */
