/* data: pages, clean cache, range locks. */
#include <config.h>

#include "unit/test.h"

#include <pthread.h>
#include <unistd.h>

#include "base/math.h"
#include "data/cache.h"
#include "data/range_lock.h"

#define PS 4096

struct env {
  struct pages *pages;
  struct cache *cache;
};

static void
env_init (struct env *e, size_t pages)
{
  assert_int_equal (pages_new (pages * PS, PS, &e->pages), 0);
  assert_int_equal (cache_new (e->pages, &e->cache), 0);
}

static void
env_done (struct env *e)
{
  cache_free (e->cache);
  pages_free (e->pages);
}

static void
put (struct env *e, uint64_t logical, uint8_t byte)
{
  uint32_t page;

  assert_int_equal (cache_take_pages (e->cache, &page, 1), 1);
  memset (page_mem (e->pages, page), byte, PS);
  cache_put (e->cache, logical, page);
}

static void
put_and_copy (void **state)
{
  struct env e;
  uint8_t buf[65536];

  (void) state;
  env_init (&e, 64);
  assert_int_equal (cache_copy (e.cache, 0, 0, 65536, buf), 0xffff);
  put (&e, 4096, 1);
  put (&e, 8192, 2);
  memset (buf, 0xee, sizeof buf);
  assert_int_equal (cache_copy (e.cache, 0, 4000, 8000, buf), 0x1);
  assert_int_equal (buf[95], 0xee);
  assert_int_equal (buf[96], 1);
  assert_int_equal (buf[96 + 4096], 2);
  assert_int_equal (buf[7999], 2);
  put (&e, 8192, 3);
  assert_int_equal (cache_copy (e.cache, 0, 8192, 1, buf), 0);
  assert_int_equal (buf[0], 3);
  assert_int_equal (cache_bytes (e.cache), 2 * PS);
  cache_invalidate (e.cache, 8192, 4096);
  assert_int_equal (cache_copy (e.cache, 0, 4096, 8192, buf), 0x4);
  cache_invalidate (e.cache, 0, 1 << 20);
  assert_int_equal (cache_bytes (e.cache), 0);
  env_done (&e);
}

/* A page that is written or given away while it is read is not kept. */
static void
unfit_reads (void **state)
{
  struct env e;
  uint32_t page[CACHE_PAGES];
  uint8_t byte;
  bool failed;

  (void) state;
  env_init (&e, 64);
  assert_int_equal (cache_begin_read (e.cache, 0, 0x7, &failed), 0x7);
  assert_int_equal (cache_begin_read (e.cache, 0, 0xf, &failed), 0x8);
  put (&e, 4096, 9);                       /* newer than what is read */
  cache_invalidate (e.cache, 8192, 4096);  /* somebody else's now */
  assert_int_equal (cache_take_pages (e.cache, page, 3), 3);
  memset (page_mem (e.pages, page[0]), 1, PS);
  memset (page_mem (e.pages, page[1]), 1, PS);
  memset (page_mem (e.pages, page[2]), 1, PS);
  page[3] = PAGE_NONE;
  cache_end_read (e.cache, 0, 0x7, page, true);
  cache_end_read (e.cache, 0, 0x8, page, true);
  assert_int_equal (cache_copy (e.cache, 0, 0, 1, &byte), 0);
  assert_int_equal (byte, 1);
  assert_int_equal (cache_copy (e.cache, 0, 4096, 1, &byte), 0);
  assert_int_equal (byte, 9);
  assert_int_equal (cache_copy (e.cache, 0, 8192, 1, &byte), 0x4);
  assert_int_equal (cache_copy (e.cache, 0, 12288, 1, &byte), 0x8);
  assert_int_equal (cache_bytes (e.cache), 2 * PS);
  env_done (&e);
}

/* More than fits: the budget holds, everything can be evicted, and what is
 * used again survives a scan.
 */
static void
eviction (void **state)
{
  struct env e;
  uint64_t i, hot = 0;
  uint8_t byte;

  (void) state;
  env_init (&e, 1024);
  for (i = 0; i < 20000; ++i) {
    unsigned k;

    if (cache_copy (e.cache, 1 << 30, 0, 1, &byte) != 0)
      put (&e, 1 << 30, 7);
    else
      ++hot;
    for (k = 0; k < 4; ++k)
      put (&e, (i * 4 + k) * PS + (UINT64_C (1) << 40), i);
  }
  assert_true (hot > 19900);
  assert_true (cache_bytes (e.cache) <= 1024 * PS);
  env_done (&e);
}

static void *
hammer (void *opaque)
{
  struct env *e = opaque;
  uint64_t seed = (uintptr_t) pthread_self ();
  unsigned i;

  for (i = 0; i < 20000; ++i) {
    uint64_t at, key;
    uint8_t buf[8192];

    seed = seed * UINT64_C (6364136223846793005) + 1442695040888963407;
    at = (seed >> 40) % 512 * PS;
    key = cache_key (at);
    switch ((seed >> 33) % 4) {
    case 0: {
      uint32_t page;

      if (cache_take_pages (e->cache, &page, 1) == 1) {
        memset (page_mem (e->pages, page), at / PS, PS);
        cache_put (e->cache, at, page);
      }
      break;
    }
    case 1: {
      const unsigned k = (at - key) / PS;
      uint32_t page[CACHE_PAGES];
      bool failed;

      if (cache_begin_read (e->cache, key, 1u << k, &failed) == 0) {
        cache_wait_read (e->cache, key, 1u << k);
        break;
      }
      page[k] = PAGE_NONE;
      if (cache_take_pages (e->cache, &page[k], 1) == 1)
        memset (page_mem (e->pages, page[k]), at / PS, PS);
      cache_end_read (e->cache, key, 1u << k, page, true);
      break;
    }
    case 2:
      if (i % 16 == 0)
        cache_invalidate (e->cache, at, 3 * PS);
      break;
    default:
      if (cache_copy (e->cache, key, at - key, PS, buf) == 0) {
        if (buf[0] != (uint8_t) (at / PS) || buf[PS - 1] != buf[0])
          return (void *) 1;
      }
    }
  }
  return NULL;
}

static void
threads (void **state)
{
  struct env e;
  pthread_t t[4];
  unsigned i;

  (void) state;
  env_init (&e, 200);
  for (i = 0; i < 4; ++i)
    assert_int_equal (pthread_create (&t[i], NULL, hammer, &e), 0);
  for (i = 0; i < 4; ++i) {
    void *r;

    pthread_join (t[i], &r);
    assert_null (r);
  }
  cache_invalidate (e.cache, 0, 1 << 24);
  assert_int_equal (cache_bytes (e.cache), 0);
  {
    uint32_t all[201];

    assert_int_equal (cache_take_pages (e.cache, all, 201), 200);
  }
  env_done (&e);
}

/* --- range locks --- */

struct ranges_env {
  struct range_locks locks;
  unsigned char owner[64];
  int broken;
};

static void *
lock_ranges (void *opaque)
{
  struct ranges_env *e = opaque;
  uint64_t seed = (uintptr_t) pthread_self ();
  unsigned i, k;

  for (i = 0; i < 3000; ++i) {
    struct range_lock l;
    uint64_t start, end;

    seed = seed * UINT64_C (6364136223846793005) + 1442695040888963407;
    start = (seed >> 40) % 64;
    end = MIN (start + 1 + (seed >> 50) % 16, UINT64_C (64));
    range_lock (&e->locks, &l, start, end);
    for (k = start; k < end; ++k) {
      if (e->owner[k] != 0)
        __atomic_store_n (&e->broken, 1, __ATOMIC_RELAXED);
      e->owner[k] = 1;
    }
    for (k = start; k < end; ++k)
      e->owner[k] = 0;
    range_unlock (&e->locks, &l);
  }
  return NULL;
}

static void
ranges_exclude (void **state)
{
  struct ranges_env e = { .broken = 0 };
  pthread_t t[4];
  unsigned i;

  (void) state;
  range_locks_init (&e.locks);
  for (i = 0; i < 4; ++i)
    assert_int_equal (pthread_create (&t[i], NULL, lock_ranges, &e), 0);
  for (i = 0; i < 4; ++i)
    pthread_join (t[i], NULL);
  assert_int_equal (e.broken, 0);
  range_locks_done (&e.locks);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (put_and_copy),
    cmocka_unit_test (unfit_reads),
    cmocka_unit_test (eviction),
    cmocka_unit_test (threads),
    cmocka_unit_test (ranges_exclude),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
