if HAVE_CMOCKA
BASE_TESTS = \
	tests/unit/base-csum \
	tests/unit/base-err \
	tests/unit/base-gate \
	tests/unit/base-lock \
	tests/unit/base-workers
check_PROGRAMS += $(BASE_TESTS)
TESTS += $(BASE_TESTS)

tests_unit_base_csum_SOURCES = tests/unit/base-csum.c
tests_unit_base_csum_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_base_csum_LDADD = $(TEST_LIBS)
tests_unit_base_err_SOURCES = tests/unit/base-err.c
tests_unit_base_err_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_base_err_LDADD = $(TEST_LIBS)
tests_unit_base_gate_SOURCES = tests/unit/base-gate.c
tests_unit_base_gate_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_base_gate_LDADD = $(TEST_LIBS)
tests_unit_base_lock_SOURCES = tests/unit/base-lock.c
tests_unit_base_lock_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_base_lock_LDADD = $(TEST_LIBS)
tests_unit_base_workers_SOURCES = tests/unit/base-workers.c
tests_unit_base_workers_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_base_workers_LDADD = $(TEST_LIBS)
endif
EXTRA_DIST += tests/unit/test.h
