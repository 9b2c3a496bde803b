/* block: what the cache promises, on a memory device with two copies. */

#include <config.h>

#include "unit/test.h"

#include <inttypes.h>
#include <pthread.h>
#include <unistd.h>

#include "base/err.h"
#include "base/math.h"
#include "base/workers.h"
#include "unit/treelab.h"

#define NODESIZE 4096
#define OWNER 300
#define TYPE BTRFS_VERITY_MERKLE_ITEM


static uint64_t
address (unsigned i)
{
  return UINT64_C (16777216) + (uint64_t) (i + 1) * NODESIZE;
}

/* A dirty leaf with one item whose key has the number I. */
static struct block *
new_block (struct lab *lab, unsigned i, uint64_t transid)
{
  const struct tb_ident ident = {
    .fsid = block_cache_format (lab->cache)->metadata_uuid,
    .chunk_tree_uuid = block_cache_format (lab->cache)->chunk_tree_uuid,
    .bytenr = address (i), .generation = transid, .owner = OWNER,
  };
  struct block *b;
  uint8_t *p;

  lab_ok (block_new (lab->cache, &ident, &b), "block_new");
  p = tb_leaf_append (b->data, NODESIZE, KEY (256, TYPE, i), 100);
  assert_non_null (p);
  memset (p, i & 0xff, 100);
  return b;
}

static void
write_blocks (struct lab *lab, unsigned from, unsigned n, uint64_t transid)
{
  uint64_t bytes;
  unsigned i;

  for (i = from; i < from + n; i++)
    block_put (new_block (lab, i, transid));
  lab_ok (block_write_out (lab->cache, transid, &bytes), "write-out");
  assert_int_equal (bytes, (uint64_t) n * NODESIZE);
}

static struct tree_expect
expect_block (unsigned i, uint64_t transid)
{
  return (struct tree_expect) {
    .bytenr = address (i), .generation = transid, .owner = OWNER,
    .first_key = KEY (256, TYPE, i), .has_first_key = true,
    .level = 0, .has_level = true };
}

static int
read_block (struct lab *lab, unsigned i, uint64_t transid)
{
  const struct tree_expect e = expect_block (i, transid);
  struct block *b;
  int r;

  r = block_read (lab->cache, &e, &b);
  if (r < 0)
    return r;
  assert_int_equal (b->bytenr, address (i));
  assert_int_equal (*(const uint8_t *) tb_item_data_c (b->data, 0),
                    i & 0xff);
  block_put (b);
  return 0;
}

static struct block_cache_stats
stats (struct lab *lab)
{
  struct block_cache_stats s;

  block_cache_get_stats (lab->cache, &s);
  return s;
}

static void
open_lab (struct lab *lab, size_t cache_bytes)
{
  const struct lab_opts opts = { .nodesize = NODESIZE,
    .cache_bytes = cache_bytes };

  lab_open (lab, &opts);
}

static void
corrupt (struct lab *lab, unsigned i, unsigned mirror)
{
  uint8_t *buf = io_alloc (NODESIZE);
  uint64_t at = lab_physical (lab, address (i), mirror);

  lab_ok (device_read (lab->dev, at, buf, NODESIZE), "device_read");
  buf[NODESIZE - 50] ^= 0x10;
  lab_ok (device_write (lab->dev, at, buf, NODESIZE), "device_write");
  free (buf);
}

static bool
mirror_is_good (struct lab *lab, unsigned i, unsigned mirror)
{
  uint8_t *buf = io_alloc (NODESIZE);
  bool good;

  lab_ok (device_read (lab->dev, lab_physical (lab, address (i), mirror),
                       buf, NODESIZE), "device_read");
  good = tb_csum_ok (buf, NODESIZE,
                     block_cache_format (lab->cache)->csum_type);
  free (buf);
  return good;
}

/* --- cases --- */

static void
test_write_and_read (void **state)
{
  struct lab lab;
  unsigned i;

  (void) state;
  open_lab (&lab, 1 << 20);
  write_blocks (&lab, 0, 600, 2);       /* more than one batch */
  assert_int_equal (stats (&lab).bytes_dirty, 0);
  lab_drop_cache (&lab);
  for (i = 0; i < 600; i++)
    lab_ok (read_block (&lab, i, 2), "read");
  for (i = 590; i < 600; i++)
    lab_ok (read_block (&lab, i, 2), "read again");
  assert_int_equal (stats (&lab).misses, 600);
  assert_int_equal (stats (&lab).hits, 10);
  assert_int_equal (stats (&lab).reads, 600);
  for (i = 0; i < 600; i++) {
    assert_true (mirror_is_good (&lab, i, 1));
    assert_true (mirror_is_good (&lab, i, 2));
  }
  lab_close (&lab);
}

static void
test_writable (void **state)
{
  struct lab lab;
  struct block *b;

  (void) state;
  open_lab (&lab, 1 << 20);
  b = new_block (&lab, 0, 2);
  assert_true (block_is_writable (b, 2));
  assert_false (block_is_writable (b, 3));
  assert_int_equal (stats (&lab).bytes_dirty, NODESIZE);
  lab_ok (block_write_set (lab.cache, &b, 1, NULL), "write set");
  assert_false (block_is_writable (b, 2));
  assert_true (tb_flags (b->data) & BTRFS_HEADER_FLAG_WRITTEN);
  assert_int_equal (stats (&lab).bytes_dirty, 0);
  block_put (b);
  lab_close (&lab);
}

static void
test_expectations (void **state)
{
  struct tree_expect e;
  struct block *b;
  struct lab lab;
  unsigned round;

  (void) state;
  open_lab (&lab, 1 << 20);
  write_blocks (&lab, 0, 1, 2);
  write_blocks (&lab, 2, 1, 5);
  /* From the disk, and from the cache. */
  for (round = 0; round < 2; round++) {
    if (round == 0)
      lab_drop_cache (&lab);
    e = expect_block (0, 3);
    assert_int_equal (block_read (lab.cache, &e, &b), -ERR_no_mirror);
    e = expect_block (0, 2);
    e.level = 1;
    assert_int_equal (block_read (lab.cache, &e, &b), -ERR_no_mirror);
    e = expect_block (0, 2);
    e.first_key.offset++;
    assert_int_equal (block_read (lab.cache, &e, &b), -ERR_no_mirror);
    e = expect_block (0, 2);
    e.owner = BTRFS_CSUM_TREE;
    assert_int_equal (block_read (lab.cache, &e, &b), -ERR_no_mirror);
    e = expect_block (2, 5);
    e.max_generation = 3;
    assert_int_equal (block_read (lab.cache, &e, &b), -ERR_no_mirror);
    e.max_generation = 4;       /* a log is one ahead */
    e.owner = 301;              /* another subvolume may share it */
    lab_ok (block_read (lab.cache, &e, &b), "read");
    block_put (b);
    lab_ok (read_block (&lab, 0, 2), "read");
  }
  /* A dirty block that is not the expected one is never dropped for it. */
  b = new_block (&lab, 1, 3);
  block_put (b);
  assert_int_equal (read_block (&lab, 1, 2), -ERR_block_parent);
  lab_ok (read_block (&lab, 1, 3), "read dirty");
  lab_close (&lab);
}

static void
test_repair (void **state)
{
  struct lab lab;
  unsigned i;

  (void) state;
  open_lab (&lab, 1 << 20);
  write_blocks (&lab, 0, 8, 2);
  lab_drop_cache (&lab);
  for (i = 0; i < 4; i++) {
    corrupt (&lab, 2 * i, 1);
    corrupt (&lab, 2 * i + 1, 2);
  }
  corrupt (&lab, 7, 1);                 /* both are bad now */
  for (i = 0; i < 7; i++)
    lab_ok (read_block (&lab, i, 2), "read");
  assert_int_equal (read_block (&lab, 7, 2), -ERR_no_mirror);
  /* Whichever copy was tried first: a bad one that was met is good again. */
  for (i = 0; i < 7; i++)
    assert_true (mirror_is_good (&lab, i, 1));
  assert_true (stats (&lab).repaired >= 4);
  assert_int_equal (read_block (&lab, 7, 2), -ERR_no_mirror);
  lab_close (&lab);
}

static void
test_tiny_budget (void **state)
{
  struct tree_expect e;
  struct block *held[20];
  struct lab lab;
  unsigned i;

  (void) state;
  open_lab (&lab, 4 * NODESIZE);
  write_blocks (&lab, 0, 100, 2);
  assert_true (stats (&lab).bytes_cached <= 4 * NODESIZE);
  /* Blocks in use do not go, also beyond the budget. */
  for (i = 0; i < 20; i++) {
    e = expect_block (i, 2);
    lab_ok (block_read (lab.cache, &e, &held[i]), "read");
  }
  for (i = 20; i < 100; i++)
    lab_ok (read_block (&lab, i, 2), "read");
  for (i = 0; i < 20; i++) {
    assert_int_equal (*(const uint8_t *) tb_item_data_c (held[i]->data, 0),
                      i);
    block_put (held[i]);
  }
  for (i = 0; i < 100; i++)
    lab_ok (read_block (&lab, i, 2), "read");
  assert_true (stats (&lab).bytes_cached <= 4 * NODESIZE);
  lab_close (&lab);
}

static void
test_scan (void **state)
{
  struct lab lab;
  uint64_t misses;
  unsigned i, round;

  (void) state;
  open_lab (&lab, 100 * NODESIZE);
  write_blocks (&lab, 0, 2000, 2);
  lab_drop_cache (&lab);
  for (round = 0; round < 3; round++)
    for (i = 0; i < 50; i++)
      lab_ok (read_block (&lab, i, 2), "read");
  for (i = 50; i < 2000; i++)
    lab_ok (read_block (&lab, i, 2), "scan");
  misses = stats (&lab).misses;
  for (i = 0; i < 50; i++)
    lab_ok (read_block (&lab, i, 2), "read");
  assert_true (stats (&lab).misses - misses <= 5);
  lab_close (&lab);
}

static void
test_drop_and_forget (void **state)
{
  struct tree_expect e = expect_block (0, 2);
  struct block *b, *again;
  struct lab lab;
  uint64_t bytes;

  (void) state;
  open_lab (&lab, 1 << 20);
  b = new_block (&lab, 0, 2);
  block_drop (lab.cache, b);
  block_drop (lab.cache, b);            /* no harm */
  assert_false (block_is_writable (b, 2));
  assert_false (block_peek (lab.cache, &e, &again));
  block_put (b);
  lab_ok (block_write_out (lab.cache, 2, &bytes), "write-out");
  assert_int_equal (bytes, 0);
  assert_true (read_block (&lab, 0, 2) < 0);

  /* Two dirty blocks cannot have one address. */
  b = new_block (&lab, 0, 2);
  assert_int_equal (block_new (lab.cache, &(struct tb_ident) {
        .fsid = block_cache_format (lab.cache)->metadata_uuid,
        .chunk_tree_uuid = block_cache_format (lab.cache)->chunk_tree_uuid,
        .bytenr = address (0), .generation = 2, .owner = OWNER }, &again),
    -ERR_invalid);
  lab_ok (block_write_out (lab.cache, 2, NULL), "write-out");
  assert_true (block_peek (lab.cache, &e, &again));
  assert_ptr_equal (b, again);
  block_put (again);
  block_forget (lab.cache, address (0));
  assert_false (block_peek (lab.cache, &e, &again));
  /* The one in use keeps its contents; the new one is another. */
  again = new_block (&lab, 0, 3);
  assert_int_equal (tb_generation (b->data), 2);
  assert_int_equal (tb_generation (again->data), 3);
  block_put (again);
  block_put (b);
  block_drop_all (lab.cache, 4);
  assert_int_equal (stats (&lab).bytes_dirty, NODESIZE);
  block_drop_all (lab.cache, 3);
  assert_int_equal (stats (&lab).bytes_dirty, 0);
  assert_true (read_block (&lab, 0, 3) < 0);
  lab_ok (read_block (&lab, 0, 2), "the old one is on the disk");
  lab_close (&lab);
}

static void
test_generations (void **state)
{
  struct lab lab;
  uint64_t bytes;
  unsigned i;

  (void) state;
  open_lab (&lab, 1 << 20);
  for (i = 0; i < 30; i++)
    block_put (new_block (&lab, i, 2 + i % 3));
  lab_ok (block_write_out (lab.cache, 2, &bytes), "write-out");
  assert_int_equal (bytes, 10 * NODESIZE);
  assert_int_equal (stats (&lab).bytes_dirty, 20 * NODESIZE);
  lab_ok (block_write_out (lab.cache, 4, &bytes), "write-out");
  assert_int_equal (bytes, 10 * NODESIZE);
  lab_drop_cache (&lab);
  for (i = 0; i < 30; i++)
    assert_int_equal (read_block (&lab, i, 2 + i % 3) == 0, i % 3 != 1);
  lab_close (&lab);
}

static void
test_check_before_write (void **state)
{
  struct block *b;
  struct lab lab;

  (void) state;
  open_lab (&lab, 1 << 20);
  block_put (new_block (&lab, 0, 2));
  b = new_block (&lab, 1, 2);
  tb_item (b->data, 0)->size = le32_make (NODESIZE * 2);
  assert_int_equal (block_write_out (lab.cache, 2, NULL), -ERR_leaf_format);
  assert_int_equal (stats (&lab).bytes_dirty, 2 * NODESIZE);
  block_put (b);
  lab_close (&lab);
}

static void
test_prefetch (void **state)
{
  struct tree_expect e[100];
  struct workers *workers;
  struct block *b;
  struct lab lab;
  unsigned i, round;

  (void) state;
  open_lab (&lab, 4 << 20);
  write_blocks (&lab, 0, 100, 2);
  for (i = 0; i < 100; i++)
    e[i] = expect_block (i, 2);
  corrupt (&lab, 50, 1);
  corrupt (&lab, 50, 2);
  e[60].generation = 9;
  lab_ok (workers_new ("prefetch", 2, &workers), "workers");
  for (round = 0; round < 2; round++) {
    lab_drop_cache (&lab);
    if (round == 1)
      block_cache_set_workers (lab.cache, workers);
    block_prefetch (lab.cache, e, 100);
    workers_drain (workers);
    for (i = 0; i < 100; i++) {
      if (i == 50 || i == 60)
        assert_false (block_peek (lab.cache, &e[i], &b));
      else {
        assert_true (block_peek (lab.cache, &e[i], &b));
        block_put (b);
      }
    }
    assert_int_equal (stats (&lab).misses, 0);
    assert_int_equal (read_block (&lab, 50, 2), -ERR_no_mirror);
    lab_ok (read_block (&lab, 60, 2), "read");
  }
  /* Jobs under way when the cache goes away. */
  lab_drop_cache (&lab);
  block_cache_set_workers (lab.cache, workers);
  for (i = 0; i < 100; i += 10)
    block_prefetch (lab.cache, e + i, 10);
  lab_close (&lab);
  workers_free (workers);
}

/* --- threads --- */

#define READERS 4
#define SHARED_BLOCKS 300

static void *
read_all (void *opaque)
{
  struct lab *lab = opaque;
  unsigned i;

  for (i = 0; i < SHARED_BLOCKS; i++)
    lab_ok (read_block (lab, i, 2), "read");
  return NULL;
}

static void
test_shared_reads (void **state)
{
  pthread_t t[READERS];
  struct lab lab;
  unsigned i;

  (void) state;
  open_lab (&lab, 4 << 20);
  write_blocks (&lab, 0, SHARED_BLOCKS, 2);
  lab_drop_cache (&lab);
  for (i = 0; i < READERS; i++)
    assert_int_equal (pthread_create (&t[i], NULL, read_all, &lab), 0);
  for (i = 0; i < READERS; i++)
    pthread_join (t[i], NULL);
  assert_int_equal (stats (&lab).reads, SHARED_BLOCKS);
  assert_int_equal (stats (&lab).misses, SHARED_BLOCKS);
  assert_int_equal (stats (&lab).hits, (READERS - 1) * SHARED_BLOCKS);
  lab_close (&lab);
}

/* Readers of old blocks under eviction, while new ones are made and written.
 */
static void
test_readers_and_writer (void **state)
{
  pthread_t t[READERS];
  struct lab lab;
  unsigned i, transid;

  (void) state;
  open_lab (&lab, 64 * NODESIZE);
  write_blocks (&lab, 0, SHARED_BLOCKS, 2);
  for (i = 0; i < READERS; i++)
    assert_int_equal (pthread_create (&t[i], NULL, read_all, &lab), 0);
  for (transid = 3; transid < 10; transid++) {
    write_blocks (&lab, SHARED_BLOCKS, 100, transid);
    for (i = 0; i < 100; i++)
      lab_ok (read_block (&lab, SHARED_BLOCKS + i, transid), "read");
    for (i = 0; i < 100; i += 2)
      block_forget (lab.cache, address (SHARED_BLOCKS + i));
  }
  for (i = 0; i < READERS; i++)
    pthread_join (t[i], NULL);
  lab_close (&lab);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_write_and_read),
    cmocka_unit_test (test_writable),
    cmocka_unit_test (test_expectations),
    cmocka_unit_test (test_repair),
    cmocka_unit_test (test_tiny_budget),
    cmocka_unit_test (test_scan),
    cmocka_unit_test (test_drop_and_forget),
    cmocka_unit_test (test_generations),
    cmocka_unit_test (test_check_before_write),
    cmocka_unit_test (test_prefetch),
    cmocka_unit_test (test_shared_reads),
    cmocka_unit_test (test_readers_and_writer),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
