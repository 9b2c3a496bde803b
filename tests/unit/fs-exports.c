/* Export names: what is accepted, and the reasons of what is not. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "fs/api_priv.h"

static void
test_good (void **state)
{
  static const struct { const char *name, *path; } good[] = {
    { "disk0", "disk0" }, { "/disk0", "disk0" }, { "///a/b", "a/b" },
    { "a//b", "a//b" }, { "a/", "a/" }, { "vm@monday", "vm@monday" },
    { "...", "..." }, { "..a/b..", "..a/b.." }, { "a b", "a b" },
    { "\xc3\xa4", "\xc3\xa4" }, { "\xe2\x82\xac", "\xe2\x82\xac" },
    { "\xf0\x9d\x84\x9e", "\xf0\x9d\x84\x9e" },
    { "\xef\xbf\xbf", "\xef\xbf\xbf" },
    { "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" },
    { "a/@b", "a/@b" },
  };
  const char *path;
  size_t i;

  (void) state;
  for (i = 0; i < sizeof good / sizeof good[0]; i++) {
    path = NULL;
    assert_int_equal (export_name_check (good[i].name, &path), 0);
    assert_string_equal (path, good[i].path);
  }
}

static void
test_bad (void **state)
{
  static const char *const bad[] = {
    "", "/", "///", ".", "..", "../a", "a/..", "a/../b", "a/.", "./a",
    "/..", "@pool", "/@pool", "@",
    "\xff", "\xc0\x80", "\xc1\xbf", "a\x80", "\xe0\x80\x80", "\xed\xa0\x80",
    "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80",
    "\xe2\x82", "\xc3", "\xf0\x9d\x84",
  };
  const char *path;
  size_t i;

  (void) state;
  for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    path = NULL;
    assert_int_equal (export_name_check (bad[i], &path), -ERR_name_bad);
    assert_null (path);
    assert_non_null (strstr (btrnbd_last_error (-ERR_name_bad), "name"));
  }
}

static void
test_long (void **state)
{
  char name[EXPORT_NAME_MAX + 2];
  const char *path;

  (void) state;
  memset (name, 'x', sizeof name);
  name[EXPORT_NAME_MAX + 1] = '\0';
  assert_int_equal (export_name_check (name, &path), -ERR_name_long);
  name[EXPORT_NAME_MAX] = '\0';
  assert_int_equal (export_name_check (name, &path), 0);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_good),
    cmocka_unit_test (test_bad),
    cmocka_unit_test (test_long),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
