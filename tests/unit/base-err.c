/* base/err: names, notes, threads. */
#include "unit/test.h"

#include <pthread.h>

#include "base/err.h"

static void
names_and_errnos (void **state)
{
  (void) state;
  assert_string_equal (btrnbd_error_name (-ERR_nospace), "nospace");
  assert_string_equal (btrnbd_error_name (ERR_nospace), "nospace");
  assert_int_equal (btrnbd_error_errno (-ERR_nospace), ENOSPC);
  assert_int_equal (btrnbd_error_errno (-ERR_unsupported), EOPNOTSUPP);
  assert_string_equal (btrnbd_error_text (-ERR_nomem), "out of memory");
  assert_string_equal (btrnbd_error_name (-EIO), "unknown");
  assert_int_equal (btrnbd_error_errno (0), EIO);
  assert_int_equal (btrnbd_error_errno (INT32_MIN), EIO);
  assert_int_equal (btrnbd_error_errno (BTRNBD_ERR_END), EIO);
}

static void
notes_chain (void **state)
{
  int r;

  (void) state;
  err_clear ();
  assert_string_equal (err_text (-ERR_nomem), "out of memory");
  r = err_new (ERR_leaf_format, "slot %d", 3);
  assert_int_equal (r, -ERR_leaf_format);
  assert_int_equal (err_note (r, "block %d", 4096), r);
  assert_string_equal (err_text (r),
                       "tree leaf is malformed: block 4096: slot 3");
  r = err_new (ERR_nomem, "again");
  assert_string_equal (err_text (r), "out of memory: again");
  err_clear ();
  assert_string_equal (err_text (r), "out of memory");
  /* A name is not said twice. */
  r = err_note (err_new (ERR_nomem, "\"vm1\""), "volume vm1");
  assert_string_equal (err_text (r), "out of memory: volume vm1");
  r = err_note (err_new (ERR_nomem, "\"vm1\""), "volume xvm1");
  assert_string_equal (err_text (r), "out of memory: volume xvm1: \"vm1\"");
  err_clear ();
}

static void
notes_are_bounded (void **state)
{
  int r = err_new (ERR_nomem, "%0600d", 1);

  (void) state;
  for (int i = 0; i < 100; ++i)
    err_note (r, "%0100d", i);
  assert_true (strlen (err_text (r)) < ERR_NOTES_MAX + 128);
  assert_non_null (strstr (err_text (r), "99: 0"));
  err_clear ();
}

static void *
other_thread (void *arg)
{
  (void) arg;
  if (err_text (-ERR_nomem) != btrnbd_error_text (ERR_nomem))
    return NULL;
  err_new (ERR_dev_read, "sector 5");
  return err_take ();
}

static void
taken_to_another_thread (void **state)
{
  pthread_t t;
  void *s;

  (void) state;
  err_new (ERR_nomem, "mine");
  assert_int_equal (pthread_create (&t, NULL, other_thread, NULL), 0);
  pthread_join (t, &s);
  assert_non_null (s);
  assert_string_equal (err_text (-ERR_nomem), "out of memory: mine");
  err_put (s);
  assert_string_equal (err_text (-ERR_dev_read),
                       "read error on device: sector 5");
  s = err_take ();
  assert_non_null (s);
  assert_null (err_take ());
  free (s);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (names_and_errnos),
    cmocka_unit_test (notes_chain),
    cmocka_unit_test (notes_are_bounded),
    cmocka_unit_test (taken_to_another_thread),
  };
  return cmocka_run_group_tests_name ("base-err", tests, NULL, NULL);
}
