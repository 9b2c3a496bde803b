/* data: a FLUSH whose data is written together with its log.
 *
 * A write-out that a FLUSH waits for is one trip to the disk before the log's
 * own.  For the plain case, one small run that takes the place of extents, the
 * two are one: what will be the file's extent is known once the run has its
 * place, so the log is told of it before it is written, and the tree is
 * changed when it has been.
 *
 * That keeps the order of durability: the superblock that leads to the log is
 * written after a barrier behind both; the tree leads to the extent only when
 * it is written; and whoever logs it holds a handle, so no commit comes in
 * between.  If the write fails the log of this transaction is given up, and
 * the pages are dirty as before.
 */
#include <config.h>

#include <assert.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/math.h"
#include "data/writeout.h"

#define FLUSH_PAGES 32

struct data_flush {
  struct writeout w;
  struct dirty_batch batch;
  struct volume_op op[FLUSH_PAGES];
  struct iovec iov[FLUSH_PAGES];
  size_t first[FLUSH_PAGES];
  uint64_t start, end, seq;    /* what is flushed */
  int result;
};

/* One run over plain extents inside the file: only the extent items change,
 * neither size nor nbytes.
 */
static bool
is_plain (struct data_flush *df)
{
  const struct writeout *w = &df->w;
  const struct file_data *f = w->f;
  struct mapping old;
  bool known;
  uint64_t end;

  if (w->runs != 1 || w->run[0].mode != WO_COW || w->run[0].failed)
    return false;
  end = run_offset (w, &w->run[0]) + run_len (w, &w->run[0]);
  map_peek (w->f, run_offset (w, &w->run[0]), &old, &known);
  return known && old.kind == MAP_REGULAR && old.compression == 0 &&
    old.offset + old.len >= end && end <= f->inode->disk_size;
}

static bool
is_fit (struct data_flush *df)
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

/* What the run takes the place of is known when this returns, as far as it can
 * be: of a file that was just opened nothing is, and a writer that copies does
 * not ask.
 */
static void
look_up (struct data_flush *df)
{
  struct mapping m;

  if (df->w.runs == 1 &&
      map_lookup (df->w.f, run_offset (&df->w, &df->w.run[0]), &m) < 0)
    err_clear ();               /* the insertion will meet it */
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

bool
data_flush_get (struct data_flush *df, uint64_t transid,
                struct data_flush_extent *ret)
{
  const struct writeout *w = &df->w;
  const struct wo_run *run = &w->run[0];
  const uint64_t len = run_len (w, run);
  const struct mapping m = { .offset = run_offset (w, run), .len = len,
    .disk = run->disk, .disk_len = len, .ram = len, .kind = MAP_REGULAR,
    .generation = transid };

  assert (mutex_is_mine (&w->f->inode->lock));
  if (!is_plain (df))
    return false;
  *ret = (struct data_flush_extent) { .offset = m.offset, .len = m.len,
    .disk = m.disk, .sums = file_has_csums (w->f) ? w->sums : NULL };
  mapping_to_disk (&m, transid, &ret->item);
  return true;
}

struct volume_op *
data_flush_op (struct data_flush *df)
{
  return &df->op[0];
}

int
data_flush_insert (struct data_flush *df, struct txn *txn)
{
  assert (mutex_is_mine (&df->w.f->inode->lock));
  df->result = df->op[0].result;
  if (df->result < 0)
    df->w.run[0].failed = true;
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
