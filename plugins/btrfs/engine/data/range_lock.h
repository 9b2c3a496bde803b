/* data: locks on byte ranges of one file.
 *
 * Exclusive, not recursive, first come first served among those that
 * overlap.  A holder may block and do I/O; see data_priv.h for the order.
 */
#ifndef BTRNBD_DATA_RANGE_LOCK_H
#define BTRNBD_DATA_RANGE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/containers.h"
#include "base/lock.h"

/* On the stack of its holder. */
struct range_lock {
  TAILQ_ENTRY (range_lock) link;
  uint64_t start, end;
};

struct range_locks {
  struct mutex lock;           /* RANK_FILE_RANGE; short */
  struct cond cond;
  /* And those that wait, in order of arrival. */
  TAILQ_HEAD (range_lock_list, range_lock) held;
  unsigned waiting;
};

extern void range_locks_init (struct range_locks *);
extern void range_locks_done (struct range_locks *);
extern void range_lock (struct range_locks *, struct range_lock *,
                        uint64_t start, uint64_t end);
/* False instead of waiting. */
extern bool range_trylock (struct range_locks *, struct range_lock *,
                           uint64_t start, uint64_t end);
extern void range_unlock (struct range_locks *, struct range_lock *);

#endif /* BTRNBD_DATA_RANGE_LOCK_H */
