/* trans: joining, leaving, shared commits, aborts; steps are the test's. */

#include <config.h>

#include "unit/test.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "trans/trans.h"

/* What the steps of a commit saw. */
struct world {
  struct trans *trans;
  atomic_uint inside;          /* handles held by workers */
  atomic_ulong promised;       /* bytes */
  atomic_ulong changes, durable; /* counter; what a commit has made so */
  unsigned long seen;          /* at the end of the exclusive part */
  unsigned commits, finished;
  uint64_t last_id;
  int fail_step;               /* 1-based; 0: none */
  int wait_ms;                 /* in the writing step */
  bool supers_written_after_failure;
  bool full;                   /* no promise is possible */
};

static int
maybe_fail (struct world *w, int step)
{
  return w->fail_step == step ? err_new (ERR_dev_write, "step %d", step) : 0;
}

static int
step_early (void *opaque, struct txn *txn)
{
  struct world *w = opaque;

  assert_true (txn->committer);
  assert_true (trans_in_txn (w->trans));
  return maybe_fail (w, 1);
}

static int
step_shut (void *opaque, struct txn *txn)
{
  struct world *w = opaque;

  assert_int_equal (w->inside, 0);
  assert_true (txn->tree.transid > w->last_id);
  w->last_id = txn->tree.transid;
  usleep (200);
  assert_int_equal (w->inside, 0);
  w->seen = w->changes;
  return maybe_fail (w, 2);
}

static int
step_write (void *opaque, struct txn *txn)
{
  struct world *w = opaque;

  /* The next one runs already. */
  assert_int_equal (trans_running_id (w->trans), txn->tree.transid + 1);
  usleep (w->wait_ms * 1000);
  return maybe_fail (w, 3);
}

static int
step_super (void *opaque, struct txn *txn)
{
  struct world *w = opaque;

  (void) txn;
  if (w->fail_step)
    w->supers_written_after_failure = true;
  w->durable = w->seen;
  w->commits++;
  return 0;
}

static const struct commit_step steps[] = {
  { "early", step_early },
  { "shut", step_shut },
  { "write", step_write },
  { "super", step_super },
  { NULL, NULL }
};

static int
reserve (void *opaque, unsigned items, uint64_t *ret_bytes)
{
  struct world *w = opaque;

  if (w->full)
    return err_new (ERR_nospace_meta, "as the test wants it");
  *ret_bytes = items * 100;
  w->promised += *ret_bytes;
  return 0;
}

static int
reserve_to_free (void *opaque, unsigned items, uint64_t *ret_bytes)
{
  struct world *w = opaque;

  *ret_bytes = items * 100;
  w->promised += *ret_bytes;
  return 0;
}

static void
release (void *opaque, uint64_t bytes)
{
  struct world *w = opaque;

  assert_true (w->promised >= bytes);
  w->promised -= bytes;
}

static void
finished (void *opaque, uint64_t transid, int err)
{
  struct world *w = opaque;

  (void) transid;
  (void) err;
  w->finished++;
}

static void
no_log (void *opaque, enum log_level level, const char *line)
{
  (void) opaque;
  (void) level;
  (void) line;
}

static void
start (struct world *w)
{
  struct trans_hooks hooks = {
    .opaque = w, .reserve = reserve, .reserve_to_free = reserve_to_free,
    .release = release, .steps = steps, .shut = 1, .unblock = 2,
    .finished = finished,
  };

  memset (w, 0, sizeof *w);
  log_set_sink (no_log, NULL, LOG_LEVEL_ERROR);
  assert_int_equal (trans_new (41, &hooks, &w->trans), 0);
}

static void
end (struct world *w)
{
  assert_int_equal (w->promised, 0);
  trans_free (w->trans);
}

static void
change (struct world *w)
{
  struct txn *txn;

  assert_int_equal (txn_begin (w->trans, 1, &txn), 0);
  w->inside++;
  w->changes++;
  w->inside--;
  assert_int_equal (txn_end (txn), 0);
}

static void
test_ids (void **state)
{
  struct world w;
  uint64_t id;

  (void) state;
  start (&w);
  assert_int_equal (trans_running_id (w.trans), 42);
  /* Nothing was changed: nothing is written. */
  assert_int_equal (trans_commit (w.trans, &id), 0);
  assert_int_equal (id, 41);
  assert_int_equal (w.commits, 0);
  change (&w);
  assert_true (trans_is_dirty (w.trans));
  assert_int_equal (trans_commit (w.trans, &id), 0);
  assert_int_equal (id, 42);
  assert_int_equal (trans_committed_id (w.trans), 42);
  assert_int_equal (w.commits, 1);
  assert_false (trans_is_dirty (w.trans));
  assert_int_equal (trans_commit (w.trans, NULL), 0);
  assert_int_equal (w.commits, 1);
  end (&w);
}

static void
test_nested (void **state)
{
  struct txn *a, *b;
  struct world w;

  (void) state;
  start (&w);
  assert_int_equal (txn_begin (w.trans, 2, &a), 0);
  assert_int_equal (w.promised, 200);
  assert_int_equal (txn_begin (w.trans, 5, &b), 0);
  assert_ptr_equal (a, b);
  assert_int_equal (w.promised, 200);
  assert_int_equal (txn_end (b), 0);
  assert_true (trans_in_txn (w.trans));
  assert_int_equal (txn_end (a), 0);
  assert_false (trans_in_txn (w.trans));
  assert_int_equal (w.promised, 0);
  /* A full pool can still free. */
  w.full = true;
  assert_int_equal (txn_begin (w.trans, 1, &a), -ERR_nospace_meta);
  assert_int_equal (txn_begin_to_free (w.trans, 1, &a), 0);
  assert_int_equal (txn_end (a), 0);
  assert_int_equal (txn_join (w.trans, &a), 0);
  assert_int_equal (txn_end (a), 0);
  end (&w);
}

struct worker {
  pthread_t tid;
  struct world *w;
  unsigned rounds;
};

/* Changes, now and then a commit: then all of them are durable. */
static void *
work (void *opaque)
{
  struct worker *k = opaque;
  unsigned long mine;
  unsigned i;

  for (i = 0; i < k->rounds; i++) {
    change (k->w);
    if (i % 7 == 0) {
      mine = k->w->changes;
      /* At least what this thread saw done before it asked. */
      assert_int_equal (trans_commit (k->w->trans, NULL), 0);
      assert_true (k->w->durable >= mine);
    }
  }
  return NULL;
}

static void
test_threads (void **state)
{
  struct worker k[6];
  struct world w;
  unsigned i;

  (void) state;
  start (&w);
  w.wait_ms = 1;
  for (i = 0; i < ARRAY_SIZE (k); i++) {
    k[i].w = &w;
    k[i].rounds = 200;
    assert_int_equal (pthread_create (&k[i].tid, NULL, work, &k[i]), 0);
  }
  for (i = 0; i < ARRAY_SIZE (k); i++)
    pthread_join (k[i].tid, NULL);
  assert_int_equal (trans_commit (w.trans, NULL), 0);
  assert_int_equal (w.durable, 6 * 200);
  assert_int_equal (w.commits, w.finished);
  /* They shared commits. */
  assert_true (w.commits < 6 * 200 / 7);
  end (&w);
}

/* What ends before a commit is asked for is in it, also when that commit had
 * to wait for another one.
 */
static void *
commit_thread (void *opaque)
{
  struct world *w = opaque;

  assert_int_equal (trans_commit (w->trans, NULL), 0);
  return NULL;
}

static void
test_behind (void **state)
{
  struct world w;
  pthread_t tid;

  (void) state;
  start (&w);
  w.wait_ms = 50;
  change (&w);
  assert_int_equal (pthread_create (&tid, NULL, commit_thread, &w), 0);
  while (trans_running_id (w.trans) == 42)
    usleep (100);
  change (&w);
  assert_int_equal (trans_commit (w.trans, NULL), 0);
  assert_int_equal (w.durable, 2);
  pthread_join (tid, NULL);
  end (&w);
}

static void
test_failure (void **state)
{
  struct world w;
  struct txn *txn;
  int step;

  (void) state;
  for (step = 1; step <= 3; step++) {
    start (&w);
    change (&w);
    assert_int_equal (trans_commit (w.trans, NULL), 0);
    w.fail_step = step;
    change (&w);
    assert_int_equal (trans_commit (w.trans, NULL), -ERR_dev_write);
    assert_false (w.supers_written_after_failure);
    assert_int_equal (trans_check (w.trans), -ERR_aborted);
    assert_non_null (strstr (trans_abort_reason (w.trans), "step"));
    /* For good, also when the cause has gone. */
    w.fail_step = 0;
    assert_int_equal (txn_begin (w.trans, 1, &txn), -ERR_aborted);
    assert_int_equal (trans_commit (w.trans, NULL), -ERR_aborted);
    assert_int_equal (w.durable, 1);
    assert_int_equal (trans_committed_id (w.trans), 42);
    end (&w);
  }
}

/* An error in the middle of a change: others learn it when they leave. */
static void
test_abort (void **state)
{
  struct world w;
  struct txn *txn;
  int r;

  (void) state;
  start (&w);
  assert_int_equal (txn_begin (w.trans, 1, &txn), 0);
  assert_false (txn_should_end (txn));
  r = err_new (ERR_ref_count, "in the test");
  assert_int_equal (txn_abort (txn, r), -ERR_ref_count);
  assert_true (txn_should_end (txn));
  assert_int_equal (txn_end (txn), -ERR_aborted);
  assert_int_equal (trans_commit (w.trans, NULL), -ERR_aborted);
  assert_int_equal (w.commits, 0);
  end (&w);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_ids),
    cmocka_unit_test (test_nested),
    cmocka_unit_test (test_threads),
    cmocka_unit_test (test_behind),
    cmocka_unit_test (test_failure),
    cmocka_unit_test (test_abort),
  };

  return cmocka_run_group_tests_name ("trans-commit", tests, NULL, NULL);
}
