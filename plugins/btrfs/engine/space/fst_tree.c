/* space: one block group's items in the free space tree.
 *
 *   (start, INFO, length)     number of free runs, form
 *   (addr, EXTENT, length)    a free run; or
 *   (addr, BITMAP, length)    one bit per sector, set: free
 *
 * Runs are counted over the whole group, also across bitmap items.  Bitmaps
 * that we write cover 256 bytes; others are read and changed as they are.
 * The tree's lock is held exclusively.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/math.h"
#include "space/space_priv.h"

static uint64_t
group_end (const struct fst_group *g)
{
  return g->bg->start + g->bg->length;
}

static struct key
info_key (const struct fst_group *g)
{
  return KEY (g->bg->start, BTRFS_FREE_SPACE_INFO, g->bg->length);
}

static uint64_t
bitmap_range (const struct fst_group *g)
{
  return (uint64_t) BTRFS_FREE_SPACE_BITMAP_BYTES * 8 * g->sector;
}

/* Where one form becomes bigger than the other, by the group's length, with
 * some distance between the two.
 */
static uint64_t
high_threshold (const struct fst_group *g)
{
  uint64_t bitmaps = div_round_up (g->bg->length, bitmap_range (g));

  return bitmaps * (sizeof (struct btrfs_item) +
                    BTRFS_FREE_SPACE_BITMAP_BYTES) /
    sizeof (struct btrfs_item);
}

static uint64_t
low_threshold (const struct fst_group *g)
{
  uint64_t high = high_threshold (g);

  return high > 100 ? high - 100 : 0;
}

static int
bad_state (uint64_t start, uint64_t len, const char *what)
{
  return err_new (ERR_fst_state, "%llu+%llu: %s", (unsigned long long) start,
                  (unsigned long long) len, what);
}

int
fst_read_info (struct fst_group *g)
{
  struct btrfs_free_space_info info;
  uint32_t size;
  bool found;
  int r;

  if (g->bg->form != FST_UNKNOWN)
    return 0;
  r = tree_get (g->tree, info_key (g), &info, sizeof info, &size, &found);
  if (r < 0)
    return r;
  if (!found || size != sizeof info)
    return err_new (ERR_fst_format, "info item of block group %llu",
                    (unsigned long long) g->bg->start);
  g->bg->fst_count = le32_get (info.extent_count);
  g->bg->form = le32_get (info.flags) & BTRFS_FREE_SPACE_USING_BITMAPS
    ? FST_BITMAPS : FST_EXTENTS;
  return 0;
}

static void
fill_info (const struct fst_group *g, struct btrfs_free_space_info *info)
{
  info->extent_count = le32_make (g->bg->fst_count);
  info->flags = le32_make (g->bg->form == FST_BITMAPS
                           ? BTRFS_FREE_SPACE_USING_BITMAPS : 0);
}

int
fst_write_info (struct fst_group *g)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct btrfs_free_space_info info;
  int r;

  if (g->bg->form == FST_UNKNOWN)
    return 0;
  fill_info (g, &info);
  r = tree_find_rw (g->txn, g->tree, info_key (g), &c);
  if (r == 0)
    memcpy (cursor_data_rw (&c), &info, sizeof info);
  return r;
}

/* --- extents --- */

/* Is C at a free run of this group? */
static bool
at_run (const struct fst_group *g, const struct cursor *c, struct key *ret)
{
  if (!cursor_at_item (c))
    return false;
  *ret = cursor_key (c);
  return ret->type == BTRFS_FREE_SPACE_EXTENT &&
    ret->objectid >= g->bg->start && ret->objectid < group_end (g);
}

static struct key
run_key (uint64_t start, uint64_t end)
{
  return KEY (start, BTRFS_FREE_SPACE_EXTENT, end - start);
}

static int
run_alloc (struct fst_group *g, uint64_t start, uint64_t end)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  uint64_t s, e;
  struct key k;
  int r;

  r = tree_find_le (g->tree, KEY (start, BTRFS_FREE_SPACE_EXTENT, UINT64_MAX),
                    &c, NULL);
  if (r < 0)
    return r;
  if (!at_run (g, &c, &k) || k.objectid + k.offset < end)
    return bad_state (start, end - start, "allocated, but not free");
  s = k.objectid;
  e = s + k.offset;
  r = cursor_make_writable (g->txn, &c);
  if (r < 0)
    return r;
  if (s == start && e == end) {
    g->bg->fst_count--;
    return cursor_delete (g->txn, &c, 1);
  }
  if (s == start)
    return cursor_set_key (g->txn, &c, run_key (end, e));
  r = cursor_set_key (g->txn, &c, run_key (s, start));
  if (r < 0 || e == end)
    return r;
  cursor_done (&c);
  g->bg->fst_count++;
  return tree_insert_data (g->txn, g->tree, run_key (end, e), NULL, 0);
}

/* A run that begins at END, to be joined with one that begins at START. */
static int
run_free_next (struct fst_group *g, uint64_t start, uint64_t end)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct key k;
  int r;

  r = tree_find (g->tree, KEY (start, BTRFS_FREE_SPACE_EXTENT, 0), &c, NULL);
  if (r < 0)
    return r;
  if (at_run (g, &c, &k)) {
    if (k.objectid < end)
      return bad_state (start, end - start, "freed, but free already");
    if (k.objectid == end) {
      r = cursor_make_writable (g->txn, &c);
      if (r < 0)
        return r;
      return cursor_set_key (g->txn, &c, run_key (start, end + k.offset));
    }
  }
  cursor_done (&c);
  g->bg->fst_count++;
  return tree_insert_data (g->txn, g->tree, run_key (start, end), NULL, 0);
}

static int
run_free (struct fst_group *g, uint64_t start, uint64_t end)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct key k, next;
  int r;

  r = tree_find_le (g->tree, KEY (start, BTRFS_FREE_SPACE_EXTENT, UINT64_MAX),
                    &c, NULL);
  if (r < 0)
    return r;
  if (at_run (g, &c, &k) && k.objectid + k.offset > start)
    return bad_state (start, end - start, "freed, but free already");
  if (!at_run (g, &c, &k) || k.objectid + k.offset != start) {
    cursor_done (&c);
    return run_free_next (g, start, end);
  }
  /* Joined with the run below; perhaps with the one above, too. */
  r = cursor_next (&c);
  if (r < 0)
    return r;
  if (at_run (g, &c, &next)) {
    if (next.objectid < end)
      return bad_state (start, end - start, "freed, but free already");
    if (next.objectid == end) {
      end += next.offset;
      r = cursor_make_writable (g->txn, &c);
      if (r == 0)
        r = cursor_delete (g->txn, &c, 1);
      if (r < 0)
        return r;
      g->bg->fst_count--;
    }
  }
  cursor_done (&c);
  r = tree_find_rw (g->txn, g->tree, k, &c);
  if (r < 0)
    return r;
  return cursor_set_key (g->txn, &c, run_key (k.objectid, end));
}

/* --- bitmaps --- */

/* The bitmap item that holds ADDR. */
static int
find_bitmap (const struct fst_group *g, uint64_t addr, struct cursor *c,
             struct key *ret)
{
  int r = tree_find_le (g->tree, KEY (addr, BTRFS_FREE_SPACE_BITMAP,
                                      UINT64_MAX), c, NULL);

  if (r < 0)
    return r;
  if (!cursor_at_item (c))
    return bad_state (addr, 0, "no bitmap");
  *ret = cursor_key (c);
  if (ret->type != BTRFS_FREE_SPACE_BITMAP || ret->objectid < g->bg->start ||
      addr - ret->objectid >= ret->offset ||
      ret->offset > group_end (g) - ret->objectid)
    return bad_state (addr, 0, "no bitmap");
  if (cursor_size (c) != div_round_up (ret->offset / g->sector, 8))
    return err_new (ERR_fst_format, "bitmap at %llu: %u bytes",
                    (unsigned long long) ret->objectid, cursor_size (c));
  return 0;
}

static bool
get_bit (const uint8_t *bits, uint64_t i)
{
  return bits[i / 8] >> (i % 8) & 1;
}

static int
bit_at (const struct fst_group *g, uint64_t addr, bool *ret)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct key k;
  int r;

  *ret = false;
  if (addr < g->bg->start || addr >= group_end (g))
    return 0;
  r = find_bitmap (g, addr, &c, &k);
  if (r == 0)
    *ret = get_bit (cursor_data (&c), (addr - k.objectid) / g->sector);
  return r;
}

/* Set bits [FROM, TO) to VALUE; all of them had the other one. */
static bool
flip_bits (uint8_t *bits, uint64_t from, uint64_t to, bool value)
{
  for (; from < to; from++) {
    if (get_bit (bits, from) == value)
      return false;
    bits[from / 8] ^= 1u << (from % 8);
  }
  return true;
}

static int
bitmaps_change (struct fst_group *g, uint64_t start, uint64_t end,
                bool is_free)
{
  uint64_t at = start, to;
  bool prev, next;
  struct key k;
  int r;

  r = bit_at (g, start - g->sector, &prev);
  if (r == 0)
    r = bit_at (g, end, &next);
  while (r == 0 && at < end) {
    CLEANUP_CURSOR struct cursor c = CURSOR_INIT;

    r = find_bitmap (g, at, &c, &k);
    if (r == 0)
      r = cursor_make_writable (g->txn, &c);
    if (r < 0)
      return r;
    to = MIN (end, k.objectid + k.offset);
    if (!flip_bits (cursor_data_rw (&c), (at - k.objectid) / g->sector,
                    (to - k.objectid) / g->sector, is_free))
      return bad_state (at, to - at, is_free ? "freed, but free already"
                        : "allocated, but not free");
    at = to;
  }
  if (r < 0)
    return r;
  if (is_free)
    g->bg->fst_count += 1 - prev - next;
  else
    g->bg->fst_count += prev + next - 1;
  return 0;
}

/* --- conversion --- */

/* Everything behind the info item goes. */
static int
delete_runs (struct fst_group *g)
{
  return tree_delete_range (g->txn, g->tree,
                            KEY (g->bg->start, BTRFS_FREE_SPACE_EXTENT, 0),
                            KEY (group_end (g) - 1, UINT8_MAX, UINT64_MAX),
                            0, NULL);
}

int
fst_remove_group (struct fst_group *g)
{
  int r = delete_runs (g);

  g->bg->form = FST_UNKNOWN;
  return r < 0 ? r : tree_delete (g->txn, g->tree, info_key (g));
}

/* All free runs of the group into MAP. */
static int
read_runs (struct fst_group *g, struct free_map *map)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  uint64_t first, n, i;
  const uint8_t *bits;
  struct key k;
  int r;

  r = tree_find (g->tree, KEY (g->bg->start, BTRFS_FREE_SPACE_EXTENT, 0), &c,
                 NULL);
  for (; r == 0 && cursor_at_item (&c); r = cursor_next (&c)) {
    k = cursor_key (&c);
    if (k.objectid >= group_end (g))
      break;
    if (k.offset > group_end (g) - k.objectid)
      return err_new (ERR_fst_format, "item at %llu",
                      (unsigned long long) k.objectid);
    first = (k.objectid - g->bg->start) / g->sector;
    n = k.offset / g->sector;
    if (k.type == BTRFS_FREE_SPACE_EXTENT)
      r = free_map_set (map, first, n, true, NULL);
    else if (k.type == BTRFS_FREE_SPACE_BITMAP &&
             cursor_size (&c) == div_round_up (n, 8)) {
      bits = cursor_data (&c);
      for (i = 0; i < n && r == 0; i++)
        if (get_bit (bits, i))
          r = free_map_set (map, first + i, 1, true, NULL);
    }
    else
      return err_new (ERR_fst_format, "item at %llu",
                      (unsigned long long) k.objectid);
    if (r < 0)
      return r;
  }
  return r;
}

static uint64_t
count_runs (const struct free_map *map)
{
  uint64_t n = 0, s = 0, len = 0;

  while (free_map_next_run (map, s + len, true, &s, &len))
    n++;
  return n;
}

static int
insert_extents (struct fst_group *g, const struct free_map *map)
{
  struct tree_item items[64];
  uint64_t s = 0, len = 0, at;
  size_t n = 0;
  bool more = true;
  int r;

  while (more) {
    more = free_map_next_run (map, s + len, true, &s, &len);
    if (more) {
      at = g->bg->start + s * g->sector;
      items[n++] = (struct tree_item) {
        .key = run_key (at, at + len * g->sector) };
    }
    if (n == ARRAY_SIZE (items) || (!more && n > 0)) {
      r = tree_insert_many (g->txn, g->tree, items, n);
      if (r < 0)
        return r;
      n = 0;
    }
  }
  return 0;
}

static int
insert_bitmaps (struct fst_group *g, const struct free_map *map)
{
  uint8_t bits[BTRFS_FREE_SPACE_BITMAP_BYTES];
  uint64_t at, len, n, i, first;
  int r = 0;

  for (at = g->bg->start; at < group_end (g) && r == 0; at += len) {
    len = MIN (bitmap_range (g), group_end (g) - at);
    n = len / g->sector;
    first = (at - g->bg->start) / g->sector;
    memset (bits, 0, sizeof bits);
    for (i = 0; i < n; i++)
      if (free_map_test (map, first + i))
        bits[i / 8] |= 1u << (i % 8);
    r = tree_insert_data (g->txn, g->tree,
                          KEY (at, BTRFS_FREE_SPACE_BITMAP, len), bits,
                          div_round_up (n, 8));
  }
  return r;
}

static int
convert (struct fst_group *g, enum fst_form form)
{
  struct free_map map;
  uint64_t runs;
  int r;

  free_map_init (&map, g->bg->length / g->sector, false);
  r = read_runs (g, &map);
  runs = r == 0 ? count_runs (&map) : 0;
  if (r == 0 && runs != g->bg->fst_count)
    r = err_new (ERR_fst_count, "block group %llu: %llu free runs, the info "
                 "item says %u", (unsigned long long) g->bg->start,
                 (unsigned long long) runs, g->bg->fst_count);
  if (r == 0)
    r = delete_runs (g);
  if (r == 0)
    r = form == FST_BITMAPS ? insert_bitmaps (g, &map)
      : insert_extents (g, &map);
  free_map_done (&map);
  if (r < 0)
    return r;
  g->bg->form = form;
  if (g->stats && form == FST_BITMAPS)
    g->stats->to_bitmaps++;
  else if (g->stats)
    g->stats->to_extents++;
  return 0;
}

int
fst_apply (struct fst_group *g, uint64_t start, uint64_t len, bool is_free)
{
  int r = fst_read_info (g);

  if (r < 0)
    return r;
  if (g->bg->form == FST_BITMAPS)
    r = bitmaps_change (g, start, start + len, is_free);
  else if (is_free)
    r = run_free (g, start, start + len);
  else
    r = run_alloc (g, start, start + len);
  if (r < 0)
    return r;
  if (g->bg->form == FST_EXTENTS && g->bg->fst_count > high_threshold (g))
    return convert (g, FST_BITMAPS);
  if (g->bg->form == FST_BITMAPS && g->bg->fst_count < low_threshold (g))
    return convert (g, FST_EXTENTS);
  return 0;
}

int
fst_populate (struct fst_group *g, const struct space_range *runs, size_t n)
{
  struct btrfs_free_space_info info;
  struct free_map map;
  size_t i;
  int r = 0;

  free_map_init (&map, g->bg->length / g->sector, false);
  for (i = 0; i < n && r == 0; i++)
    r = free_map_set (&map, (runs[i].start - g->bg->start) / g->sector,
                      runs[i].len / g->sector, true, NULL);
  g->bg->fst_count = n;
  g->bg->form = n > high_threshold (g) ? FST_BITMAPS : FST_EXTENTS;
  fill_info (g, &info);
  if (r == 0)
    r = tree_insert_data (g->txn, g->tree, info_key (g), &info, sizeof info);
  if (r == 0)
    r = g->bg->form == FST_BITMAPS ? insert_bitmaps (g, &map)
      : insert_extents (g, &map);
  free_map_done (&map);
  return r;
}
