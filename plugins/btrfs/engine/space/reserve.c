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
 *   not fail then, so it counts until they are there;
 * - the global reserve: what copying the trees of the pool may take during a
 *   commit.  Nobody is promised any of it, except who frees space.
 *
 * Who finds no room takes a ticket.  The head of the queue alone works for
 * space: runs pending references, makes a chunk, commits.
 */
#include <config.h>

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
  SCOPED_LOCK (&sp->lock);
  return sp->global;
}

/* What nobody has promised, but will be needed. */
static uint64_t
hidden_demand (const struct space *sp)
{
  uint64_t data = sp->data_promised + sp->data_owed;
  uint64_t refs = sp->pending_refs > 0 ? sp->pending_refs : 0;

  /* An item in the extent tree is paid twice: the reserve grows by it, too. */
  return refs * MAX (sp->nodesize / 32, 256u) + data / sp->sectorsize * 512;
}

static uint64_t
gone_bytes (const struct space_info *i)
{
  return space_gone (i) + i->may_use;
}

/* One data chunk is kept aside: data must be able to grow, too. */
static uint64_t
overcommit_of (const struct space *sp, uint64_t unallocated)
{
  const struct volume_device *dev = volume_device (sp->volume, 0);
  uint64_t keep = sp->mixed ? 0 : MIN (UINT64_C (1024) * MIB,
                                       dev->total_bytes / 10);
  uint64_t raw = unallocated / sp->meta_copies;

  return raw > keep ? (raw - keep) / 2 : 0;
}

static uint64_t
overcommit_bytes (const struct space *sp)
{
  return overcommit_of (sp, sp->unallocated);
}

/* Metadata beyond what its chunks hold, were BYTES more promised; data that
 * is promised brings metadata with it.
 */
static uint64_t
metadata_needed (const struct space *sp, uint64_t bytes, uint64_t data)
{
  const struct space_info *m = &sp->info[SPACE_METADATA];

  return gone_bytes (m) + hidden_demand (sp) + sp->global + bytes +
    data / sp->sectorsize * 512;
}

struct want {
  enum space_kind kind;
  uint64_t bytes;
  bool to_free;                /* may use the global reserve */
  bool data;                   /* in mixed pools the kind does not tell */
};

/* SPARE: bytes to be left out of what is gone, for a look ahead. */
static bool
fits_with (const struct space *sp, const struct want *w,
           const uint64_t spare[SPACE_KINDS])
{
  const struct space_info *i = &sp->info[w->kind];
  uint64_t over = w->data ? 0 : overcommit_bytes (sp), need;

  if (w->kind == SPACE_METADATA) {
    need = metadata_needed (sp, w->bytes, w->data ? w->bytes : 0);
    if (w->to_free)
      need -= sp->global_to_free;
    return need <= i->total + over + spare[SPACE_METADATA];
  }
  return gone_bytes (i) + w->bytes <= i->total + spare[w->kind] &&
    metadata_needed (sp, 0, w->bytes) <=
      sp->info[SPACE_METADATA].total + overcommit_bytes (sp) +
      spare[SPACE_METADATA];
}

static bool
fits (const struct space *sp, const struct want *w)
{
  static const uint64_t none[SPACE_KINDS];

  return fits_with (sp, w, none);
}

static bool
promise (struct space *sp, const struct want *w, bool jump_queue)
{
  SCOPED_LOCK (&sp->lock);
  if ((sp->waiters && !jump_queue) || !fits (sp, w))
    return false;
  sp->info[w->kind].may_use += w->bytes;
  if (w->data)
    sp->data_promised += w->bytes;
  return true;
}

/* --- what could be promised --- */

/* The pool as it would be after chunks were made. */
struct outlook {
  uint64_t unallocated;
  uint64_t data, meta;         /* added by new chunks */
};

/* As `fits` for data, and space for metadata that is not there yet counts
 * only for what can still be made of it.
 */
static bool
would_fit (struct space *sp, const struct outlook *o, uint64_t bytes)
{
  const struct space_info *d = &sp->info[space_data_kind (sp)];
  const struct space_info *m = &sp->info[SPACE_METADATA];
  uint64_t over;

  SCOPED_LOCK (&sp->lock);
  over = overcommit_of (sp, o->unallocated);
  if (sp->mixed)
    return metadata_needed (sp, bytes, bytes) <= m->total + o->meta;
  return gone_bytes (d) + bytes <= d->total + o->data
    && metadata_needed (sp, 0, bytes) <= m->total + o->meta + over;
}

static bool
add_chunk (struct space *sp, struct outlook *o, enum space_kind kind)
{
  const uint64_t len = space_next_chunk (sp, kind, o->unallocated);
  const unsigned copies = space_copies (space_profile (sp, kind));

  o->unallocated -= len * copies;
  if (kind == SPACE_METADATA)
    o->meta += len;
  else
    o->data += len;
  return len > 0;
}

/* What those who write data out promise themselves for a moment. */
#define WRITE_OUT_ITEMS 144

/* Would metadata get another chunk, now (metadata_is_short) or ahead of time
 * (space_grow)?
 */
static bool
would_grow (struct space *sp, const struct outlook *o, uint64_t bytes)
{
  const uint64_t passing = (uint64_t) WRITE_OUT_ITEMS * sp->nodesize * 2
    * PATH_LEVELS;

  SCOPED_LOCK (&sp->lock);
  return !sp->mixed && metadata_needed (sp, passing, bytes)
    > (sp->info[SPACE_METADATA].total + o->meta) / 5 * 4;
}

static bool
would_be_promised (struct space *sp, uint64_t usable, uint64_t bytes)
{
  struct outlook o = { .unallocated = usable };

  while (would_grow (sp, &o, bytes) && add_chunk (sp, &o, SPACE_METADATA))
    ;
  while (!would_fit (sp, &o, bytes)) {
    if (!add_chunk (sp, &o, space_data_kind (sp)))
      return would_fit (sp, &o, bytes);
  }
  return true;
}

int
space_writable (struct space *sp, uint64_t *ret)
{
  uint64_t low = 0, high, usable;
  int r = space_load_groups (sp);

  if (r < 0)
    return r;
  usable = space_usable (sp);
  mutex_lock (&sp->lock);
  high = (sp->info[space_data_kind (sp)].total + usable) / sp->sectorsize;
  mutex_unlock (&sp->lock);
  /* In sectors: LOW would be promised, HIGH + 1 would not. */
  while (low < high) {
    const uint64_t mid = high - (high - low) / 2;

    if (would_be_promised (sp, usable, mid * sp->sectorsize))
      low = mid;
    else
      high = mid - 1;
  }
  *ret = low * sp->sectorsize;
  return 0;
}

/* --- working for space --- */

static int
in_txn (struct space *sp, int (*fn) (struct space *, struct txn *,
                                     enum space_kind, bool *),
        enum space_kind kind, bool *ret)
{
  struct txn *txn;
  int r;

  r = txn_join (sp->trans, &txn);
  if (r < 0)
    return r;
  r = fn (sp, txn, kind, ret);
  return txn_leave (txn, r, true);
}

static int
run_refs (struct space *sp, struct txn *txn, enum space_kind kind, bool *ret)
{
  (void) kind;
  (void) ret;
  return sp->run_refs (sp->run_refs_opaque, txn);
}

/* Metadata lives on overcommit, or soon will. */
static bool
metadata_is_short (struct space *sp)
{
  SCOPED_LOCK (&sp->lock);
  return metadata_needed (sp, 2 * MIB, 0) > sp->info[SPACE_METADATA].total;
}

/* Chunks could make the difference at all; if not, none are wasted. */
static bool
chunks_help (struct space *sp, const struct want *w)
{
  unsigned copies = space_copies (space_profile (sp, w->kind));

  SCOPED_LOCK (&sp->lock);
  return w->bytes <= sp->unallocated / copies + sp->info[w->kind].total;
}

/* Chunks until the promise can be made, *ret_ok, or none is left to make.
 * Before data takes one, metadata gets what it was promised.
 */
static int
make_chunks (struct space *sp, const struct want *w, bool *ret_ok)
{
  bool made = chunks_help (sp, w);
  int r = 0;

  while (made && !*ret_ok) {
    made = false;
    if (w->kind == SPACE_DATA && metadata_is_short (sp))
      r = in_txn (sp, space_chunk_alloc, SPACE_METADATA, &made);
    if (r == 0)
      r = in_txn (sp, space_chunk_alloc, w->kind, &made);
    if (r < 0)
      return r;
    *ret_ok = promise (sp, w, true);
  }
  return 0;
}

/* Could a commit help?  It frees what is pinned, and gives back empty groups
 * of the other kind.
 */
static bool
commit_helps (struct space *sp, const struct want *w)
{
  uint64_t spare[SPACE_KINDS] = { 0 };
  struct block_group *bg;
  unsigned empty = 0;

  SCOPED_LOCK (&sp->lock);
  spare[w->kind] = sp->info[w->kind].pinned;
  if (spare[w->kind] > 0 && fits_with (sp, w, spare))
    return true;
  if (w->kind == SPACE_DATA && sp->info[SPACE_METADATA].pinned > 0 &&
      metadata_needed (sp, 0, w->bytes) > sp->info[SPACE_METADATA].total)
    return true;
  RB_FOREACH (bg, groups, &sp->groups)
    if (bg->kind != w->kind && bg->kind != SPACE_SYSTEM && bg->used == 0 &&
        ++empty > 1)
      return true;
  return false;
}

/* Chunks, references, then commits: the second one frees what the trees of
 * the first one freed, and what its removal of empty groups gave back.
 */
static int
work_for (struct space *sp, const struct want *w, bool *ret_ok)
{
  unsigned step;
  bool dummy;
  int r = 0;

  for (step = 0; ; step++) {
    *ret_ok = *ret_ok || promise (sp, w, true);
    if (*ret_ok || step == 6)
      return 0;
    switch (step) {
    case 0: case 3: case 5:
      r = make_chunks (sp, w, ret_ok);
      break;
    case 1:
      r = in_txn (sp, run_refs, w->kind, &dummy);
      break;
    default:
      if (!commit_helps (sp, w))
        return 0;
      r = trans_commit (sp->trans, NULL);
    }
    if (r < 0)
      return r;
  }
}

/* --- the image --- */

/* Would W fit if nothing was held, at once? */
static bool
helps_now (struct space *sp, const void *w)
{
  uint64_t held[SPACE_KINDS];
  unsigned i;

  for (i = 0; i < SPACE_KINDS; i++)
    held[i] = sp->info[i].held;
  return fits_with (sp, w, held);
}

/* Would it when commits have run as well, and chunks were made of groups that
 * they have removed?
 */
static bool
helps_later (struct space *sp, const void *w)
{
  uint64_t gain[SPACE_KINDS], raw = space_hold_gain (sp, gain);

  gain[((const struct want *) w)->kind] += raw;
  return fits_with (sp, w, gain);
}

bool
space_meta_roomy (struct space *sp)
{
  SCOPED_LOCK (&sp->lock);
  return metadata_needed (sp, MAX (32 * MIB, sp->global), 0) <=
    sp->info[SPACE_METADATA].total + overcommit_bytes (sp);
}

void
space_grow (struct space *sp)
{
  const struct space_info *m = &sp->info[SPACE_METADATA];
  bool low, made;

  {
    SCOPED_LOCK (&sp->lock);
    low = sp->loaded && sp->unallocated > 0 &&
      m->used + m->reserved + m->pinned + m->held + hidden_demand (sp) +
        sp->global > m->total / 5 * 4;
  }
  if (low && in_txn (sp, space_chunk_alloc, SPACE_METADATA, &made) < 0)
    err_clear ();
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
  if (r == 0 && !*ret_ok && space_hold_yield_all (sp, helps_later, w))
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
  if (trans_in_txn (sp->trans)) {
    ok = promise (sp, w, true);
    if (!ok && space_hold_yield_all (sp, helps_now, w))
      ok = promise (sp, w, true);
  }
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

bool
space_data_try_reserve (struct space *sp, uint64_t bytes)
{
  struct want w = { .kind = space_data_kind (sp), .bytes = bytes,
    .data = true };
  bool loaded;

  {
    SCOPED_LOCK (&sp->lock);
    loaded = sp->loaded;
  }
  return sp->trans != NULL && loaded && promise (sp, &w, false);
}

void
space_data_unreserve (struct space *sp, uint64_t bytes)
{
  struct space_info *i = &sp->info[space_data_kind (sp)];

  SCOPED_LOCK (&sp->lock);
  assert (i->may_use >= bytes && sp->data_promised >= bytes);
  i->may_use -= bytes;
  sp->data_promised -= bytes;
}
