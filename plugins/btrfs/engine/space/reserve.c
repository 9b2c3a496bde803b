/* space: promises, and what is done to keep them.
 *
 * A promise is a number in may_use.  Metadata promises are made for worst
 * cases and mostly given back, so they may exceed what chunks hold now by a
 * part of what chunks could still be made of (overcommit).  Three demands on
 * metadata are not in may_use, but are looked at with every promise:
 *
 * - pending references, by their number: they grow the extent, csum and free
 *   space trees when they are run;
 * - promised data, by its bytes: write-out will add items for it, and must
 *   not fail then;
 * - the global reserve: what copying the trees of the pool may take during a
 *   commit.  Nobody is promised any of it, except who frees space.
 *
 * Who finds no room takes a ticket.  The head of the queue alone works for
 * space: runs pending references, makes a chunk, commits.
 */
#include "config.h"

#include <assert.h>

#include "base/err.h"
#include "base/math.h"
#include "space/space_priv.h"

#define MIB (UINT64_C (1) << 20)

/* Levels of a tree that one insertion may copy and split; deeper trees exist
 * on paper.
 */
#define PATH_LEVELS 4

uint64_t
space_global_reserve (struct space *sp)
{
  uint64_t want = roots_reserve_bytes (sp->roots);
  uint64_t floor = (uint64_t) sp->nodesize * 16 * 10, total;

  want = MAX (want, floor);
  want = MIN (want, 512 * MIB);
  SCOPED_LOCK (&sp->lock);
  total = sp->info[SPACE_METADATA].total;
  return MIN (want, total / 4);
}

/* What nobody has promised, but will be needed. */
static uint64_t
hidden_demand (const struct space *sp)
{
  uint64_t data = sp->mixed ? 0 : sp->info[SPACE_DATA].may_use;
  uint64_t refs = sp->pending_refs > 0 ? sp->pending_refs : 0;

  return refs * (sp->nodesize / 32) + data / sp->sectorsize * 512;
}

static uint64_t
gone_bytes (const struct space_info *i)
{
  return i->used + i->reserved + i->pinned + i->readonly + i->may_use;
}

/* One data chunk is kept aside: data must be able to grow, too. */
static uint64_t
overcommit_bytes (struct space *sp, uint64_t unallocated, unsigned copies)
{
  const struct volume_device *dev = volume_device (sp->volume, 0);
  uint64_t keep = sp->mixed ? 0 : MIN (UINT64_C (1024) * MIB,
                                       dev->total_bytes / 10);

  unallocated /= copies;
  return unallocated > keep ? (unallocated - keep) / 2 : 0;
}

struct want {
  enum space_kind kind;
  uint64_t bytes;
  bool to_free;                /* may use the global reserve */
  bool data;                   /* in mixed pools the kind does not tell */
};

static bool
try_promise (struct space *sp, const struct want *w, uint64_t global,
             uint64_t overcommit)
{
  struct space_info *i = &sp->info[w->kind];
  uint64_t need = gone_bytes (i) + w->bytes;

  if (w->kind == SPACE_METADATA)
    need += hidden_demand (sp) + (w->to_free ? global / 4 : global);
  if (need > i->total + (w->data ? 0 : overcommit))
    return false;
  /* Data brings metadata with it. */
  if (w->kind == SPACE_DATA) {
    const struct space_info *m = &sp->info[SPACE_METADATA];
    if (gone_bytes (m) + hidden_demand (sp) + global +
        w->bytes / sp->sectorsize * 512 > m->total + overcommit)
      return false;
  }
  i->may_use += w->bytes;
  return true;
}

static bool
promise (struct space *sp, const struct want *w, bool jump_queue)
{
  uint64_t global = space_global_reserve (sp);
  uint64_t over = overcommit_bytes (sp, space_unallocated (sp),
                                    space_copies (space_profile
                                                  (sp, SPACE_METADATA)));

  SCOPED_LOCK (&sp->lock);
  if (sp->waiters && !jump_queue)
    return false;
  return try_promise (sp, w, global, over);
}

/* --- working for space --- */

static int
in_txn (struct space *sp, int (*fn) (struct space *, struct txn *,
                                     enum space_kind, bool *),
        enum space_kind kind, bool *ret)
{
  struct txn *txn;
  int r, e;

  r = txn_join (sp->trans, &txn);
  if (r < 0)
    return r;
  r = fn (sp, txn, kind, ret);
  if (r < 0)
    txn_abort (txn, r);
  e = txn_end (txn);
  return r < 0 ? r : e;
}

static int
run_refs (struct space *sp, struct txn *txn, enum space_kind kind, bool *ret)
{
  (void) kind;
  (void) ret;
  return extents_run (sp->extents, txn, extents_pending (sp->extents),
                      false);
}

/* Data that found no room may lack metadata only. */
static bool
metadata_is_short (struct space *sp)
{
  uint64_t global = space_global_reserve (sp);

  SCOPED_LOCK (&sp->lock);
  return gone_bytes (&sp->info[SPACE_METADATA]) + hidden_demand (sp) + global
    + 2 * MIB > sp->info[SPACE_METADATA].total;
}

static int
flush_step (struct space *sp, const struct want *w, unsigned step)
{
  bool made = false;
  int r;

  switch (step) {
  case 0:
    r = in_txn (sp, space_chunk_alloc, w->kind, &made);
    if (r == 0 && w->kind == SPACE_DATA && metadata_is_short (sp))
      r = in_txn (sp, space_chunk_alloc, SPACE_METADATA, &made);
    return r;
  case 1:
    return in_txn (sp, run_refs, w->kind, &made);
  default:
    return trans_commit (sp->trans, NULL);
  }
}

#define FLUSH_STEPS 4          /* chunk, references, commit twice: the second
                                  frees what the first one's trees freed, and
                                  gives back empty groups */

static int
work_for (struct space *sp, const struct want *w, bool *ret_ok)
{
  unsigned step;
  int r;

  *ret_ok = promise (sp, w, true);
  for (step = 0; !*ret_ok && step < FLUSH_STEPS; step++) {
    /* Chunks as long as they come. */
    r = flush_step (sp, w, step);
    if (r < 0)
      return r;
    *ret_ok = promise (sp, w, true);
    if (!*ret_ok && step >= 2) {
      r = flush_step (sp, w, 0);
      if (r < 0)
        return r;
      *ret_ok = promise (sp, w, true);
    }
  }
  return 0;
}

static int
wait_for (struct space *sp, const struct want *w, bool *ret_ok)
{
  uint64_t ticket;
  int r;

  mutex_lock (&sp->ticket_lock);
  ticket = sp->ticket_next++;
  mutex_lock (&sp->lock);
  sp->waiters = true;
  mutex_unlock (&sp->lock);
  while (sp->ticket_serving != ticket)
    cond_wait (&sp->ticket_cond, &sp->ticket_lock);
  mutex_unlock (&sp->ticket_lock);

  r = work_for (sp, w, ret_ok);

  mutex_lock (&sp->ticket_lock);
  sp->ticket_serving++;
  if (sp->ticket_serving == sp->ticket_next) {
    mutex_lock (&sp->lock);
    sp->waiters = false;
    mutex_unlock (&sp->lock);
  }
  cond_broadcast (&sp->ticket_cond);
  mutex_unlock (&sp->ticket_lock);
  return r;
}

static int
get_promise (struct space *sp, const struct want *w)
{
  bool ok = false;
  int r = space_load_groups (sp);

  if (r < 0)
    return r;
  if (promise (sp, w, false))
    return 0;
  /* A thread inside a transaction cannot wait for its commit. */
  if (trans_in_txn (sp->trans))
    ok = promise (sp, w, true);
  else
    r = wait_for (sp, w, &ok);
  if (r < 0)
    return r;
  if (!ok)
    return err_new (w->data ? ERR_nospace : ERR_nospace_meta, "%llu bytes",
                    (unsigned long long) w->bytes);
  return 0;
}

static int
reserve_items (struct space *sp, unsigned items, bool to_free,
               uint64_t *ret_bytes)
{
  struct want w = { .kind = SPACE_METADATA, .to_free = to_free,
    .bytes = (uint64_t) items * sp->nodesize * 2 * PATH_LEVELS };
  int r = get_promise (sp, &w);

  if (r == 0)
    *ret_bytes = w.bytes;
  return r;
}

int
space_reserve (struct space *sp, unsigned items, uint64_t *ret_bytes)
{
  return reserve_items (sp, items, false, ret_bytes);
}

int
space_reserve_to_free (struct space *sp, unsigned items, uint64_t *ret_bytes)
{
  /* A few paths at a time are enough to free something. */
  return reserve_items (sp, MIN (items, 4u), true, ret_bytes);
}

void
space_release (struct space *sp, uint64_t bytes)
{
  SCOPED_LOCK (&sp->lock);
  assert (sp->info[SPACE_METADATA].may_use >= bytes);
  sp->info[SPACE_METADATA].may_use -= bytes;
}

int
space_data_reserve (struct space *sp, uint64_t bytes)
{
  struct want w = { .kind = space_data_kind (sp), .bytes = bytes,
    .data = true };

  if (sp->trans == NULL)
    return err_new (ERR_readonly, "no transactions");
  return get_promise (sp, &w);
}

void
space_data_unreserve (struct space *sp, uint64_t bytes)
{
  struct space_info *i = &sp->info[space_data_kind (sp)];

  SCOPED_LOCK (&sp->lock);
  assert (i->may_use >= bytes);
  i->may_use -= bytes;
}
