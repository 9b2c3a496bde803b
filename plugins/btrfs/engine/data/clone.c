/* data: ranges that share their extents with another file.
 *
 * Both ranges are locked, the source is written out, and write-out is kept
 * away from the target while its items are replaced, some to a transaction, by
 * items for the same extents.  A crash in between leaves a part of it done.
 *
 * Of a source that is written in place the whole file is locked and written
 * out: what was promised to go in place, anywhere in an extent that becomes
 * shared, has gone there by then.
 *
 * An inline extent is copied, as any bytes are.  Preallocated space becomes a
 * hole: nobody could write to it in place while it is shared.
 */
#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

#define PIECES 32              /* most items of one transaction */
#define PIECE_ITEMS 16         /* most old items that one of them replaces */
#define COMPARE_BYTES (256 * 1024)

struct cloning {
  struct data *d;
  struct file_data *src, *dst;
  uint64_t from, to;           /* where the ranges begin, sectors */
  uint64_t len, sectors;       /* bytes; the same in whole sectors */
  uint64_t shared;             /* bytes that have got another extent */
  bool whole;                  /* the source is locked from end to end */
  bool own_end;                /* to behind the end of the source itself */
  struct range_lock lock[2];
  unsigned num_locks;
};

/* --- what may be done --- */

static int
check_range (struct cloning *c, bool dedupe)
{
  const uint64_t size = file_size (c->src), end = c->from + c->len;
  const uint64_t dst_size = file_size (c->dst);

  if (c->from > size || c->len > size - c->from)
    return err_new (ERR_file_range, "%" PRIu64 " bytes at %" PRIu64
                    " of a file of %" PRIu64, c->len, c->from, size);
  if (c->to > DATA_FILE_END - CACHE_FRAME
      || c->len > DATA_FILE_END - CACHE_FRAME - c->to)
    return err_new (ERR_file_big, "%" PRIu64 " bytes at %" PRIu64, c->len,
                    c->to);
  if (!is_aligned (c->from | c->to, c->d->ps))
    return err_new (ERR_invalid, "the ranges do not begin with a block of %u "
                    "bytes", c->d->ps);
  if (is_aligned (c->len, c->d->ps) || c->own_end)
    return 0;
  /* Bytes behind the end share a block with the last ones. */
  if (end != size || (dedupe ? c->to + c->len != dst_size
                      : c->to + c->len < dst_size))
    return err_new (ERR_invalid, "the ranges end within a block of %u bytes, "
                    "and not with both files", c->d->ps);
  return 0;
}

static int
check_files (struct cloning *c)
{
  if (file_has_csums (c->src) != file_has_csums (c->dst))
    return err_new (ERR_invalid, "only one of the files has checksums");
  if (c->src == c->dst && c->from < c->to + c->sectors
      && c->to < c->from + c->sectors)
    return err_new (ERR_invalid, "the ranges overlap");
  return 0;
}

/* --- locks --- */

static bool
src_first (const struct cloning *c)
{
  const struct inode *a = c->src->inode, *b = c->dst->inode;

  if (a == b)
    return c->from <= c->to;
  return a->ino != b->ino ? a->ino < b->ino : a->root->id < b->root->id;
}

/* Gates by the id of their subvolume. */
static void
pass_gates (struct cloning *c)
{
  struct root *a = c->src->inode->root, *b = c->dst->inode->root;

  if (a->id <= b->id)
    gate_operation_begin (&a->gate);
  if (a != b)
    gate_operation_begin (&b->gate);
  if (a->id > b->id)
    gate_operation_begin (&a->gate);
}

static void
leave_gates (struct cloning *c)
{
  struct root *a = c->src->inode->root, *b = c->dst->inode->root;

  gate_operation_end (&a->gate);
  if (a != b)
    gate_operation_end (&b->gate);
}

static void
lock_one (struct cloning *c, struct file_data *f, uint64_t start,
          uint64_t end)
{
  range_lock (&f->ranges, &c->lock[c->num_locks++], start, end);
}

static void
lock_src (struct cloning *c)
{
  if (c->whole)
    lock_one (c, c->src, 0, DATA_FILE_END);
  else
    lock_one (c, c->src, c->from, c->from + c->sectors);
}

static void
lock_both (struct cloning *c)
{
  const bool first = src_first (c);
  const bool one = c->src == c->dst && c->whole;

  c->num_locks = 0;
  if (one || first)
    lock_src (c);
  if (!one)
    lock_one (c, c->dst, c->to, c->to + c->sectors);
  if (!one && !first)
    lock_src (c);
}

static void
unlock_both (struct cloning *c)
{
  struct file_data *first = src_first (c) ? c->src : c->dst;
  struct file_data *second = src_first (c) ? c->dst : c->src;

  if (c->num_locks == 2)
    range_unlock (&second->ranges, &c->lock[1]);
  range_unlock (&first->ranges, &c->lock[0]);
}

/* A file becomes one that is written in place when it is zeroed for the first
 * time, and that takes all of its ranges (data_zero): so once we have one, the
 * answer stands.
 */
static void
lock_ranges (struct cloning *c)
{
  pass_gates (c);
  c->whole = file_may_nocow (c->src);
  lock_both (c);
  if (!c->whole && file_may_nocow (c->src)) {
    unlock_both (c);
    c->whole = true;
    lock_both (c);
  }
}

static void
unlock_ranges (struct cloning *c)
{
  unlock_both (c);
  leave_gates (c);
}

/* --- the items --- */

struct batch {
  struct cloning *c;
  struct mapping m[PIECES];    /* of the target */
  size_t n;
  uint64_t pos;                /* of the target: all below is done */
  uint64_t added, removed;     /* bytes of the inode */
};

/* What the source has at SRC_POS, as the target will have it, to END of the
 * target.
 */
static void
translate (struct batch *b, const struct mapping *m, uint64_t src_pos,
           uint64_t end)
{
  const struct cloning *c = b->c;
  struct mapping *t = &b->m[b->n++];

  *t = *m;
  t->ext_offset += src_pos - m->offset;
  t->offset = c->to + (src_pos - c->from);
  t->len = MIN (m->len - (src_pos - m->offset), end - t->offset);
  t->nocow = NOCOW_UNKNOWN;
}

static bool
is_data (const struct mapping *m)
{
  return m->kind == MAP_REGULAR;
}

/* The target has that already from POS on; *ret_end: how far. */
static int
is_there (struct cloning *c, const struct mapping *t, bool *ret_same,
          uint64_t *ret_end)
{
  struct mapping old;
  int r = map_lookup (c->dst, t->offset, &old);

  if (r < 0)
    return r;
  *ret_end = MIN (t->offset + t->len, old.offset + old.len);
  *ret_same = old.kind == MAP_REGULAR && old.disk == t->disk
    && old.compression == t->compression
    && old.ext_offset - old.offset == t->ext_offset - t->offset;
  return 0;
}

/* Extents of the source from the target's B->pos on, until something else
 * comes: a hole (*ret_hole: where it ends, in the target), or what the target
 * has already (B->pos moves).
 */
static int
gather (struct batch *b, uint64_t end, uint64_t *ret_hole)
{
  struct cloning *c = b->c;
  uint64_t pos = b->pos;

  b->n = 0;
  *ret_hole = 0;
  while (pos < end && b->n < PIECES) {
    const uint64_t src_pos = c->from + (pos - c->to);
    struct mapping m;
    uint64_t same_end;
    bool same;
    int r = map_lookup (c->src, src_pos, &m);

    if (r < 0)
      return r;
    if (m.kind == MAP_INLINE)
      return err_new (ERR_file_extent, "inline extent at %" PRIu64, src_pos);
    if (!is_data (&m)) {
      if (b->n == 0)
        *ret_hole = MIN (end, pos + (m.len - (src_pos - m.offset)));
      return 0;
    }
    translate (b, &m, src_pos, end);
    r = is_there (c, &b->m[b->n - 1], &same, &same_end);
    if (r < 0)
      return r;
    if (same) {
      if (--b->n == 0)
        b->pos = same_end;
      return 0;
    }
    pos = b->m[b->n - 1].offset + b->m[b->n - 1].len;
  }
  return 0;
}

/* One item; *ret_whole: all of it fitted.  The target's tree is locked. */
static int
put_item (struct batch *b, struct txn *txn, struct mapping *t,
          bool *ret_whole)
{
  struct cloning *c = b->c;
  struct drop drop = { .txn = txn, .f = c->dst, .start = t->offset,
                       .end = t->offset + t->len, .max_items = PIECE_ITEMS };
  int r = drop_extents (&drop);

  if (r < 0)
    return r;
  b->removed += drop.nbytes;
  *ret_whole = drop.done == drop.end;
  t->len = drop.done - drop.start;
  b->pos = drop.done;
  if (t->len == 0)
    return 0;
  b->added += t->len;
  r = insert_extent (txn, c->dst, t);
  if (r == 0)
    map_set (c->dst, t);
  return r;
}

static int
change_tree (struct batch *b, struct txn *txn)
{
  struct tree *t = file_tree (b->c->dst);
  bool whole = true;
  size_t i;
  int r = 0;

  rwlock_wrlock (&t->lock);
  for (i = 0; i < b->n && r == 0 && whole; ++i)
    r = put_item (b, txn, &b->m[i], &whole);
  rwlock_unlock (&t->lock);
  b->n = i;
  return r;
}

/* Before the source's range is unlocked: its extents are not its alone. */
static int
add_refs (struct batch *b, struct txn *txn)
{
  struct cloning *c = b->c;
  size_t i;
  int r = 0;

  for (i = 0; i < b->n && r == 0; ++i) {
    const struct mapping *t = &b->m[i];
    const uint64_t src_pos = c->from + (t->offset - c->to);

    if (t->len == 0)
      continue;
    r = extent_data_inc (c->d->env.extents, txn, mapping_ref (c->dst, t));
    map_shared (c->src, src_pos - t->ext_offset, MAX (t->ram, t->disk_len));
    c->shared += t->len;
  }
  return r;
}

/* inode.lock held.  The source's references keep the extents alive. */
static int
change (struct batch *b, struct txn *txn)
{
  struct file_data *f = b->c->dst;
  const uint64_t start = b->pos;
  int r;

  b->added = b->removed = 0;
  r = change_tree (b, txn);
  if (r == 0)
    r = add_refs (b, txn);
  if (r < 0)
    return r;
  file_changed (f, txn, start, b->pos);
  /* What is without checksums may be overwritten in place again when the
   * other side is gone, which a log would not know.
   */
  if (!file_has_csums (f))
    file_changed_beyond_log (f, txn);
  assert (b->pos > start);
  return inode_finish_change (txn, f, b->added, b->removed);
}

static int
run_batch (struct batch *b)
{
  struct inode *in = b->c->dst->inode;
  struct txn *txn;
  int r;

  mutex_lock (&in->lock);
  r = txn_begin (b->c->d->env.trans, 8 + b->n / 4, &txn);
  if (r == 0) {
    r = change (b, txn);
    r = txn_leave (txn, r, true);
  }
  mutex_unlock (&in->lock);
  return r;
}

/* Write-out is kept away from the target. */
static int
clone_items (struct cloning *c)
{
  const uint64_t end = c->to + c->sectors;
  CLEANUP_FREE struct batch *b = calloc (1, sizeof *b);
  uint64_t hole;
  int r = 0;

  if (b == NULL)
    return err_new (ERR_nomem, "clone");
  b->c = c;
  b->pos = c->to;
  while (r == 0 && b->pos < end) {
    r = gather (b, end, &hole);
    if (r == 0 && hole > 0) {
      r = punch_items (c->dst, b->pos, hole);
      b->pos = hole;
    }
    else if (r == 0 && b->n > 0)
      r = run_batch (b);
  }
  return r;
}

/* --- a range --- */

static int
write_out_src (struct cloning *c)
{
  if (c->whole)
    return file_write_out_inside (c->src, 0, DATA_FILE_END, UINT64_MAX);
  return file_write_out_inside (c->src, c->from, c->from + c->sectors,
                                UINT64_MAX);
}

/* A whole small file. */
static int
copy_inline (struct cloning *c)
{
  CLEANUP_FREE uint8_t *buf = malloc (c->d->ps);
  const size_t n = MIN (c->len, (uint64_t) c->d->ps);
  int r;

  if (buf == NULL)
    return err_new (ERR_nomem, "clone");
  r = file_read (c->src, buf, n, c->from);
  return r < 0 ? r : file_write (c->dst, buf, n, c->to, true);
}

static int
clone_locked (struct cloning *c)
{
  struct dirty_hold hold;
  struct mapping m;
  int r;

  if (c->to + c->len > file_size (c->dst))
    return err_new (ERR_file_range, "the file has been cut meanwhile");
  r = write_out_src (c);
  if (r == 0)
    r = map_lookup (c->src, c->from, &m);
  if (r < 0)
    return r;
  if (m.kind == MAP_INLINE)
    return copy_inline (c);
  dirty_hold (c->dst, &hold, c->to, c->to + c->sectors);
  r = clone_items (c);
  dirty_release (c->dst, &hold, r == 0 ? c->to + c->sectors : 0);
  return r;
}

static int
prepare (struct cloning *c, struct inode *src, struct inode *dst)
{
  struct data *d = c->d;
  int r;

  r = file_get (d, src, &c->src);
  if (r == 0)
    r = file_get (d, dst, &c->dst);
  if (r == 0)
    r = file_check_writable (c->dst);
  if (r == 0 && c->len == 0 && c->from <= file_size (c->src))
    c->len = file_size (c->src) - c->from;
  c->sectors = round_up (c->len, d->ps);
  return r;
}

int
data_clone (struct data *d, struct inode *src, uint64_t from, uint64_t len,
            struct inode *dst, uint64_t to)
{
  struct cloning c = { .d = d, .from = from, .to = to, .len = len };
  int r;

  r = prepare (&c, src, dst);
  if (r == 0)
    r = check_range (&c, false);
  if (r == 0)
    r = check_files (&c);
  if (r < 0 || c.len == 0)
    return r;
  if (c.to + c.len > file_size (c.dst)) {
    c.own_end = c.src == c.dst;
    r = data_set_size (d, dst, c.to + c.len);
    if (r < 0)
      return r;
  }
  lock_ranges (&c);
  r = check_range (&c, false);
  if (r == 0)
    r = clone_locked (&c);
  unlock_ranges (&c);
  return r;
}

/* --- ranges that hold the same --- */

static int
compare_bytes (struct cloning *c)
{
  CLEANUP_FREE uint8_t *buf = malloc (2 * COMPARE_BYTES);
  uint64_t at;
  int r = 0;

  if (buf == NULL)
    return err_new (ERR_nomem, "comparison");
  for (at = 0; at < c->len && r == 0; at += COMPARE_BYTES) {
    const size_t n = MIN (c->len - at, (uint64_t) COMPARE_BYTES);

    r = file_read (c->src, buf, n, c->from + at);
    if (r == 0)
      r = file_read (c->dst, buf + COMPARE_BYTES, n, c->to + at);
    if (r == 0 && memcmp (buf, buf + COMPARE_BYTES, n) != 0)
      r = err_new (ERR_differs, "%" PRIu64 " bytes at %" PRIu64 " and %"
                   PRIu64, c->len, c->from, c->to);
  }
  return r;
}

/* The target has the source's extents from one end to the other. */
static int
all_shared (struct cloning *c, bool *ret_all)
{
  uint64_t pos = c->from, end = c->from + c->sectors;

  *ret_all = false;
  while (pos < end) {
    const uint64_t to = c->to + (pos - c->from);
    struct mapping a, b;
    int r = map_lookup (c->src, pos, &a);

    if (r == 0)
      r = map_lookup (c->dst, to, &b);
    if (r < 0)
      return r;
    if (a.kind != b.kind || (a.kind != MAP_HOLE && a.kind != MAP_REGULAR)
        || (a.kind == MAP_REGULAR
            && (a.disk != b.disk || a.compression != b.compression
                || a.ext_offset + (pos - a.offset)
                != b.ext_offset + (to - b.offset))))
      return 0;
    pos += MIN (a.len - (pos - a.offset), b.len - (to - b.offset));
  }
  *ret_all = true;
  return 0;
}

static int
dedupe_locked (struct cloning *c)
{
  struct dirty_hold hold;
  struct mapping m;
  bool all = false;
  int r;

  r = write_out_src (c);
  if (r == 0)
    r = file_write_out_inside (c->dst, c->to, c->to + c->sectors, UINT64_MAX);
  if (r == 0)
    r = all_shared (c, &all);
  if (r == 0 && !all)
    r = map_lookup (c->src, c->from, &m);
  if (r < 0 || all || m.kind == MAP_INLINE)
    return r;
  r = compare_bytes (c);
  if (r < 0)
    return r;
  dirty_hold (c->dst, &hold, c->to, c->to + c->sectors);
  r = clone_items (c);
  dirty_release (c->dst, &hold, 0);
  return r;
}

int
data_dedupe (struct data *d, struct inode *src, uint64_t from, uint64_t len,
             struct inode *dst, uint64_t to, uint64_t *ret_shared)
{
  struct cloning c = { .d = d, .from = from, .to = to, .len = len };
  int r;

  *ret_shared = 0;
  r = prepare (&c, src, dst);
  if (r == 0)
    r = check_files (&c);
  if (r < 0)
    return r;
  lock_ranges (&c);
  r = check_range (&c, true);
  if (r == 0)
    r = file_check_range (c.dst, to, c.len);
  if (r == 0 && c.len > 0)
    r = dedupe_locked (&c);
  unlock_ranges (&c);
  *ret_shared = c.shared;
  return r;
}
