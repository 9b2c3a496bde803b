/* space: the allocators of data extents and tree blocks. */
#include <config.h>

#include <assert.h>

#include "base/err.h"
#include "base/math.h"
#include "space/space_priv.h"

/* What is certainly not free: an upper bound for one allocation. */
static uint64_t
group_free_bytes (const struct block_group *bg)
{
  uint64_t gone = bg->used + bg->reserved + bg->pinned + bg->held +
    bg->super_bytes;

  return bg->readonly || bg->removed || gone >= bg->length ? 0
    : bg->length - gone;
}

/* A loaded group knows better.  A race only costs a futile try. */
static bool
worth_trying (struct block_group *bg, uint64_t min, uint64_t sectorsize)
{
  bool yes;

  if (group_free_bytes (bg) < min)
    return false;
  mutex_lock (&bg->lock);
  yes = !bg->loaded || bg->map.max_run >= min / sectorsize;
  mutex_unlock (&bg->lock);
  return yes;
}

struct alloc {
  enum space_kind kind;
  uint64_t min, want, hint, align; /* bytes */
  uint64_t promised;           /* taken off may_use; at most */
  bool data;
};

/* A walk over the groups by address, wrapping once. */
struct walk {
  bool begun, wrapped;
  uint64_t first, next;
};

static struct block_group *
first_group (struct space *sp, const struct alloc *a)
{
  struct block_group *bg = a->hint ? space_find (sp, a->hint) : NULL;

  if (bg == NULL || bg->kind != a->kind)
    bg = sp->current[a->kind];
  return bg ? bg : RB_MIN (groups, &sp->groups);
}

/* The next group that may have MIN bytes; NULL: the walk is over. */
static struct block_group *
next_group (struct space *sp, const struct alloc *a, uint64_t min,
            struct walk *w)
{
  struct block_group *bg, find;

  SCOPED_LOCK (&sp->lock);
  for (;;) {
    if (!w->begun) {
      w->begun = true;
      bg = first_group (sp, a);
      if (bg == NULL)
        return NULL;
      w->first = bg->start;
    }
    else {
      find.start = w->next;
      bg = RB_NFIND (groups, &sp->groups, &find);
      if (bg == NULL && !w->wrapped) {
        w->wrapped = true;
        bg = RB_MIN (groups, &sp->groups);
      }
      if (bg == NULL || (w->wrapped && bg->start >= w->first))
        return NULL;
    }
    w->next = bg->start + 1;
    if (bg->kind == a->kind && worth_trying (bg, min, sp->sectorsize))
      return bg;
  }
}

/* Try one group: *ret_len 0 when it has nothing. */
static int
try_group (struct space *sp, struct block_group *bg, const struct alloc *a,
           uint64_t *ret_start, uint64_t *ret_len)
{
  uint64_t ss = sp->sectorsize, s = 0, len = 0;
  struct free_want w = { .min = a->min / ss, .want = a->want / ss,
    .align = a->align / ss, .phase = bg->start % a->align / ss };
  int r;

  *ret_len = 0;
  r = space_load_free (sp, bg);
  if (r < 0)
    return r;
  mutex_lock (&bg->lock);
  w.from = bg->cursor;
  if (a->hint >= bg->start && a->hint - bg->start < bg->length)
    w.from = (a->hint - bg->start) / ss;
  if (bg->loaded && !bg->readonly && free_map_find (&bg->map, &w, &s, &len)) {
    r = free_map_set (&bg->map, s, len, false, NULL);
    if (r == 0)
      bg->cursor = s + len;
    else
      len = 0;
    /* Without memory it counts as the image's own. */
    if (bg->mapped && len > 0 &&
        free_map_set (&bg->young, s, len, true, NULL) < 0)
      err_clear ();
  }
  mutex_unlock (&bg->lock);
  if (r < 0)
    return r;
  *ret_start = bg->start + s * ss;
  *ret_len = len * ss;
  return 0;
}

static void
account (struct space *sp, struct block_group *bg, const struct alloc *a,
         uint64_t len)
{
  struct space_info *i = &sp->info[bg->kind];
  uint64_t promised = MIN (a->promised, len);

  SCOPED_LOCK (&sp->lock);
  assert (i->may_use >= promised);
  i->may_use -= promised;
  if (a->data) {
    assert (sp->data_promised >= promised);
    sp->data_promised -= promised;
    sp->data_owed += promised;
  }
  bg->reserved += len;
  i->reserved += len;
  sp->current[bg->kind] = bg;
}

/* No free run is longer than LIMIT, unless something was freed meanwhile. */
static void
note_limit (struct space *sp, enum space_kind kind, uint64_t limit,
            uint64_t frees)
{
  SCOPED_LOCK (&sp->lock);
  if (sp->frees[kind] == frees)
    sp->run_limit[kind] = MIN (sp->run_limit[kind], limit);
}

/* *ret_len 0: no group has MIN bytes. */
static int
alloc_extent (struct space *sp, const struct alloc *a, uint64_t *ret_start,
              uint64_t *ret_len)
{
  struct block_group *bg;
  struct walk walk = { 0 };
  uint64_t min, frees;
  int r;

  {
    SCOPED_LOCK (&sp->lock);
    min = MAX (a->min, MIN (a->want, sp->run_limit[a->kind]));
    frees = sp->frees[a->kind];
  }
  /* First groups that have all of it, then any piece. */
  for (;;) {
    while ((bg = next_group (sp, a, min, &walk)) != NULL) {
      struct alloc b = *a;
      b.min = min;
      r = try_group (sp, bg, &b, ret_start, ret_len);
      if (r < 0)
        return r;
      if (*ret_len > 0) {
        account (sp, bg, a, *ret_len);
        return 0;
      }
    }
    if (a->align == sp->sectorsize)
      note_limit (sp, a->kind, min - sp->sectorsize, frees);
    if (min == a->min)
      break;
    min = MAX (a->min, round_down (min / 4, sp->sectorsize));
    walk = (struct walk) { 0 };
  }
  *ret_len = 0;
  return 0;
}

int
space_data_alloc (struct space *sp, uint64_t min, uint64_t want,
                  uint64_t hint, uint64_t *ret_start, uint64_t *ret_len)
{
  struct alloc a = { .kind = space_data_kind (sp), .min = min, .want = want,
    .hint = hint, .align = sp->sectorsize, .promised = want,
    .data = true };
  int r;

  assert (min > 0 && min <= want && is_aligned (min, sp->sectorsize) &&
          is_aligned (want, sp->sectorsize));
  do
    r = alloc_extent (sp, &a, ret_start, ret_len);
  while (r == 0 && *ret_len == 0 &&
         (space_wait_discard (sp) || space_hold_yield (sp, a.kind, a.min)));
  if (r == 0 && *ret_len == 0)
    r = err_new (ERR_nospace, "no free extent of %llu bytes",
                 (unsigned long long) min);
  return r;
}

/* sp->lock held. */
static void
data_free_locked (struct space *sp, uint64_t start, uint64_t len)
{
  struct block_group *bg;

  bg = space_find (sp, start);
  assert (bg && bg->reserved >= len);
  bg->reserved -= len;
  sp->info[bg->kind].reserved -= len;
  space_give_back (sp, bg, start, len);
}

void
space_data_free (struct space *sp, uint64_t start, uint64_t len)
{
  SCOPED_LOCK (&sp->lock);
  data_free_locked (sp, start, len);
}

void
space_data_unalloc (struct space *sp, uint64_t start, uint64_t len)
{
  SCOPED_LOCK (&sp->lock);
  data_free_locked (sp, start, len);
  sp->info[space_data_kind (sp)].may_use += len;
  sp->data_promised += len;
  assert (sp->data_owed >= len);
  sp->data_owed -= len;
}

void
space_data_settled (struct space *sp, uint64_t len)
{
  SCOPED_LOCK (&sp->lock);
  assert (sp->data_owed >= len);
  sp->data_owed -= len;
}

int
space_meta_alloc (struct space *sp, struct txn *txn, bool system,
                  uint64_t hint, uint64_t *ret_bytenr)
{
  struct alloc a = { .kind = system ? SPACE_SYSTEM : SPACE_METADATA,
    .min = sp->nodesize, .want = sp->nodesize, .align = sp->nodesize };
  bool made = false;
  uint64_t len;
  int r;

  /* Next-fit beats closeness: what one commit writes lies together. */
  (void) hint;
  if (!system && !txn->committer && txn->reserved_bytes >= sp->nodesize)
    a.promised = sp->nodesize;
  do
    r = alloc_extent (sp, &a, ret_bytenr, &len);
  while (r == 0 && len == 0 && space_wait_discard (sp));
  if (r == 0 && len == 0) {
    if (!system)
      r = space_chunk_alloc (sp, txn, SPACE_METADATA, &made);
    if (r == 0 && (made || space_hold_yield (sp, a.kind, a.min)))
      r = alloc_extent (sp, &a, ret_bytenr, &len);
  }
  if (r < 0)
    return r;
  if (len == 0)
    return err_new (ERR_nospace_meta, "%s block",
                    system ? "system" : "metadata");
  txn->reserved_bytes -= a.promised;
  return 0;
}

/* Metadata space beyond what is used, promised, or kept as last resort. */
static bool
log_has_room (struct space *sp, uint64_t len)
{
  const struct space_info *i = &sp->info[SPACE_METADATA];
  uint64_t gone;

  SCOPED_LOCK (&sp->lock);
  gone = space_gone (i);
  return gone <= i->total &&
    i->total - gone >= i->may_use + sp->global + len;
}

int
space_log_alloc (struct space *sp, unsigned want, uint64_t *ret_bytenr,
                 unsigned *ret_n)
{
  struct alloc a = { .kind = SPACE_METADATA, .min = sp->nodesize,
    .want = (uint64_t) want * sp->nodesize, .align = sp->nodesize };
  uint64_t len;
  int r;

  if (!log_has_room (sp, a.want))
    a.want = sp->nodesize;
  if (!log_has_room (sp, a.want))
    return err_new (ERR_nospace_meta, "log block");
  r = alloc_extent (sp, &a, ret_bytenr, &len);
  if (r == 0 && len == 0)
    r = err_new (ERR_nospace_meta, "log block");
  if (r == 0)
    *ret_n = len / sp->nodesize;
  return r;
}

static int
take_free (struct space *sp, struct block_group *bg, uint64_t start,
           uint64_t len)
{
  const uint64_t s = (start - bg->start) / sp->sectorsize;
  const uint64_t n = len / sp->sectorsize;
  uint64_t run, run_len;

  SCOPED_LOCK (&bg->lock);
  if (!bg->loaded || !free_map_next_run (&bg->map, s, true, &run, &run_len) ||
      run != s || run_len < n)
    return err_new (ERR_fst_state, "%llu bytes at %llu are not free",
                    (unsigned long long) len, (unsigned long long) start);
  return free_map_set (&bg->map, s, n, false, NULL);
}

int
space_take (struct space *sp, uint64_t start, uint64_t len)
{
  struct block_group *bg;
  int r = space_load_groups (sp);

  if (r < 0)
    return r;
  mutex_lock (&sp->lock);
  bg = space_find (sp, start);
  mutex_unlock (&sp->lock);
  if (bg == NULL || len == 0 || len > bg->start + bg->length - start ||
      !is_aligned (start | len, sp->sectorsize))
    return err_new (ERR_bg_missing, "%llu bytes at %llu",
                    (unsigned long long) len, (unsigned long long) start);
  r = space_load_free (sp, bg);
  if (r == 0)
    r = take_free (sp, bg, start, len);
  if (r < 0)
    return r;
  SCOPED_LOCK (&sp->lock);
  bg->reserved += len;
  sp->info[bg->kind].reserved += len;
  return 0;
}

bool
space_has_new_chunk (struct space *sp, uint64_t transid)
{
  return __atomic_load_n (&sp->chunk_transid, __ATOMIC_ACQUIRE) >= transid;
}
