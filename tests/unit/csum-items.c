/* Items of the csum tree against a model: what is inserted, put over something
 * else, cut in front, in the middle and at the end, is there to the sector, in
 * this tree and after reopening.
 */
#include <config.h>

#include "base/csum.h"
#include "extent/csum_items.h"
#include "inode_help.h"

#define BASE (UINT64_C (1) << 40) /* no chunk is there, so no data */
#define SECTOR 4096
#define SECTORS 3000
#define MOST 700               /* more than a leaf of 4K holds */

struct csums {
  struct image im;
  unsigned size;               /* of one */
  uint16_t v[SECTORS];         /* 0: none */
};

static unsigned
rnd (uint64_t *seed, unsigned n)
{
  *seed = *seed * 6364136223846793005 + 1442695040888963407;
  return (*seed >> 33) % n;
}

static void
sum_of (const struct csums *c, uint16_t v, uint8_t *sum)
{
  memset (sum, v >> 8, c->size);
  memcpy (sum, &v, sizeof v);
}

static void
insert (struct csums *c, unsigned at, unsigned n, uint16_t v)
{
  static uint8_t sums[MOST * CSUM_SIZE_MAX];
  struct txn *txn;
  unsigned i;

  for (i = 0; i < n; ++i) {
    c->v[at + i] = v + i;
    sum_of (c, v + i, sums + i * c->size);
  }
  ok (txn_begin (c->im.fs->trans, 64, &txn));
  ok (csum_items_insert (c->im.fs->roots, txn, BASE + (uint64_t) at * SECTOR,
                         sums, n));
  ok (txn_end (txn));
}

static void
delete (struct csums *c, unsigned at, unsigned n)
{
  struct txn *txn;

  memset (c->v + at, 0, n * sizeof *c->v);
  ok (txn_begin (c->im.fs->trans, 64, &txn));
  ok (csum_items_delete (c->im.fs->roots, txn, BASE + (uint64_t) at * SECTOR,
                         (uint64_t) n * SECTOR));
  ok (txn_end (txn));
}

static void
compare (struct csums *c, unsigned at, unsigned n)
{
  static uint8_t sums[SECTORS * CSUM_SIZE_MAX];
  static bool there[SECTORS];
  uint8_t want[CSUM_SIZE_MAX];
  bool any, expected = false;
  unsigned i;

  ok (csum_items_lookup (c->im.fs->roots, BASE + (uint64_t) at * SECTOR, n,
                         sums, there));
  for (i = 0; i < n; ++i) {
    assert_int_equal (there[i], c->v[at + i] != 0);
    expected = expected || there[i];
    if (there[i]) {
      sum_of (c, c->v[at + i], want);
      assert_memory_equal (sums + i * c->size, want, c->size);
    }
  }
  ok (csum_items_any (c->im.fs->roots, BASE + (uint64_t) at * SECTOR,
                      (uint64_t) n * SECTOR, &any));
  assert_int_equal (any, expected);
}

static void
operate (struct csums *c, uint64_t *seed, uint16_t v)
{
  /* Small ones mostly, which leave pieces of all shapes. */
  const unsigned most = rnd (seed, 4) == 0 ? MOST : 9;
  const unsigned at = rnd (seed, SECTORS - 1);
  const unsigned n = 1 + rnd (seed, MIN (most, SECTORS - at));

  if (rnd (seed, 2) == 0)
    insert (c, at, n, v);
  else
    delete (c, at, n);
  compare (c, at > 0 ? at - 1 : 0, MIN (n + 2, SECTORS - at));
}

static void
test_model (void **state)
{
  static const struct {
    const char *opts;
    unsigned size;
  } kinds[] = {
    { "-n 4096", 4 }, { "-n 4096 --csum sha256", 32 },
    { "-n 16384 --csum xxhash", 8 },
  };
  static struct csums c;
  unsigned k, i;

  (void) state;
  for (k = 0; k < ARRAY_SIZE (kinds); ++k) {
    uint64_t seed = k + 1;

    c.size = kinds[k].size;
    memset (c.v, 0, sizeof c.v);
    image_make (&c.im, kinds[k].opts, 256);
    image_open (&c.im);
    /* The middle, the front and the end of one item. */
    insert (&c, 100, 20, 1000);
    delete (&c, 107, 3);
    compare (&c, 99, 22);
    delete (&c, 100, 2);
    delete (&c, 118, 2);
    compare (&c, 99, 22);
    for (i = 0; i < 1500; ++i) {
      operate (&c, &seed, 2000 + i);
      if (i % 250 == 249) {
        compare (&c, 0, SECTORS);
        image_close (&c.im);
        image_open (&c.im);
        compare (&c, 0, SECTORS);
      }
    }
    delete (&c, 0, SECTORS);
    compare (&c, 0, SECTORS);
    image_close (&c.im);
    image_check (&c.im);
    image_remove (&c.im);
  }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_model),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
