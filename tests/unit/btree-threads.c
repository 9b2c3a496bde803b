/* btree: readers of a tree and of its committed root, while a writer changes
 * the tree and the blocks of the last transaction are being written out.  To
 * be run under the thread sanitizer.
 */

#include <config.h>

#include "unit/test.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/err.h"
#include "base/math.h"
#include "unit/treelab.h"

#define TREE_ID 300
#define TYPE BTRFS_VERITY_MERKLE_ITEM
#define READERS 2
#define ROUNDS 12
#define OPS 400
#define KEYS 5000

struct shared {
  struct lab lab;
  struct tree *tree;
  struct rwlock committed_lock; /* RANK_COMMIT_ROOTS */
  struct block *committed;
  atomic_bool stop;
  atomic_uint passes;
};

static void
check_item (const struct cursor *c, struct key *prev)
{
  struct key key = cursor_key (c);

  if (key_cmp (*prev, key) >= 0 || cursor_size (c) < 8 ||
      memcmp (cursor_data (c), &key.offset, 8) != 0) {
    fprintf (stderr, "bad item %" PRIu64 "\n", key.offset);
    abort ();
  }
  *prev = key;
}

static void
walk (struct cursor *c)
{
  struct key prev = KEY_MIN;
  unsigned i;

  for (i = 0; i < 300 && cursor_at_item (c); i++) {
    check_item (c, &prev);
    lab_ok (cursor_next (c), "cursor_next");
  }
}

static void *
reader (void *opaque)
{
  struct shared *s = opaque;
  uint64_t seed = (uintptr_t) &seed | 1;
  struct key key;

  while (!atomic_load (&s->stop)) {
    CLEANUP_CURSOR struct cursor c = CURSOR_INIT;

    key = KEY (256, TYPE, lab_random (&seed) % KEYS);
    lab_ok (tree_prefetch (s->tree, key), "tree_prefetch");
    rwlock_rdlock (&s->tree->lock);
    lab_ok (tree_find (s->tree, key, &c, NULL), "tree_find");
    walk (&c);
    cursor_done (&c);
    rwlock_unlock (&s->tree->lock);

    rwlock_rdlock (&s->committed_lock);
    lab_ok (root_find (s->lab.cache, s->committed, TREE_ID, key, &c, NULL),
            "root_find");
    walk (&c);
    cursor_done (&c);
    rwlock_unlock (&s->committed_lock);
    atomic_fetch_add (&s->passes, 1);
  }
  return NULL;
}

static void
change (struct shared *s, uint64_t *seed)
{
  struct key key = KEY (256, TYPE, lab_random (seed) % KEYS);
  struct tree_txn *txn = &s->lab.txn;
  struct cursor c = CURSOR_INIT;
  int r;

  if (lab_random (seed) % 5 < 3) {
    r = tree_insert (txn, s->tree, key, 8 + lab_random (seed) % 200, &c);
    if (r != -ERR_key_exists) {
      lab_ok (r, "tree_insert");
      memcpy (cursor_data_rw (&c), &key.offset, 8);
    }
  }
  else if (lab_random (seed) % 50 != 0) {
    r = tree_delete (txn, s->tree, key);
    if (r != -ERR_key_missing)
      lab_ok (r, "tree_delete");
  }
  else
    lab_ok (tree_delete_range (txn, s->tree, key,
                               KEY (256, TYPE, key.offset + KEYS / 20), 0,
                               NULL), "tree_delete_range");
  cursor_done (&c);
}

static void *
write_out (void *opaque)
{
  struct shared *s = opaque;

  /* The transaction before the running one, which nobody else changes. */
  lab_ok (block_write_out (s->lab.cache, s->lab.txn.transid - 1, NULL),
          "write-out");
  return NULL;
}

static void
change_some (struct shared *s, uint64_t *seed)
{
  unsigned i;

  for (i = 0; i < OPS; i++) {
    rwlock_wrlock (&s->tree->lock);
    change (s, seed);
    rwlock_unlock (&s->tree->lock);
  }
}

static void
one_commit (struct shared *s, uint64_t *seed)
{
  struct block *root, *old;
  pthread_t t;
  uint32_t pinned;

  rwlock_wrlock (&s->tree->lock);
  root = block_get (s->tree->root);
  rwlock_unlock (&s->tree->lock);
  pinned = lab_switch (&s->lab);
  assert_int_equal (pthread_create (&t, NULL, write_out, s), 0);
  change_some (s, seed);
  pthread_join (t, NULL);
  rwlock_wrlock (&s->committed_lock);
  old = s->committed;
  s->committed = root;
  lab_release (&s->lab, pinned);
  rwlock_unlock (&s->committed_lock);
  block_put (old);
}

static void
run_threads (uint32_t nodesize, size_t cache_bytes)
{
  const struct lab_opts opts = { .nodesize = nodesize,
    .cache_bytes = cache_bytes };
  static struct shared s;
  uint64_t seed = 0x7ead5;
  pthread_t t[READERS];
  unsigned i;

  memset (&s, 0, sizeof s);
  print_message ("# nodesize %" PRIu32 " seed %" PRIu64 "\n", nodesize,
                 seed);
  lab_open (&s.lab, &opts);
  rwlock_init (&s.committed_lock, RANK_COMMIT_ROOTS);
  lab_ok (tree_create (&s.lab.txn, s.lab.cache, TREE_ID, RANK_TREE_FS, true,
                       &s.tree), "tree_create");
  change_some (&s, &seed);
  s.committed = block_get (s.tree->root);
  lab_commit (&s.lab);
  for (i = 0; i < READERS; i++)
    assert_int_equal (pthread_create (&t[i], NULL, reader, &s), 0);
  for (i = 0; i < ROUNDS; i++)
    one_commit (&s, &seed);
  atomic_store (&s.stop, true);
  for (i = 0; i < READERS; i++)
    pthread_join (t[i], NULL);
  lab_ok (tree_check_all (s.tree, NULL), "tree_check_all");
  assert_true (atomic_load (&s.passes) > 0);
  print_message ("# %u passes of readers\n", atomic_load (&s.passes));
  block_put (s.committed);
  tree_free (s.tree);
  rwlock_done (&s.committed_lock);
  lab_close (&s.lab);
}

static void
test_all_cached (void **state)
{
  (void) state;
  run_threads (4096, 16 << 20);
}

static void
test_evicting (void **state)
{
  (void) state;
  run_threads (4096, 40 * 4096);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_all_cached),
    cmocka_unit_test (test_evicting),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
