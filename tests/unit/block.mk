if HAVE_CMOCKA
check_PROGRAMS += tests/unit/block-cache
TESTS += tests/unit/block-cache
tests_unit_block_cache_SOURCES = tests/unit/block-cache.c \
	tests/unit/treelab.c tests/unit/treelab.h
tests_unit_block_cache_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_block_cache_LDADD = $(TEST_LIBS)
endif
