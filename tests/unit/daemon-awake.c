/* daemon/awake: which clients keep a loop awake, and until when. */
#include <config.h>

#include "unit/test.h"

#include "daemon/awake.h"

#define US UINT64_C (1000)
#define MS (1000 * US)
#define MAX (100 * US)

/* A loop whose clients bring a request every so often. */
struct client {
  struct awake awake;
  uint64_t now;
  uint64_t asleep, awake_ns;   /* between two events, without and with */
  unsigned requests;           /* in an event */
  uint64_t looked;             /* ns that the loop was awake between events */
};

/* It comes after NS; until then the loop looks every microsecond. */
static void
wait_for_client (struct client *c, uint64_t ns)
{
  const uint64_t end = c->now + ns;
  bool looking = c->awake.looking;

  while (looking && c->now + US < end) {
    c->now += US;
    looking = awake_goes_on (&c->awake, c->now);
    c->looked += US;
  }
  c->now = end;
}

static void
go_on (struct client *c, uint64_t ns)
{
  const uint64_t end = c->now + ns;
  bool looking = c->awake.looking;

  while (c->now < end) {
    wait_for_client (c, looking ? c->awake_ns : c->asleep);
    looking = awake_served (&c->awake, c->requests, MAX, c->now);
  }
}

static struct client
client (uint64_t asleep, uint64_t awake_ns, unsigned requests)
{
  return (struct client) { .now = 1000 * MS, .asleep = asleep,
    .awake_ns = awake_ns, .requests = requests };
}

static void
waking_costs (void **state)
{
  struct client c = client (50 * US, 30 * US, 1);

  (void) state;
  go_on (&c, 60 * MS);
  assert_true (c.awake.on);
  /* It is still looked at how it would be without: now and then. */
  c.looked = 0;
  go_on (&c, 2000 * MS);
  assert_in_range (c.looked, 1700 * MS, 1960 * MS);
}

static void
waking_costs_nothing (void **state)
{
  struct client c = client (20 * US, 19 * US, 1);

  (void) state;
  go_on (&c, 60 * MS);
  assert_false (c.awake.on);
  c.looked = 0;
  go_on (&c, 5400 * MS);
  assert_in_range (c.looked, 1, 240 * MS); /* ten trials */
}

/* Nobody gains from a loop that is awake when many requests come at once, or
 * when the next one is far.
 */
static void
not_one_by_one (void **state)
{
  struct client deep = client (50 * US, 30 * US, 2);
  struct client slow = client (300 * US, 200 * US, 1);

  (void) state;
  go_on (&deep, 3000 * MS);
  go_on (&slow, 3000 * MS);
  assert_int_equal (deep.looked, 0);
  assert_int_equal (slow.looked, 0);
}

/* Nothing comes any more: MAX and no longer, and not over and over. */
static void
client_stops (void **state)
{
  struct client c = client (50 * US, 30 * US, 1);
  unsigned i;

  (void) state;
  go_on (&c, 60 * MS);
  assert_true (c.awake.looking);
  c.looked = 0;
  wait_for_client (&c, 1000 * MS);
  assert_false (c.awake.looking);
  assert_in_range (c.looked, 90 * US, MAX);

  c = client (50 * US, 30 * US, 1);
  go_on (&c, 60 * MS);
  c.looked = 0;
  c.asleep = c.awake_ns = 400 * US;
  go_on (&c, 100 * MS);
  assert_in_range (c.looked, 90 * US, 9 * MAX);
  for (i = 0; i < 10; ++i) { /* and from time to time a request */
    wait_for_client (&c, 1000 * MS);
    awake_served (&c.awake, 1, MAX, c.now);
  }
  assert_in_range (c.looked, 90 * US, 9 * MAX);
}

/* Somebody else has got the CPU, TIMES times.  REQUEST: one was there when it
 * was back.
 */
static void
lose_cpu (struct client *c, unsigned times, bool request)
{
  for (; times > 0; --times) {
    c->now += 2 * MS;
    if (request)
      awake_served (&c->awake, 1, MAX, c->now);
    else
      awake_goes_on (&c->awake, c->now);
    if (c->awake.on)
      go_on (c, 5 * MS);
  }
}

static void
cpu_is_lost (void **state)
{
  const struct client fresh = client (50 * US, 30 * US, 1);
  struct client c;
  int request;

  (void) state;
  for (request = 0; request < 2; ++request) {
    c = fresh;
    go_on (&c, 60 * MS);
    assert_true (c.awake.looking);
    lose_cpu (&c, 3, request);
    assert_false (c.awake.looking);
    c.looked = 0;
    go_on (&c, 490 * MS);
    assert_int_equal (c.looked, 0);

    c = fresh; /* now and then is not enough */
    go_on (&c, 60 * MS);
    lose_cpu (&c, 2, request);
    go_on (&c, 150 * MS);
    lose_cpu (&c, 2, request);
    assert_true (c.awake.on);
  }
}

static void
never (void **state)
{
  struct client c = client (50 * US, 30 * US, 1);
  unsigned i;

  (void) state;
  for (i = 0; i < 100000; ++i) {
    c.now += 50 * US;
    assert_false (awake_served (&c.awake, 1, 0, c.now));
  }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (waking_costs),
    cmocka_unit_test (waking_costs_nothing),
    cmocka_unit_test (not_one_by_one),
    cmocka_unit_test (client_stops),
    cmocka_unit_test (cpu_is_lost),
    cmocka_unit_test (never),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
