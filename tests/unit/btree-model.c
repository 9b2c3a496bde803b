/* btree: random changes against a sorted array.
 *
 * Every case prints its seed; BTRNBD_SEED=N and BTRNBD_OPS=N run others.
 */

#include <config.h>

#include "unit/test.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/math.h"
#include "unit/treelab.h"

#define TREE_ID 300
/* A type whose contents nobody checks. */
#define TYPE BTRFS_VERITY_MERKLE_ITEM
#define SNAPSHOTS_MAX 3

struct item {
  struct key key;
  uint32_t size;
  uint8_t *data;
};

struct model {
  struct item *v;
  size_t n, max;
};

struct run {
  struct lab lab;
  struct tree *tree;
  struct model model;
  uint64_t seed;
  uint32_t size_max;           /* usual size of an item */
  uint64_t keys;               /* how many different ones */
  struct block *snapshot[SNAPSHOTS_MAX];
  struct model snapshot_model[SNAPSHOTS_MAX];
};

/* --- the model --- */

static size_t
model_find (const struct model *m, struct key key)
{
  size_t lo = 0, hi = m->n, mid;

  while (lo < hi) {
    mid = (lo + hi) / 2;
    if (key_cmp (m->v[mid].key, key) < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

static bool
model_has (const struct model *m, struct key key)
{
  size_t i = model_find (m, key);

  return i < m->n && key_cmp (m->v[i].key, key) == 0;
}

static void
model_insert (struct model *m, struct key key, const void *data,
              uint32_t size)
{
  size_t i = model_find (m, key);

  if (m->n == m->max) {
    m->max = m->max * 2 + 64;
    m->v = realloc (m->v, m->max * sizeof *m->v);
    assert_non_null (m->v);
  }
  memmove (m->v + i + 1, m->v + i, (m->n - i) * sizeof *m->v);
  m->n++;
  m->v[i] = (struct item) { key, size, calloc (1, size + 1) };
  if (data != NULL)
    memcpy (m->v[i].data, data, size);
}

static void
model_delete (struct model *m, size_t i, size_t n)
{
  size_t k;

  for (k = i; k < i + n; k++)
    free (m->v[k].data);
  memmove (m->v + i, m->v + i + n, (m->n - i - n) * sizeof *m->v);
  m->n -= n;
}

static void
model_copy (const struct model *from, struct model *to)
{
  size_t i;

  *to = (struct model) { calloc (from->n + 1, sizeof *to->v), from->n,
    from->n + 1 };
  for (i = 0; i < from->n; i++) {
    to->v[i] = from->v[i];
    to->v[i].data = malloc (from->v[i].size + 1);
    memcpy (to->v[i].data, from->v[i].data, from->v[i].size);
  }
}

static void
model_free (struct model *m)
{
  model_delete (m, 0, m->n);
  free (m->v);
  *m = (struct model) { 0 };
}

/* --- comparing --- */

static void
compare_at (const struct cursor *c, const struct item *item)
{
  assert_true (cursor_at_item (c));
  assert_int_equal (key_cmp (cursor_key (c), item->key), 0);
  assert_int_equal (cursor_size (c), item->size);
  assert_int_equal (memcmp (cursor_data (c), item->data, item->size), 0);
}

static void
compare_root (struct run *run, struct block *root, const struct model *m)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  size_t i;

  lab_ok (root_find (run->lab.cache, root, TREE_ID, KEY_MIN, &c, NULL),
          "root_find");
  for (i = 0; i < m->n; i++) {
    compare_at (&c, &m->v[i]);
    lab_ok (cursor_next (&c), "cursor_next");
  }
  assert_false (cursor_at_item (&c));
  for (i = m->n; i-- > 0;) {
    lab_ok (cursor_prev (&c), "cursor_prev");
    compare_at (&c, &m->v[i]);
  }
  lab_ok (cursor_prev (&c), "cursor_prev");
  assert_false (cursor_at_item (&c));
}

static void
check_everything (struct run *run)
{
  struct block *roots[SNAPSHOTS_MAX + 1];
  uint64_t items;
  size_t i, n = 0;

  lab_ok (tree_check_all (run->tree, &items), "tree_check_all");
  assert_int_equal (items, run->model.n);
  compare_root (run, run->tree->root, &run->model);
  roots[n++] = run->tree->root;
  for (i = 0; i < SNAPSHOTS_MAX; i++) {
    if (run->snapshot[i] == NULL)
      continue;
    compare_root (run, run->snapshot[i], &run->snapshot_model[i]);
    roots[n++] = run->snapshot[i];
  }
  lab_check_refs (&run->lab, roots, n, TREE_ID);
  assert_int_equal (run->lab.nr_aborts, 0);
}

/* --- operations --- */

static uint64_t
below (struct run *run, uint64_t n)
{
  return lab_random (&run->seed) % n;
}

static struct key
random_key (struct run *run)
{
  uint64_t k = below (run, run->keys);

  return KEY (256 + k / 1000, TYPE, k % 1000 * 16);
}

static uint32_t
random_size (struct run *run)
{
  uint32_t most = tb_max_item_size (run->lab.opts.nodesize);

  switch (below (run, 40)) {
  case 0:
    return 0;
  case 1:
    return below (run, most + 1);
  case 2:
    return most - below (run, 3);
  default:
    return below (run, run->size_max);
  }
}

static void
fill (struct run *run, uint8_t *p, uint32_t size)
{
  uint64_t x = lab_random (&run->seed);
  uint32_t i;

  for (i = 0; i < size; i++)
    p[i] = x >> (i % 8 * 8) ^ i;
}

static void
op_insert (struct run *run)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct key key = random_key (run);
  uint32_t size = random_size (run);
  uint8_t *p;
  int r;

  r = tree_insert (&run->lab.txn, run->tree, key, size, &c);
  if (model_has (&run->model, key)) {
    assert_int_equal (r, -ERR_key_exists);
    compare_at (&c, &run->model.v[model_find (&run->model, key)]);
    return;
  }
  lab_ok (r, "tree_insert");
  model_insert (&run->model, key, NULL, size);
  compare_at (&c, &run->model.v[model_find (&run->model, key)]);
  p = run->model.v[model_find (&run->model, key)].data;
  fill (run, p, size);
  memcpy (cursor_data_rw (&c), p, size);
}

static void
op_insert_many (struct run *run)
{
  struct tree_item items[200];
  uint8_t *data[200];
  struct key key = random_key (run);
  size_t n = 0, i, want = 1 + below (run, ARRAY_SIZE (items));
  uint64_t step = 1 + below (run, 3) * below (run, 50);

  while (n < want) {
    key.offset += 1 + below (run, step);
    if (below (run, 100) == 0)
      key.objectid++;
    if (model_has (&run->model, key))
      continue;
    items[n] = (struct tree_item) { .key = key, .size = random_size (run) };
    data[n] = malloc (items[n].size + 1);
    fill (run, data[n], items[n].size);
    items[n].data = data[n];
    n++;
  }
  lab_ok (tree_insert_many (&run->lab.txn, run->tree, items, n),
          "tree_insert_many");
  for (i = 0; i < n; i++) {
    model_insert (&run->model, items[i].key, data[i], items[i].size);
    free (data[i]);
  }
}

static void
op_delete (struct run *run)
{
  struct key key = random_key (run);
  struct model *m = &run->model;
  size_t i = model_find (m, key);

  if (below (run, 2) == 0 && i < m->n)
    key = m->v[i].key;
  if (!model_has (m, key)) {
    assert_int_equal (tree_delete (&run->lab.txn, run->tree, key),
                      -ERR_key_missing);
    return;
  }
  lab_ok (tree_delete (&run->lab.txn, run->tree, key), "tree_delete");
  model_delete (m, i, 1);
}

static void
op_delete_range (struct run *run)
{
  struct model *m = &run->model;
  struct key first = random_key (run), last;
  size_t from = model_find (m, first), to;
  uint64_t max = below (run, 2) == 0 ? 0 : 1 + below (run, 100);
  uint64_t deleted;

  if (from == m->n)
    return;
  to = MIN (from + below (run, below (run, 10) == 0 ? 2000 : 60), m->n - 1);
  last = m->v[to].key;
  lab_ok (tree_delete_range (&run->lab.txn, run->tree, first, last, max,
                             &deleted), "tree_delete_range");
  assert_int_equal (deleted, max == 0 ? to + 1 - from
                    : MIN (to + 1 - from, max));
  model_delete (m, from, deleted);
}

/* A cursor at a random item, writable; false when the tree is empty. */
static bool
pick (struct run *run, struct cursor *c, size_t *ret_index)
{
  if (run->model.n == 0)
    return false;
  *ret_index = below (run, run->model.n);
  lab_ok (tree_find_rw (&run->lab.txn, run->tree,
                        run->model.v[*ret_index].key, c), "tree_find_rw");
  compare_at (c, &run->model.v[*ret_index]);
  return true;
}

static void
op_resize (struct run *run)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  uint32_t size = random_size (run);
  struct item *item;
  size_t i;

  if (!pick (run, &c, &i))
    return;
  item = &run->model.v[i];
  lab_ok (cursor_resize (&run->lab.txn, &c, size), "cursor_resize");
  item->data = realloc (item->data, size + 1);
  if (size > item->size)
    memset (item->data + item->size, 0, size - item->size);
  item->size = size;
  compare_at (&c, item);
}

static void
op_split_item (struct run *run)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct model *m = &run->model;
  struct key key;
  uint32_t split;
  size_t i;

  if (!pick (run, &c, &i))
    return;
  key = m->v[i].key;
  key.offset += 1 + below (run, 8);
  split = below (run, m->v[i].size + 1);
  if (i + 1 < m->n && key_cmp (key, m->v[i + 1].key) >= 0) {
    assert_int_equal (cursor_split_item (&run->lab.txn, &c, key, split),
                      -ERR_invalid);
    return;
  }
  lab_ok (cursor_split_item (&run->lab.txn, &c, key, split),
          "cursor_split_item");
  model_insert (m, key, m->v[i].data + split, m->v[i].size - split);
  m->v[i].size = split;
  compare_at (&c, &m->v[i]);
  lab_ok (cursor_next (&c), "cursor_next");
  compare_at (&c, &m->v[i + 1]);
}

static void
op_set_key (struct run *run)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct model *m = &run->model;
  struct key key;
  size_t i;
  bool good;

  if (!pick (run, &c, &i))
    return;
  key = m->v[i].key;
  key.offset += below (run, 33) - 16;
  good = (i == 0 || key_cmp (m->v[i - 1].key, key) < 0) &&
    (i + 1 == m->n || key_cmp (key, m->v[i + 1].key) < 0);
  if (!good) {
    assert_int_equal (cursor_set_key (&run->lab.txn, &c, key), -ERR_invalid);
    return;
  }
  lab_ok (cursor_set_key (&run->lab.txn, &c, key), "cursor_set_key");
  m->v[i].key = key;
  compare_at (&c, &m->v[i]);
}

/* Delete some items at a cursor, which then is where it should be. */
static void
op_cursor_delete (struct run *run)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct model *m = &run->model;
  uint32_t n, left;
  size_t i;

  if (!pick (run, &c, &i))
    return;
  left = tb_nritems (c.path[0]->data) - c.slot[0];
  n = 1 + below (run, MIN (left, 4));
  lab_ok (cursor_delete (&run->lab.txn, &c, n), "cursor_delete");
  model_delete (m, i, n);
  if (i < m->n)
    compare_at (&c, &m->v[i]);
  else
    assert_false (cursor_at_item (&c));
}

static void
op_find (struct run *run)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct model *m = &run->model;
  struct key key = random_key (run);
  size_t i = model_find (m, key);
  bool exact, found;
  uint32_t size;

  key.offset += below (run, 3);
  i = model_find (m, key);
  lab_ok (tree_find (run->tree, key, &c, &exact), "tree_find");
  assert_int_equal (exact, model_has (m, key));
  if (i < m->n)
    compare_at (&c, &m->v[i]);
  else
    assert_false (cursor_at_item (&c));
  lab_ok (tree_get (run->tree, key, NULL, 0, &size, &found), "tree_get");
  assert_int_equal (found, exact);
  lab_ok (tree_find_le (run->tree, key, &c, &exact), "tree_find_le");
  assert_int_equal (exact, found);
  if (exact)
    compare_at (&c, &m->v[i]);
  else if (i > 0)
    compare_at (&c, &m->v[i - 1]);
  else
    assert_false (cursor_at_item (&c));
}

static void
op_snapshot (struct run *run)
{
  size_t i = below (run, SNAPSHOTS_MAX);

  if (run->snapshot[i] != NULL) {
    lab_drop (&run->lab, run->snapshot[i], TREE_ID);
    model_free (&run->snapshot_model[i]);
    run->snapshot[i] = NULL;
    return;
  }
  run->snapshot[i] = lab_snapshot (&run->lab, run->tree);
  model_copy (&run->model, &run->snapshot_model[i]);
}

static void
op_commit (struct run *run)
{
  lab_commit (&run->lab);
}

static void
one_op (struct run *run)
{
  unsigned x = below (run, 1000);

  rwlock_wrlock (&run->tree->lock);
  if (run->lab.nr_pinned > run->lab.opts.blocks / 2)
    op_commit (run);
  else if (x < 300)
    op_insert (run);
  else if (x < 320)
    op_insert_many (run);
  else if (x < 550)
    op_delete (run);
  else if (x < 560)
    op_delete_range (run);
  else if (x < 650)
    op_resize (run);
  else if (x < 700)
    op_split_item (run);
  else if (x < 780)
    op_set_key (run);
  else if (x < 860)
    op_cursor_delete (run);
  else if (x < 990)
    op_find (run);
  else if (x < 993)
    op_snapshot (run);
  else
    op_commit (run);
  rwlock_unlock (&run->tree->lock);
}

/* --- cases --- */

static uint64_t
from_env (const char *name, uint64_t otherwise)
{
  const char *s = getenv (name);

  return s != NULL ? strtoull (s, NULL, 0) : otherwise;
}

static void
random_case (uint32_t nodesize, size_t cache_bytes, uint32_t size_max,
             uint64_t keys, unsigned ops)
{
  struct run run = { .size_max = size_max, .keys = keys };
  const struct lab_opts opts = { .nodesize = nodesize,
    .cache_bytes = cache_bytes, .blocks = 50000 };
  unsigned i, round;

  run.seed = from_env ("BTRNBD_SEED", UINT64_C (0x5eed) + nodesize + keys);
  ops = from_env ("BTRNBD_OPS", ops);
  print_message ("# nodesize %" PRIu32 " cache %zu seed %" PRIu64
                 " ops %u\n", nodesize, cache_bytes, run.seed, ops);
  lab_open (&run.lab, &opts);
  lab_ok (tree_create (&run.lab.txn, run.lab.cache, TREE_ID, RANK_TREE_FS,
                       true, &run.tree), "tree_create");
  for (round = 0; round < 8; round++) {
    for (i = 0; i < ops / 8; i++)
      one_op (&run);
    check_everything (&run);
    op_commit (&run);
    for (i = 0; i < SNAPSHOTS_MAX; i++) {
      if (run.snapshot[i] == NULL)
        continue;
      lab_drop (&run.lab, run.snapshot[i], TREE_ID);
      model_free (&run.snapshot_model[i]);
      run.snapshot[i] = NULL;
    }
    op_commit (&run);
    run.tree = lab_reopen_tree (&run.lab, run.tree);
    check_everything (&run);
  }
  /* Down to nothing. */
  rwlock_wrlock (&run.tree->lock);
  lab_ok (tree_delete_range (&run.lab.txn, run.tree, KEY_MIN, KEY_MAX, 0,
                             NULL), "tree_delete_range");
  rwlock_unlock (&run.tree->lock);
  model_delete (&run.model, 0, run.model.n);
  assert_int_equal (tree_level (run.tree), 0);
  check_everything (&run);
  tree_free (run.tree);
  lab_close (&run.lab);
  model_free (&run.model);
}

static void
test_4k (void **state)
{
  (void) state;
  random_case (4096, 64 << 20, 60, 20000, 30000);
}

static void
test_4k_tiny_cache (void **state)
{
  (void) state;
  random_case (4096, 4 * 4096, 60, 20000, 20000);
}

static void
test_4k_big_items (void **state)
{
  (void) state;
  random_case (4096, 1 << 20, 3000, 2000, 10000);
}

static void
test_16k (void **state)
{
  (void) state;
  random_case (16384, 64 << 20, 200, 30000, 30000);
}

static void
test_64k (void **state)
{
  (void) state;
  random_case (65536, 8 << 20, 400, 30000, 20000);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_4k),
    cmocka_unit_test (test_4k_tiny_cache),
    cmocka_unit_test (test_4k_big_items),
    cmocka_unit_test (test_16k),
    cmocka_unit_test (test_64k),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
