/* btree: trees that are damaged or unusual, and allocations that fail. */

#include <config.h>

#include "unit/test.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/math.h"
#include "unit/treelab.h"

#define TREE_ID 300
#define TYPE BTRFS_VERITY_MERKLE_ITEM
#define NODESIZE 4096

struct fixture {
  struct lab lab;
};

static void
open_lab (struct fixture *f)
{
  const struct lab_opts opts = { .nodesize = NODESIZE,
    .cache_bytes = 4 << 20 };

  lab_open (&f->lab, &opts);
}

static struct block *
new_block (struct fixture *f, unsigned level)
{
  const struct format_info *format = block_cache_format (f->lab.cache);
  struct tb_ident ident = { .fsid = format->metadata_uuid,
    .chunk_tree_uuid = format->chunk_tree_uuid,
    .generation = f->lab.txn.transid, .owner = TREE_ID, .level = level };
  struct block *b;

  lab_ok (f->lab.txn.ops->alloc (&f->lab.txn, NULL, level, 0,
                                 &ident.bytenr), "alloc");
  lab_ok (block_new (f->lab.cache, &ident, &b), "block_new");
  return b;
}

/* A leaf with keys FROM, FROM + STEP ...; N of them. */
static struct block *
make_leaf (struct fixture *f, uint64_t from, unsigned n, uint64_t step)
{
  struct block *b = new_block (f, 0);
  unsigned i;

  for (i = 0; i < n; i++)
    assert_non_null (tb_leaf_append (b->data, NODESIZE,
                                     KEY (256, TYPE, from + i * step), 8));
  return b;
}

static struct block *
make_node (struct fixture *f, unsigned level, struct block **child,
           unsigned n)
{
  struct block *b = new_block (f, level);
  unsigned i;

  for (i = 0; i < n; i++)
    *tb_ptr (b->data, i) = (struct btrfs_key_ptr) {
      .key = key_to_disk (tb_key (child[i]->data, 0)),
      .blockptr = le64_make (child[i]->bytenr),
      .generation = le64_make (tb_generation (child[i]->data)) };
  tb_header (b->data)->nritems = le32_make (n);
  return b;
}

static struct tree *
open_root (struct fixture *f, struct block *root)
{
  const struct tree_expect e = { .bytenr = root->bytenr, .owner = TREE_ID,
    .generation = tb_generation (root->data) };
  struct tree *t;

  lab_commit (&f->lab);
  lab_ok (tree_open (f->lab.cache, TREE_ID, &e, RANK_TREE_FS, true, &t),
          "tree_open");
  return t;
}

/* --- damaged --- */

static void
test_overlap (void **state)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct block *leaf[2], *root;
  struct fixture f = { 0 };
  struct tree *t;
  int r;

  (void) state;
  open_lab (&f);
  leaf[0] = make_leaf (&f, 10, 10, 1);
  leaf[1] = make_leaf (&f, 15, 10, 1);
  root = make_node (&f, 1, leaf, 2);
  t = open_root (&f, root);
  assert_int_equal (tree_find (t, KEY_MIN, &c, NULL), -ERR_block_parent);
  assert_false (cursor_at_item (&c));
  lab_ok (tree_find (t, KEY (256, TYPE, 20), &c, NULL), "find behind it");
  r = tree_find_le (t, KEY (256, TYPE, 14), &c, NULL);
  assert_int_equal (r, -ERR_block_parent);
  assert_int_equal (tree_check_all (t, NULL), -ERR_node_format);
  rwlock_wrlock (&t->lock);
  assert_int_equal (tree_delete_range (&f.lab.txn, t, KEY_MIN, KEY_MAX, 0,
                                       NULL), -ERR_block_parent);
  rwlock_unlock (&t->lock);
  cursor_done (&c);
  tree_free (t);
  block_put (leaf[0]);
  block_put (leaf[1]);
  block_put (root);
  lab_close (&f.lab);
}

/* Pointers that do not describe their children. */
static void
test_bad_pointers (void **state)
{
  struct block *leaf[3], *root;
  struct fixture f = { 0 };
  struct tree *t;
  unsigned i;
  bool found;

  (void) state;
  open_lab (&f);
  for (i = 0; i < 3; i++)
    leaf[i] = make_leaf (&f, 100 * i, 10, 1);
  root = make_node (&f, 1, leaf, 3);
  tb_ptr (root->data, 0)->generation = le64_make (1);
  tb_ptr (root->data, 1)->blockptr = le64_make (leaf[2]->bytenr);
  tb_ptr (root->data, 2)->blockptr = tb_header (root->data)->bytenr;
  t = open_root (&f, root);
  for (i = 0; i < 3; i++)
    assert_int_equal (tree_get (t, KEY (256, TYPE, 100 * i + 1), NULL, 0,
                                NULL, &found), -ERR_no_mirror);
  tree_free (t);
  for (i = 0; i < 3; i++)
    block_put (leaf[i]);
  block_put (root);
  lab_close (&f.lab);
}

/* A block from a later transaction than the running one. */
static void
test_future (void **state)
{
  struct fixture f = { 0 };
  struct block *leaf;
  struct tree *t;

  (void) state;
  open_lab (&f);
  f.lab.txn.transid = 9;
  leaf = make_leaf (&f, 1, 3, 1);
  t = open_root (&f, leaf);
  f.lab.txn.transid = 5;
  rwlock_wrlock (&t->lock);
  assert_int_equal (tree_insert_data (&f.lab.txn, t, KEY (256, TYPE, 7), "x",
                                      1), -ERR_generation);
  rwlock_unlock (&t->lock);
  tree_free (t);
  block_put (leaf);
  lab_close (&f.lab);
}

/* --- unusual --- */

/* Nodes with one child each, as others may leave them. */
static void
test_chain (void **state)
{
  struct fixture f = { 0 };
  struct block *b, *node;
  struct tree *t;
  unsigned level;
  uint64_t items;

  (void) state;
  open_lab (&f);
  b = make_leaf (&f, 100, 5, 2);
  for (level = 1; level < BTRFS_MAX_LEVEL; level++) {
    node = make_node (&f, level, &b, 1);
    block_put (b);
    b = node;
  }
  t = open_root (&f, b);
  block_put (b);
  assert_int_equal (tree_level (t), BTRFS_MAX_LEVEL - 1);
  rwlock_wrlock (&t->lock);
  lab_ok (tree_insert_data (&f.lab.txn, t, KEY (256, TYPE, 1), "x", 1),
          "insert");
  lab_ok (tree_check_all (t, &items), "check");
  assert_int_equal (items, 6);
  lab_ok (tree_delete_range (&f.lab.txn, t, KEY_MIN, KEY_MAX, 0, NULL),
          "delete");
  lab_ok (tree_check_all (t, &items), "check");
  assert_int_equal (items, 0);
  assert_int_equal (tree_level (t), 0);
  rwlock_unlock (&t->lock);
  lab_check_refs (&f.lab, &t->root, 1, TREE_ID);
  tree_free (t);
  lab_close (&f.lab);
}

/* The highest root cannot be split. */
static void
test_depth (void **state)
{
  unsigned n = tb_node_max_ptrs (NODESIZE), i, level;
  struct block **child = calloc (n, sizeof *child), *b;
  struct fixture f = { 0 };
  struct tree *t;
  int r = 0;

  (void) state;
  open_lab (&f);
  /* Every node on the way to the last leaf is full; what hangs on the other
   * pointers is never looked at.
   */
  b = make_leaf (&f, 1 << 20, 20, 1);
  for (level = 1; level < BTRFS_MAX_LEVEL; level++) {
    child[n - 1] = b;
    for (i = 0; i < n - 1; i++)
      child[i] = make_leaf (&f, 1000 * (BTRFS_MAX_LEVEL - level) + i, 1, 1);
    b = make_node (&f, level, child, n);
    for (i = 0; i < n; i++)
      block_put (child[i]);
  }
  t = open_root (&f, b);
  block_put (b);
  rwlock_wrlock (&t->lock);
  for (i = 0; r == 0 && i < 200; i++)
    r = tree_insert_data (&f.lab.txn, t, KEY (256, TYPE, (2 << 20) + i),
                          "12345678", 8);
  assert_int_equal (r, -ERR_tree_depth);
  rwlock_unlock (&t->lock);
  tree_free (t);
  free (child);
  lab_close (&f.lab);
}

/* An item as big as a leaf, between others. */
static void
test_biggest (void **state)
{
  struct fixture f = { 0 };
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  uint32_t most = tb_max_item_size (NODESIZE);
  struct tree *t;
  uint64_t items;
  unsigned i;

  (void) state;
  open_lab (&f);
  lab_ok (tree_create (&f.lab.txn, f.lab.cache, TREE_ID, RANK_TREE_FS, true,
                       &t), "create");
  rwlock_wrlock (&t->lock);
  for (i = 0; i < 30; i++)
    lab_ok (tree_insert (&f.lab.txn, t, KEY (256, TYPE, 10 * i), 50, &c),
            "insert");
  assert_int_equal (tree_insert (&f.lab.txn, t, KEY (256, TYPE, 155),
                                 most + 1, &c), -ERR_item_too_big);
  lab_ok (tree_insert (&f.lab.txn, t, KEY (256, TYPE, 155), most, &c),
          "insert");
  lab_ok (tree_find_rw (&f.lab.txn, t, KEY (256, TYPE, 70), &c), "find");
  lab_ok (cursor_resize (&f.lab.txn, &c, most), "resize");
  assert_int_equal (cursor_resize (&f.lab.txn, &c, most + 1),
                    -ERR_item_too_big);
  lab_ok (tree_check_all (t, &items), "check");
  assert_int_equal (items, 31);
  rwlock_unlock (&t->lock);
  cursor_done (&c);
  lab_check_refs (&f.lab, &t->root, 1, TREE_ID);
  tree_free (t);
  lab_close (&f.lab);
}

/* What was prefetched is there, whatever the order of the keys. */
static void
test_prefetch (void **state)
{
  struct block_cache_stats before, after;
  struct fixture f = { 0 };
  struct key keys[300];
  struct tree *t;
  unsigned i, round;
  bool found;

  (void) state;
  open_lab (&f);
  lab_ok (tree_create (&f.lab.txn, f.lab.cache, TREE_ID, RANK_TREE_FS, true,
                       &t), "create");
  rwlock_wrlock (&t->lock);
  for (i = 0; i < 6000; i++)
    lab_ok (tree_insert_data (&f.lab.txn, t, KEY (256, TYPE, i), "12345678",
                              8), "insert");
  rwlock_unlock (&t->lock);
  lab_commit (&f.lab);
  for (round = 0; round < 2; round++) {
    t = lab_reopen_tree (&f.lab, t);
    for (i = 0; i < ARRAY_SIZE (keys); i++)
      keys[i] = KEY (256, TYPE, round == 0 ? i * 20 : i * 7919 % 6000);
    tree_prefetch_many (t, keys, ARRAY_SIZE (keys));
    block_cache_get_stats (f.lab.cache, &before);
    rwlock_rdlock (&t->lock);
    for (i = 0; i < ARRAY_SIZE (keys); i++) {
      lab_ok (tree_get (t, keys[i], NULL, 0, NULL, &found), "get");
      assert_true (found);
    }
    rwlock_unlock (&t->lock);
    block_cache_get_stats (f.lab.cache, &after);
    assert_int_equal (before.reads, after.reads);
  }
  tree_free (t);
  lab_close (&f.lab);
}

/* --- failing allocations --- */

static int
many_changes (struct fixture *f, struct tree *t, uint64_t seed)
{
  struct tree_item items[60];
  struct cursor c = CURSOR_INIT;
  unsigned i;
  int r = 0;

  for (i = 0; i < ARRAY_SIZE (items); i++)
    items[i] = (struct tree_item) { .size = 40,
      .key = KEY (256, TYPE, 1000000 + i * 2 + seed) };
  r = tree_insert_many (&f->lab.txn, t, items, ARRAY_SIZE (items));
  for (i = 0; r == 0 && i < 150; i++) {
    r = tree_insert (&f->lab.txn, t,
                     KEY (256, TYPE, lab_random (&seed) % 100000 * 2 + 1),
                     lab_random (&seed) % 300, &c);
    if (r == 0 && i % 3 == 0)
      r = cursor_resize (&f->lab.txn, &c, lab_random (&seed) % 600);
  }
  cursor_done (&c);
  if (r == 0)
    r = tree_delete_range (&f->lab.txn, t, KEY (256, TYPE, 20000),
                           KEY (256, TYPE, 150000), 0, NULL);
  return r;
}

/* For every n: the n-th allocation fails, the transaction is given up, and
 * the tree is what it was.
 */
static void
test_failing_alloc (void **state)
{
  struct fixture f = { 0 };
  struct lab_state saved;
  struct tree *t;
  uint64_t items;
  unsigned i, n;
  int r = -1;

  (void) state;
  open_lab (&f);
  lab_ok (tree_create (&f.lab.txn, f.lab.cache, TREE_ID, RANK_TREE_FS, true,
                       &t), "create");
  rwlock_wrlock (&t->lock);
  for (i = 0; i < 1000; i++)
    lab_ok (tree_insert_data (&f.lab.txn, t, KEY (256, TYPE, 200 * i), "abc",
                              3), "insert");
  rwlock_unlock (&t->lock);
  lab_commit (&f.lab);
  for (n = 1; r < 0; n++) {
    lab_save (&f.lab, t, &saved);
    f.lab.fail_alloc = n;
    rwlock_wrlock (&t->lock);
    r = many_changes (&f, t, 77);
    rwlock_unlock (&t->lock);
    if (r < 0)
      assert_int_equal (r, -ERR_nospace_meta);
    t = lab_roll_back (&f.lab, t, &saved);
    lab_ok (tree_check_all (t, &items), "check");
    assert_int_equal (items, 1000);
    lab_check_refs (&f.lab, &t->root, 1, TREE_ID);
    f.lab.txn.transid++;
  }
  print_message ("# %u allocations\n", n - 2);
  assert_true (n > 20);
  tree_free (t);
  lab_close (&f.lab);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_overlap),
    cmocka_unit_test (test_bad_pointers),
    cmocka_unit_test (test_future),
    cmocka_unit_test (test_chain),
    cmocka_unit_test (test_depth),
    cmocka_unit_test (test_biggest),
    cmocka_unit_test (test_prefetch),
    cmocka_unit_test (test_failing_alloc),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
