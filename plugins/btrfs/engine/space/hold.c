/* space: one generation that stays in place, for the image of the pool.
 *
 * While a hold is active, nothing that the trees of its commit lead to is
 * written over: space that later commits free is not used again nor
 * discarded, writes in place are refused (space_nocow_begin), and its block
 * groups stay, so that their places on the devices do, too.
 *
 *   NONE -> BEGUN: writes in place are refused everywhere, those that had
 *   begun are waited for.  -> CAPTURED, with joins shut out, by the commit
 *   that is to be held: whatever is taken from free space from now on is
 *   young, in a map per group.  -> ACTIVE, that commit is durable: what it
 *   has freed itself is free, but of what later ones free only the young is.
 *   -> NONE, by the last client; or before that, when too much is held, or
 *   somebody finds no room for what would fit if nothing was: writers go
 *   first.
 *
 * What was freed is not free before its commit is durable, with a hold or
 * without: until then it is pinned, and nothing of that is the hold's doing.
 * So the bound is looked at when a commit has made held of pinned.
 *
 * What is not young may be no part of the held generation (it was taken while
 * that was being built, and was not used, or there was no memory to note
 * it): then it is kept without need, which does no harm.
 */
#include <config.h>

#include <assert.h>

#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "space/space_priv.h"

#define HOLD_ALL UINT64_MAX    /* hold_generation until the capture */

void
space_hold_cleanup (struct block_group *bg)
{
  free_map_done (&bg->young);
  free_map_done (&bg->held_map);
}

static uint64_t
held_bytes (const struct space *sp)
{
  uint64_t n = 0;
  unsigned i;

  for (i = 0; i < SPACE_KINDS; i++)
    n += sp->info[i].held;
  return n;
}

static void
set_state (struct space *sp, enum hold_state state, uint64_t generation)
{
  assert (mutex_is_mine (&sp->lock));
  sp->hold = state;
  __atomic_store_n (&sp->hold_generation, generation, __ATOMIC_RELEASE);
}

/* --- freed space --- */

/* The group's lock held, too. */
static void
free_locked (struct space *sp, struct block_group *bg, uint64_t start,
             uint64_t len)
{
  if (bg->readonly)
    sp->info[bg->kind].readonly += len;
  space_give_back_locked (sp, bg, start, len);
  if (sp->discard && ranges_add (&sp->discards, start, len) < 0)
    err_clear ();               /* a hint that is not given */
}

static void
free_range (struct space *sp, struct block_group *bg, uint64_t start,
            uint64_t len)
{
  SCOPED_LOCK (&bg->lock);
  free_locked (sp, bg, start, len);
}

static void
keep (struct space *sp, struct block_group *bg, uint64_t start, uint64_t len)
{
  int r;

  mutex_lock (&bg->lock);
  r = free_map_set (&bg->held_map, (start - bg->start) / sp->sectorsize,
                    len / sp->sectorsize, true, NULL);
  mutex_unlock (&bg->lock);
  if (r < 0) {
    /* Lost until the next open, as in space_give_back. */
    err_clear ();
    bg->reserved += len;
    sp->info[bg->kind].reserved += len;
    return;
  }
  bg->held += len;
  sp->info[bg->kind].held += len;
}

/* The run of equal answers, is it young?, that begins at START. */
static bool
is_young (struct space *sp, struct block_group *bg, uint64_t start,
          uint64_t len, uint64_t *ret_len)
{
  const uint64_t ss = sp->sectorsize, at = (start - bg->start) / ss;
  uint64_t s, n;
  bool young;

  SCOPED_LOCK (&bg->lock);
  young = free_map_test (&bg->young, at);
  free_map_next_run (&bg->young, at, young, &s, &n);
  assert (s == at && n > 0);
  *ret_len = MIN (n * ss, len);
  return young;
}

void
space_range_unpinned (struct space *sp, struct block_group *bg,
                      uint64_t start, uint64_t len)
{
  uint64_t part;

  if (sp->hold != HOLD_ACTIVE || !bg->mapped) {
    free_range (sp, bg, start, len);
    return;
  }
  for (; len > 0; start += part, len -= part)
    if (is_young (sp, bg, start, len, &part))
      free_range (sp, bg, start, part);
    else
      keep (sp, bg, start, part);
}

/* --- the end --- */

/* In one section: whoever loads the group's map meanwhile finds what is held
 * here, or as free in the committed tree.
 */
static void
release_group (struct space *sp, struct block_group *bg)
{
  const uint64_t ss = sp->sectorsize;
  uint64_t at = 0, s, n;

  SCOPED_LOCK (&bg->lock);
  while (bg->held > 0 &&
         free_map_next_run (&bg->held_map, at, true, &s, &n)) {
    bg->held -= n * ss;
    sp->info[bg->kind].held -= n * ss;
    free_locked (sp, bg, bg->start + s * ss, n * ss);
    at = s + n;
  }
  assert (bg->held == 0);
  bg->mapped = false;
  space_hold_cleanup (bg);
}

/* No reader is told from here on that anything is in its place; release_all is
 * to be called when space->lock is dropped.
 */
static void
end_locked (struct space *sp, const char *why)
{
  set_state (sp, HOLD_NONE, 0);
  sp->hold_why = why;
  cond_broadcast (&sp->nocow_cond);
  if (why)
    log_warning ("the image of the pool has been ended: %s; %llu bytes that "
                 "it held are free", why,
                 (unsigned long long) held_bytes (sp));
}

/* A group at a time: each may be in many pieces. */
static void
release_all (struct space *sp)
{
  struct block_group find = { .start = 0 }, *bg;

  do {
    SCOPED_LOCK (&sp->lock);
    bg = sp->hold == HOLD_NONE ? RB_NFIND (groups, &sp->groups, &find) : NULL;
    while (bg && !bg->mapped)
      bg = RB_NEXT (groups, &sp->groups, bg);
    if (bg) {
      release_group (sp, bg);
      find.start = bg->start + 1;
    }
  } while (bg);
}

void
space_hold_end (struct space *sp, uint64_t id)
{
  {
    SCOPED_LOCK (&sp->lock);
    if (sp->hold != HOLD_NONE && sp->hold_id == id)
      end_locked (sp, NULL);
  }
  release_all (sp);
}

bool
space_hold_cancel (struct space *sp, const char *why)
{
  bool was;

  {
    SCOPED_LOCK (&sp->lock);
    was = sp->hold != HOLD_NONE;
    if (was)
      end_locked (sp, why);
  }
  release_all (sp);
  return was;
}

void
space_hold_finish (struct space *sp)
{
  bool ended = false;

  {
    SCOPED_LOCK (&sp->lock);
    if (sp->hold == HOLD_CAPTURED)
      set_state (sp, HOLD_ACTIVE, sp->hold_generation);
    else if (sp->hold == HOLD_ACTIVE && held_bytes (sp) > sp->hold_limit) {
      end_locked (sp, "it held more than image-reserve allows");
      ended = true;
    }
  }
  if (ended)
    release_all (sp);
}

/* Another one may be about to release what it has ended. */
bool
space_hold_yield (struct space *sp, enum space_kind kind, uint64_t bytes)
{
  bool yes;

  {
    SCOPED_LOCK (&sp->lock);
    yes = bytes > 0 && sp->info[kind].held >= bytes;
    if (yes && sp->hold != HOLD_NONE)
      end_locked (sp, "the pool is full");
  }
  if (yes)
    release_all (sp);
  return yes;
}

uint64_t
space_hold_gain (struct space *sp, uint64_t gain[SPACE_KINDS])
{
  unsigned empty[SPACE_KINDS] = { 0 };
  struct block_group *bg;
  uint64_t raw = 0;
  unsigned i;

  assert (mutex_is_mine (&sp->lock));
  for (i = 0; i < SPACE_KINDS; i++)
    gain[i] = sp->info[i].held + sp->info[i].pinned;
  RB_FOREACH (bg, groups, &sp->groups)
    if (bg->mapped && bg->used == 0 && ++empty[bg->kind] > 1)
      raw += bg->length;
  return raw;
}

bool
space_hold_yield_all (struct space *sp, bool (*helps) (struct space *,
                                                       const void *),
                      const void *opaque)
{
  bool yes;

  {
    SCOPED_LOCK (&sp->lock);
    yes = (sp->hold != HOLD_NONE || held_bytes (sp) > 0) &&
      helps (sp, opaque);
    if (yes && sp->hold != HOLD_NONE)
      end_locked (sp, "the pool is full");
  }
  if (yes)
    release_all (sp);
  return yes;
}

/* --- the beginning --- */

int
space_hold_begin (struct space *sp, uint64_t limit, uint64_t *ret_id)
{
  uint64_t id;
  int r = space_load_groups (sp);

  if (r < 0)
    return r;
  release_all (sp);             /* somebody else may be at it */
  SCOPED_LOCK (&sp->lock);
  assert (sp->hold == HOLD_NONE);
  id = ++sp->hold_id;
  sp->hold_limit = limit;
  sp->hold_why = NULL;
  set_state (sp, HOLD_BEGUN, HOLD_ALL);
  while (sp->nocow > 0 && sp->hold == HOLD_BEGUN)
    cond_wait (&sp->nocow_cond, &sp->lock);
  *ret_id = id;
  return 0;
}

void
space_hold_capture (struct space *sp, uint64_t id, uint64_t transid)
{
  struct block_group *bg;

  SCOPED_LOCK (&sp->lock);
  if (sp->hold != HOLD_BEGUN || sp->hold_id != id)
    return;
  assert (sp->nocow == 0);
  RB_FOREACH (bg, groups, &sp->groups) {
    mutex_lock (&bg->lock);
    assert (!bg->mapped);
    bg->mapped = true;
    free_map_init (&bg->young, bg->length / sp->sectorsize, false);
    free_map_init (&bg->held_map, bg->length / sp->sectorsize, false);
    mutex_unlock (&bg->lock);
  }
  set_state (sp, HOLD_CAPTURED, transid);
}

/* --- asking --- */

int
space_hold_check (struct space *sp, uint64_t id)
{
  const char *why = space_hold_why (sp, id);

  return why ? err_new (ERR_image_ended, "%s", why) : 0;
}

const char *
space_hold_why (struct space *sp, uint64_t id)
{
  SCOPED_LOCK (&sp->lock);
  if (sp->hold != HOLD_NONE && sp->hold_id == id)
    return NULL;
  return sp->hold_id == id && sp->hold_why ? sp->hold_why
    : "a newer one has been opened since";
}

uint64_t
space_held_generation (const struct space *sp)
{
  return __atomic_load_n (&sp->hold_generation, __ATOMIC_ACQUIRE);
}

bool
space_hold_has (struct space *sp, uint64_t addr)
{
  struct block_group *bg;
  bool young;

  if (sp->hold == HOLD_NONE)
    return false;
  if (sp->hold == HOLD_BEGUN)
    return true;
  bg = space_find (sp, addr);
  if (bg == NULL || !bg->mapped)
    return false;
  mutex_lock (&bg->lock);
  young = free_map_test (&bg->young, (addr - bg->start) / sp->sectorsize);
  mutex_unlock (&bg->lock);
  return !young;
}

bool
space_is_held (struct space *sp, uint64_t addr)
{
  SCOPED_LOCK (&sp->lock);
  return space_hold_has (sp, addr);
}

/* The group of ADDR if hold ID has it. */
static struct block_group *
mapped_group (struct space *sp, uint64_t id, uint64_t addr)
{
  struct block_group *bg;

  SCOPED_LOCK (&sp->lock);
  if (sp->hold == HOLD_NONE || sp->hold_id != id)
    return NULL;
  bg = space_find (sp, addr);
  return bg && bg->mapped ? bg : NULL;
}

/* What is free now, or has been taken from what was, is no part of it. */
static bool
may_use (struct block_group *bg, uint64_t at, uint64_t *ret_n)
{
  struct free_map *const maps[] = { &bg->map, &bg->young };
  uint64_t s, n, end = bg->young.nbits;
  unsigned i;

  for (i = 0; i < ARRAY_SIZE (maps); i++) {
    if (!free_map_next_run (maps[i], at, true, &s, &n))
      continue;
    if (s == at) {
      *ret_n = n;
      return false;
    }
    end = MIN (end, s);
  }
  *ret_n = end - at;
  return true;
}

bool
space_hold_may_use (struct space *sp, uint64_t id, uint64_t addr,
                    uint64_t len, uint64_t *ret_len)
{
  struct block_group *bg = mapped_group (sp, id, addr);
  uint64_t at, n;
  bool yes;

  *ret_len = len;
  if (bg == NULL)
    return true;
  *ret_len = MIN (len, bg->start + bg->length - addr);
  if (space_load_free (sp, bg) < 0) {
    err_clear ();
    return true;
  }
  SCOPED_LOCK (&bg->lock);
  if (!bg->mapped || !bg->loaded)
    return true;
  at = (addr - bg->start) / sp->sectorsize;
  yes = may_use (bg, at, &n);
  *ret_len = MIN (*ret_len, bg->start + (at + n) * sp->sectorsize - addr);
  return yes;
}
