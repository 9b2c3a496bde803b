/* Insertions into one tree of 16 KiB nodes: one by one, and many at once, as
 * the commit of random 4 KiB overwrites does it (file extent sized items at
 * random places, sorted); CPU time, and what is written per commit.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "unit/treelab.h"

#define TYPE BTRFS_VERITY_MERKLE_ITEM
#define ITEM_SIZE 53            /* a file extent item */
#define BATCH 4000
#define BATCHES 50

static uint64_t
cpu_ns (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &ts);
  return ts.tv_sec * UINT64_C (1000000000) + ts.tv_nsec;
}

static int
by_key (const void *a, const void *b)
{
  const struct tree_item *x = a, *y = b;

  return key_cmp (x->key, y->key);
}

/* Unique keys: the order number is the low part. */
static void
make_batch (struct tree_item *items, unsigned batch, uint64_t *seed,
            bool ascending)
{
  static const uint8_t data[ITEM_SIZE];
  uint64_t x;
  unsigned i;

  for (i = 0; i < BATCH; i++) {
    x = (uint64_t) batch * BATCH + i;
    if (!ascending)
      x |= lab_random (seed) % (1 << 20) << 20;
    items[i] = (struct tree_item) { .key = KEY (256, TYPE, x * 8),
      .data = data, .size = ITEM_SIZE };
  }
  qsort (items, BATCH, sizeof *items, by_key);
}

static void
insert (struct lab *lab, struct tree *t, const struct tree_item *items,
        bool many)
{
  unsigned i;

  if (many) {
    lab_ok (tree_insert_many (&lab->txn, t, items, BATCH), "insert_many");
    return;
  }
  for (i = 0; i < BATCH; i++)
    lab_ok (tree_insert_data (&lab->txn, t, items[i].key, items[i].data,
                              items[i].size), "insert");
}

static void
bench (const char *name, bool many, bool ascending)
{
  const struct lab_opts opts = { .nodesize = 16384,
    .cache_bytes = 256 << 20, .blocks = 60000 };
  struct tree_item *items = calloc (BATCH, sizeof *items);
  uint64_t seed = 42, start, spent = 0, commit = 0, bytes, written = 0;
  struct block_cache_stats stats;
  struct tree *t;
  struct lab lab;
  uint32_t pinned;
  unsigned i;

  lab_open (&lab, &opts);
  lab_ok (tree_create (&lab.txn, lab.cache, 300, RANK_TREE_FS, true, &t),
          "tree_create");
  for (i = 0; i < BATCHES; i++) {
    make_batch (items, i, &seed, ascending);
    rwlock_wrlock (&t->lock);
    start = cpu_ns ();
    insert (&lab, t, items, many);
    spent += cpu_ns () - start;
    rwlock_unlock (&t->lock);
    pinned = lab_switch (&lab);
    start = cpu_ns ();
    lab_ok (block_write_out (lab.cache, lab.txn.transid - 1, &bytes),
            "write-out");
    commit += cpu_ns () - start;
    written += bytes;
    lab_release (&lab, pinned);
  }
  block_cache_get_stats (lab.cache, &stats);
  printf ("%-28s %7.0f CPU ns/item  write-out %6.1f us/block  %6" PRIu64
          " blocks written, tree %5.1f %% full\n", name,
          (double) spent / (BATCH * BATCHES),
          (double) commit / (written / opts.nodesize) / 1000,
          written / opts.nodesize,
          100.0 * BATCH * BATCHES * (ITEM_SIZE + 25) /
          (opts.nodesize * (double) (lab.next - lab.nr_free)));
  tree_free (t);
  lab_close (&lab);
  free (items);
}

int
main (void)
{
  bench ("random, one by one", false, false);
  bench ("random, many at once", true, false);
  bench ("ascending, one by one", false, true);
  bench ("ascending, many at once", true, true);
  return 0;
}
