/* space: collecting changes of the free space tree and applying them. */
#include <config.h>

#include <stdlib.h>
#include <time.h>

#include "base/err.h"
#include "base/math.h"
#include "space/space_priv.h"

static int
fst_change_cmp (const struct fst_change *a, const struct fst_change *b)
{
  return a->start < b->start ? -1 : a->start > b->start;
}

RB_GENERATE (fst_changes, fst_change, entry, fst_change_cmp)

void
fst_changes_clear (struct fst_changes *set)
{
  struct fst_change *e;

  while ((e = RB_ROOT (set)) != NULL) {
    RB_REMOVE (fst_changes, set, e);
    free (e);
  }
}

/* The first entry that ends behind POS. */
static struct fst_change *
first_behind (struct fst_changes *set, uint64_t pos)
{
  struct fst_change *e = RB_ROOT (set), *found = NULL;

  while (e) {
    if (e->start + e->len > pos) {
      found = e;
      e = RB_LEFT (e, entry);
    }
    else
      e = RB_RIGHT (e, entry);
  }
  return found;
}

static int
put (struct fst_changes *set, uint64_t start, uint64_t len, bool is_free)
{
  struct fst_change *e = calloc (1, sizeof *e);

  if (e == NULL)
    return err_new (ERR_nomem, "change of free space");
  e->start = start;
  e->len = len;
  e->free = is_free;
  RB_INSERT (fst_changes, set, e);
  return 0;
}

/* A piece that overlaps nothing: join it with its neighbours. */
static int
put_merged (struct fst_changes *set, uint64_t start, uint64_t len,
            bool is_free)
{
  struct fst_change *next = first_behind (set, start), *prev;

  prev = next ? RB_PREV (fst_changes, set, next) : RB_MAX (fst_changes, set);
  if (prev && (prev->free != is_free || prev->start + prev->len != start))
    prev = NULL;
  if (next && (next->free != is_free || next->start != start + len))
    next = NULL;
  if (prev && next) {
    prev->len += len + next->len;
    RB_REMOVE (fst_changes, set, next);
    free (next);
  }
  else if (prev)
    prev->len += len;
  else if (next) {
    next->start = start;
    next->len += len;
  }
  else
    return put (set, start, len, is_free);
  return 0;
}

/* Take [START, END), all of it inside E, out of E. */
static int
cut (struct fst_changes *set, struct fst_change *e, uint64_t start,
     uint64_t end)
{
  uint64_t e_end = e->start + e->len;

  if (start == e->start && end == e_end) {
    RB_REMOVE (fst_changes, set, e);
    free (e);
  }
  else if (start == e->start) {
    e->start = end;
    e->len = e_end - end;
  }
  else {
    e->len = start - e->start;
    if (end < e_end)
      return put (set, end, e_end - end, e->free);
  }
  return 0;
}

/* What is undone vanishes: a range that is allocated and freed again leaves
 * nothing.  Freeing twice or allocating twice is refused.
 */
int
fst_changes_add (struct fst_changes *set, uint64_t start, uint64_t len,
                 bool is_free)
{
  uint64_t pos = start, end = start + len, to;
  struct fst_change *e;
  int r = 0;

  while (r == 0 && pos < end) {
    e = first_behind (set, pos);
    if (e == NULL || e->start >= end)
      return put_merged (set, pos, end - pos, is_free);
    if (e->free == is_free)
      return err_new (ERR_fst_state, "%llu+%llu is %s already",
                      (unsigned long long) start, (unsigned long long) len,
                      is_free ? "free" : "in use");
    if (e->start > pos) {
      to = e->start;
      r = put_merged (set, pos, to - pos, is_free);
      pos = to;
      continue;
    }
    to = MIN (end, e->start + e->len);
    r = cut (set, e, pos, to);
    pos = to;
  }
  return r;
}

static uint64_t
now_ns (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * UINT64_C (1000000000) + ts.tv_nsec;
}

static int
group_init (struct fst_group *g, struct space *sp, struct txn *txn,
            struct block_group *bg, struct fst_stats *stats)
{
  struct root *root = roots_pool_tree (sp->roots, BTRFS_FREE_SPACE_TREE);

  if (root == NULL)
    return err_new (ERR_subvol_missing, "the free space tree is missing");
  *g = (struct fst_group) { .txn = &txn->tree, .tree = root->tree, .bg = bg,
    .sector = sp->sectorsize, .stats = stats };
  return 0;
}

static void
add_stats (struct space *sp, const struct fst_stats *s)
{
  SCOPED_LOCK (&sp->lock);
  sp->fst_stats.changes += s->changes;
  sp->fst_stats.applied += s->applied;
  sp->fst_stats.ns += s->ns;
  sp->fst_stats.to_bitmaps += s->to_bitmaps;
  sp->fst_stats.to_extents += s->to_extents;
}

/* The way without batching, kept for comparison. */
static int
apply_now (struct space *sp, struct txn *txn, struct block_group *bg,
           uint64_t start, uint64_t len, bool is_free)
{
  struct fst_stats stats = { .changes = 1, .applied = 1 };
  struct fst_group g;
  int r = group_init (&g, sp, txn, bg, &stats);

  if (r < 0)
    return r;
  stats.ns = now_ns ();
  rwlock_wrlock (&g.tree->lock);
  if (sp->fst_no_cache)
    bg->form = FST_UNKNOWN;
  r = fst_apply (&g, start, len, is_free);
  if (r == 0)
    r = fst_write_info (&g);
  rwlock_unlock (&g.tree->lock);
  stats.ns = now_ns () - stats.ns;
  add_stats (sp, &stats);
  return r;
}

int
space_fst_note (struct space *sp, struct txn *txn, struct block_group *bg,
                uint64_t start, uint64_t len, bool is_free)
{
  struct fst_stats stats = { .changes = 1 };
  int r;

  if (!sp->fst_enabled || !bg->fst_ready)
    return 0;
  if (sp->fst_one_by_one && !bg->fresh)
    return apply_now (sp, txn, bg, start, len, is_free);
  {
    SCOPED_LOCK (&bg->lock);
    r = fst_changes_add (&bg->changes, start, len, is_free);
  }
  add_stats (sp, &stats);
  return r < 0 ? err_note (r, "block group %llu",
                           (unsigned long long) bg->start) : 0;
}

static int
write_group (struct space *sp, struct txn *txn, struct block_group *bg)
{
  struct fst_changes set;
  struct fst_change *e;
  struct fst_stats stats = { 0 };
  struct fst_group g;
  int r = group_init (&g, sp, txn, bg, &stats);

  if (r < 0)
    return r;
  {
    SCOPED_LOCK (&bg->lock);
    set = bg->changes;
    RB_INIT (&bg->changes);
  }
  stats.ns = now_ns ();
  rwlock_wrlock (&g.tree->lock);
  if (sp->fst_no_cache)
    bg->form = FST_UNKNOWN;
  RB_FOREACH (e, fst_changes, &set) {
    r = fst_apply (&g, e->start, e->len, e->free);
    stats.applied++;
    if (r < 0)
      break;
  }
  if (r == 0)
    r = fst_write_info (&g);
  rwlock_unlock (&g.tree->lock);
  stats.ns = now_ns () - stats.ns;
  add_stats (sp, &stats);
  fst_changes_clear (&set);
  return r < 0 ? err_note (r, "free space of block group %llu",
                           (unsigned long long) bg->start) : 0;
}

static struct block_group *
next_changed (struct space *sp, uint64_t addr)
{
  struct block_group find = { .start = addr }, *bg;
  bool some;

  SCOPED_LOCK (&sp->lock);
  for (bg = RB_NFIND (groups, &sp->groups, &find); bg;
       bg = RB_NEXT (groups, &sp->groups, bg)) {
    mutex_lock (&bg->lock);
    some = !RB_EMPTY (&bg->changes);
    mutex_unlock (&bg->lock);
    if (some && !bg->fresh)
      return bg;
  }
  return NULL;
}

int
space_write_fst (struct space *sp, struct txn *txn, bool *ret_changed)
{
  struct block_group *bg;
  uint64_t at = 0;
  int r;

  *ret_changed = false;
  while ((bg = next_changed (sp, at)) != NULL) {
    r = write_group (sp, txn, bg);
    if (r < 0)
      return r;
    *ret_changed = true;
    at = bg->start + 1;
  }
  return 0;
}

void
space_fst_enable (struct space *sp)
{
  SCOPED_LOCK (&sp->lock);
  sp->fst_enabled = sp->fst_trusted = true;
}

void
space_fst_set_mode (struct space *sp, bool one_by_one, bool no_cache)
{
  SCOPED_LOCK (&sp->lock);
  sp->fst_one_by_one = one_by_one;
  sp->fst_no_cache = no_cache;
}

void
space_fst_get_stats (struct space *sp, struct fst_stats *ret)
{
  SCOPED_LOCK (&sp->lock);
  *ret = sp->fst_stats;
}
