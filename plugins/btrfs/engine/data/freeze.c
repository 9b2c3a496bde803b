/* data: making files stand still for a snapshot, while writers go on.
 *
 * The gates of the subvolumes are closed, so that nothing is under write-out.
 * At the switch all dirty pages are frozen: they become pages under write-out
 * and are what the snapshot will hold; whoever writes to such a sector makes
 * a newer page, as ever.  The frozen ones are then written out, by us alone.
 * What was accepted before the switch is thus treated as if no snapshot was
 * being made: in place, without new space, where that was promised.  What
 * cannot be written is dirty again, and there is no snapshot.
 */
#include <config.h>

#include <assert.h>

#include "base/err.h"
#include "data/data_priv.h"

void
dirty_freeze (struct file_data *f)
{
  struct dirty_frame *fr;

  SCOPED_LOCK (&f->dirty_lock);
  assert (f->num_wb == 0);
  RB_FOREACH (fr, dirty_tree, &f->dirty) {
    unsigned bits;

    for (bits = fr->cur; bits != 0; bits &= bits - 1) {
      const unsigned i = __builtin_ctz (bits);

      fr->wb_page[i] = fr->page[i];
    }
    fr->wb = fr->frozen = fr->cur;
    fr->frozen_reserved = fr->reserved;
    fr->cur = fr->reserved = 0;
    f->num_wb += __builtin_popcount (fr->wb);
  }
}

size_t
dirty_collect_frozen (struct file_data *f, struct dirty_page *out, size_t max,
                      struct dirty_batch *batch)
{
  struct dirty_frame *fr;
  size_t n = 0;

  batch->seq = 0;               /* older than what anybody waits for */
  SCOPED_LOCK (&f->dirty_lock);
  RB_FOREACH (fr, dirty_tree, &f->dirty) {
    for (; fr->frozen != 0 && n < max; fr->frozen &= fr->frozen - 1) {
      const unsigned i = __builtin_ctz (fr->frozen);

      out[n++] = (struct dirty_page) {
        .offset = fr->offset + (uint64_t) i * f->d->ps,
        .page = fr->wb_page[i],
        .reserved = (fr->frozen_reserved >> i & 1) != 0 };
    }
    if (n == max)
      break;
  }
  if (n > 0)
    dirty_batch_add (f, batch);
  return n;
}

/* Pages of FR that are not frozen any more; the number of sectors of space
 * that is not needed.
 */
static size_t
unfreeze_frame (struct file_data *f, struct dirty_frame *fr, size_t *gone)
{
  size_t space = 0;

  for (; fr->frozen != 0; fr->frozen &= fr->frozen - 1) {
    const unsigned i = __builtin_ctz (fr->frozen), bit = 1u << i;
    const bool reserved = (fr->frozen_reserved & bit) != 0;

    fr->wb &= ~bit;
    --f->num_wb;
    if (fr->cur & bit) {        /* a newer one is there */
      pages_give (f->d->pages, &fr->wb_page[i], 1);
      space += reserved;
      ++*gone;
      continue;
    }
    fr->cur |= bit;
    fr->page[i] = fr->wb_page[i];
    fr->reserved = reserved ? fr->reserved | bit : fr->reserved & ~bit;
    fr->seq = 0;
  }
  return space;
}

void
dirty_unfreeze (struct file_data *f)
{
  struct dirty_frame *fr;
  size_t space = 0, gone = 0;

  mutex_lock (&f->dirty_lock);
  RB_FOREACH (fr, dirty_tree, &f->dirty)
    space += unfreeze_frame (f, fr, &gone);
  __atomic_fetch_sub (&f->num_dirty, gone, __ATOMIC_RELEASE);
  cond_broadcast (&f->dirty_cond);
  mutex_unlock (&f->dirty_lock);
  if (space > 0)
    space_data_unreserve (f->d->env.space, space * f->d->ps);
  dirty_unthrottle (f->d, gone);
}

static bool
is_among (const struct root *root, struct root *const *v, size_t n)
{
  size_t i;

  for (i = 0; i < n; ++i)
    if (v[i] == root)
      return true;
  return false;
}

/* The next dirty file of the subvolumes that GEN has not seen, kept. */
static struct file_data *
next_file (struct data *d, struct root *const *v, size_t n, uint64_t gen)
{
  struct file_data *f;

  SCOPED_LOCK (&d->lock);
  TAILQ_FOREACH (f, &d->dirty_files, dirty_link)
    if (f->freeze_gen < gen && is_among (f->inode->root, v, n))
      break;
  if (f != NULL) {
    f->freeze_gen = gen;
    ++f->busy;
  }
  return f;
}

static void
let_go (struct file_data *f)
{
  struct data *d = f->d;

  SCOPED_LOCK (&d->lock);
  --f->busy;
  cond_broadcast (&d->progress);
}

static uint64_t
new_gen (struct data *d)
{
  SCOPED_LOCK (&d->lock);
  return ++d->freeze_gen;
}

/* Most of it, so that little is left for the time of the closed gates. */
static int
write_ahead (struct data *d, struct root *const *v, size_t n)
{
  const uint64_t gen = new_gen (d);
  struct file_data *f;
  int r = 0, one;

  while ((f = next_file (d, v, n, gen)) != NULL) {
    one = file_write_out (f, 0, DATA_FILE_END, dirty_now (f));
    let_go (f);
    if (r == 0)
      r = one;
  }
  return r;
}

TAILQ_HEAD (frozen_files, file_data);

/* Nobody puts a page into a file of theirs meanwhile. */
static void
freeze_all (struct data *d, struct root *const *v, size_t n,
            struct frozen_files *files)
{
  const uint64_t gen = new_gen (d);
  struct file_data *f;

  while ((f = next_file (d, v, n, gen)) != NULL) {
    dirty_freeze (f);
    TAILQ_INSERT_TAIL (files, f, frozen_link);
  }
}

static int
write_frozen (struct frozen_files *files)
{
  struct file_data *f;
  int r = 0, one;

  while ((f = TAILQ_FIRST (files)) != NULL) {
    TAILQ_REMOVE (files, f, frozen_link);
    one = file_write_out_frozen (f);
    let_go (f);
    if (r == 0)
      r = one;
  }
  return r;
}

int
data_freeze (struct data *d, struct root *const *v, size_t n)
{
  struct frozen_files files = TAILQ_HEAD_INITIALIZER (files);
  size_t i;
  int r;

  r = write_ahead (d, v, n);
  if (r < 0)
    return err_note (r, "write-out for a snapshot");
  for (i = 0; i < n; ++i)
    gate_close_operations (&v[i]->gate);
  for (i = 0; i < n; ++i)
    gate_close_batches (&v[i]->gate);
  for (i = 0; i < n; ++i)
    gate_switch_begin (&v[i]->gate);
  freeze_all (d, v, n, &files);
  for (i = 0; i < n; ++i)
    gate_switch_end (&v[i]->gate);
  r = write_frozen (&files);
  if (r < 0) {
    data_thaw (d, v, n);
    return err_note (r, "write-out for a snapshot");
  }
  return 0;
}

void
data_thaw (struct data *d, struct root *const *v, size_t n)
{
  size_t i;

  (void) d;
  for (i = 0; i < n; ++i)
    gate_open (&v[i]->gate);
}
