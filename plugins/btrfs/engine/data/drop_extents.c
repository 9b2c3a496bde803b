/* data: changing the file extent items of a range. */
#include <config.h>

#include <inttypes.h>

#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

void
mapping_to_disk (const struct mapping *m, uint64_t generation,
                 struct btrfs_file_extent *e)
{
  *e = (struct btrfs_file_extent) {
    .generation = le64_make (generation),
    .ram_bytes = le64_make (m->ram),
    .compression = m->compression,
    .type = m->kind == MAP_PREALLOC ? BTRFS_FILE_EXTENT_PREALLOC
      : BTRFS_FILE_EXTENT_REG,
    .disk_bytenr = le64_make (m->disk),
    .disk_num_bytes = le64_make (m->disk_len),
    .offset = le64_make (m->ext_offset),
    .num_bytes = le64_make (m->len),
  };
}

int
insert_extent (struct txn *txn, struct file_data *f, const struct mapping *m)
{
  struct btrfs_file_extent e;

  mapping_to_disk (m, m->generation, &e);
  return tree_insert_data (&txn->tree, file_tree (f),
                           file_extent_key (f, m->offset), &e, sizeof e);
}

bool
at_extent (const struct file_data *f, const struct cursor *c)
{
  struct key k;

  if (!cursor_at_item (c))
    return false;
  k = cursor_key (c);
  return k.objectid == f->inode->ino && k.type == BTRFS_EXTENT_DATA;
}

int
seek_extent (struct file_data *f, uint64_t offset, struct cursor *c)
{
  struct tree *t = file_tree (f);
  int r;

  cursor_done (c);
  r = tree_find_le (t, file_extent_key (f, offset), c, NULL);
  if (r < 0 || at_extent (f, c))
    return r;
  if (cursor_at_item (c))
    return cursor_next (c);
  cursor_done (c);
  return tree_find (t, file_extent_key (f, 0), c, NULL);
}

static uint64_t
end_of (const struct mapping *m)
{
  return m->offset + m->len;
}

/* The item loses [cut, its end): it covers [offset, cut) only. */
static void
shrink_end (struct cursor *c, const struct mapping *m, uint64_t cut)
{
  struct btrfs_file_extent *e = cursor_data_rw (c);

  e->num_bytes = le64_make (cut - m->offset);
}

/* The item loses [its offset, cut). */
static int
shrink_start (struct drop *d, struct cursor *c, const struct mapping *m,
              uint64_t cut)
{
  struct btrfs_file_extent *e = cursor_data_rw (c);

  e->num_bytes = le64_make (end_of (m) - cut);
  if (m->disk != 0)
    e->offset = le64_make (m->ext_offset + (cut - m->offset));
  return cursor_set_key (&d->txn->tree, c, file_extent_key (d->f, cut));
}

/* [start, end) lies inside the item: its front stays, its back becomes a new
 * item with one more reference to the extent.
 */
static int
split_middle (struct drop *d, struct cursor *c, const struct mapping *m)
{
  struct mapping back = *m;
  int r = 0;

  shrink_end (c, m, d->start);
  back.offset = d->end;
  back.len = end_of (m) - d->end;
  if (m->disk != 0) {
    back.ext_offset += d->end - m->offset;
    d->nbytes += d->end - d->start;
    r = extent_data_inc (d->f->d->env.extents, d->txn,
                         mapping_ref (d->f, m));
  }
  if (r == 0)
    r = insert_extent (d->txn, d->f, &back);
  return r;
}

/* Items of this leaf from the current one on that lie in the range whole;
 * their references go.
 */
static int
drop_whole (struct drop *d, struct cursor *c, unsigned *budget,
            uint64_t *ret_end)
{
  struct extents *extents = d->f->d->env.extents;
  const uint32_t slot = c->slot[0];
  const uint32_t nritems = tb_nritems (c->path[0]->data);
  unsigned n = 0;
  int r = 0;

  do {
    struct mapping m;

    if (!at_extent (d->f, c))
      break;
    r = map_parse (d->f, c, &m);
    if (r < 0 || m.offset >= d->end || (end_of (&m) > d->end
                                        && m.kind != MAP_INLINE))
      break;
    if (m.kind == MAP_INLINE)
      d->nbytes += m.ram;
    else if (m.disk != 0) {
      d->nbytes += m.len;
      r = extent_data_dec (extents, d->txn, mapping_ref (d->f, &m));
      if (r < 0)
        break;
    }
    *ret_end = end_of (&m);
    ++n;
    --*budget;
  } while (*budget > 0 && ++c->slot[0] < nritems);
  c->slot[0] = slot;
  return r < 0 ? r : cursor_delete (&d->txn->tree, c, n);
}

/* One step at an item that overlaps; *ret_done: it reached the end. */
static int
drop_at (struct drop *d, struct cursor *c, const struct mapping *m,
         unsigned *budget, bool *ret_done)
{
  const uint64_t end = end_of (m);
  int r = cursor_make_writable (&d->txn->tree, c);

  if (r < 0)
    return r;
  if (m->kind != MAP_INLINE) {
    const bool front = m->offset < d->start, back = end > d->end;

    *ret_done = back;
    if (front && back)
      return split_middle (d, c, m);
    if (m->disk != 0 && (front || back))
      d->nbytes += MIN (end, d->end) - MAX (m->offset, d->start);
    if (front) {
      shrink_end (c, m, d->start);
      return cursor_next (c);
    }
    if (back)
      return shrink_start (d, c, m, d->end);
  }
  return drop_whole (d, c, budget, &d->done);
}

int
drop_extents (struct drop *d)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  unsigned budget = d->max_items == 0 ? UINT32_MAX : d->max_items;
  bool done = false;
  int r;

  d->nbytes = 0;
  d->done = d->start;
  r = seek_extent (d->f, d->start, &c);
  while (r == 0 && !done) {
    struct mapping m;

    if (!at_extent (d->f, &c))
      break;
    r = map_parse (d->f, &c, &m);
    if (r < 0 || m.offset >= d->end)
      break;
    if (end_of (&m) <= d->start) {
      r = cursor_next (&c);
      continue;
    }
    if (budget == 0)
      return 0; /* done: the end of the last item that went */
    r = drop_at (d, &c, &m, &budget, &done);
  }
  if (r < 0)
    return err_note (r, "extents of tree %" PRIu64 " inode %" PRIu64
                     " from %" PRIu64, d->f->inode->root->id,
                     d->f->inode->ino, d->start);
  d->done = d->end;
  return 0;
}

/* The item at the cursor, OLD, covers M, a slice of the same extent: cut it
 * into what lies before, M, and what lies behind.
 */
static int
cut_item (struct txn *txn, struct file_data *f, struct cursor *c,
          const struct mapping *old, const struct mapping *m)
{
  const uint64_t end = end_of (m);
  struct extents *extents = f->d->env.extents;
  struct mapping back = *old;
  int r = cursor_make_writable (&txn->tree, c);

  if (r < 0)
    return r;
  if (old->offset < m->offset) {
    shrink_end (c, old, m->offset);
    r = insert_extent (txn, f, m);
    if (r == 0)
      r = extent_data_inc (extents, txn, mapping_ref (f, m));
  }
  else
    mapping_to_disk (m, m->generation, cursor_data_rw (c));
  if (r < 0 || end == end_of (old))
    return r;
  back.offset = end;
  back.len = end_of (old) - end;
  back.ext_offset += end - old->offset;
  r = insert_extent (txn, f, &back);
  if (r == 0)
    r = extent_data_inc (extents, txn, mapping_ref (f, &back));
  return r;
}

int
convert_slice (struct txn *txn, struct file_data *f, enum map_kind from,
               const struct mapping *m)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct mapping old = { .len = 0 };
  int r;

  r = seek_extent (f, m->offset, &c);
  if (r == 0 && at_extent (f, &c))
    r = map_parse (f, &c, &old);
  if (r < 0)
    return r;
  if (old.kind != from || old.compression != 0 || old.offset > m->offset
      || end_of (&old) < end_of (m) || old.disk != m->disk
      || old.ext_offset + (m->offset - old.offset) != m->ext_offset)
    return err_new (ERR_file_extent, "inode %" PRIu64 " offset %" PRIu64
                    " is not what the map says", f->inode->ino, m->offset);
  return cut_item (txn, f, &c, &old, m);
}

int
insert_hole (struct txn *txn, struct file_data *f, uint64_t start,
             uint64_t end)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  const struct mapping hole = { .offset = start, .len = end - start,
    .ram = end - start, .kind = MAP_HOLE,
    .generation = txn->tree.transid };
  struct mapping m;
  int r;

  r = seek_extent (f, start, &c);
  if (r < 0)
    return r;
  if (at_extent (f, &c)) {
    r = map_parse (f, &c, &m);
    if (r < 0)
      return r;
    /* Joined to the hole before it; Linux leaves offsets in holes, too. */
    if (m.kind == MAP_HOLE && end_of (&m) == start) {
      struct btrfs_file_extent *e;

      r = cursor_make_writable (&txn->tree, &c);
      if (r < 0)
        return r;
      e = cursor_data_rw (&c);
      e->generation = le64_make (txn->tree.transid);
      e->offset = le64_make (0);
      e->num_bytes = le64_make (m.len + hole.len);
      e->ram_bytes = e->num_bytes;
      return 0;
    }
  }
  cursor_done (&c);
  return insert_extent (txn, f, &hole);
}

int
inode_finish_change (struct txn *txn, struct file_data *f, uint64_t added,
                     uint64_t removed)
{
  struct inode *in = f->inode;

  in->nbytes += added;
  /* A wrong count on disk must not wrap. */
  in->nbytes -= MIN (in->nbytes, removed);
  inode_touch (in, txn);
  return inode_write_item (txn, in);
}
