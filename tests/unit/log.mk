if HAVE_CMOCKA
LOG_TESTS = \
	tests/unit/log-cases \
	tests/unit/log-crowd \
	tests/unit/log-durability \
	tests/unit/log-rules \
	tests/unit/log-threads
check_PROGRAMS += $(LOG_TESTS)
TESTS += $(LOG_TESTS)

tests_unit_log_cases_SOURCES = tests/unit/log-cases.c
tests_unit_log_cases_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_log_cases_LDADD = $(TEST_LIBS)
tests_unit_log_crowd_SOURCES = tests/unit/log-crowd.c
tests_unit_log_crowd_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_log_crowd_LDADD = $(TEST_LIBS)
tests_unit_log_durability_SOURCES = tests/unit/log-durability.c
tests_unit_log_durability_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_log_durability_LDADD = $(TEST_LIBS)
tests_unit_log_rules_SOURCES = tests/unit/log-rules.c
tests_unit_log_rules_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_log_rules_LDADD = $(TEST_LIBS)
tests_unit_log_threads_SOURCES = tests/unit/log-threads.c
tests_unit_log_threads_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_log_threads_LDADD = $(TEST_LIBS)
endif
EXTRA_DIST += tests/unit/log_help.h
