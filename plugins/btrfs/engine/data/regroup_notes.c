/* data: where extents have changed since somebody looked at them. */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/math.h"
#include "data/regroup_priv.h"

int
regroup_new (bool on, struct regroup **ret)
{
  struct regroup *g = calloc (1, sizeof *g);

  if (g == NULL)
    return err_new (ERR_nomem, "regrouping");
  g->on = on;
  mutex_init (&g->lock, RANK_REGROUP);
  cond_init (&g->work);
  cond_init (&g->stopping);
  TAILQ_INIT (&g->notes);
  *ret = g;
  return 0;
}

static void
note_free (struct regroup *g, struct regroup_note *n)
{
  TAILQ_REMOVE (&g->notes, n, link);
  --g->num_notes;
  if (n->file != NULL)
    __atomic_store_n (&n->file->note, NULL, __ATOMIC_RELAXED);
  free (n);
}

void
regroup_free (struct regroup *g)
{
  if (g == NULL)
    return;
  while (!TAILQ_EMPTY (&g->notes))
    note_free (g, TAILQ_FIRST (&g->notes));
  cond_done (&g->stopping);
  cond_done (&g->work);
  mutex_done (&g->lock);
  free (g);
}

/* --- regions --- */

static bool
is_set (const struct regroup_note *n, unsigned region)
{
  return __atomic_load_n (&n->set[region / 64], __ATOMIC_RELAXED)
    >> region % 64 & 1;
}

static void
set_region (struct regroup_note *n, unsigned region)
{
  if (is_set (n, region))
    return;
  __atomic_fetch_or (&n->set[region / 64], UINT64_C (1) << region % 64,
                     __ATOMIC_RELAXED);
  ++n->n;
}

static void
clear_region (struct regroup_note *n, unsigned region)
{
  __atomic_fetch_and (&n->set[region / 64],
                      ~(UINT64_C (1) << region % 64), __ATOMIC_RELAXED);
  --n->n;
}

/* Regions become larger until END lies in one. */
static void
reach (struct regroup_note *n, uint64_t end)
{
  while ((end - 1) >> n->shift >= NOTE_REGIONS) {
    unsigned i;

    ++n->shift;
    for (i = 0; i < NOTE_REGIONS; ++i)
      if (is_set (n, i)) {
        clear_region (n, i);
        set_region (n, i / 2);
      }
  }
}

static bool
all_set (const struct regroup_note *n, uint64_t start, uint64_t end)
{
  uint64_t i;

  if ((end - 1) >> n->shift >= NOTE_REGIONS)
    return false;
  for (i = start >> n->shift; i <= (end - 1) >> n->shift; ++i)
    if (!is_set (n, i))
      return false;
  return true;
}

/* --- notes; lock held --- */

/* The oldest one whose file is not in memory goes. */
static void
make_room (struct regroup *g)
{
  struct regroup_note *n;

  if (g->num_notes < NOTES_MAX)
    return;
  TAILQ_FOREACH (n, &g->notes, link)
    if (n->file == NULL) {
      note_free (g, n);
      return;
    }
}

static struct regroup_note *
note_of (struct regroup *g, struct file_data *f)
{
  struct regroup_note *n = f->note;

  if (n != NULL)
    return n;
  TAILQ_FOREACH (n, &g->notes, link)
    if (n->ino == f->inode->ino && n->root_id == f->inode->root->id)
      break;
  if (n == NULL) {
    make_room (g);
    n = calloc (1, sizeof *n);
    if (n == NULL)
      return NULL;
    n->root_id = f->inode->root->id;
    n->ino = f->inode->ino;
    n->shift = NOTE_SHIFT;
    TAILQ_INSERT_TAIL (&g->notes, n, link);
    ++g->num_notes;
  }
  n->file = f;
  __atomic_store_n (&f->note, n, __ATOMIC_RELAXED);
  return n;
}

void
regroup_note (struct file_data *f, uint64_t start, uint64_t end)
{
  struct regroup *g = f->d->regroup;
  struct regroup_note *n = __atomic_load_n (&f->note, __ATOMIC_RELAXED);
  uint64_t i;

  assert (mutex_is_mine (&f->inode->lock));
  end = MIN (end, round_up (file_size (f), f->d->ps));
  if (!g->on || start >= end || (n != NULL && all_set (n, start, end)))
    return;
  SCOPED_LOCK (&g->lock);
  n = note_of (g, f);
  if (n == NULL)
    return;
  n->end = MIN (round_up (file_size (f), f->d->ps), DATA_FILE_END);
  reach (n, n->end);
  if (n->n == 0)
    cond_broadcast (&g->work);
  for (i = start >> n->shift; i <= (end - 1) >> n->shift; ++i)
    set_region (n, i);
}

void
regroup_file_left (struct file_data *f)
{
  struct regroup *g = f->d->regroup;

  if (f->note == NULL)
    return;
  SCOPED_LOCK (&g->lock);
  f->note->file = NULL;
}

void
data_regroup_again (struct data *d)
{
  struct regroup *g = d->regroup;
  struct regroup_note *n;
  uint64_t i;

  SCOPED_LOCK (&g->lock);
  TAILQ_FOREACH (n, &g->notes, link)
    for (i = 0; i << n->shift < n->end; ++i)
      set_region (n, i);
  cond_broadcast (&g->work);
}

/* --- for who works on them --- */

static bool
take_region (struct regroup_note *n, struct data_regroup_job *ret)
{
  unsigned i;

  if (n->n == 0)
    return false;
  for (i = 0; !is_set (n, i); ++i)
    ;
  clear_region (n, i);
  *ret = (struct data_regroup_job) { .root_id = n->root_id, .ino = n->ino,
    .start = (uint64_t) i << n->shift,
    .end = (uint64_t) (i + 1) << n->shift };
  return true;
}

/* Of the first file that has one; the others come before it next time. */
static bool
take_job (struct regroup *g, struct data_regroup_job *ret)
{
  struct regroup_note *n;

  g->working = 0;
  TAILQ_FOREACH (n, &g->notes, link) {
    if (!take_region (n, ret))
      continue;
    TAILQ_REMOVE (&g->notes, n, link);
    TAILQ_INSERT_TAIL (&g->notes, n, link);
    g->working = (uint64_t) 1 << n->shift;
    return true;
  }
  return false;
}

bool
data_regroup_next (struct data *d, struct data_regroup_job *ret)
{
  struct regroup *g = d->regroup;

  SCOPED_LOCK (&g->lock);
  while (!g->stop) {
    if (take_job (g, ret))
      return true;
    cond_wait (&g->work, &g->lock);
  }
  return false;
}

bool
data_regroup_try (struct data *d, struct data_regroup_job *ret)
{
  struct regroup *g = d->regroup;

  SCOPED_LOCK (&g->lock);
  return !g->stop && take_job (g, ret);
}

void
data_regroup_forget (struct data *d, const struct data_regroup_job *job)
{
  struct regroup *g = d->regroup;
  struct regroup_note *n;

  SCOPED_LOCK (&g->lock);
  TAILQ_FOREACH (n, &g->notes, link)
    if (n->ino == job->ino && n->root_id == job->root_id)
      break;
  if (n != NULL && n->file == NULL)
    note_free (g, n);
}

bool
data_regroup_pause (struct data *d, unsigned ms)
{
  struct regroup *g = d->regroup;

  SCOPED_LOCK (&g->lock);
  if (!g->stop && ms > 0)
    cond_timedwait (&g->stopping, &g->lock, ms);
  return !g->stop;
}

void
data_regroup_stop (struct data *d)
{
  struct regroup *g = d->regroup;

  SCOPED_LOCK (&g->lock);
  g->stop = true;
  cond_broadcast (&g->work);
  cond_broadcast (&g->stopping);
}

void
data_regroup_get_stats (struct data *d, struct data_regroup_stats *ret)
{
  struct regroup *g = d->regroup;
  const struct regroup_note *n;

  SCOPED_LOCK (&g->lock);
  *ret = (struct data_regroup_stats) {
    .moved = __atomic_load_n (&g->moved, __ATOMIC_RELAXED),
    .failed = __atomic_load_n (&g->failed, __ATOMIC_RELAXED) };
  ret->noted = g->working;
  TAILQ_FOREACH (n, &g->notes, link)
    ret->noted += (uint64_t) n->n << n->shift;
}
