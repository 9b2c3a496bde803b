/* base: ordered trees and lists.
 *
 * Red-black trees come from libbsd's copy of <sys/tree.h> (macros only, no
 * code is linked), lists from the C library's <sys/queue.h>.  They are
 * intrusive, as everywhere in this engine: no allocation on insert.
 */
#ifndef BTRNBD_BASE_CONTAINERS_H
#define BTRNBD_BASE_CONTAINERS_H

#include <stddef.h>
#include <sys/queue.h>
#include <bsd/sys/tree.h>

#ifndef TAILQ_FOREACH_SAFE
#define TAILQ_FOREACH_SAFE(var, head, field, tvar)                      \
  for ((var) = TAILQ_FIRST (head);                                      \
       (var) && ((tvar) = TAILQ_NEXT (var, field), 1); (var) = (tvar))
#endif

#define container_of(ptr, type, member)                 \
  ((type *) ((char *) (ptr) - offsetof (type, member)))

#endif /* BTRNBD_BASE_CONTAINERS_H */
