/* data: locks on byte ranges of one file.  As many as there are requests in
 * flight: a list is enough.
 */
#include <config.h>

#include "data/range_lock.h"

void
range_locks_init (struct range_locks *l)
{
  mutex_init (&l->lock, RANK_FILE_RANGE);
  cond_init (&l->cond);
  TAILQ_INIT (&l->held);
  l->waiting = 0;
}

void
range_locks_done (struct range_locks *l)
{
  cond_done (&l->cond);
  mutex_done (&l->lock);
}

/* Does anybody who came before R overlap with it? */
static bool
blocked (struct range_lock *r)
{
  struct range_lock *o;

  for (o = TAILQ_PREV (r, range_lock_list, link); o != NULL;
       o = TAILQ_PREV (o, range_lock_list, link))
    if (o->start < r->end && r->start < o->end)
      return true;
  return false;
}

void
range_lock (struct range_locks *l, struct range_lock *r, uint64_t start,
            uint64_t end)
{
  SCOPED_LOCK (&l->lock);
  r->start = start;
  r->end = end;
  TAILQ_INSERT_TAIL (&l->held, r, link);
  while (blocked (r)) {
    ++l->waiting;
    cond_wait (&l->cond, &l->lock);
    --l->waiting;
  }
}

bool
range_trylock (struct range_locks *l, struct range_lock *r, uint64_t start,
               uint64_t end)
{
  SCOPED_LOCK (&l->lock);
  r->start = start;
  r->end = end;
  TAILQ_INSERT_TAIL (&l->held, r, link);
  if (!blocked (r))
    return true;
  TAILQ_REMOVE (&l->held, r, link);
  return false;
}

void
range_unlock (struct range_locks *l, struct range_lock *r)
{
  SCOPED_LOCK (&l->lock);
  TAILQ_REMOVE (&l->held, r, link);
  if (l->waiting > 0)
    cond_broadcast (&l->cond);
}
