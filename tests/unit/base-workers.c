/* base/workers: everything queued runs once; drain and free wait for it. */
#include "unit/test.h"

#include "base/containers.h"
#include "base/err.h"
#include "base/workers.h"

struct job {
  struct work work;
  struct workers *again;        /* queue once more from inside */
  int runs;
};

static int total;

static void
run (struct work *work)
{
  struct job *j = container_of (work, struct job, work);

  ++j->runs;
  __atomic_add_fetch (&total, 1, __ATOMIC_RELAXED);
  err_new (ERR_nomem, "left behind");
  if (j->again != NULL) {
    struct workers *w = j->again;

    j->again = NULL;
    workers_queue (w, &j->work);
  }
}

static void
queue_and_drain (void **state)
{
  static struct job jobs[500];
  struct workers *w;

  (void) state;
  total = 0;
  assert_int_equal (workers_new ("a-long-name-is-cut", 3, &w), 0);
  assert_int_equal (workers_threads (w), 3);
  workers_drain (w);
  for (int i = 0; i < 500; ++i) {
    jobs[i].work.fn = run;
    jobs[i].again = i % 5 == 0 ? w : NULL;
    workers_queue (w, &jobs[i].work);
  }
  workers_drain (w);
  assert_int_equal (total, 600);
  for (int i = 0; i < 500; ++i)
    assert_int_equal (jobs[i].runs, i % 5 == 0 ? 2 : 1);
  workers_free (w);
}

static void
free_runs_what_is_queued (void **state)
{
  static struct job jobs[200];
  struct workers *w;

  (void) state;
  total = 0;
  assert_int_equal (workers_new ("w", 1, &w), 0);
  for (int i = 0; i < 200; ++i) {
    jobs[i].work.fn = run;
    jobs[i].again = w;
    workers_queue (w, &jobs[i].work);
  }
  workers_free (w);
  assert_int_equal (total, 400);
  workers_free (NULL);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (queue_and_drain),
    cmocka_unit_test (free_runs_what_is_queued),
  };
  return cmocka_run_group_tests_name ("base-workers", tests, NULL, NULL);
}
