/* base/lock: the order of ranks, ownership, conditions.  Violations abort, so
 * they are tried in a child.
 */
#include <config.h>
#include "unit/test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"

static struct mutex trans, device, inode1, inode2;
static struct rwlock fs1, fs2, chunk;

static int
setup (void **state)
{
  (void) state;
  mutex_init (&trans, RANK_TRANS);
  mutex_init (&device, RANK_DEVICE);
  mutex_init (&inode1, RANK_INODE);
  mutex_init (&inode2, RANK_INODE);
  rwlock_init (&fs1, RANK_TREE_FS);
  rwlock_init (&fs2, RANK_TREE_FS);
  rwlock_init (&chunk, RANK_TREE_CHUNK);
  return 0;
}

static void
good_order (void **state)
{
  (void) state;
  mutex_lock (&inode1);
  mutex_lock (&inode2);
  rwlock_wrlock (&fs1);
  rwlock_rdlock (&fs2);
  rwlock_rdlock (&chunk);
  mutex_lock (&trans);
  mutex_lock (&device);
  mutex_unlock (&trans);        /* any order of release */
  rwlock_unlock (&chunk);
  mutex_unlock (&device);
  rwlock_unlock (&fs1);
  rwlock_unlock (&fs2);
  mutex_unlock (&inode1);
  mutex_unlock (&inode2);
  lock_assert_below (RANK_NONE);
  { SCOPED_LOCK (&device); assert_true (mutex_is_mine (&device)); }
  mutex_lock (&device);
  mutex_unlock (&device);
}

#ifdef BTRNBD_LOCK_DEBUG
static void
ownership (void **state)
{
  (void) state;
  assert_false (mutex_is_mine (&device));
  mutex_lock (&device);
  assert_true (mutex_is_mine (&device));
  mutex_unlock (&device);
  assert_false (mutex_is_mine (&device));
  rwlock_rdlock (&fs1);
  assert_false (rwlock_is_mine (&fs1));
  rwlock_unlock (&fs1);
  rwlock_wrlock (&fs1);
  assert_true (rwlock_is_mine (&fs1));
  rwlock_unlock (&fs1);
}

static void
must_abort (void (*fn) (void))
{
  pid_t pid;
  int status;

  fflush (NULL);
  pid = fork ();
  assert_true (pid >= 0);
  if (pid == 0) {
    signal (SIGABRT, SIG_DFL);
    if (freopen ("/dev/null", "w", stderr) == NULL)
      _exit (2);
    fn ();
    _exit (0);
  }
  assert_int_equal (waitpid (pid, &status, 0), pid);
  assert_true (WIFSIGNALED (status));
  assert_int_equal (WTERMSIG (status), SIGABRT);
}

static void
v_descending (void)
{
  mutex_lock (&device);
  mutex_lock (&trans);
}

static void
v_same_rank (void)
{
  struct mutex other;

  mutex_init (&other, RANK_DEVICE);
  mutex_lock (&device);
  mutex_lock (&other);
}

static void
v_rdlock (void)
{
  rwlock_rdlock (&chunk);
  rwlock_rdlock (&fs1);
}

static void
v_below (void)
{
  mutex_lock (&device);
  lock_assert_below (RANK_VOLUME);
}

static void
v_not_held (void)
{
  mutex_unlock (&device);
}

static void
v_wait_with_inner_lock (void)
{
  struct cond c;

  cond_init (&c);
  mutex_lock (&trans);
  mutex_lock (&device);
  cond_timedwait (&c, &trans, 1);
}

static void
violations (void **state)
{
  (void) state;
  must_abort (v_descending);
  must_abort (v_same_rank);
  must_abort (v_rdlock);
  must_abort (v_below);
  must_abort (v_not_held);
  must_abort (v_wait_with_inner_lock);
}
#endif

static int counter;

static void *
counting (void *arg)
{
  for (int i = 0; i < 1000; ++i) {
    SCOPED_LOCK (&trans);
    ++counter;
  }
  return arg;
}

static void
threads (void **state)
{
  pthread_t t[4];

  (void) state;
  for (int i = 0; i < 4; ++i)
    assert_int_equal (pthread_create (&t[i], NULL, counting, NULL), 0);
  for (int i = 0; i < 4; ++i)
    pthread_join (t[i], NULL);
  assert_int_equal (counter, 4000);
}

static void *
trying (void *arg)
{
  (void) arg;
  return mutex_trylock (&trans) ? &trans : NULL;
}

static void
trylock_and_timeout (void **state)
{
  struct cond c;
  pthread_t t;
  void *got;

  (void) state;
  cond_init (&c);
  assert_true (mutex_trylock (&trans));
  assert_int_equal (pthread_create (&t, NULL, trying, NULL), 0);
  pthread_join (t, &got);
  assert_null (got);
  assert_false (cond_timedwait (&c, &trans, 5));
  assert_true (mutex_is_mine (&trans));
  mutex_unlock (&trans);
  cond_done (&c);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (good_order),
#ifdef BTRNBD_LOCK_DEBUG
    cmocka_unit_test (ownership),
    cmocka_unit_test (violations),
#endif
    cmocka_unit_test (threads),
    cmocka_unit_test (trylock_and_timeout),
  };
  return cmocka_run_group_tests_name ("base-lock", tests, setup, NULL);
}
