/* The recorder: images of power cuts follow the rules of record.h, checked
 * against a byte-wise model that knows only those rules.
 */
#include "unit/io_help.h"

#include "io/device_impl.h"
#include "io/record.h"

#define SIZE (256 * 1024)
#define BLOCK 4096
#define BLOCKS (SIZE / BLOCK)

static void
put (struct device *dev, unsigned block, uint8_t value, bool fua)
{
  uint8_t buf[BLOCK];

  memset (buf, value, sizeof buf);
  assert_int_equal (fua
                    ? device_write_fua (dev, block * BLOCK, buf, BLOCK)
                    : device_write (dev, block * BLOCK, buf, BLOCK), 0);
}

static struct device *
new_recorder (void)
{
  struct device *mem, *dev;

  assert_int_equal (device_mem_new ("m", SIZE, &mem), 0);
  assert_int_equal (record_new (mem, &dev), 0);
  return dev;
}

static struct record_player *
new_player (struct device *dev)
{
  struct device *start;
  struct record_player *p;

  assert_int_equal (device_mem_new ("s", SIZE, &start), 0);
  assert_int_equal (record_player_new (dev, start, &p), 0);
  return p;
}

/* The byte values of blocks 0-2 after a cut. */
static void
expect_image (struct record_player *p, size_t at, enum record_keep keep,
              const uint8_t want[3])
{
  struct record_cut cut = { .at = at, .keep = keep };
  struct device *image;
  uint8_t buf[BLOCK];

  assert_int_equal (record_image (p, &cut, &image), 0);
  for (unsigned i = 0; i < 3; ++i) {
    assert_int_equal (device_read (image, i * BLOCK, buf, BLOCK), 0);
    for (unsigned j = 0; j < BLOCK; ++j)
      assert_int_equal (buf[j], want[i]);
  }
  device_close (image);
}

static void
test_rules (void **state)
{
  struct device *dev = new_recorder ();
  struct record_player *p = new_player (dev);
  struct record_event ev;

  (void) state;
  put (dev, 0, 1, false);            /* event 0 */
  put (dev, 1, 2, true);             /* 1: FUA */
  assert_int_equal (record_mark (dev, 42), 0);  /* 2 */
  assert_int_equal (device_flush (dev), 0);     /* 3 */
  put (dev, 0, 3, false);            /* 4 */
  put (dev, 2, 4, false);            /* 5 */
  assert_int_equal (record_count (dev), 6);
  assert_int_equal (record_bytes (dev), 4 * BLOCK);
  assert_true (record_get (dev, 2, &ev));
  assert_int_equal (ev.kind, RECORD_MARK);
  assert_int_equal (ev.tag, 42);
  assert_false (record_get (dev, 6, &ev));

  expect_image (p, 0, RECORD_KEEP_ALL, (uint8_t[]) { 0, 0, 0 });
  /* The FUA write is under way: nothing is certain. */
  expect_image (p, 2, RECORD_KEEP_NONE, (uint8_t[]) { 0, 0, 0 });
  expect_image (p, 2, RECORD_KEEP_ALL, (uint8_t[]) { 1, 2, 0 });
  /* It has been acknowledged before the mark. */
  expect_image (p, 3, RECORD_KEEP_NONE, (uint8_t[]) { 0, 2, 0 });
  expect_image (p, 4, RECORD_KEEP_NONE, (uint8_t[]) { 1, 2, 0 });
  expect_image (p, 6, RECORD_KEEP_NONE, (uint8_t[]) { 1, 2, 0 });
  expect_image (p, 6, RECORD_KEEP_ALL, (uint8_t[]) { 3, 2, 4 });
  assert_int_equal (record_uncertain (p), 2);
  record_player_free (p);
  device_close (dev);
}

/* An uncertain write older than a certain one to the same place stays below
 * it.
 */
static void
test_order (void **state)
{
  struct device *dev = new_recorder ();
  struct record_player *p = new_player (dev);

  (void) state;
  put (dev, 0, 1, false);
  put (dev, 0, 2, true);
  assert_int_equal (record_mark (dev, 0), 0);
  expect_image (p, 3, RECORD_KEEP_ALL, (uint8_t[]) { 2, 0, 0 });
  expect_image (p, 3, RECORD_KEEP_NONE, (uint8_t[]) { 2, 0, 0 });
  record_player_free (p);
  device_close (dev);
}

/* Random logs: after each cut every sector must hold a value that the rules
 * allow, and both the oldest and the newest allowed value must be seen.
 */
static void
random_log (uint64_t seed, unsigned *ret_old, unsigned *ret_new,
            unsigned *ret_torn)
{
  struct device *dev = new_recorder ();
  struct record_player *p = new_player (dev);
  /* allowed[b][v]: block b may hold v at this point of the log */
  static bool allowed[BLOCKS][256];
  uint8_t newest[BLOCKS] = { 0 };
  enum { EVENTS = 120 };
  struct { char kind; uint8_t block, value; } log[EVENTS];

  memset (allowed, 0, sizeof allowed);
  for (unsigned b = 0; b < BLOCKS; ++b)
    allowed[b][0] = true;
  for (unsigned i = 0; i < EVENTS; ++i) {
    unsigned roll = test_rand (&seed) % 10;

    log[i].kind = roll == 0 ? 'f' : roll == 1 ? 'u' : 'w';
    log[i].block = test_rand (&seed) % 8;
    log[i].value = i + 1;
    if (log[i].kind == 'f')
      assert_int_equal (device_flush (dev), 0);
    else
      put (dev, log[i].block, log[i].value, log[i].kind == 'u');
  }
  for (unsigned at = 0; at <= EVENTS; ++at) {
    for (unsigned draw = 0; draw < 3; ++draw) {
      struct record_cut cut = { .at = at, .keep = RECORD_KEEP_TORN,
                                .seed = seed + at * 7 + draw };
      struct device *image;
      uint8_t buf[BLOCK];

      assert_int_equal (record_image (p, &cut, &image), 0);
      for (unsigned b = 0; b < BLOCKS; ++b) {
        assert_int_equal (device_read (image, b * BLOCK, buf, BLOCK), 0);
        for (unsigned j = 0; j < BLOCK; j += 64)
          assert_true (allowed[b][buf[j]]);
        *ret_new += newest[b] != 0 && buf[0] == newest[b];
        *ret_old += newest[b] != 0 && buf[0] != newest[b];
        *ret_torn += buf[0] != buf[512] || buf[0] != buf[1024];
      }
      device_close (image);
    }
    if (at == EVENTS)
      break;
    /* What event AT changes; a FUA write is certain one event later, which
     * the next round sees because it looks back.
     */
    if (at > 0 && log[at - 1].kind == 'u') {
      uint8_t b = log[at - 1].block;

      if (newest[b] == log[at - 1].value) {
        memset (allowed[b], 0, sizeof allowed[b]);
        allowed[b][newest[b]] = true;
      }
    }
    if (log[at].kind == 'f') {
      for (unsigned b = 0; b < BLOCKS; ++b) {
        memset (allowed[b], 0, sizeof allowed[b]);
        allowed[b][newest[b]] = true;
      }
    }
    else {
      allowed[log[at].block][log[at].value] = true;
      newest[log[at].block] = log[at].value;
    }
  }
  record_player_free (p);
  device_close (dev);
}

static void
test_random (void **state)
{
  unsigned old = 0, new = 0, torn = 0;

  (void) state;
  for (uint64_t seed = 1; seed <= 20; ++seed)
    random_log (seed, &old, &new, &torn);
  assert_true (old > 100);
  assert_true (new > 100);
  assert_true (torn > 100);
}

static void
test_same_seed (void **state)
{
  struct device *dev = new_recorder ();
  struct record_player *p = new_player (dev);
  struct record_cut cut = { .keep = RECORD_KEEP_TORN, .seed = 99 };
  uint8_t *a = malloc (SIZE), *b = malloc (SIZE);
  struct device *image;

  (void) state;
  for (unsigned i = 0; i < 30; ++i)
    put (dev, i, i + 1, false);
  cut.at = 30;
  for (unsigned i = 0; i < 2; ++i) {
    assert_int_equal (record_image (p, &cut, &image), 0);
    assert_int_equal (device_read (image, 0, i ? a : b, SIZE), 0);
    device_close (image);
  }
  assert_memory_equal (a, b, SIZE);
  cut.seed = 100;
  assert_int_equal (record_image (p, &cut, &image), 0);
  assert_int_equal (device_read (image, 0, b, SIZE), 0);
  device_close (image);
  assert_memory_not_equal (a, b, SIZE);
  cut.at = 3;
  assert_int_equal (record_image (p, &cut, &image), -ERR_invalid);
  free (a);
  free (b);
  record_player_free (p);
  device_close (dev);
}

struct slow {
  struct device base;
  struct device *inner, *recorder;
  bool again;
};

/* While a write is under way another one to the same place is started. */
static void
slow_run (struct device *dev, struct io_op *ops, size_t n)
{
  struct slow *s = (struct slow *) dev;

  if (s->again) {
    s->again = false;
    put (s->recorder, 5, 9, false);
  }
  device_run (s->inner, ops, n);
}

static void
slow_close (struct device *dev)
{
  device_close (((struct slow *) dev)->inner);
}

static void
test_overlaps (void **state)
{
  static const struct device_ops ops = { .run = slow_run,
                                         .close = slow_close };
  struct slow slow = { .base.ops = &ops };
  struct device *dev;
  size_t first = 77;

  (void) state;
  assert_int_equal (device_mem_new ("m", SIZE, &slow.inner), 0);
  slow.base.info = *device_get_info (slow.inner);
  assert_int_equal (record_new (&slow.base, &dev), 0);
  slow.recorder = dev;
  put (dev, 5, 1, false);
  put (dev, 5, 2, false);
  slow.again = true;
  put (dev, 6, 3, false);
  assert_int_equal (record_overlaps (dev, &first), 0);
  assert_int_equal (first, 77);
  slow.again = true;
  put (dev, 5, 4, false); /* event 4, and 5 within */
  put (dev, 5, 4, false);
  assert_int_equal (record_overlaps (dev, &first), 1);
  assert_int_equal (first, 5);
  device_close (dev);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_rules),
    cmocka_unit_test (test_order),
    cmocka_unit_test (test_random),
    cmocka_unit_test (test_same_seed),
    cmocka_unit_test (test_overlaps),
  };

  return cmocka_run_group_tests_name ("io-record", tests, NULL, NULL);
}
