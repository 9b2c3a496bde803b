if HAVE_CMOCKA
check_PROGRAMS += tests/unit/log-durability
TESTS += tests/unit/log-durability
tests_unit_log_durability_SOURCES = tests/unit/log-durability.c
tests_unit_log_durability_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_log_durability_LDADD = $(TEST_LIBS)
endif
