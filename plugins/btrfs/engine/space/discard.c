/* space: telling devices what is free.
 *
 * Only ranges whose freeing is durable are queued.  Before a queued range is
 * discarded it is taken out of the free map, so that nobody can be given it
 * meanwhile; parts that were allocated again are left alone.  Who needs just
 * that space waits for it: promises have been made of it.
 */
#include <config.h>

#include <stdlib.h>

#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "space/space_priv.h"

void
space_set_discard (struct space *sp, bool on)
{
  SCOPED_LOCK (&sp->lock);
  sp->discard = on;
}

bool
space_wait_discard (struct space *sp)
{
  SCOPED_LOCK (&sp->lock);
  if (!sp->discarding)
    return false;
  while (sp->discarding)
    cond_wait (&sp->discard_cond, &sp->lock);
  return true;
}

#define STEP (UINT64_C (64) << 20) /* bytes out of a map at once */

/* Claim the first free run of [*POS, END) in BG; false: none is left. */
static bool
claim (struct space *sp, struct block_group *bg, uint64_t *pos, uint64_t end,
       struct space_range *ret)
{
  uint64_t ss = sp->sectorsize, s, len;
  bool ok = false;

  SCOPED_LOCK (&bg->lock);
  if (!bg->loaded || bg->readonly)
    return false;
  if (free_map_next_run (&bg->map, (*pos - bg->start) / ss, true, &s, &len) &&
      bg->start + s * ss < end) {
    ret->start = bg->start + s * ss;
    ret->len = MIN (len * ss, end - ret->start);
    ret->len = MIN (ret->len, STEP);
    ok = free_map_set (&bg->map, s, ret->len / ss, false, NULL) == 0;
    /* Still none of the image's. */
    if (ok && bg->mapped &&
        free_map_set (&bg->young, s, ret->len / ss, true, NULL) < 0)
      err_clear ();
    *pos = ret->start + ret->len;
  }
  return ok;
}

static void
set_discarding (struct space *sp, bool on)
{
  SCOPED_LOCK (&sp->lock);
  sp->discarding = on;
  if (!on)
    cond_broadcast (&sp->discard_cond);
}

/* The first part of what is left of RANGE; false: nothing is. */
static bool
discard_some (struct space *sp, struct space_range *range)
{
  uint64_t pos = range->start, end = range->start + range->len, stop;
  struct volume_op op = { .kind = IO_DISCARD };
  struct space_range part;
  struct block_group *bg;
  bool some;

  {
    SCOPED_LOCK (&sp->lock);
    bg = space_find (sp, pos);
  }
  if (bg == NULL)
    return false;
  stop = MIN (end, bg->start + bg->length);
  set_discarding (sp, true);
  some = claim (sp, bg, &pos, stop, &part);
  if (some) {
    op.logical = part.start;
    op.len = part.len;
    if (volume_run (sp->volume, &op, 1) < 0)
      err_clear ();             /* a hint that was not taken */
    SCOPED_LOCK (&sp->lock);
    space_give_back (sp, bg, part.start, part.len);
  }
  else
    pos = stop;
  set_discarding (sp, false);
  range->start = pos;
  range->len = end - pos;
  return range->len > 0;
}

void
space_discard (struct space *sp)
{
  struct ranges todo;
  size_t i;

  {
    SCOPED_LOCK (&sp->lock);
    todo = sp->discards;
    sp->discards = (struct ranges) { 0 };
  }
  for (i = 0; i < todo.n; i++)
    while (discard_some (sp, &todo.r[i]))
      ;
  free (todo.r);
}
