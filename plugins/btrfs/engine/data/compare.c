/* data: where two files differ, by what their trees say.
 *
 * Two walks go through the items of the two files in step.  Each is in front
 * of a pointer or of an item; when both are in front of pointers to one block,
 * both step over it: what lies below is the same.  Items make up two mappings
 * of offsets to places on disk, and these are compared, not the items, which
 * may be cut differently.
 *
 * Locks on the trees are held for a bounded number of blocks; then what was
 * found is told, and the walks begin anew where they were.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

#define ROUND_BLOCKS 256       /* most blocks read under the locks */
#define ROUND_RANGES 512

struct walk {
  struct file_data *f;
  struct block *path[BTRFS_MAX_LEVEL];
  uint32_t slot[BTRFS_MAX_LEVEL];
  unsigned top, level;         /* of the root; where the walk stands */
  bool end;
  /* The last item met; len 0: none, or what follows is not known to differ
   * from a hole.
   */
  struct mapping m;
  uint8_t text[65536]; /* of an inline extent */
  size_t text_len;
};

struct compare {
  struct walk w[2];
  bool prune;                  /* same inode number: same keys */
  uint64_t pos;                /* everything below is compared */
  uint64_t small, big;         /* sizes of the files */
  unsigned blocks;
  struct data_range found[ROUND_RANGES];
  size_t n;
};

/* --- walks --- */

static void
walk_done (struct walk *w)
{
  unsigned i;

  for (i = 0; i < BTRFS_MAX_LEVEL; ++i) {
    block_put (w->path[i]);
    w->path[i] = NULL;
  }
}

static struct key
walk_key (const struct walk *w)
{
  const uint8_t *b = w->path[w->level]->data;

  return w->level > 0 ? tb_key (b, w->slot[w->level])
    : tb_item_key (b, w->slot[0]);
}

/* Keys of other inodes and of other items end the walk. */
static void
check_end (struct walk *w)
{
  struct key k;

  if (w->end)
    return;
  k = walk_key (w);
  if (key_cmp (k, file_extent_key (w->f, UINT64_MAX)) > 0)
    w->end = true;
}

static void
walk_next (struct walk *w)
{
  while (++w->slot[w->level] >= tb_nritems (w->path[w->level]->data)) {
    block_put (w->path[w->level]);
    w->path[w->level] = NULL;
    if (w->level == w->top) {
      w->end = true;
      return;
    }
    ++w->level;
  }
  check_end (w);
}

/* In front of the last key that is not above KEY, or of the first one. */
static void
aim (struct walk *w, struct key key)
{
  const uint8_t *b = w->path[w->level]->data;
  bool exact;
  uint32_t slot = tb_search (b, key, &exact);

  if (!exact && slot > 0)
    --slot;
  w->slot[w->level] = slot;
}

static void
walk_start (struct walk *w, uint64_t offset)
{
  struct tree *t = file_tree (w->f);

  w->top = w->level = tree_level (t);
  w->path[w->top] = block_get (t->root);
  w->m.len = 0;
  w->end = tb_nritems (t->root->data) == 0;
  if (w->end)
    return;
  aim (w, file_extent_key (w->f, offset));
  check_end (w);
}

static int
walk_down (struct walk *w, uint64_t offset)
{
  struct block *parent = w->path[w->level];
  const struct tree_expect e =
    tree_expect_child (parent->data, w->slot[w->level], w->f->inode->root->id);
  int r = block_read (file_tree (w->f)->cache, &e, &w->path[w->level - 1]);

  if (r < 0)
    return r;
  if (tb_nritems (w->path[w->level - 1]->data) == 0)
    return err_new (ERR_node_format, "block %llu is empty",
                    (unsigned long long) e.bytenr);
  --w->level;
  /* What lies before the file, or before OFFSET, is passed over. */
  aim (w, file_extent_key (w->f, offset));
  check_end (w);
  return 0;
}

static uint64_t
block_below (const struct walk *w)
{
  return le64_get (tb_ptr_c (w->path[w->level]->data,
                             w->slot[w->level])->blockptr);
}

/* --- items --- */

static bool
is_extent (const struct walk *w)
{
  const struct key k = walk_key (w);

  return k.objectid == w->f->inode->ino && k.type == BTRFS_EXTENT_DATA;
}

static int
take_item (struct walk *w)
{
  struct cursor c = { .slot = { [0] = w->slot[0] }, .positioned = true };
  const struct btrfs_file_extent *e;
  int r;

  c.path[0] = w->path[0];
  r = map_parse (w->f, &c, &w->m);
  if (r < 0 || w->m.kind != MAP_INLINE)
    return r;
  e = cursor_data (&c);
  w->text_len = cursor_size (&c);
  memcpy (w->text, e, w->text_len);
  /* When it was written does not matter. */
  memset (w->text, 0, sizeof e->generation);
  return 0;
}

static uint64_t
end_of (const struct mapping *m)
{
  return m->offset + m->len;
}

/* What W has at POS: NULL is a hole, as is preallocated space. */
static const struct mapping *
at (const struct walk *w, uint64_t pos)
{
  if (w->m.len == 0 || pos < w->m.offset || pos >= end_of (&w->m)
      || w->m.kind == MAP_HOLE || w->m.kind == MAP_PREALLOC)
    return NULL;
  return &w->m;
}

static bool
same_at (const struct compare *c, uint64_t pos)
{
  const struct mapping *a = at (&c->w[0], pos), *b = at (&c->w[1], pos);

  if (pos >= c->small)
    return pos >= c->big;
  if (a == NULL || b == NULL)
    return a == b;
  if (a->kind == MAP_INLINE || b->kind == MAP_INLINE)
    return a->kind == b->kind && c->w[0].text_len == c->w[1].text_len
      && memcmp (c->w[0].text, c->w[1].text, c->w[0].text_len) == 0;
  return a->disk == b->disk && a->compression == b->compression
    && a->ext_offset - a->offset == b->ext_offset - b->offset;
}

static void
found (struct compare *c, uint64_t start, uint64_t end)
{
  struct data_range *last = c->n > 0 ? &c->found[c->n - 1] : NULL;

  end = MIN (end, c->big);
  if (start >= end)
    return;
  if (last != NULL && last->end == start)
    last->end = end;
  else
    c->found[c->n++] = (struct data_range) { start, end };
}

/* Where the answer at POS may change next. */
static uint64_t
next_change (const struct compare *c, uint64_t pos, uint64_t limit)
{
  unsigned i;

  for (i = 0; i < 2; ++i) {
    const struct mapping *m = &c->w[i].m;

    if (m->len > 0 && pos < end_of (m))
      limit = MIN (limit, pos < m->offset ? m->offset : end_of (m));
  }
  if (pos < c->small)
    limit = MIN (limit, c->small);
  return limit;
}

/* Both files are known up to TO. */
static void
compare_to (struct compare *c, uint64_t to)
{
  to = MIN (to, round_up (c->big, c->w[0].f->d->ps));
  while (c->pos < to && c->n < ROUND_RANGES) {
    const uint64_t stop = next_change (c, c->pos, to);

    if (!same_at (c, c->pos))
      found (c, c->pos, stop);
    c->pos = stop;
  }
}

/* --- in step --- */

/* Which walk is behind: bit 0, bit 1, or both. */
static unsigned
behind (const struct compare *c)
{
  const struct walk *a = &c->w[0], *b = &c->w[1];
  struct key x, y;
  int cmp;

  if (a->end || b->end)
    return a->end ? 2 : 1;
  x = walk_key (a);
  y = walk_key (b);
  /* The files may have different numbers. */
  if (x.objectid == a->f->inode->ino && y.objectid == b->f->inode->ino)
    y.objectid = x.objectid;
  cmp = key_cmp (x, y);
  return cmp < 0 ? 1 : cmp > 0 ? 2 : 3;
}

/* The offset that W is in front of; 0 before the file. */
static uint64_t
walk_offset (const struct walk *w)
{
  const struct key k = walk_key (w);

  return k.objectid == w->f->inode->ino && k.type == BTRFS_EXTENT_DATA
    ? k.offset : 0;
}

/* The walks in WHO are in front of items with one key. */
static int
take_items (struct compare *c, unsigned who)
{
  unsigned i;
  int r = 0;

  for (i = 0; i < 2; ++i)
    if (who & (1u << i) && is_extent (&c->w[i]))
      compare_to (c, walk_offset (&c->w[i]));
  for (i = 0; i < 2 && r == 0; ++i)
    if (who & (1u << i)) {
      if (is_extent (&c->w[i]))
        r = take_item (&c->w[i]);
      walk_next (&c->w[i]);
    }
  return r;
}

/* The next pointer or item of the walks in WHO. */
static int
step (struct compare *c, unsigned who)
{
  unsigned i;

  for (i = 0; i < 2; ++i)
    if (who & (1u << i) && c->w[i].level > 0) {
      ++c->blocks;
      return walk_down (&c->w[i], c->pos);
    }
  return take_items (c, who);
}

/* Both are in front of one block: what it says is the same. */
static bool
skip_shared (struct compare *c)
{
  struct walk *a = &c->w[0], *b = &c->w[1];
  uint64_t next = UINT64_MAX;

  if (!c->prune || a->end || b->end || a->level != b->level || a->level == 0
      || block_below (a) != block_below (b))
    return false;
  compare_to (c, walk_offset (a));
  walk_next (a);
  walk_next (b);
  a->m.len = b->m.len = 0;
  if (!a->end)
    next = walk_offset (a);
  if (!b->end)
    next = MIN (next, walk_offset (b));
  if (next != UINT64_MAX)
    compare_to (c, next);
  return true;
}

static int
one_round (struct compare *c, bool *ret_done)
{
  unsigned i, who;
  int r = 0;

  c->blocks = 0;
  for (i = 0; i < 2; ++i)
    walk_start (&c->w[i], c->pos);
  while (r == 0 && c->blocks < ROUND_BLOCKS && c->n + 8 < ROUND_RANGES) {
    if (c->w[0].end && c->w[1].end) {
      compare_to (c, UINT64_MAX);
      *ret_done = true;
      break;
    }
    if (skip_shared (c))
      continue;
    who = behind (c);
    /* Of two at different levels the higher one may lead to the other. */
    if (who == 3 && c->w[0].level != c->w[1].level)
      who = c->w[0].level > c->w[1].level ? 1 : 2;
    r = step (c, who);
  }
  for (i = 0; i < 2; ++i)
    walk_done (&c->w[i]);
  return r;
}

/* --- rounds --- */

static void
lock_trees (const struct compare *c)
{
  const struct root *a = c->w[0].f->inode->root, *b = c->w[1].f->inode->root;

  if (a->id <= b->id)
    rwlock_rdlock (&a->tree->lock);
  if (a != b)
    rwlock_rdlock (&b->tree->lock);
  if (a->id > b->id)
    rwlock_rdlock (&a->tree->lock);
}

static void
unlock_trees (const struct compare *c)
{
  const struct root *a = c->w[0].f->inode->root, *b = c->w[1].f->inode->root;

  rwlock_unlock (&a->tree->lock);
  if (a != b)
    rwlock_unlock (&b->tree->lock);
}

/* Ranges that go on in the next round are told then. */
static int
tell (struct compare *c, bool all, data_range_fn fn, void *opaque)
{
  const size_t n = c->n - (!all && c->n > 0);
  size_t i;
  int r = 0;

  for (i = 0; i < n && r == 0; ++i)
    r = fn (opaque, c->found[i].start, c->found[i].end - c->found[i].start);
  if (n < c->n)
    c->found[0] = c->found[n];
  c->n -= n;
  return r;
}

static int
run (struct compare *c, data_range_fn fn, void *opaque)
{
  bool done = false;
  int r = 0;

  while (r == 0 && !done) {
    lock_trees (c);
    r = one_round (c, &done);
    unlock_trees (c);
    if (r == 0)
      r = tell (c, done, fn, opaque);
  }
  return r;
}

int
data_compare (struct data *d, struct inode *a, struct inode *b,
              data_range_fn fn, void *opaque)
{
  struct compare *c = calloc (1, sizeof *c);
  int r;

  if (c == NULL)
    return err_new (ERR_nomem, "comparison");
  r = data_write_out (d, a, 0, UINT64_MAX);
  if (r == 0)
    r = data_write_out (d, b, 0, UINT64_MAX);
  if (r == 0)
    r = file_get (d, a, &c->w[0].f);
  if (r == 0)
    r = file_get (d, b, &c->w[1].f);
  if (r == 0) {
    const uint64_t x = file_size (c->w[0].f), y = file_size (c->w[1].f);

    c->prune = a->ino == b->ino;
    c->small = MIN (x, y);
    c->big = MIN (MAX (x, y), DATA_FILE_END);
    r = run (c, fn, opaque);
  }
  free (c);
  return r;
}
