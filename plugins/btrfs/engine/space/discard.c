/* space: telling devices what is free.
 *
 * Only ranges whose freeing is durable are queued.  Before a queued range is
 * discarded it is taken out of the free map, so that nobody can be given it
 * meanwhile; parts that were allocated again are left alone.
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
    ok = free_map_set (&bg->map, s, ret->len / ss, false, NULL) == 0;
    *pos = ret->start + ret->len;
  }
  return ok;
}

static void
give_back (struct space *sp, struct block_group *bg,
           const struct space_range *r)
{
  SCOPED_LOCK (&bg->lock);
  if (bg->loaded &&
      free_map_set (&bg->map, (r->start - bg->start) / sp->sectorsize,
                    r->len / sp->sectorsize, true, NULL) < 0)
    err_clear ();
}

static void
discard_range (struct space *sp, const struct space_range *range)
{
  uint64_t pos = range->start, end = range->start + range->len;
  struct block_group *bg;
  struct space_range part;
  struct volume_op op = { .kind = IO_DISCARD };

  {
    SCOPED_LOCK (&sp->lock);
    bg = space_find (sp, pos);
  }
  if (bg == NULL)
    return;
  end = MIN (end, bg->start + bg->length);
  while (pos < end && claim (sp, bg, &pos, end, &part)) {
    op.logical = part.start;
    op.len = part.len;
    if (volume_run (sp->volume, &op, 1) < 0)
      err_clear ();             /* a hint that was not taken */
    give_back (sp, bg, &part);
  }
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
    discard_range (sp, &todo.r[i]);
  free (todo.r);
}
