/* data: what files occupy on disk. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"
#include "data/usage.h"

#define PARTS_MAX 262144       /* in memory: 14 MiB */
#define SEEN_MAX 1048576       /* shared blocks that are known: 8 MiB */
#define ROUND_ITEMS 512        /* looked at under the tree's lock */
#define ROUND_LEAVES 64        /* stepped into or over */

/* What one item, or some that follow each other, refer to. */
struct part {
  uint64_t disk, disk_len;     /* the extent */
  uint64_t ram, off, len;      /* plain bytes of it: all, and what is used */
  uint32_t items;
  bool shared;                 /* by a tree block above the item */
};

struct survey {
  struct data *d;
  bool many;                   /* files of several subvolumes */
  struct data_usage sum;

  /* Extents whose hash agrees with CLASS in the low BITS bits. */
  unsigned bits;
  uint32_t class;
  struct part *part;
  size_t n;
  bool inline_counted;

  uint64_t *seen;              /* hash table, 0: empty; of shared blocks */
  size_t num_seen;

  /* Of the walk through a tree: what is known of the blocks on the way. */
  struct tree *tree;
  uint64_t above[BTRFS_MAX_LEVEL];
  bool above_shared[BTRFS_MAX_LEVEL];
};

static uint32_t
hash (uint64_t x)
{
  return (x >> 9) * UINT64_C (0x9e3779b97f4a7c15) >> 32;
}

static bool
in_class (const struct survey *s, uint64_t disk)
{
  return (hash (disk) & ((1u << s->bits) - 1)) == s->class;
}

/* --- classes --- */

/* Half of the class is left for later. */
static void
halve (struct survey *s)
{
  size_t i, n = 0;

  ++s->bits;
  for (i = 0; i < s->n; ++i)
    if (in_class (s, s->part[i].disk))
      s->part[n++] = s->part[i];
  s->n = n;
}

/* The other half of this one, or of the last one that this is the end of. */
static bool
next_class (struct survey *s)
{
  while (s->bits > 0 && (s->class >> (s->bits - 1) & 1) != 0) {
    --s->bits;
    s->class &= (1u << s->bits) - 1;
  }
  if (s->bits == 0)
    return false;
  s->class |= 1u << (s->bits - 1);
  return true;
}

static void
add_part (struct survey *s, const struct part *p)
{
  struct part *last = s->n > 0 ? &s->part[s->n - 1] : NULL;

  if (!in_class (s, p->disk))
    return;
  if (last != NULL && last->disk == p->disk && last->shared == p->shared
      && last->off + last->len == p->off) {
    last->len += p->len;
    last->items += p->items;
    return;
  }
  while (s->n == PARTS_MAX && s->bits < 31)
    halve (s);
  if (s->n < PARTS_MAX && in_class (s, p->disk))
    s->part[s->n++] = *p;
}

/* --- judging --- */

static int
part_cmp (const void *a, const void *b)
{
  const struct part *x = a, *y = b;

  if (x->disk != y->disk)
    return x->disk < y->disk ? -1 : 1;
  return x->off < y->off ? -1 : x->off > y->off;
}

/* Of V, the N parts of one extent. */
static int
judge (struct survey *s, const struct part *v, size_t n)
{
  uint64_t end = 0, used = 0, items = 0, refs, flags;
  bool shared = false;
  size_t i;
  int r;

  for (i = 0; i < n; ++i) {
    const uint64_t stop = v[i].off + v[i].len;

    if (stop > end)
      used += stop - MAX (end, v[i].off);
    end = MAX (end, stop);
    items += v[i].items;
    shared = shared || v[i].shared;
  }
  ++s->sum.extents;
  s->sum.allocated += v->disk_len;
  if (used < v->ram)
    s->sum.dead += (unsigned __int128) v->disk_len * (v->ram - used) / v->ram;
  if (s->many || shared)
    return 0;
  r = extent_refs (s->d->env.extents, v->disk, false, 0, &refs, &flags);
  if (r == -ERR_extent_missing) {
    err_clear ();               /* it has been overwritten since */
    return 0;
  }
  if (r == 0 && refs <= items)
    s->sum.exclusive += v->disk_len;
  return r;
}

static int
judge_all (struct survey *s)
{
  size_t i, to;
  int r = 0;

  qsort (s->part, s->n, sizeof *s->part, part_cmp);
  for (i = 0; i < s->n && r == 0; i = to) {
    for (to = i + 1; to < s->n && s->part[to].disk == s->part[i].disk; ++to)
      ;
    r = judge (s, s->part + i, to - i);
  }
  s->n = 0;
  return r;
}

/* --- the blocks above --- */

/* True when it is known already. */
static bool
note_seen (struct survey *s, uint64_t bytenr)
{
  size_t i = hash (bytenr) & (SEEN_MAX - 1);

  for (; s->seen[i] != 0; i = (i + 1) & (SEEN_MAX - 1))
    if (s->seen[i] == bytenr)
      return true;
  if (s->num_seen < SEEN_MAX / 4 * 3) {
    s->seen[i] = bytenr;
    ++s->num_seen;
  }
  return false;
}

/* More than one pointer leads to the block. */
static int
is_shared (struct survey *s, const struct block *b, bool *ret)
{
  uint64_t refs, flags;
  int r;

  *ret = false;
  if (tb_generation (b->data)
      > __atomic_load_n (&s->tree->last_snapshot, __ATOMIC_ACQUIRE))
    return 0;
  r = extent_refs (s->d->env.extents, b->bytenr, true, tb_level (b->data),
                   &refs, &flags);
  *ret = r == 0 && refs > 1;
  return r;
}

/* Blocks on the way to C's leaf: is one of them shared, and has one been
 * walked through before (*ret_over: its level; 0: none; else step over it)?
 */
static int
look_above (struct survey *s, const struct cursor *c, bool *ret_shared,
            bool *ret_over, unsigned *ret_level)
{
  unsigned level;
  bool above = false;

  *ret_over = false;
  for (level = c->level + 1; level-- > 0;) {
    const struct block *b = c->path[level];

    if (s->above[level] != b->bytenr) {
      bool shared;
      int r = is_shared (s, b, &shared);

      if (r < 0)
        return r;
      s->above[level] = b->bytenr;
      s->above_shared[level] = shared;
      if (shared && s->many && note_seen (s, b->bytenr)) {
        s->above[level] = 0;
        *ret_over = true;
        *ret_level = level;
        return 0;
      }
    }
    above = above || s->above_shared[level];
  }
  *ret_shared = above;
  return 0;
}

/* The first key behind the block of LEVEL; false: there is none. */
static bool
key_behind (const struct cursor *c, unsigned level, struct key *ret)
{
  for (++level; level <= c->level; ++level) {
    const uint8_t *b = c->path[level]->data;

    if (c->slot[level] + 1 < tb_nritems (b)) {
      *ret = tb_key (b, c->slot[level] + 1);
      return true;
    }
  }
  return false;
}

/* --- walking --- */

static void
take_item (struct survey *s, const struct cursor *c, bool shared)
{
  const struct btrfs_file_extent *e = cursor_data (c);
  const uint32_t size = cursor_size (c);
  struct part p = { .items = 1, .shared = shared };

  if (size < BTRFS_FILE_EXTENT_INLINE_HEAD)
    return;
  if (e->type == BTRFS_FILE_EXTENT_INLINE) {
    if (!s->inline_counted)
      s->sum.inline_bytes += size - BTRFS_FILE_EXTENT_INLINE_HEAD;
    return;
  }
  if (size < sizeof *e || le64_get (e->disk_bytenr) == 0)
    return;
  p.disk = le64_get (e->disk_bytenr);
  p.disk_len = le64_get (e->disk_num_bytes);
  p.ram = e->compression != 0 ? le64_get (e->ram_bytes) : p.disk_len;
  p.off = le64_get (e->offset);
  p.len = le64_get (e->num_bytes);
  add_part (s, &p);
}

static struct key
key_after (struct key k)
{
  if (++k.offset == 0 && ++k.type == 0)
    ++k.objectid;
  return k;
}

/* Some items of [*FROM, TO]; *FROM moves on, *ret_end: it is beyond TO.  The
 * tree is locked.
 */
static int
some_items (struct survey *s, struct key *from, struct key to, bool *ret_end)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  const struct block *leaf = NULL;
  unsigned items = 0, leaves = 0, level = 0;
  bool shared = false, over;
  int r;

  r = tree_find (s->tree, *from, &c, NULL);
  for (; r == 0; r = cursor_next (&c)) {
    const struct key k = cursor_at_item (&c) ? cursor_key (&c) : KEY_MIN;

    *ret_end = !cursor_at_item (&c) || key_cmp (k, to) > 0;
    if (*ret_end)
      return 0;
    *from = k;
    if (c.path[0] != leaf) {
      if (++leaves > ROUND_LEAVES)
        return 0;
      leaf = c.path[0];
      r = look_above (s, &c, &shared, &over, &level);
      if (r < 0)
        return r;
      if (over) {
        *ret_end = !key_behind (&c, level, from);
        return 0;
      }
    }
    if (k.type == BTRFS_EXTENT_DATA)
      take_item (s, &c, shared);
    *from = key_after (k);
    if (++items == ROUND_ITEMS)
      return 0;
  }
  return r;
}

static int
walk (struct survey *s, struct root *root, struct key from, struct key to)
{
  bool end = false;
  int r = 0;

  s->tree = root->tree;
  memset (s->above, 0, sizeof s->above);
  while (r == 0 && !end) {
    rwlock_rdlock (&s->tree->lock);
    r = some_items (s, &from, to, &end);
    rwlock_unlock (&s->tree->lock);
  }
  return r;
}

/* --- the whole --- */

static int
survey_all (struct survey *s, int (*pass) (struct survey *, void *opaque),
            void *opaque)
{
  int r;

  s->part = malloc (PARTS_MAX * sizeof *s->part);
  s->seen = s->many ? calloc (SEEN_MAX, sizeof *s->seen) : NULL;
  r = s->part == NULL || (s->many && s->seen == NULL)
    ? err_new (ERR_nomem, "space of files") : 0;
  while (r == 0) {
    if (s->many) {
      memset (s->seen, 0, SEEN_MAX * sizeof *s->seen);
      s->num_seen = 0;
    }
    r = pass (s, opaque);
    s->inline_counted = true;
    if (r == 0)
      r = judge_all (s);
    if (r < 0 || !next_class (s))
      break;
  }
  free (s->part);
  free (s->seen);
  return r;
}

static int
pass_file (struct survey *s, void *opaque)
{
  struct inode *in = opaque;

  return walk (s, in->root, KEY (in->ino, BTRFS_EXTENT_DATA, 0),
               KEY (in->ino, BTRFS_EXTENT_DATA, UINT64_MAX));
}

int
data_usage (struct data *d, struct inode *in, struct data_usage *ret)
{
  struct survey s = { .d = d };
  int r = survey_all (&s, pass_file, in);

  if (r < 0)
    return err_note (r, "space of inode %llu", (unsigned long long) in->ino);
  *ret = s.sum;
  return 0;
}

static int
pass_roots (struct survey *s, void *opaque)
{
  const struct data_roots *roots = opaque;
  bool restart = true;
  int r = 0;

  while (r == 0) {
    struct root *root;

    r = roots->next (roots->opaque, restart, &root);
    if (r < 0 || root == NULL)
      return r;
    restart = false;
    r = walk (s, root, KEY_MIN, KEY (UINT64_MAX, 255, UINT64_MAX));
    roots_put (s->d->env.roots, root);
  }
  return r;
}

int
data_usage_of_roots (struct data *d, const struct data_roots *roots,
                     struct data_usage *ret)
{
  struct survey s = { .d = d, .many = true };
  int r = survey_all (&s, pass_roots, (void *) roots);

  if (r < 0)
    return err_note (r, "space of all files");
  *ret = s.sum;
  return 0;
}
