/* space: the free space tree against a map of sectors.
 *
 * Random extents are allocated and freed in two neighbouring groups, noted in
 * a set of changes and applied; the items of the tree must then say exactly
 * what the model says, in the form that the thresholds demand.
 */

#include <config.h>

#include "unit/test.h"

#include "base/err.h"
#include "base/math.h"
#include "space/space_priv.h"
#include "unit/treelab.h"

#define SECTOR 4096
#define MIB (UINT64_C (1) << 20)
#define GROUPS 2
#define SECTORS_MAX 40000

struct group {
  struct block_group bg;
  struct fst_changes changes;
  uint8_t bit[SECTORS_MAX];    /* 1: free */
  uint64_t n;
  bool bitmaps;                /* what the form must be */
  uint64_t high, low;
  unsigned conversions;
};

struct run {
  struct lab lab;
  struct tree *tree;
  struct group g[GROUPS];
  uint64_t seed;
};

static struct fst_group
handle (struct run *run, struct group *g)
{
  return (struct fst_group) { .txn = &run->lab.txn, .tree = run->tree,
    .bg = &g->bg, .sector = SECTOR };
}

static uint64_t
model_runs (const struct group *g)
{
  uint64_t i, n = 0;

  for (i = 0; i < g->n; i++)
    n += g->bit[i] && (i == 0 || !g->bit[i - 1]);
  return n;
}

static void
see_extent (struct group *g, uint8_t *seen, struct key k)
{
  uint64_t i, first = (k.objectid - g->bg.start) / SECTOR;

  assert_false (g->bitmaps);
  assert_true (first == 0 || !seen[first - 1]); /* runs are whole */
  for (i = first; i < first + k.offset / SECTOR; i++) {
    assert_int_equal (seen[i], 0);
    seen[i] = 1;
  }
}

static void
see_bitmap (struct group *g, uint8_t *seen, struct key k, const uint8_t *bits,
            uint32_t size)
{
  uint64_t i, first = (k.objectid - g->bg.start) / SECTOR;
  uint64_t n = k.offset / SECTOR;

  assert_true (g->bitmaps);
  assert_int_equal (size, div_round_up (n, 8));
  for (i = 0; i < n; i++)
    seen[first + i] = bits[i / 8] >> (i % 8) & 1;
}

static void
check_group (struct run *run, struct group *g)
{
  static uint8_t seen[SECTORS_MAX];
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  const struct btrfs_free_space_info *info;
  struct key k;
  bool exact;

  memset (seen, 0, sizeof seen);
  lab_ok (tree_find (run->tree, KEY (g->bg.start, BTRFS_FREE_SPACE_INFO,
                                     g->bg.length), &c, &exact), "info");
  assert_true (exact);
  info = cursor_data (&c);
  assert_int_equal (le32_get (info->extent_count), model_runs (g));
  assert_int_equal (le32_get (info->flags) & 1, g->bitmaps);
  for (;;) {
    lab_ok (cursor_next (&c), "next");
    if (!cursor_at_item (&c))
      break;
    k = cursor_key (&c);
    if (k.objectid >= g->bg.start + g->bg.length)
      break;
    if (k.type == BTRFS_FREE_SPACE_EXTENT)
      see_extent (g, seen, k);
    else {
      assert_int_equal (k.type, BTRFS_FREE_SPACE_BITMAP);
      see_bitmap (g, seen, k, cursor_data (&c), cursor_size (&c));
    }
  }
  assert_memory_equal (seen, g->bit, g->n);
}

/* What the thresholds say after one range was applied. */
static void
model_form (struct group *g)
{
  uint64_t runs = model_runs (g);

  if (!g->bitmaps && runs > g->high) {
    g->bitmaps = true;
    g->conversions++;
  }
  else if (g->bitmaps && runs < g->low) {
    g->bitmaps = false;
    g->conversions++;
  }
}

static void
apply_all (struct run *run, struct group *g)
{
  struct fst_group h = handle (run, g);
  struct fst_change *e;
  uint64_t i;

  RB_FOREACH (e, fst_changes, &g->changes) {
    lab_ok (fst_apply (&h, e->start, e->len, e->free), "apply");
    for (i = (e->start - g->bg.start) / SECTOR;
         i < (e->start + e->len - g->bg.start) / SECTOR; i++) {
      assert_int_equal (g->bit[i], !e->free);
      g->bit[i] = e->free;
    }
    model_form (g);
  }
  fst_changes_clear (&g->changes);
  lab_ok (fst_write_info (&h), "info");
}

/* Flip a random range that is of one kind in NOW. */
static void
note_random (struct run *run, struct group *g, uint8_t *now, bool prefer_free)
{
  uint64_t s = lab_random (&run->seed) % g->n, i;
  uint64_t max = 1 + lab_random (&run->seed) % 24, len = 0;

  if (lab_random (&run->seed) % 4 && now[s] == prefer_free)
    return;
  while (len < max && s + len < g->n && now[s + len] == now[s])
    len++;
  assert_int_equal (fst_changes_add (&g->changes, g->bg.start + s * SECTOR,
                                     len * SECTOR, !now[s]), 0);
  for (i = s; i < s + len; i++)
    now[i] = !now[i];
}

static void
churn (struct run *run, unsigned rounds, bool prefer_free)
{
  static uint8_t now[SECTORS_MAX];
  struct group *g;
  unsigned i, j;

  for (i = 0; i < rounds; i++) {
    g = &run->g[lab_random (&run->seed) % GROUPS];
    memcpy (now, g->bit, g->n);
    for (j = lab_random (&run->seed) % 20; j > 0; j--)
      note_random (run, g, now, prefer_free);
    apply_all (run, g);
    assert_memory_equal (now, g->bit, g->n);
    check_group (run, g);
    if (i % 40 == 39)
      lab_commit (&run->lab);
  }
}

static void
group_init (struct run *run, struct group *g, uint64_t start, uint64_t length)
{
  struct space_range all = { start, length };
  struct fst_group h;
  uint64_t bitmaps = div_round_up (length, 256 * 8 * SECTOR);

  memset (g, 0, sizeof *g);
  g->bg.start = start;
  g->bg.length = length;
  g->n = length / SECTOR;
  assert_true (g->n <= SECTORS_MAX);
  memset (g->bit, 1, g->n);
  RB_INIT (&g->changes);
  g->high = bitmaps * (25 + 256) / 25;
  g->low = g->high > 100 ? g->high - 100 : 0;
  h = handle (run, g);
  lab_ok (fst_populate (&h, &all, 1), "populate");
}

static void
run_model (uint32_t nodesize, uint64_t len0, uint64_t len1, uint64_t seed)
{
  struct run *run = calloc (1, sizeof *run);
  struct lab_opts opts = { .nodesize = nodesize, .cache_bytes = 8 * MIB };
  struct fst_group h;
  unsigned i;

  assert_non_null (run);
  run->seed = seed;
  lab_open (&run->lab, &opts);
  lab_ok (tree_create (&run->lab.txn, run->lab.cache, BTRFS_FREE_SPACE_TREE,
                       RANK_TREE_FST, false, &run->tree), "tree");
  rwlock_wrlock (&run->tree->lock);
  group_init (run, &run->g[0], 1024 * MIB, len0);
  group_init (run, &run->g[1], 1024 * MIB + len0, len1);
  churn (run, 250, false);
  churn (run, 250, true);
  churn (run, 120, false);
  for (i = 0; i < GROUPS; i++)
    assert_true (run->g[i].conversions > 0);
  /* All free again, then the group goes without a trace. */
  h = handle (run, &run->g[0]);
  lab_ok (fst_remove_group (&h), "remove");
  check_group (run, &run->g[1]);
  h = handle (run, &run->g[1]);
  lab_ok (fst_remove_group (&h), "remove");
  assert_int_equal (tb_nritems (run->tree->root->data), 0);
  rwlock_unlock (&run->tree->lock);
  tree_free (run->tree);
  lab_close (&run->lab);
  free (run);
}

static void
test_model (void **state)
{
  (void) state;
  /* Whole bitmaps; a short last one; a group smaller than one bitmap. */
  run_model (4096, 128 * MIB, 64 * MIB + 3 * 65536, 1);
  run_model (16384, 136 * MIB, 1 * MIB, 2);
}

/* The set of changes: what cancels, what merges, what is refused. */
static void
test_changes (void **state)
{
  struct fst_changes set = RB_INITIALIZER (&set);
  struct fst_change *e;

  (void) state;
  assert_int_equal (fst_changes_add (&set, 100, 10, false), 0);
  assert_int_equal (fst_changes_add (&set, 120, 10, false), 0);
  assert_int_equal (fst_changes_add (&set, 110, 10, false), 0);
  e = RB_MIN (fst_changes, &set);
  assert_int_equal (e->start, 100);
  assert_int_equal (e->len, 30);
  assert_null (RB_NEXT (fst_changes, &set, e));
  /* Freed in the middle: two pieces; allocated twice: refused. */
  assert_int_equal (fst_changes_add (&set, 110, 5, true), 0);
  assert_int_equal (fst_changes_add (&set, 128, 1, false), -ERR_fst_state);
  e = RB_MIN (fst_changes, &set);
  assert_int_equal (e->len, 10);
  e = RB_NEXT (fst_changes, &set, e);
  assert_int_equal (e->start, 115);
  assert_int_equal (e->len, 15);
  /* Freed beyond both ends: what was not allocated here is freed. */
  assert_int_equal (fst_changes_add (&set, 90, 20, true), 0);
  e = RB_MIN (fst_changes, &set);
  assert_true (e->free);
  assert_int_equal (e->start, 90);
  assert_int_equal (e->len, 10);
  assert_int_equal (fst_changes_add (&set, 90, 10, false), 0);
  assert_int_equal (fst_changes_add (&set, 115, 15, true), 0);
  assert_true (RB_EMPTY (&set));
  fst_changes_clear (&set);
}

/* A disagreement with the tree is found, in both forms. */
static void
test_disagree (void **state)
{
  struct run *run = calloc (1, sizeof *run);
  struct lab_opts opts = { .nodesize = 4096, .cache_bytes = 8 * MIB };
  struct group *g = &run->g[0];
  struct fst_group h;
  uint64_t i;

  (void) state;
  lab_open (&run->lab, &opts);
  lab_ok (tree_create (&run->lab.txn, run->lab.cache, BTRFS_FREE_SPACE_TREE,
                       RANK_TREE_FST, false, &run->tree), "tree");
  rwlock_wrlock (&run->tree->lock);
  group_init (run, g, 1024 * MIB, 64 * MIB);
  h = handle (run, g);
  lab_ok (fst_apply (&h, g->bg.start, SECTOR, false), "apply");
  assert_int_equal (fst_apply (&h, g->bg.start, SECTOR, false),
                    -ERR_fst_state);
  assert_int_equal (fst_apply (&h, g->bg.start + 8 * SECTOR, SECTOR, true),
                    -ERR_fst_state);
  for (i = 1; i < 200; i++)
    lab_ok (fst_apply (&h, g->bg.start + 2 * i * SECTOR, SECTOR, false),
            "apply");
  assert_int_equal (g->bg.form, FST_BITMAPS);
  assert_int_equal (fst_apply (&h, g->bg.start, SECTOR, false),
                    -ERR_fst_state);
  assert_int_equal (fst_apply (&h, g->bg.start + SECTOR, SECTOR, true),
                    -ERR_fst_state);
  rwlock_unlock (&run->tree->lock);
  tree_free (run->tree);
  lab_close (&run->lab);
  free (run);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_changes),
    cmocka_unit_test (test_model),
    cmocka_unit_test (test_disagree),
  };

  return cmocka_run_group_tests_name ("space-fst", tests, NULL, NULL);
}
