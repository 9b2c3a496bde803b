if HAVE_CMOCKA
BTREE_TESTS = \
	tests/unit/btree-model \
	tests/unit/btree-odd \
	tests/unit/btree-threads
check_PROGRAMS += $(BTREE_TESTS)
TESTS += $(BTREE_TESTS)

tests_unit_btree_model_SOURCES = tests/unit/btree-model.c \
	tests/unit/treelab.c tests/unit/treelab.h
tests_unit_btree_model_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_btree_model_LDADD = $(TEST_LIBS)
tests_unit_btree_odd_SOURCES = tests/unit/btree-odd.c \
	tests/unit/treelab.c tests/unit/treelab.h
tests_unit_btree_odd_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_btree_odd_LDADD = $(TEST_LIBS)
tests_unit_btree_threads_SOURCES = tests/unit/btree-threads.c \
	tests/unit/treelab.c tests/unit/treelab.h
tests_unit_btree_threads_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_btree_threads_LDADD = $(TEST_LIBS)
endif

# Figures, not a test: tests/bench/btree-insert
EXTRA_PROGRAMS += tests/bench/btree-insert
tests_bench_btree_insert_SOURCES = tests/bench/btree-insert.c \
	tests/unit/treelab.c tests/unit/treelab.h
tests_bench_btree_insert_CPPFLAGS = $(TEST_CPPFLAGS)
tests_bench_btree_insert_LDADD = libengine.la
