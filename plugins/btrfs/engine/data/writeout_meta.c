/* data: what write-out changes in the trees.
 *
 * Runs are taken in file order, some hundred to a transaction handle:
 * checksums of everything that is consecutive on disk in one call; items of
 * exactly the range of a run are overwritten where they stand; other old
 * items are dropped; all new items go in together.  The map is switched under
 * the tree lock, after the checksums are there, so that a reader who finds
 * the new place can verify it.
 */
#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/math.h"
#include "data/writeout.h"

#define GROUP_RUNS 256         /* most runs in one transaction handle */

/* What one handle changes: runs [from, to). */
struct group {
  struct writeout *w;
  struct file_data *f;
  struct txn *txn;
  size_t from, to;
  bool logged;                 /* the log need not be told */
  uint64_t added, removed;     /* bytes of the inode */
  struct tree_item *item;
  struct btrfs_file_extent *body;
  size_t n;
};

static bool
takes_part (const struct wo_run *r)
{
  return !r->failed && r->mode != WO_PLACE;
}

static struct mapping
new_mapping (const struct group *g, const struct wo_run *run)
{
  const struct writeout *w = g->w;
  struct mapping m = { .offset = run_offset (w, run),
    .len = run_len (w, run), .disk = run->disk, .kind = MAP_REGULAR,
    .generation = g->txn->tree.transid };

  m.disk_len = m.ram = m.len;
  if (run->mode == WO_PREALLOC) {
    m.disk = run->map.disk;
    m.disk_len = m.ram = run->map.disk_len;
    m.ext_offset = run->disk - run->map.disk;
  }
  return m;
}

/* --- checksums --- */

static int
insert_sums (struct group *g)
{
  struct writeout *w = g->w;
  const uint32_t ps = w->d->ps;
  size_t k = g->from;

  if (!file_has_csums (g->f))
    return 0;
  while (k < g->to) {
    const struct wo_run *first = &w->run[k];
    size_t n;
    int r;

    if (!takes_part (first)) {
      ++k;
      continue;
    }
    n = first->n;
    for (++k; k < g->to && takes_part (&w->run[k]); ++k) {
      if (w->run[k].disk != first->disk + n * ps)
        break;
      n += w->run[k].n;
    }
    r = csums_insert (w->d, g->txn, first->disk, n * ps,
                      w->sums + first->first * w->d->fmt->csum_size);
    if (r < 0)
      return err_note (r, "checksums of logical %" PRIu64, first->disk);
  }
  return 0;
}

/* --- new extents --- */

static void
queue_item (struct group *g, const struct mapping *m)
{
  struct btrfs_file_extent *e = &g->body[g->n];

  mapping_to_disk (m, m->generation, e);
  g->item[g->n++] = (struct tree_item) {
    .key = file_extent_key (g->f, m->offset), .data = e, .size = sizeof *e };
}

/* Stay in the leaf where C is if M's place is certainly inside it. */
static int
seek_near (struct group *g, uint64_t offset, struct cursor *c)
{
  const struct key key = file_extent_key (g->f, offset);

  if (cursor_at_item (c)) {
    const void *leaf = c->path[0]->data;
    const uint32_t n = tb_nritems (leaf);

    if (key_cmp (tb_item_key (leaf, 0), key) <= 0
        && key_cmp (tb_item_key (leaf, n - 1), key) >= 0) {
      bool exact;
      uint32_t slot = tb_search (leaf, key, &exact);

      c->slot[0] = exact ? slot : slot - 1;
      if (at_extent (g->f, c))
        return 0;
      return cursor_next (c);
    }
  }
  return seek_extent (g->f, offset, c);
}

/* The old item, OLD, has just the range of the new one: write over it. */
static int
overwrite (struct group *g, struct cursor *c, const struct mapping *old,
           const struct mapping *m)
{
  int r = cursor_make_writable (&g->txn->tree, c);

  if (r == 0 && old->disk != 0) {
    r = extent_data_dec (g->w->d->env.extents, g->txn,
                         mapping_ref (g->f, old));
    g->removed += old->len;
  }
  if (r == 0)
    mapping_to_disk (m, m->generation, cursor_data_rw (c));
  return r;
}

static int
place_cow (struct group *g, const struct mapping *m, struct cursor *c)
{
  struct mapping old;
  struct drop drop;
  bool known;
  int r;

  map_peek (g->f, m->offset, &old, &known);
  if (known && old.kind == MAP_HOLE && g->w->d->no_holes
      && old.offset + old.len >= m->offset + m->len) {
    queue_item (g, m);
    return 0;
  }
  r = seek_near (g, m->offset, c);
  if (r < 0)
    return r;
  if (at_extent (g->f, c)) {
    r = map_parse (g->f, c, &old);
    if (r < 0)
      return r;
    if (old.offset == m->offset && old.len == m->len
        && old.kind != MAP_INLINE)
      return overwrite (g, c, &old, m);
  }
  cursor_done (c);
  drop = (struct drop) { .txn = g->txn, .f = g->f, .start = m->offset,
                         .end = m->offset + m->len };
  r = drop_extents (&drop);
  g->removed += drop.nbytes;
  if (r == 0)
    queue_item (g, m);
  return r;
}

/* --- prealloc becomes regular --- */

/* Join the regular item at OFFSET with the one before it, if both are
 * neighbouring slices of one extent.
 */
static int
join_before (struct group *g, uint64_t offset)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct mapping m, before;
  struct btrfs_file_extent *e;
  int r;

  r = offset == 0 ? 0 : seek_extent (g->f, offset - 1, &c);
  if (r < 0 || offset == 0 || !at_extent (g->f, &c))
    return r;
  r = map_parse (g->f, &c, &before);
  if (r < 0 || before.kind != MAP_REGULAR || before.compression != 0
      || before.offset + before.len != offset)
    return r;
  r = cursor_next (&c);
  if (r < 0 || !at_extent (g->f, &c))
    return r;
  r = map_parse (g->f, &c, &m);
  if (r < 0 || m.offset != offset || m.kind != MAP_REGULAR
      || m.compression != 0 || m.disk != before.disk
      || m.disk_len != before.disk_len
      || m.ext_offset != before.ext_offset + before.len)
    return r;
  r = cursor_make_writable (&g->txn->tree, &c);
  if (r == 0)
    r = cursor_delete (&g->txn->tree, &c, 1);
  if (r == 0)
    r = extent_data_dec (g->w->d->env.extents, g->txn,
                         mapping_ref (g->f, &m));
  if (r < 0)
    return r;
  cursor_done (&c);
  r = tree_find_rw (&g->txn->tree, file_tree (g->f),
                    file_extent_key (g->f, before.offset), &c);
  if (r < 0)
    return r;
  e = cursor_data_rw (&c);
  e->num_bytes = le64_make (before.len + m.len);
  e->generation = le64_make (g->txn->tree.transid);
  return 0;
}

static int
place_prealloc (struct group *g, const struct mapping *m)
{
  int r;

  r = convert_slice (g->txn, g->f, MAP_PREALLOC, m);
  if (r == 0)
    r = join_before (g, m->offset + m->len);
  if (r == 0)
    r = join_before (g, m->offset);
  return r;
}

/* --- the map --- */

/* Whoever writes there again need not ask whether that may go in place. */
static void
switch_map (struct group *g, const struct wo_run *run)
{
  const struct mapping m = new_mapping (g, run);

  if ((file_flags (g->f) & BTRFS_INODE_NODATACOW) == 0
      || file_has_csums (g->f))
    map_set (g->f, &m);
  else if (run->mode == WO_COW)
    map_set_fresh (g->f, &m, file_tree (g->f)->last_snapshot);
  else
    map_set_converted (g->f, &m);
}

/* --- a group --- */

/* Tree lock held exclusively. */
static int
change_tree (struct group *g)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct writeout *w = g->w;
  size_t k;
  int r = 0;

  for (k = g->from; k < g->to && r == 0; ++k) {
    const struct wo_run *run = &w->run[k];
    struct mapping m;

    if (!takes_part (run))
      continue;
    m = new_mapping (g, run);
    if (run->mode == WO_COW) {
      r = place_cow (g, &m, &c);
      g->added += m.len;
    }
    else {
      cursor_done (&c);
      r = place_prealloc (g, &m);
    }
  }
  cursor_done (&c);
  if (r == 0 && g->n > 0)
    r = tree_insert_many (&g->txn->tree, file_tree (g->f), g->item, g->n);
  for (k = g->from; k < g->to && r == 0; ++k)
    if (takes_part (&w->run[k])) {
      switch_map (g, &w->run[k]);
      w->run[k].inserted = true;
    }
  return r;
}

static int
add_refs (struct group *g)
{
  struct writeout *w = g->w;
  size_t k;
  int r = 0;

  for (k = g->from; k < g->to && r == 0; ++k)
    if (takes_part (&w->run[k]) && w->run[k].mode == WO_COW) {
      const struct mapping m = new_mapping (g, &w->run[k]);

      r = extent_data_new (w->d->env.extents, g->txn, mapping_ref (g->f, &m));
    }
  return r;
}

/* The items are there. */
static void
settle (const struct group *g)
{
  const struct writeout *w = g->w;
  uint64_t len = 0;
  size_t k;

  for (k = g->from; k < g->to; ++k)
    if (takes_part (&w->run[k]) && w->run[k].allocated)
      len += run_len (w, &w->run[k]);
  space_data_settled (w->d->env.space, len);
}

static void
note_changes (const struct group *g)
{
  const struct writeout *w = g->w;
  size_t k;

  for (k = g->from; k < g->to; ++k)
    if (takes_part (&w->run[k])) {
      const uint64_t start = run_offset (w, &w->run[k]);
      const uint64_t end = start + run_len (w, &w->run[k]);

      if (g->logged)
        file_changed_in_log (g->f, g->txn, start, end);
      else if (w->moved)
        file_moved (g->f, g->txn, start, end);
      else
        file_changed (g->f, g->txn, start, end);
    }
}

static int
change (struct group *g)
{
  struct tree *t = file_tree (g->f);
  int r;

  r = insert_sums (g);
  if (r == 0)
    r = add_refs (g);
  if (r == 0) {
    rwlock_wrlock (&t->lock);
    r = change_tree (g);
    rwlock_unlock (&t->lock);
  }
  if (r == 0) {
    settle (g);
    note_changes (g);
  }
  if (r < 0 || (g->w->moved && g->added == g->removed))
    return r;
  return inode_finish_change (g->txn, g->f, g->added, g->removed);
}

/* Items to promise space for: each stands for two paths of four blocks, while
 * a run of a sorted group copies a leaf of its own at worst and splits it;
 * what is above the leaves and the checksums, which are consecutive, is
 * shared.  Too much would look like a full pool to those who write meanwhile.
 */
unsigned
writeout_items (size_t runs)
{
  return runs / 4 + 4;
}

/* When even that is too much at once, for fewer runs, and in the end from
 * what is kept for getting out of a full pool: this data was acknowledged.
 */
static int
begin (struct group *g)
{
  struct trans *t = g->w->d->env.trans;

  for (;;) {
    const size_t n = g->to - g->from;
    const int r = txn_begin (t, writeout_items (n), &g->txn);

    if (r != -ERR_nospace_meta || g->w->moved)
      return r;
    if (n == 1)
      return txn_begin_to_free (t, 4, &g->txn);
    g->to = g->from + n / 2;
  }
}

/* What the descents will want to read, while the lock is not taken. */
static void
prefetch (struct group *g)
{
  struct key key[GROUP_RUNS];
  size_t k, n = 0;

  for (k = g->from; k < g->to; ++k)
    if (takes_part (&g->w->run[k]))
      key[n++] = file_extent_key (g->f, run_offset (g->w, &g->w->run[k]));
  tree_prefetch_many (file_tree (g->f), key, n);
}

static int
run_group (struct group *g)
{
  struct inode *in = g->f->inode;
  int r, e;

  g->n = 0;
  g->added = g->removed = 0;
  prefetch (g);
  mutex_lock (&in->lock);
  r = begin (g);
  if (r == 0) {
    r = change (g);
    if (r < 0)
      txn_abort (g->txn, r);
    e = txn_end (g->txn);
    if (r == 0)
      r = e;
  }
  mutex_unlock (&in->lock);
  return r;
}

int
writeout_insert_logged (struct writeout *w, struct txn *txn)
{
  struct tree_item item[WRITEOUT_LOGGED_RUNS];
  struct btrfs_file_extent body[WRITEOUT_LOGGED_RUNS];
  struct group g = { .w = w, .f = w->f, .txn = txn, .to = w->runs,
                     .logged = true, .item = item, .body = body };
  int r;

  assert (w->runs <= WRITEOUT_LOGGED_RUNS);
  r = change (&g);
  if (r < 0)
    txn_abort (txn, r);
  return r;
}

int
writeout_insert (struct writeout *w)
{
  CLEANUP_FREE struct tree_item *item = NULL;
  CLEANUP_FREE struct btrfs_file_extent *body = NULL;
  struct group g = { .w = w, .f = w->f };
  size_t k, max = MIN (w->runs, (size_t) GROUP_RUNS);
  int r = 0;

  for (k = 0; k < w->runs; ++k)
    if (w->run[k].mode == WO_PLACE && !w->run[k].failed) {
      w->run[k].inserted = true;
      __atomic_store_n (&w->f->stamp, true, __ATOMIC_RELAXED);
    }
  item = malloc (max * sizeof *item);
  body = malloc (max * sizeof *body);
  if (item == NULL || body == NULL)
    return err_new (ERR_nomem, "write-out");
  g.item = item;
  g.body = body;
  for (g.from = 0; g.from < w->runs && r == 0; g.from = g.to) {
    if (!takes_part (&w->run[g.from])) {
      g.to = g.from + 1;
      continue;
    }
    g.to = MIN (g.from + GROUP_RUNS, w->runs);
    r = run_group (&g);
  }
  return r;
}
