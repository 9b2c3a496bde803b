/* data: a FLUSH whose data is written together with its log.
 *
 * A write-out that a FLUSH waits for is one trip to the disk before the log's
 * own.  For the plain case, few pages that are neighbours on the disk and take
 * the place of extents or holes, the two are one: what will be the file's
 * extents is known once the pages have their place, so the log is told of them
 * before they are written, and the tree is changed when they have been.
 *
 * That keeps the order of durability: the superblock that leads to the log is
 * written after a barrier behind both; the tree leads to the extents only when
 * they are written; and whoever logs it holds a handle, so no commit comes in
 * between.  If the write fails the log of this transaction is given up, and
 * the pages are dirty as before.
 */
#include <config.h>

#include <assert.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/math.h"
#include "data/writeout.h"

#define FLUSH_PAGES WRITEOUT_LOGGED_RUNS

struct data_flush {
  struct writeout w;
  struct dirty_batch batch;
  struct volume_op op[FLUSH_PAGES];
  struct iovec iov[FLUSH_PAGES];
  size_t first[FLUSH_PAGES];
  uint64_t start, end, seq;    /* what is flushed */
  int result;
};

/* Is it known that what RUN takes the place of is plain extents or holes,
 * inside the file?  Then extent items change, and nbytes, which no log need
 * tell; the size does not.
 */
static bool
is_plain_run (const struct writeout *w, const struct wo_run *run)
{
  const uint64_t end = run_offset (w, run) + run_len (w, run);
  uint64_t pos = run_offset (w, run);
  struct mapping old;
  bool known;

  if (run->mode != WO_COW || run->failed || end > w->f->inode->disk_size)
    return false;
  for (; pos < end; pos = old.offset + old.len) {
    map_peek (w->f, pos, &old, &known);
    if (!known || old.compression != 0 ||
        (old.kind != MAP_REGULAR && old.kind != MAP_HOLE))
      return false;
  }
  return true;
}

static bool
is_plain (const struct data_flush *df)
{
  const struct writeout *w = &df->w;
  bool plain = w->runs > 0 && w->runs <= WRITEOUT_LOGGED_RUNS;
  size_t k;

  for (k = 0; k < w->runs && plain; ++k)
    plain = is_plain_run (w, &w->run[k]);
  return plain;
}

static bool
is_fit (const struct data_flush *df)
{
  struct inode *in = df->w.f->inode;

  SCOPED_LOCK (&in->lock);
  return is_plain (df);
}

static int
end_batch (struct data_flush *df)
{
  struct file_data *f = df->w.f;
  const int r = df->result;

  if (r < 0)
    writeout_note_failure (&df->w, r);
  writeout_finish (&df->w, &df->batch);
  dirty_batch_end (f, &df->batch);
  gate_batch_end (file_gate (f));
  writeout_done (&df->w);
  free (df);
  return r;
}

/* *ret NULL: there is nothing that can be collected. */
static int
collect (struct file_data *f, uint64_t start, uint64_t end,
         struct data_flush **ret)
{
  struct data_flush *df = calloc (1, sizeof *df);
  int r;

  *ret = NULL;
  if (df == NULL)
    return err_new (ERR_nomem, "write-out");
  *df = (struct data_flush) { .start = start, .end = end,
                              .seq = dirty_now (f) };
  r = writeout_init (&df->w, f, FLUSH_PAGES);
  if (r == 0) {
    gate_batch_begin (file_gate (f));
    df->w.n = dirty_collect (f, start, end, df->seq, df->w.page, FLUSH_PAGES,
                             &df->batch);
    if (df->w.n > 0) {
      *ret = df;
      return 0;
    }
    gate_batch_end (file_gate (f));
  }
  writeout_done (&df->w);
  free (df);
  return r;
}

/* What the runs take the place of is known when this returns, as far as it can
 * be: of a file that was just opened nothing is, and a writer that copies does
 * not ask.
 */
static void
look_up (struct data_flush *df)
{
  const struct writeout *w = &df->w;
  struct mapping m;
  uint64_t pos, end;
  size_t k;

  for (k = 0; k < w->runs; ++k) {
    end = run_offset (w, &w->run[k]) + run_len (w, &w->run[k]);
    for (pos = run_offset (w, &w->run[k]); pos < end; pos = m.offset + m.len)
      if (map_lookup (w->f, pos, &m) < 0) {
        err_clear ();           /* the insertion will meet it */
        return;
      }
  }
}

/* Decide and allocate; written at once when it is not of the plain kind. */
static bool
is_left_to_log (struct data_flush *df)
{
  const struct writeout *w = &df->w;

  df->result = writeout_prepare (&df->w);
  if (df->result < 0)
    return false;
  look_up (df);
  if (is_fit (df) &&
      !dirty_any_but (w->f, &df->batch, df->start, df->end, df->seq) &&
      writeout_ops (&df->w, df->op, df->iov, df->first) == 1)
    return true;
  df->result = writeout_run (&df->w);
  return false;
}

int
data_flush_begin (struct data *d, struct inode *inode, uint64_t offset,
                  uint64_t len, struct data_flush **ret)
{
  struct file_data *f = __atomic_load_n (&inode->data, __ATOMIC_ACQUIRE);
  struct data_flush *df = NULL;
  uint64_t start, end;
  size_t n;
  int r;

  *ret = NULL;
  if (d->env.read_only || f == NULL)
    return 0;
  n = __atomic_load_n (&f->num_dirty, __ATOMIC_ACQUIRE);
  if (n == 0 || n > FLUSH_PAGES || file_may_nocow (f))
    return data_write_out (d, inode, offset, len);
  if (!add_ok (offset, len, &end) || end > DATA_FILE_END - d->ps)
    end = DATA_FILE_END - d->ps;
  start = round_down (offset, d->ps);
  end = round_up (end, d->ps);
  r = collect (f, start, end, &df);
  if (r < 0)
    return r;
  if (df != NULL && is_left_to_log (df)) {
    *ret = df;
    return 0;
  }
  if (df != NULL)
    r = end_batch (df);
  return r < 0 ? r : data_write_out (d, inode, offset, len);
}

unsigned
data_flush_items (const struct data_flush *df)
{
  return writeout_items (df->w.runs);
}

bool
data_flush_fits (const struct data_flush *df, size_t *ret_extents)
{
  assert (mutex_is_mine (&df->w.f->inode->lock));
  *ret_extents = df->w.runs;
  return is_plain (df);
}

void
data_flush_get (const struct data_flush *df, size_t k, uint64_t transid,
                struct data_flush_extent *ret)
{
  const struct writeout *w = &df->w;
  const struct wo_run *run = &w->run[k];
  const uint64_t len = run_len (w, run);
  const struct mapping m = { .offset = run_offset (w, run), .len = len,
    .disk = run->disk, .disk_len = len, .ram = len, .kind = MAP_REGULAR,
    .generation = transid };

  *ret = (struct data_flush_extent) { .offset = m.offset, .len = m.len,
    .disk = m.disk, .sums = file_has_csums (w->f)
      ? w->sums + run->first * w->d->fmt->csum_size : NULL };
  mapping_to_disk (&m, transid, &ret->item);
}

struct volume_op *
data_flush_op (struct data_flush *df)
{
  return &df->op[0];
}

int
data_flush_insert (struct data_flush *df, struct txn *txn)
{
  size_t k;

  assert (mutex_is_mine (&df->w.f->inode->lock));
  df->result = df->op[0].result;
  for (k = 0; k < df->w.runs; ++k)
    df->w.run[k].failed = df->result < 0;
  writeout_written (&df->w);
  if (df->result == 0)
    df->result = writeout_insert_logged (&df->w, txn);
  return df->result;
}

int
data_flush_write (struct data_flush *df)
{
  return df->result = writeout_run (&df->w);
}

int
data_flush_end (struct data_flush *df)
{
  const int r = end_batch (df);

  return r < 0 ? err_new (-r, "write-out for a flush") : 0;
}
