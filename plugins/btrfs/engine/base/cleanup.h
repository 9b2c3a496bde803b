/* base: the closed set of scope cleanups.
 *
 * A local with a CLEANUP_ mark starts empty; ownership leaves by `take`.
 */
#ifndef BTRNBD_BASE_CLEANUP_H
#define BTRNBD_BASE_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

static inline void
cleanup_free (void *p)
{
  free (*(void **) p);
}

static inline void
cleanup_close (int *fd)
{
  if (*fd >= 0)
    close (*fd);
}

#define CLEANUP_FREE __attribute__ ((cleanup (cleanup_free)))
#define CLEANUP_CLOSE __attribute__ ((cleanup (cleanup_close)))

/* The value of the pointer P, which becomes NULL. */
#define take(p)                                 \
  ({                                            \
    __typeof__ (p) take_ = (p);                 \
    (p) = NULL;                                 \
    take_;                                      \
  })

#endif /* BTRNBD_BASE_CLEANUP_H */
