/* data: the extent map and the dirty pages of a file against plain arrays. */
#include <config.h>

#include "unit/test.h"

#include <pthread.h>

#include "base/math.h"
#include "data/data_priv.h"

#define PS 4096
#define SECTORS 512

static uint64_t seed = 1;

static uint64_t
rnd (uint64_t n)
{
  seed = seed * UINT64_C (6364136223846793005) + 1442695040888963407;
  return (seed >> 33) % n;
}

/* A file without a pool: enough for what takes no space and no tree. */
static void
file_init (struct data *d, struct file_data *f)
{
  memset (d, 0, sizeof *d);
  memset (f, 0, sizeof *f);
  d->ps = PS;
  d->ppf = CACHE_FRAME / PS;
  mutex_init (&d->lock, RANK_DATA);
  cond_init (&d->progress);
  cond_init (&d->work);
  TAILQ_INIT (&d->dirty_files);
  assert_int_equal (pages_new (1024 * PS, PS, &d->pages), 0);
  assert_int_equal (cache_new (d->pages, &d->cache), 0);
  d->dirty_limit = 700;
  d->dirty_background = 400;
  f->d = d;
  range_locks_init (&f->ranges);
  mutex_init (&f->map_lock, RANK_EXTENT_MAP);
  mutex_init (&f->dirty_lock, RANK_DIRTY);
  cond_init (&f->dirty_cond);
  RB_INIT (&f->dirty);
  TAILQ_INIT (&f->batches);
  TAILQ_INIT (&f->holds);
  map_init (f);
}

static void
file_done (struct data *d, struct file_data *f)
{
  map_clear (f);
  dirty_drop_all (f);
  assert_int_equal (f->num_dirty, 0);
  assert_int_equal (d->dirty_pages, 0);
  assert_true (TAILQ_EMPTY (&d->dirty_files));
  range_locks_done (&f->ranges);
  mutex_done (&f->map_lock);
  mutex_done (&f->dirty_lock);
  cond_done (&f->dirty_cond);
  cache_free (d->cache);
  pages_free (d->pages);
  cond_done (&d->progress);
  cond_done (&d->work);
  mutex_done (&d->lock);
}

/* --- map --- */

struct known {
  int kind;                    /* -1: nothing */
  uint64_t disk;               /* of the sector */
};

static void
set_one (struct file_data *f, struct known *k, uint64_t start, uint64_t end)
{
  struct mapping m = { .offset = start * PS, .len = (end - start) * PS };
  uint64_t i;

  switch (rnd (4)) {
  case 0:
    map_set_hole (f, start * PS, end * PS);
    for (i = start; i < end; ++i)
      k[i] = (struct known) { .kind = MAP_HOLE };
    break;
  case 1:
    map_forget (f, start * PS, end * PS);
    for (i = start; i < end; ++i)
      k[i].kind = -1;
    break;
  default:
    m.kind = rnd (2) ? MAP_REGULAR : MAP_PREALLOC;
    m.ext_offset = rnd (4) * PS;
    m.disk = (1 + rnd (1000000)) * PS;
    m.disk_len = m.ram = m.len + m.ext_offset;
    map_set (f, &m);
    for (i = start; i < end; ++i)
      k[i] = (struct known) { .kind = m.kind,
                              .disk = m.disk + m.ext_offset
                                + (i - start) * PS };
  }
}

static void
map_model (void **state)
{
  static struct known k[SECTORS];
  struct file_data f;
  struct data d;
  unsigned round;
  uint64_t i;

  (void) state;
  file_init (&d, &f);
  for (i = 0; i < SECTORS; ++i)
    k[i].kind = -1;
  for (round = 0; round < 20000; ++round) {
    const uint64_t start = rnd (SECTORS - 1);
    const uint64_t end = start + 1 + rnd (MIN (UINT64_C (40),
                                               SECTORS - start));
    struct mapping m;
    bool found;

    set_one (&f, k, start, MIN (end, (uint64_t) SECTORS));
    for (i = start > 2 ? start - 2 : 0; i < MIN (end + 2, UINT64_C (512));
         ++i) {
      map_peek (&f, i * PS, &m, &found);
      assert_int_equal (found, k[i].kind >= 0);
      if (!found)
        continue;
      assert_int_equal (m.kind, k[i].kind);
      assert_true (m.offset <= i * PS && i * PS < m.offset + m.len);
      if (m.kind != MAP_HOLE)
        assert_int_equal (mapping_disk (&m, i * PS), k[i].disk);
      assert_true (map_still (&f, &m, m.offset, m.len));
    }
  }
  assert_int_equal (f.map.n, d.map_entries);
  file_done (&d, &f);
}

/* A verdict stays with what is left of its mapping, and is not given to
 * another one.
 */
static void
map_verdicts (void **state)
{
  struct mapping m = { .offset = 0, .len = 10 * PS, .disk = PS,
                       .disk_len = 10 * PS, .kind = MAP_REGULAR };
  struct mapping got, other;
  struct file_data f;
  struct data d;
  bool found;

  (void) state;
  file_init (&d, &f);
  map_set (&f, &m);
  m.nocow = NOCOW_YES;
  m.nocow_snapshot = 7;
  map_set_nocow (&f, &m, f.shares + 1); /* the file was shared since */
  map_peek (&f, 0, &got, &found);
  assert_int_equal (got.nocow, NOCOW_UNKNOWN);
  map_set_nocow (&f, &m, f.shares);
  map_set_hole (&f, 3 * PS, 4 * PS);
  map_peek (&f, 5 * PS, &got, &found);
  assert_true (found);
  assert_int_equal (got.nocow, NOCOW_YES);
  assert_int_equal (got.nocow_snapshot, 7);
  assert_int_equal (mapping_disk (&got, 5 * PS), 6 * PS);
  other = m;
  other.nocow = NOCOW_UNKNOWN;
  other.disk = 100 * PS;
  map_set (&f, &other);
  map_set_nocow (&f, &m, f.shares); /* too late: it is another extent now */
  map_peek (&f, 0, &got, &found);
  assert_int_equal (got.nocow, NOCOW_UNKNOWN);
  file_done (&d, &f);
}

/* What is used stays, when there is more than can be remembered. */
static void
map_forgets (void **state)
{
  const uint64_t most = 170000;
  struct file_data f;
  struct data d;
  uint64_t i, k;

  (void) state;
  file_init (&d, &f);
  for (i = 0; i < 3 * most; ++i) {
    struct mapping m = { .offset = i * PS, .len = PS, .disk = (i + 1) * PS,
                         .disk_len = PS, .kind = MAP_REGULAR };
    bool found;

    map_set (&f, &m);
    assert_true (d.map_entries < most);
    for (k = 0; i % 1000 == 999 && k < 100; ++k) {
      map_peek (&f, k * PS, &m, &found);
      assert_true (found);
      assert_int_equal (mapping_disk (&m, k * PS), (k + 1) * PS);
    }
  }
  assert_int_equal (f.map.n, d.map_entries);
  file_done (&d, &f);
}

/* --- dirty pages --- */

static void
put (struct file_data *f, uint64_t sector, uint8_t byte)
{
  bool replaced;
  uint32_t page;

  assert_int_equal (dirty_throttle (f->d, 1), 0);
  assert_int_equal (cache_take_pages (f->d->cache, &page, 1), 1);
  memset (page_mem (f->d->pages, page), byte, PS);
  assert_int_equal (dirty_put (f, sector * PS, page, false, &replaced), 0);
  if (replaced)
    dirty_unthrottle (f->d, 1);
}

/* Write-out ends, or fails. */
static void
end_batch (struct file_data *f, const struct dirty_page *page,
           const uint64_t *disk, size_t n, struct dirty_batch *batch)
{
  size_t i;

  if (rnd (4) == 0) {
    assert_int_equal (dirty_return (f, page, n, batch), 0);
    for (i = 0; i < n; ++i)
      assert_true (dirty_any (f, page[i].offset, page[i].offset + PS,
                              batch->seq));
  }
  else
    dirty_finish (f, page, disk, n);
  dirty_batch_end (f, batch);
}

/* Unwritten, being written, written again meanwhile, held. */
static void
dirty_model (void **state)
{
  static uint8_t want[SECTORS * PS], have[SECTORS * PS];
  static bool dirty[SECTORS];
  static struct dirty_page page[64];
  static uint64_t disk[64];
  struct dirty_batch batch;
  struct file_data f;
  struct data d;
  size_t n = 0;
  unsigned round;

  (void) state;
  file_init (&d, &f);
  for (round = 0; round < 30000; ++round) {
    const uint64_t at = rnd (SECTORS * PS - 20000);
    const size_t len = 1 + rnd (20000);

    switch (rnd (6)) {
    case 0: {
      const uint8_t byte = rnd (256);

      put (&f, at / PS, byte);
      memset (want + at / PS * PS, byte, PS);
      dirty[at / PS] = true;
      break;
    }
    case 1: {
      const size_t l = MIN (len, PS - at % PS);
      uint8_t base[PS];
      bool have_base;

      memset (have, rnd (256), l);
      if (dirty_patch (&f, at, have, l, base, &have_base)) {
        assert_true (dirty[at / PS]);
        memcpy (want + at, have, l);
      }
      else if (have_base) {
        assert_memory_equal (base, want + at / PS * PS, PS);
      }
      break;
    }
    case 2:
      if (n == 0) {
        size_t i;

        n = dirty_collect (&f, at / PS * PS, SECTORS * PS, UINT64_MAX, page,
                           1 + rnd (64), &batch);
        for (i = 0; i < n; ++i) {
          assert_true (i == 0 || page[i].offset > page[i - 1].offset);
          disk[i] = (UINT64_C (1) << 30) + page[i].offset;
        }
      }
      break;
    case 3:
      if (n > 0 && rnd (3) == 0) {
        size_t i;

        end_batch (&f, page, disk, n, &batch);
        for (i = 0; i < n; ++i) {
          uint64_t a, b;

          dirty[page[i].offset / PS]
            = dirty_next (&f, page[i].offset, page[i].offset + PS, &a, &b);
        }
        n = 0;
      }
      break;
    default: {
      struct gaps gaps;
      uint64_t pos = at;
      size_t i;

      gaps_init (&gaps);
      memset (have, 0, len);
      assert_int_equal (dirty_copy (&f, have, len, at, &gaps), 0);
      for (i = 0; i <= gaps.n; ++i) {
        const uint64_t end = i < gaps.n ? gaps.v[i].offset : at + len;

        assert_memory_equal (have + (pos - at), want + pos, end - pos);
        if (i < gaps.n) {
          uint64_t p;

          pos = gaps.v[i].offset + gaps.v[i].len;
          for (p = gaps.v[i].offset / PS; p < (pos + PS - 1) / PS; ++p)
            assert_false (dirty[p]);
        }
      }
      gaps_done (&gaps);
    }
    }
  }
  if (n > 0) {
    dirty_return (&f, page, n, &batch);
    dirty_batch_end (&f, &batch);
  }
  file_done (&d, &f);
}

static void *
release_later (void *opaque)
{
  struct { struct file_data *f; struct dirty_page *p; size_t n;
           struct dirty_batch *b; } *x = opaque;
  const struct timespec ts = { .tv_nsec = 20000000 };
  const uint64_t disk = UINT64_C (1) << 30;

  nanosleep (&ts, NULL);
  dirty_finish (x->f, x->p, &disk, x->n);
  dirty_batch_end (x->f, x->b);
  return NULL;
}

/* A hold waits for what is being written, keeps the rest from being
 * collected, and forgets just its range.
 */
static void
holds (void **state)
{
  struct dirty_page page[8], more[8];
  struct dirty_batch batch, batch2;
  struct dirty_hold h;
  struct file_data f;
  struct data d;
  pthread_t t;
  struct { struct file_data *f; struct dirty_page *p; size_t n;
           struct dirty_batch *b; } x = { &f, page, 1, &batch };
  const uint64_t disk = UINT64_C (2) << 30;
  uint64_t a, b;

  (void) state;
  file_init (&d, &f);
  put (&f, 1, 1);
  put (&f, 2, 2);
  put (&f, 40, 3);
  assert_int_equal (dirty_collect (&f, 0, 2 * PS, UINT64_MAX, page, 8,
                                   &batch), 1);
  pthread_create (&t, NULL, release_later, &x);
  dirty_hold (&f, &h, 0, 10 * PS);
  pthread_join (t, NULL);
  assert_int_equal (dirty_collect (&f, 0, SECTORS * PS, UINT64_MAX, more, 8,
                                   &batch2), 1);
  assert_int_equal (more[0].offset, 40 * PS);
  dirty_finish (&f, more, &disk, 1);
  dirty_batch_end (&f, &batch2);
  assert_true (dirty_next (&f, 0, SECTORS * PS, &a, &b));
  assert_int_equal (a, 2 * PS);
  assert_int_equal (b, 3 * PS);
  dirty_release (&f, &h, 10 * PS);
  assert_false (dirty_next (&f, 0, SECTORS * PS, &a, &b));
  file_done (&d, &f);
}

/* A flush must not miss a page that it could not take itself, because it was
 * being written in an older state, and that somebody else took then.
 */
static void
flush_waits (void **state)
{
  struct dirty_page one[4], two[4];
  struct dirty_batch first, second;
  struct file_data f;
  struct data d;
  const uint64_t disk = UINT64_C (1) << 30;
  uint64_t seq;

  (void) state;
  file_init (&d, &f);
  put (&f, 3, 1);
  assert_int_equal (dirty_collect (&f, 0, SECTORS * PS, UINT64_MAX, one, 4,
                                   &first), 1);
  put (&f, 3, 2);
  seq = dirty_now (&f);
  assert_int_equal (dirty_collect (&f, 0, SECTORS * PS, seq, two, 4,
                                   &second), 0);
  assert_true (dirty_any (&f, 0, SECTORS * PS, seq));
  dirty_finish (&f, one, &disk, 1);
  dirty_batch_end (&f, &first);
  assert_int_equal (dirty_collect (&f, 0, SECTORS * PS, UINT64_MAX, two, 4,
                                   &second), 1);
  assert_true (dirty_any (&f, 0, SECTORS * PS, seq));
  dirty_finish (&f, two, &disk, 1);
  assert_true (dirty_any (&f, 0, SECTORS * PS, seq));
  dirty_batch_end (&f, &second);
  assert_false (dirty_any (&f, 0, SECTORS * PS, seq));
  file_done (&d, &f);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (map_model),
    cmocka_unit_test (map_verdicts),
    cmocka_unit_test (map_forgets),
    cmocka_unit_test (dirty_model),
    cmocka_unit_test (holds),
    cmocka_unit_test (flush_waits),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
