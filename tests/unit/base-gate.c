/* base/gate: what a look without the lock may tell. */
#include <config.h>

#include "unit/test.h"

#include <pthread.h>

#include "base/gate.h"

#define ROUNDS 200000

static struct gate gate;
static uint64_t opened;        /* closings that are over (atomic) */
static bool done;              /* atomic */

static void *
close_and_open (void *opaque)
{
  uint64_t i;

  (void) opaque;
  for (i = 1; i <= ROUNDS; ++i) {
    gate_close_operations (&gate);
    gate_close_batches (&gate);
    gate_switch_begin (&gate);
    gate_switch_end (&gate);
    __atomic_store_n (&opened, i, __ATOMIC_RELEASE);
    gate_open (&gate);
  }
  __atomic_store_n (&done, true, __ATOMIC_RELEASE);
  return NULL;
}

/* Who sees the count of a switch sees also that it is not over, until the
 * gate opens: plans that are made behind a switch are of no use otherwise.
 */
static void
peek (void **state)
{
  pthread_t t;

  (void) state;
  gate_init (&gate);
  assert_int_equal (pthread_create (&t, NULL, close_and_open, NULL), 0);
  while (!__atomic_load_n (&done, __ATOMIC_ACQUIRE)) {
    uint64_t switches;
    bool switched;

    gate_peek (&gate, &switches, &switched);
    if (!switched && __atomic_load_n (&opened, __ATOMIC_ACQUIRE) < switches)
      fail_msg ("switch %llu looks as if it were over",
                (unsigned long long) switches);
  }
  pthread_join (t, NULL);
  gate_done (&gate);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (peek),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
