/* log: a regular file.
 *
 * What Linux wants to find of it: the inode item, all names, all extended
 * attributes (one that is missing was removed), and for the ranges that
 * changed the file extent items as they are now, holes as explicit items,
 * with the checksums of the extents that are new.  Where it is not known what
 * changed, all ranges count as changed.
 *
 * Replay applies extent items in the order of their keys, each replacing what
 * it covers, so items of one log must not overlap: a changed range is widened
 * to whole items, of the subvolume and of what the log holds already.
 */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/math.h"
#include "extent/csum_items.h"
#include "log/log_priv.h"

/* Most checksums copied at once. */
#define SUMS_MAX 4096
/* Most items of a file that is logged whole. */
#define WHOLE_MAX 8192

struct copy {
  struct logs *logs;
  struct log_tree *log;        /* its lock is held exclusively */
  struct inode *inode;         /* lock held; its tree's lock held shared */
};

static struct key
extent_key (const struct copy *c, uint64_t offset)
{
  return KEY (c->inode->ino, BTRFS_EXTENT_DATA, offset);
}

static bool
at_extent (const struct copy *c, const struct cursor *cur)
{
  struct key k;

  if (!cursor_at_item (cur))
    return false;
  k = cursor_key (cur);
  return k.objectid == c->inode->ino && k.type == BTRFS_EXTENT_DATA;
}

/* Where the item at CUR ends, in bytes of the file. */
static uint64_t
extent_end (const struct copy *c, const struct cursor *cur)
{
  const struct btrfs_file_extent *e = cursor_data (cur);
  const uint64_t start = cursor_key (cur).offset;

  if (e->type == BTRFS_FILE_EXTENT_INLINE)
    return round_up (start + le64_get (e->ram_bytes), c->logs->sectorsize);
  return start + le64_get (e->num_bytes);
}

/* --- checksums --- */

/* Checksums of N sectors, and whether they are there. */
struct sums {
  uint8_t *sums;
  bool *present;
};

static void
sums_done (struct sums *s)
{
  free (s->sums);
  free (s->present);
}
#define CLEANUP_SUMS __attribute__ ((cleanup (sums_done)))

static int
sums_init (struct sums *s, size_t n, uint32_t size)
{
  s->sums = malloc (n * size);
  s->present = malloc (n * sizeof *s->present);
  return s->sums && s->present ? 0
    : err_new (ERR_nomem, "checksums for the log");
}

/* What the log has already need not be written again: part of an extent that
 * it knows, because an item that covers more was replaced.
 */
static int
leave_out_logged (struct copy *c, uint64_t start, size_t n, struct sums *new,
                  struct sums *old)
{
  const uint32_t size = c->logs->csum_size;
  size_t i;
  int r;

  r = csum_items_lookup_in (c->log->tree, start, n, old->sums, old->present);
  for (i = 0; i < n && r == 0; ++i)
    if (old->present[i] && new->present[i] &&
        memcmp (old->sums + i * size, new->sums + i * size, size) == 0)
      new->present[i] = false;
  return r;
}

static int
copy_sums_of (struct copy *c, uint64_t start, size_t n, struct sums *new,
              struct sums *old)
{
  const uint32_t sector = c->logs->sectorsize, size = c->logs->csum_size;
  const uint8_t *sums = new->sums;
  const bool *present = new->present;
  size_t i, k;
  int r;

  r = csum_items_lookup (c->logs->env.roots, start, n, new->sums,
                         new->present);
  if (r == 0)
    r = leave_out_logged (c, start, n, new, old);
  for (i = 0; i < n && r == 0; i = k) {
    for (k = i + 1; k < n && present[k] == present[i]; ++k)
      ;
    if (present[i])
      r = csum_items_insert_in (c->log->tree, &c->logs->blocks.txn,
                                start + i * sector, sums + i * size, k - i);
  }
  return r;
}

/* Checksums of what item E (regular, of this transaction) refers to. */
static int
copy_sums (struct copy *c, const struct btrfs_file_extent *e)
{
  const uint32_t sector = c->logs->sectorsize;
  const bool whole = e->compression != BTRFS_COMPRESS_NONE;
  uint64_t start = le64_get (e->disk_bytenr), len;
  CLEANUP_SUMS struct sums new = { NULL, NULL }, old = { NULL, NULL };
  size_t n;
  int r;

  len = whole ? le64_get (e->disk_num_bytes) : le64_get (e->num_bytes);
  if (!whole)
    start += le64_get (e->offset);
  n = MIN (len / sector, (uint64_t) SUMS_MAX);
  r = sums_init (&new, n, c->logs->csum_size);
  if (r == 0)
    r = sums_init (&old, n, c->logs->csum_size);
  for (; len > 0 && r == 0; start += n * sector, len -= n * sector) {
    n = MIN (len / sector, (uint64_t) SUMS_MAX);
    r = copy_sums_of (c, start, n, &new, &old);
  }
  return r;
}

/* --- extents --- */

/* Widen [*START, *END) to whole items of TREE; *ret_moved when it grew. */
static int
widen (struct copy *c, struct tree *tree, uint64_t *start, uint64_t *end,
       bool *ret_moved)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  uint64_t from, to;
  int r;

  r = tree_find_le (tree, extent_key (c, *start), &cur, NULL);
  if (r == 0 && at_extent (c, &cur) && extent_end (c, &cur) > *start &&
      cursor_key (&cur).offset < *start) {
    *start = cursor_key (&cur).offset;
    *ret_moved = true;
  }
  cursor_done (&cur);
  if (r == 0)
    r = tree_find_le (tree, extent_key (c, *end - 1), &cur, NULL);
  if (r == 0 && at_extent (c, &cur)) {
    from = cursor_key (&cur).offset;
    to = extent_end (c, &cur);
    if (from < *end && to > *end) {
      *end = to;
      *ret_moved = true;
    }
  }
  return r;
}

static int
insert_hole (struct copy *c, uint64_t start, uint64_t end)
{
  const uint64_t size = round_up (c->inode->disk_size, c->logs->sectorsize);
  struct btrfs_file_extent e = {
    .generation = le64_make (c->logs->transid),
    .type = BTRFS_FILE_EXTENT_REG,
  };

  end = MIN (end, size);
  if (start >= end)
    return 0;
  e.ram_bytes = e.num_bytes = le64_make (end - start);
  return tree_insert_data (&c->logs->blocks.txn, c->log->tree,
                           extent_key (c, start), &e, sizeof e);
}

static int
copy_extent (struct copy *c, const struct cursor *cur)
{
  const struct btrfs_file_extent *e = cursor_data (cur);
  int r;

  r = tree_insert_data (&c->logs->blocks.txn, c->log->tree, cursor_key (cur),
                        e, cursor_size (cur));
  if (r < 0 || e->type != BTRFS_FILE_EXTENT_REG ||
      le64_get (e->disk_bytenr) == 0 ||
      c->inode->flags & BTRFS_INODE_NODATASUM ||
      le64_get (e->generation) != c->logs->transid)
    return r;
  return copy_sums (c, e);
}

static int
copy_range (struct copy *c, uint64_t start, uint64_t end)
{
  struct tree *from = c->inode->root->tree;
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  bool moved = true;
  int r = 0;

  while (moved && r == 0) {
    moved = false;
    r = widen (c, from, &start, &end, &moved);
    if (r == 0)
      r = widen (c, c->log->tree, &start, &end, &moved);
  }
  if (r == 0)
    r = tree_delete_range (&c->logs->blocks.txn, c->log->tree,
                           extent_key (c, start), extent_key (c, end - 1), 0,
                           NULL);
  if (r == 0)
    r = tree_find (from, extent_key (c, start), &cur, NULL);
  while (r == 0 && at_extent (c, &cur) && cursor_key (&cur).offset < end) {
    r = insert_hole (c, start, cursor_key (&cur).offset);
    if (r == 0)
      r = copy_extent (c, &cur);
    start = extent_end (c, &cur);
    if (r == 0)
      r = cursor_next (&cur);
  }
  return r < 0 ? r : insert_hole (c, start, end);
}

/* Items behind the end of the file (preallocation) are always logged: replay
 * of the inode item cuts the file at its size.
 */
static int
copy_behind_end (struct copy *c)
{
  struct tree *from = c->inode->root->tree;
  const uint64_t size = round_up (c->inode->disk_size, c->logs->sectorsize);
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  uint64_t start, end;
  int r;

  r = tree_find_le (from, extent_key (c, UINT64_MAX), &cur, NULL);
  if (r < 0 || !at_extent (c, &cur))
    return r;
  start = cursor_key (&cur).offset;
  end = extent_end (c, &cur);
  if (end <= size)
    return 0;
  cursor_done (&cur);
  return copy_range (c, MIN (start, size), end);
}

static int
copy_extents (struct copy *c, const struct data_range *v, size_t n)
{
  size_t i;
  int r = 0;

  for (i = 0; i < n && r == 0; ++i)
    r = copy_range (c, v[i].start, v[i].end);
  return r < 0 ? r : copy_behind_end (c);
}

/* A file with many items is not logged without knowing what changed.  That
 * has been forgotten now, so the log is void.
 */
static int
copy_whole (struct copy *c)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  unsigned n = 0;
  int r;

  r = tree_find (c->inode->root->tree, extent_key (c, 0), &cur, NULL);
  while (r == 0 && at_extent (c, &cur) && n < WHOLE_MAX) {
    ++n;
    r = cursor_next (&cur);
  }
  cursor_done (&cur);
  if (r == 0 && n == WHOLE_MAX)
    r = err_new (ERR_overflow, "%u extents", n);
  return r < 0 ? r : copy_range (c, 0, UINT64_MAX);
}

/* --- extents to be --- */

/* E, the bytes [START, END) of a file, without those before FROM and those
 * from TO on.
 */
static struct btrfs_file_extent
slice_of (const struct btrfs_file_extent *e, uint64_t start, uint64_t from,
          uint64_t to)
{
  struct btrfs_file_extent s = *e;

  s.num_bytes = le64_make (to - from);
  if (le64_get (e->disk_bytenr) != 0)
    s.offset = le64_make (le64_get (e->offset) + (from - start));
  else
    s.ram_bytes = s.num_bytes;
  return s;
}

/* Where the item at CUR, which is not inline, reaches over [START, END), its
 * parts outside go back to the log.
 */
static int
keep_outside (struct copy *c, struct cursor *cur, uint64_t start,
              uint64_t end)
{
  struct tree_txn *txn = &c->logs->blocks.txn;
  const struct btrfs_file_extent e
    = *(const struct btrfs_file_extent *) cursor_data (cur);
  const uint64_t from = cursor_key (cur).offset, to = extent_end (c, cur);
  struct btrfs_file_extent part;
  int r = 0;

  if (from < start) {
    part = slice_of (&e, from, from, start);
    r = cursor_make_writable (txn, cur);
    if (r == 0)
      memcpy (cursor_data_rw (cur), &part, sizeof part);
  }
  cursor_done (cur);
  if (r < 0 || to <= end)
    return r;
  part = slice_of (&e, from, end, to);
  return tree_insert_data (txn, c->log->tree, extent_key (c, end), &part,
                           sizeof part);
}

/* The last item that begins before OFFSET, if it reaches over the edges of
 * [START, END).
 */
static int
cut_out (struct copy *c, uint64_t offset, uint64_t start, uint64_t end)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  const struct btrfs_file_extent *e;
  int r = offset == 0 ? 0
    : tree_find_le (c->log->tree, extent_key (c, offset - 1), &cur, NULL);

  if (r < 0 || offset == 0 || !at_extent (c, &cur) ||
      extent_end (c, &cur) <= start ||
      (cursor_key (&cur).offset >= start && extent_end (c, &cur) <= end))
    return r;
  e = cursor_data (&cur);
  if (e->type == BTRFS_FILE_EXTENT_INLINE)
    return err_new (ERR_overflow, "an inline extent of more than a sector");
  return keep_outside (c, &cur, start, end);
}

/* Items of the log must not overlap: what it has in the range goes, as it will
 * in the file.
 */
static int
insert_to_be (struct copy *c, const struct data_flush_extent *e)
{
  const uint64_t end = e->offset + e->len;
  const struct key first = extent_key (c, e->offset);
  struct tree_txn *txn = &c->logs->blocks.txn;
  int r = cut_out (c, e->offset, e->offset, end);

  if (r == 0)
    r = cut_out (c, end, e->offset, end);
  if (r == 0)
    r = tree_delete_range (txn, c->log->tree, first, extent_key (c, end - 1),
                           0, NULL);
  if (r == 0)
    r = tree_insert_data (txn, c->log->tree, first, &e->item, sizeof e->item);
  if (r == 0 && e->sums != NULL)
    r = csum_items_insert_in (c->log->tree, txn, e->disk, e->sums,
                              e->len / c->logs->sectorsize);
  return r;
}

int
log_extents_to_be (struct logs *logs, struct log_tree *log, struct inode *in,
                   struct data_flush *data, bool *ret_ok)
{
  struct copy c = { .logs = logs, .log = log, .inode = in };
  struct data_flush_extent e;
  size_t n, k;
  int r = 0;

  *ret_ok = data_flush_fits (data, &n);
  if (!*ret_ok)
    return 0;
  rwlock_wrlock (&log->tree->lock);
  log->changed = true;
  for (k = 0; k < n && r == 0; ++k) {
    data_flush_get (data, k, logs->transid, &e);
    r = insert_to_be (&c, &e);
  }
  rwlock_unlock (&log->tree->lock);
  return r;
}

/* --- what precedes them --- */

/* Neither replay nor fdatasync needs what every write changes; what a file
 * occupies is counted when its extents are replayed.
 */
static bool
same_but_times (const void *a, const void *b)
{
  struct btrfs_inode_item x, y;

  memcpy (&x, a, sizeof x);
  memcpy (&y, b, sizeof y);
  x.transid = y.transid;
  x.sequence = y.sequence;
  x.nbytes = y.nbytes;
  x.atime = y.atime;
  x.ctime = y.ctime;
  x.mtime = y.mtime;
  return memcmp (&x, &y, sizeof x) == 0;
}

static bool
same_item (const struct cursor *a, const struct cursor *b)
{
  const struct key key = cursor_key (a);

  if (key_cmp (key, cursor_key (b)) != 0 ||
      cursor_size (a) != cursor_size (b))
    return false;
  if (key.type == BTRFS_INODE_ITEM &&
      cursor_size (a) == sizeof (struct btrfs_inode_item))
    return same_but_times (cursor_data (a), cursor_data (b));
  return memcmp (cursor_data (a), cursor_data (b), cursor_size (a)) == 0;
}

/* Does the log have the items FIRST to LAST, but for times? */
static int
is_logged (struct copy *c, struct key first, struct key last, bool *ret_same)
{
  CLEANUP_CURSOR struct cursor a = CURSOR_INIT, b = CURSOR_INIT;
  bool in_a, in_b;
  int r;

  r = tree_find (c->inode->root->tree, first, &a, NULL);
  if (r == 0)
    r = tree_find (c->log->tree, first, &b, NULL);
  for (*ret_same = true; r == 0 && *ret_same;) {
    in_a = cursor_at_item (&a) && key_cmp (cursor_key (&a), last) <= 0;
    in_b = cursor_at_item (&b) && key_cmp (cursor_key (&b), last) <= 0;
    if (!in_a && !in_b)
      break;
    *ret_same = in_a && in_b && same_item (&a, &b);
    r = cursor_next (&a);
    if (r == 0)
      r = cursor_next (&b);
  }
  return r;
}

/* Inode item, names, attributes. */
static int
copy_head (struct copy *c, bool data_only)
{
  const struct key first = KEY (c->inode->ino, 0, 0);
  const struct key last = KEY (c->inode->ino, BTRFS_EXTENT_DATA - 1,
                               UINT64_MAX);
  bool same = false;
  int r = 0;

  if (data_only)
    r = is_logged (c, first, last, &same);
  return r < 0 || same ? r
    : log_copy_items (c->logs, c->log->tree, c->inode->root->tree, first,
                      last);
}

int
log_file (struct logs *logs, struct log_tree *log, struct inode *in,
          bool data_only, bool *ret_ok)
{
  struct copy c = { .logs = logs, .log = log, .inode = in };
  struct data_range *v = NULL;
  enum data_changed changed;
  size_t n;
  int r;

  assert (mutex_is_mine (&in->lock));
  changed = data_changed_take (logs->data, in, logs->transid, &v, &n);
  *ret_ok = changed != DATA_CHANGED_BEYOND_LOG;
  if (!*ret_ok)
    return 0;
  rwlock_rdlock (&in->root->tree->lock);
  rwlock_wrlock (&log->tree->lock);
  log->changed = true;
  r = copy_head (&c, data_only);
  if (r == 0)
    r = changed == DATA_CHANGED_UNKNOWN ? copy_whole (&c)
      : copy_extents (&c, v, n);
  rwlock_unlock (&log->tree->lock);
  rwlock_unlock (&in->root->tree->lock);
  free (v);
  return r < 0 ? err_note (r, "logging inode %llu of subvolume %llu",
                           (unsigned long long) in->ino,
                           (unsigned long long) in->root->id) : 0;
}
