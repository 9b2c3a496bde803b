/* extent: merging of pending references; items and keyed references. */

#include <config.h>

#include "unit/test.h"

#include "base/err.h"
#include "base/math.h"
#include "extent/delayed.h"
#include "extent/keyed.h"
#include "unit/treelab.h"

static struct delayed_change
data_ref (uint64_t bytenr, uint64_t owner, int64_t mod)
{
  return (struct delayed_change) {
    .bytenr = bytenr, .num_bytes = 8192, .is_data = true, .mod = mod,
    .key = { .type = BTRFS_EXTENT_DATA_REF, .id = 5, .objectid = owner },
  };
}

static struct delayed_change
block_ref (uint64_t bytenr, uint64_t root, int64_t mod)
{
  return (struct delayed_change) {
    .bytenr = bytenr, .num_bytes = 16384, .level = 1, .mod = mod,
    .key = { .type = BTRFS_TREE_BLOCK_REF, .id = root },
  };
}

static int
add (struct delayed *q, struct delayed_change c)
{
  return delayed_add (q, &c);
}

/* One line per rule: steps, then what must be left. */
static void
test_merge (void **state)
{
  static const struct {
    const char *what;
    int64_t mods[4];           /* by owner 300; 0 ends */
    bool fresh;
    size_t heads;
    int64_t left;              /* net of the head */
  } rows[] = {
    { "add", { 1 }, false, 1, 1 },
    { "add, add", { 1, 1 }, false, 1, 2 },
    { "drop, drop", { -1, -1 }, false, 1, -2 },
    { "add, drop: nothing", { 1, -1 }, false, 0, 0 },
    { "drop, add: nothing", { -1, 1 }, false, 0, 0 },
    { "the sign flips", { 1, -1, -1 }, false, 1, -1 },
    { "new", { 1 }, true, 1, 1 },
    { "new and freed: the space goes back", { 1, -1 }, true, 1, 0 },
  };
  struct delayed q;
  size_t i, j;

  (void) state;
  for (i = 0; i < ARRAY_SIZE (rows); i++) {
    delayed_init (&q);
    for (j = 0; j < 4 && rows[i].mods[j]; j++) {
      struct delayed_change c = data_ref (4096, 300, rows[i].mods[j]);
      c.must_insert = rows[i].fresh && j == 0;
      assert_int_equal (delayed_add (&q, &c), 0);
    }
    if (q.count != rows[i].heads)
      fail_msg ("%s: %zu heads", rows[i].what, q.count);
    if (q.count) {
      struct delayed_head *h = delayed_find (&q, 4096);
      if (delayed_head_mod (h) != rows[i].left ||
          h->must_insert != rows[i].fresh)
        fail_msg ("%s: net %d", rows[i].what, (int) delayed_head_mod (h));
    }
    delayed_done (&q);
  }
}

static void
test_owners (void **state)
{
  struct delayed_head *h;
  struct delayed q;

  (void) state;
  delayed_init (&q);
  /* Different owners do not cancel: an add and a drop remain. */
  assert_int_equal (add (&q, data_ref (4096, 300, 1)), 0);
  assert_int_equal (add (&q, data_ref (4096, 301, -1)), 0);
  h = delayed_find (&q, 4096);
  assert_int_equal (delayed_head_mod (h), 0);
  assert_false (RB_EMPTY (&h->refs));
  /* One address is one extent. */
  assert_int_equal (add (&q, block_ref (4096, 5, 1)), -ERR_ref_count);
  /* A block has at most one reference by each owner. */
  assert_int_equal (add (&q, block_ref (65536, 5, 1)), 0);
  assert_int_equal (add (&q, block_ref (65536, 6, 1)), 0);
  assert_int_equal (add (&q, block_ref (65536, 5, 1)), -ERR_ref_count);
  /* In order of address; blocks that are new can be left out. */
  h = delayed_take (&q, 0, true);
  assert_int_equal (h->bytenr, 4096);
  delayed_head_free (h);
  delayed_find (&q, 65536)->must_insert = true;
  assert_null (delayed_take (&q, 0, false));
  h = delayed_take (&q, 0, true);
  assert_int_equal (h->bytenr, 65536);
  delayed_head_free (h);
  assert_int_equal (q.count, 0);
  delayed_done (&q);
}

static void
test_order (void **state)
{
  struct ref_key a[64];
  uint64_t seed = 11;
  size_t i, j, k;

  (void) state;
  for (i = 0; i < 64; i++)
    a[i] = (struct ref_key) {
      .type = lab_random (&seed) % 2 ? 178 : 184,
      .id = lab_random (&seed) % 3 - 1, .objectid = lab_random (&seed) % 3,
      .offset = lab_random (&seed) % 3 - 1 };
  for (i = 0; i < 64; i++)
    for (j = 0; j < 64; j++) {
      assert_int_equal (ref_key_cmp (&a[i], &a[j]),
                        -ref_key_cmp (&a[j], &a[i]));
      for (k = 0; k < 64; k++)
        if (ref_key_cmp (&a[i], &a[j]) < 0 && ref_key_cmp (&a[j], &a[k]) < 0)
          assert_true (ref_key_cmp (&a[i], &a[k]) < 0);
    }
}

/* --- items --- */

static const struct key data_key = { 1 << 20, BTRFS_EXTENT_ITEM, 8192 };

static void
test_item (void **state)
{
  struct extent_item it = { .generation = 7,
    .flags = BTRFS_EXTENT_FLAG_DATA }, back;
  struct ref_key k = { .type = BTRFS_EXTENT_DATA_REF, .id = 5 };
  struct ref_key shared = { .type = BTRFS_SHARED_DATA_REF };
  uint64_t last = UINT64_MAX, h;
  uint8_t buf[4096];
  size_t i;

  (void) state;
  for (i = 0; i < 20; i++) {
    k.objectid = 300 + i * 7 % 20;
    shared.id = 16384 * (1 + i * 11 % 20);
    assert_int_equal (extent_item_add (&it, &shared, 1), 0);
    assert_int_equal (extent_item_add (&it, &k, i + 1), 0);
    it.refs += i + 2;
  }
  extent_item_encode (&it, buf);
  assert_int_equal (extent_item_decode (&back, data_key, buf,
                                        extent_item_size (&it)), 0);
  assert_int_equal (back.n, 40);
  assert_int_equal (back.refs, it.refs);
  assert_int_equal (extent_item_inline_count (&back), it.refs);
  /* Types ascend; inside a type hash or parent descend. */
  for (i = 0; i < 40; i++) {
    const struct ref_key *r = &back.inl[i].key;
    assert_int_equal (r->type, i < 20 ? BTRFS_EXTENT_DATA_REF
                      : BTRFS_SHARED_DATA_REF);
    h = i < 20 ? ref_hash (r->id, r->objectid, r->offset) : r->id;
    assert_true (i == 20 || h <= last);
    last = h;
  }
  extent_item_remove (&back, extent_item_find (&back, &k));
  assert_null (extent_item_find (&back, &k));
  assert_int_equal (back.n, 39);
  extent_item_done (&back);
  extent_item_done (&it);
}

/* Computed bit by bit elsewhere. */
static void
test_hash (void **state)
{
  (void) state;
  assert_int_equal (ref_hash (5, 257, 0), UINT64_C (0xdfb591fa80d95ea));
  assert_int_equal (ref_hash (256, 300, 4096), UINT64_C (0xdea30dea5f7b000));
}

static void
test_bad_items (void **state)
{
  struct extent_item it = { .refs = 1, .flags = BTRFS_EXTENT_FLAG_DATA }, back;
  struct ref_key k = { .type = BTRFS_EXTENT_DATA_REF, .id = 5 };
  struct btrfs_extent_item *d;
  uint8_t buf[256];
  uint32_t size, cut;

  (void) state;
  assert_int_equal (extent_item_add (&it, &k, 1), 0);
  size = extent_item_size (&it);
  extent_item_encode (&it, buf);
  d = (void *) buf;
  for (cut = 0; cut < size; cut++)
    if (cut != sizeof *d)      /* no reference at all: keyed ones, then */
      assert_int_equal (extent_item_decode (&back, data_key, buf, cut),
                        -ERR_extent_format);
  d->refs = le64_make (0);     /* fewer than inline */
  assert_int_equal (extent_item_decode (&back, data_key, buf, size),
                    -ERR_extent_format);
  d->refs = le64_make (1);
  d->flags = le64_make (BTRFS_EXTENT_FLAG_TREE_BLOCK);
  assert_int_equal (extent_item_decode (&back, data_key, buf, size),
                    -ERR_extent_format);
  d->flags = le64_make (BTRFS_EXTENT_FLAG_DATA);
  memset (buf + size - 4, 0, 4); /* count 0 */
  assert_int_equal (extent_item_decode (&back, data_key, buf, size),
                    -ERR_extent_format);
  buf[sizeof *d] = 99;         /* type */
  assert_int_equal (extent_item_decode (&back, data_key, buf, size),
                    -ERR_extent_format);
  extent_item_done (&it);
}

/* --- keyed references --- */

/* Many referrers, some of which collide (the second of each pair is put where
 * the first one's hash points); counts against an array.
 */
static void
test_keyed (void **state)
{
  enum { N = 200 };
  struct lab_opts opts = { .nodesize = 4096, .cache_bytes = 1 << 20 };
  const uint64_t bytenr = 1 << 20;
  static int64_t count[N];
  struct ref_key k = { .type = BTRFS_EXTENT_DATA_REF, .id = 5 };
  struct btrfs_extent_data_ref dr = { .root = le64_make (999),
    .objectid = le64_make (256), .count = le32_make (1) };
  struct tree *tree;
  struct lab lab;
  uint64_t seed = 5, items;
  int64_t mod;
  unsigned i, round;
  bool done;

  (void) state;
  lab_open (&lab, &opts);
  lab_ok (tree_create (&lab.txn, lab.cache, BTRFS_EXTENT_TREE,
                       RANK_TREE_EXTENT, false, &tree), "tree");
  rwlock_wrlock (&tree->lock);
  /* Strangers on the hashes of some. */
  for (i = 0; i < N; i += 3) {
    lab_ok (tree_insert_data (&lab.txn, tree,
                              KEY (bytenr, BTRFS_EXTENT_DATA_REF,
                                   ref_hash (5, 300 + i, 0)), &dr, sizeof dr),
            "stranger");
    lab_ok (tree_insert_data (&lab.txn, tree,
                              KEY (bytenr, BTRFS_EXTENT_DATA_REF,
                                   ref_hash (5, 300 + i, 0) + 1),
                              &dr, sizeof dr), "stranger");
  }
  for (round = 0; round < 4000; round++) {
    i = lab_random (&seed) % N;
    k.objectid = 300 + i;
    mod = count[i] > 0 && lab_random (&seed) % 2 ? -1 : 1;
    lab_ok (keyed_ref_change (&lab.txn, tree, bytenr, &k, mod, &done),
            "change");
    assert_int_equal (done, count[i] > 0);
    if (!done)
      lab_ok (keyed_ref_insert (&lab.txn, tree, bytenr, &k, 1), "insert");
    count[i] += mod;
    if (round == 2000)         /* gaps in the sequences of collisions */
      for (i = 0; i < N; i += 6)
        lab_ok (tree_delete (&lab.txn, tree,
                             KEY (bytenr, BTRFS_EXTENT_DATA_REF,
                                  ref_hash (5, 300 + i, 0))), "stranger");
  }
  for (i = 0; i < N; i++) {
    k.objectid = 300 + i;
    if (count[i] > 0)
      assert_int_equal (keyed_ref_change (&lab.txn, tree, bytenr, &k,
                                          -count[i] - 1, &done),
                        -ERR_ref_count);
    lab_ok (keyed_ref_change (&lab.txn, tree, bytenr, &k, -count[i], &done),
            "change");
    assert_int_equal (done, count[i] > 0);
  }
  lab_ok (tree_check_all (tree, &items), "check");
  assert_int_equal (items, 2 * ((N + 2) / 3) - (N + 5) / 6);
  rwlock_unlock (&tree->lock);
  tree_free (tree);
  lab_close (&lab);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_merge),
    cmocka_unit_test (test_owners),
    cmocka_unit_test (test_order),
    cmocka_unit_test (test_item),
    cmocka_unit_test (test_hash),
    cmocka_unit_test (test_bad_items),
    cmocka_unit_test (test_keyed),
  };

  return cmocka_run_group_tests_name ("extent-refs", tests, NULL, NULL);
}
