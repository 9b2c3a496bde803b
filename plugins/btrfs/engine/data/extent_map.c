/* data: the extent map of a file. */
#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

/* A file that knows more than its share when all together know more than
 * MAP_ENTRIES_MAX forgets as much as it learns: a hand goes round the file
 * and takes what was not used since it came by last.
 */
#define MAP_ENTRIES_MAX 160000
#define MAP_ENTRIES_SHARE 4000
#define FILL_ITEMS 48          /* most items learned by one look-up */
#define FILL_ITEMS_FULL 2      /* the same when that costs others, and the
                                  look-up does not go on from the last one */

struct map_entry {
  RB_ENTRY (map_entry) link;
  struct mapping m;
};

static int
entry_cmp (const struct map_entry *a, const struct map_entry *b)
{
  return a->m.offset < b->m.offset ? -1 : a->m.offset > b->m.offset;
}

RB_PROTOTYPE (map_tree, map_entry, link, entry_cmp)
RB_GENERATE (map_tree, map_entry, link, entry_cmp)

static inline uint64_t
end_of (const struct mapping *m)
{
  return m->offset + m->len;
}

void
map_init (struct file_data *f)
{
  RB_INIT (&f->map.tree);
  f->map.n = 0;
  f->map.hand = f->map.next = 0;
}

static void
entry_free (struct file_data *f, struct map_entry *e)
{
  RB_REMOVE (map_tree, &f->map.tree, e);
  free (e);
  --f->map.n;
  __atomic_fetch_sub (&f->d->map_entries, 1, __ATOMIC_RELAXED);
}

static void
clear_locked (struct file_data *f)
{
  struct map_entry *e, *next;

  for (e = RB_MIN (map_tree, &f->map.tree); e != NULL; e = next) {
    next = RB_NEXT (map_tree, &f->map.tree, e);
    entry_free (f, e);
  }
}

void
map_clear (struct file_data *f)
{
  SCOPED_LOCK (&f->map_lock);
  clear_locked (f);
}

/* The entry that covers AT, or the first one above it. */
static struct map_entry *
at_or_after (struct file_data *f, uint64_t at)
{
  struct map_entry *e = RB_ROOT (&f->map.tree), *best = NULL;

  while (e != NULL) {
    if (at < e->m.offset) {
      best = e;
      e = RB_LEFT (e, link);
    }
    else if (at >= end_of (&e->m))
      e = RB_RIGHT (e, link);
    else
      return e;
  }
  return best;
}

static struct map_entry *
find (struct file_data *f, uint64_t at)
{
  struct map_entry *e = at_or_after (f, at);

  return e != NULL && e->m.offset <= at ? e : NULL;
}

static bool
add (struct file_data *f, const struct mapping *m)
{
  struct map_entry *e = malloc (sizeof *e);

  if (e == NULL)
    return false;
  e->m = *m;
  if (RB_INSERT (map_tree, &f->map.tree, e) != NULL) {
    assert (!"extent map entries overlap");
    free (e);
    return false;
  }
  ++f->map.n;
  __atomic_fetch_add (&f->d->map_entries, 1, __ATOMIC_RELAXED);
  return true;
}

static void
cut_front (struct mapping *m, uint64_t to)
{
  const uint64_t n = to - m->offset;

  if (m->kind == MAP_REGULAR || m->kind == MAP_PREALLOC)
    m->ext_offset += n;
  m->offset += n;
  m->len -= n;
}

/* Forget [start, end); what sticks out stays. */
static void
carve (struct file_data *f, uint64_t start, uint64_t end)
{
  struct map_entry *e = at_or_after (f, start), *next;

  for (; e != NULL && e->m.offset < end; e = next) {
    struct mapping right = e->m;

    next = RB_NEXT (map_tree, &f->map.tree, e);
    if (e->m.offset < start) {
      e->m.len = start - e->m.offset;
      if (end_of (&right) > end) {
        cut_front (&right, end);
        add (f, &right);
      }
    }
    else if (end_of (&e->m) > end)
      cut_front (&e->m, end); /* its place in the order stays */
    else
      entry_free (f, e);
  }
}

void
map_peek (struct file_data *f, uint64_t offset, struct mapping *ret,
          bool *ret_found)
{
  struct map_entry *e;

  SCOPED_LOCK (&f->map_lock);
  e = find (f, offset);
  *ret_found = e != NULL;
  if (e != NULL) {
    e->m.used = true;
    *ret = e->m;
  }
}

/* What is not remembered is looked up in the tree when it is needed. */
static bool
too_many (const struct file_data *f)
{
  return f->map.n > MAP_ENTRIES_SHARE &&
    __atomic_load_n (&f->d->map_entries, __ATOMIC_RELAXED) > MAP_ENTRIES_MAX;
}

/* Make room for N; lock held. */
static void
evict (struct file_data *f, unsigned n)
{
  unsigned steps = 4 * n + 16;
  struct map_entry *e = at_or_after (f, f->map.hand), *next;

  while (n > 0 && steps-- > 0) {
    if (e == NULL)
      e = RB_MIN (map_tree, &f->map.tree);
    if (e == NULL)
      break;
    next = RB_NEXT (map_tree, &f->map.tree, e);
    if (e->m.used)
      e->m.used = false;
    else {
      entry_free (f, e);
      --n;
    }
    e = next;
  }
  f->map.hand = e == NULL ? 0 : e->m.offset;
}

/* Readers look again.  Before the change: who sees the new mapping sees the
 * new number too.
 */
static void
changed (struct file_data *f)
{
  __atomic_fetch_add (&f->map_seq, 1, __ATOMIC_ACQ_REL);
}

static void
set_locked (struct file_data *f, const struct mapping *m)
{
  struct map_entry *e = find (f, m->offset);

  changed (f);
  if (e != NULL && e->m.offset == m->offset && e->m.len == m->len) {
    e->m = *m;
    return;
  }
  carve (f, m->offset, end_of (m));
  if (too_many (f))
    evict (f, 1);
  if (!too_many (f))
    add (f, m);
}

void
map_set (struct file_data *f, const struct mapping *m)
{
  SCOPED_LOCK (&f->map_lock);
  set_locked (f, m);
}

void
map_set_fresh (struct file_data *f, const struct mapping *m, uint64_t snapshot)
{
  struct mapping ours = *m;

  if (m->generation > snapshot) {
    ours.nocow = NOCOW_YES;
    ours.nocow_snapshot = snapshot;
  }
  map_set (f, &ours);
}

void
map_set_converted (struct file_data *f, const struct mapping *m)
{
  struct mapping same = *m;
  const struct map_entry *e;

  SCOPED_LOCK (&f->map_lock);
  e = find (f, m->offset);
  if (e != NULL && e->m.kind == MAP_PREALLOC && e->m.disk == m->disk
      && e->m.nocow == NOCOW_YES) {
    same.nocow = NOCOW_YES;
    same.nocow_snapshot = e->m.nocow_snapshot;
  }
  set_locked (f, &same);
}

void
map_set_hole (struct file_data *f, uint64_t start, uint64_t end)
{
  struct mapping m = { .offset = start, .len = end - start,
                       .kind = MAP_HOLE };
  struct map_entry *e;

  SCOPED_LOCK (&f->map_lock);
  changed (f);
  carve (f, start, end);
  /* Holes join. */
  if (start > 0 && (e = find (f, start - 1)) != NULL
      && e->m.kind == MAP_HOLE) {
    m.offset = e->m.offset;
    m.len += e->m.len;
    entry_free (f, e);
  }
  if ((e = find (f, end)) != NULL && e->m.kind == MAP_HOLE) {
    m.len += e->m.len;
    entry_free (f, e);
  }
  add (f, &m);
}

void
map_forget (struct file_data *f, uint64_t start, uint64_t end)
{
  SCOPED_LOCK (&f->map_lock);
  changed (f);
  carve (f, start, end);
}

void
map_shared (struct file_data *f, uint64_t base, uint64_t len)
{
  struct map_entry *e;
  uint64_t end = base + len;

  SCOPED_LOCK (&f->map_lock);
  ++f->shares;
  if (end < base)
    base = 0;
  for (e = at_or_after (f, base); e != NULL && e->m.offset < end;
       e = RB_NEXT (map_tree, &f->map.tree, e))
    e->m.nocow = NOCOW_UNKNOWN;
}

void
map_set_nocow (struct file_data *f, const struct mapping *m, uint64_t shares)
{
  struct map_entry *e;

  SCOPED_LOCK (&f->map_lock);
  e = f->shares == shares ? find (f, m->offset) : NULL;
  if (e != NULL && e->m.kind == m->kind && e->m.disk == m->disk
      && e->m.offset >= m->offset && end_of (&e->m) <= end_of (m)
      && e->m.generation == m->generation) {
    e->m.nocow = m->nocow;
    e->m.nocow_snapshot = m->nocow_snapshot;
    e->m.nocow_commit = m->nocow_commit;
  }
}

static bool
same_place (const struct mapping *a, const struct mapping *b)
{
  if (a->kind != b->kind)
    return false;
  if (a->kind == MAP_HOLE || a->kind == MAP_INLINE)
    return true;
  return a->disk == b->disk && a->compression == b->compression
    && a->ext_offset - a->offset == b->ext_offset - b->offset;
}

bool
map_still (struct file_data *f, const struct mapping *m, uint64_t offset,
           uint64_t len)
{
  const uint64_t end = offset + len;
  struct map_entry *e;

  SCOPED_LOCK (&f->map_lock);
  while (offset < end) {
    e = find (f, offset);
    if (e == NULL || !same_place (&e->m, m))
      return false;
    offset = end_of (&e->m);
  }
  return true;
}

/* --- learning from the tree --- */

static int
bad_item (const struct file_data *f, uint64_t offset, const char *what)
{
  return err_new (ERR_file_extent, "%s: tree %" PRIu64 " inode %" PRIu64
                  " offset %" PRIu64, what, f->inode->root->id,
                  f->inode->ino, offset);
}

/* The tree-checker has seen the item; what spans two fields is judged here
 * again because reads depend on it.
 */
int
map_parse (struct file_data *f, const struct cursor *c, struct mapping *m)
{
  const struct btrfs_file_extent *e = cursor_data (c);
  const uint32_t ps = f->d->ps, size = cursor_size (c);
  uint64_t end;

  *m = (struct mapping) { .offset = cursor_key (c).offset };
  if (size < BTRFS_FILE_EXTENT_INLINE_HEAD)
    return bad_item (f, m->offset, "item too short");
  m->generation = le64_get (e->generation);
  m->ram = le64_get (e->ram_bytes);
  m->compression = e->compression;
  if (e->encryption != 0 || le16_get (e->other_encoding) != 0)
    return err_new (ERR_unsupported, "encoded extent: inode %" PRIu64
                    " offset %" PRIu64, f->inode->ino, m->offset);
  if (e->type == BTRFS_FILE_EXTENT_INLINE) {
    m->kind = MAP_INLINE;
    m->len = ps;
    if (m->offset != 0 || m->ram > ps)
      return bad_item (f, m->offset, "inline extent out of place");
    return 0;
  }
  if (size < sizeof *e || !is_aligned (m->offset, ps))
    return bad_item (f, m->offset, "malformed extent");
  m->len = le64_get (e->num_bytes);
  m->disk = le64_get (e->disk_bytenr);
  m->disk_len = le64_get (e->disk_num_bytes);
  m->ext_offset = le64_get (e->offset);
  if (m->len == 0 || !is_aligned (m->len | m->disk | m->disk_len, ps)
      || m->offset >= DATA_FILE_END || m->len > DATA_FILE_END - m->offset
      || !add_ok (m->disk, m->disk_len, &end))
    return bad_item (f, m->offset, "extent out of range");
  if (m->disk == 0) {
    m->kind = MAP_HOLE;
    return 0;
  }
  m->kind = e->type == BTRFS_FILE_EXTENT_PREALLOC ? MAP_PREALLOC
    : MAP_REGULAR;
  if (!add_ok (m->ext_offset, m->len, &end)
      || !is_aligned (m->ext_offset, ps)
      || end > (m->compression != 0 ? m->ram : m->disk_len))
    return bad_item (f, m->offset, "extent slice out of range");
  if (m->compression != 0
      && (m->ram > BTRFS_MAX_COMPRESSED
          || m->disk_len > 2 * BTRFS_MAX_COMPRESSED
          || m->kind == MAP_PREALLOC))
    return bad_item (f, m->offset, "compressed extent out of range");
  return 0;
}

/* M is what the tree says; keep what is known of it (a verdict). */
static void
learn (struct file_data *f, const struct mapping *m)
{
  struct map_entry *e = find (f, m->offset);

  if (e != NULL && e->m.offset <= m->offset && end_of (&e->m) >= end_of (m)
      && same_place (&e->m, m))
    return;
  carve (f, m->offset, end_of (m));
  add (f, m);
}

struct lesson {
  struct mapping m[2 * FILL_ITEMS];
  unsigned n, max;
};

static void
note_hole (struct lesson *l, uint64_t start, uint64_t end)
{
  if (start < end)
    l->m[l->n++] = (struct mapping) { .offset = start, .len = end - start,
                                      .kind = MAP_HOLE };
}

/* Read what the tree says from OFFSET on, some items; the lesson covers
 * OFFSET.  Tree lock held shared.
 */
static int
study (struct file_data *f, uint64_t offset, struct lesson *l)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  uint64_t pos = 0;
  bool first = true;
  int r = seek_extent (f, offset, &c);

  while (r == 0) {
    struct mapping m;

    if (!at_extent (f, &c)) {
      note_hole (l, pos, DATA_FILE_END);
      return 0;
    }
    r = map_parse (f, &c, &m);
    if (r < 0)
      return r;
    if (m.offset < pos)
      return bad_item (f, m.offset, "overlapping extents");
    /* What lies before an item below OFFSET was not looked at. */
    if (!first || m.offset > offset)
      note_hole (l, pos, m.offset);
    l->m[l->n++] = m;
    first = false;
    pos = end_of (&m);
    if (l->n + 2 > 2 * l->max && pos > offset)
      return 0;
    /* The next leaf only if OFFSET needs it: it may be a disk away. */
    if (pos > offset && c.slot[0] + 1 >= tb_nritems (c.path[0]->data))
      return 0;
    r = cursor_next (&c);
  }
  return r;
}

int
map_lookup (struct file_data *f, uint64_t offset, struct mapping *ret)
{
  struct tree *t = file_tree (f);
  struct lesson l;
  bool found;
  unsigned i;
  int r;

  map_peek (f, offset, ret, &found);
  if (found)
    return 0;
  l.n = 0;
  {
    SCOPED_LOCK (&f->map_lock);
    l.max = !too_many (f) || offset == f->map.next ? FILL_ITEMS
      : FILL_ITEMS_FULL;
  }
  ret->len = 0;
  rwlock_rdlock (&t->lock);
  r = study (f, offset, &l);
  if (r == 0) {
    SCOPED_LOCK (&f->map_lock);
    if (too_many (f))
      evict (f, l.n);
    if (l.n > 0)
      f->map.next = end_of (&l.m[l.n - 1]);
    for (i = 0; i < l.n; ++i) {
      learn (f, &l.m[i]);
      if (l.m[i].offset <= offset && offset < end_of (&l.m[i]))
        *ret = l.m[i];
    }
  }
  rwlock_unlock (&t->lock);
  if (r == 0 && ret->len == 0)
    r = bad_item (f, offset, "beyond the last offset of any file");
  if (r < 0)
    return err_note (r, "extents of inode %" PRIu64, f->inode->ino);
  return 0;
}
