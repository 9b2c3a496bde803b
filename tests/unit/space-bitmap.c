/* space: the map of free sectors against an array of bytes. */

#include <config.h>

#include "unit/test.h"

#include "base/math.h"
#include "space/bitmap.h"
#include "unit/treelab.h"

#define BITS_MAX 3000

struct model {
  struct free_map map;
  uint8_t bit[BITS_MAX];
  uint64_t n, seed;
};

static void
check (struct model *m)
{
  uint64_t i, set = 0, s, len, run = 0, longest = 0, pos = 0;

  for (i = 0; i < m->n; i++) {
    assert_int_equal (free_map_test (&m->map, i), m->bit[i]);
    set += m->bit[i];
    run = m->bit[i] ? run + 1 : 0;
    longest = MAX (longest, run);
  }
  assert_int_equal (m->map.nset, set);
  assert_true (m->map.max_run >= longest);
  while (free_map_next_run (&m->map, pos, true, &s, &len)) {
    for (i = pos; i < s; i++)
      assert_int_equal (m->bit[i], 0);
    for (i = s; i < s + len; i++)
      assert_int_equal (m->bit[i], 1);
    assert_true (s + len == m->n || !m->bit[s + len]);
    pos = s + len;
  }
  for (i = pos; i < m->n; i++)
    assert_int_equal (m->bit[i], 0);
}

/* Longest aligned run of the model. */
static uint64_t
best_run (const struct model *m, uint64_t align, uint64_t phase)
{
  uint64_t i, run = 0, best = 0;

  for (i = 0; i < m->n; i++) {
    if (!m->bit[i])
      run = 0;
    else if (run > 0 || (i + phase) % align == 0)
      run++;
    best = MAX (best, run / align * align);
  }
  return best;
}

static void
find (struct model *m)
{
  uint64_t a = UINT64_C (1) << lab_random (&m->seed) % 4, s, len, i, best;
  struct free_want w = { .align = a, .phase = lab_random (&m->seed) % a,
    .from = lab_random (&m->seed) % (m->n + 10) };
  bool ok;

  w.min = a * (1 + lab_random (&m->seed) % 3);
  w.want = w.min + a * (lab_random (&m->seed) % 20);
  best = best_run (m, a, w.phase);
  ok = free_map_find (&m->map, &w, &s, &len);
  assert_int_equal (ok, best >= w.min);
  if (!ok)
    return;
  assert_int_equal ((s + w.phase) % a, 0);
  assert_true (len >= w.min && len <= w.want);
  /* Shorter than wanted only when nothing longer is there. */
  assert_true (len >= MIN (best, w.want));
  for (i = s; i < s + len; i++)
    assert_int_equal (m->bit[i], 1);
}

static void
run (uint64_t n, bool all, uint64_t seed)
{
  struct model m = { .n = n, .seed = seed };
  uint64_t i, start, len, changed, want;
  unsigned round;
  bool value;

  free_map_init (&m.map, n, all);
  memset (m.bit, all, n);
  for (round = 0; round < 1500; round++) {
    start = lab_random (&m.seed) % n;
    len = lab_random (&m.seed) % MIN (n - start + 1, lab_random (&m.seed) % 8
                                      ? 40 : n);
    value = lab_random (&m.seed) % 2;
    want = 0;
    for (i = start; i < start + len; i++) {
      want += m.bit[i] != value;
      m.bit[i] = value;
    }
    assert_int_equal (free_map_set (&m.map, start, len, value, &changed), 0);
    assert_int_equal (changed, want);
    find (&m);
    if (round % 10 == 0)
      check (&m);
  }
  /* Both ends: no memory is held for a map without a mix. */
  assert_int_equal (free_map_set (&m.map, 0, n, true, NULL), 0);
  assert_null (m.map.words);
  assert_int_equal (free_map_set (&m.map, 0, n, false, NULL), 0);
  assert_null (m.map.words);
  assert_int_equal (m.map.nset, 0);
  free_map_done (&m.map);
}

static void
test_model (void **state)
{
  static const uint64_t sizes[] = { 1, 63, 64, 65, 127, 128, 1000, 2999 };
  size_t i;

  (void) state;
  for (i = 0; i < ARRAY_SIZE (sizes); i++) {
    run (sizes[i], false, 7 + i);
    run (sizes[i], true, 70 + i);
  }
}

/* Next-fit: the search begins where the last one ended, and wraps. */
static void
test_next_fit (void **state)
{
  struct free_want w = { .min = 1, .want = 10, .align = 1, .from = 50 };
  struct free_map m;
  uint64_t s, len;

  (void) state;
  free_map_init (&m, 100, true);
  assert_true (free_map_find (&m, &w, &s, &len));
  assert_int_equal (s, 50);
  assert_int_equal (len, 10);
  assert_int_equal (free_map_set (&m, 40, 60, false, NULL), 0);
  assert_true (free_map_find (&m, &w, &s, &len));
  assert_int_equal (s, 0);
  free_map_done (&m);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_model),
    cmocka_unit_test (test_next_fit),
  };

  return cmocka_run_group_tests_name ("space-bitmap", tests, NULL, NULL);
}
