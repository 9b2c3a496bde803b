if HAVE_CMOCKA
TRANS_TESTS = \
	tests/unit/extent-refs \
	tests/unit/space-bitmap \
	tests/unit/space-build \
	tests/unit/space-fst \
	tests/unit/space-nomem \
	tests/unit/trans-commit
check_PROGRAMS += $(TRANS_TESTS)
TESTS += $(TRANS_TESTS)

tests_unit_extent_refs_SOURCES = tests/unit/extent-refs.c \
	tests/unit/treelab.c tests/unit/treelab.h
tests_unit_extent_refs_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_extent_refs_LDADD = $(TEST_LIBS)
tests_unit_space_bitmap_SOURCES = tests/unit/space-bitmap.c \
	tests/unit/treelab.c tests/unit/treelab.h
tests_unit_space_bitmap_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_space_bitmap_LDADD = $(TEST_LIBS)
tests_unit_space_build_SOURCES = tests/unit/space-build.c
tests_unit_space_build_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_space_build_LDADD = $(TEST_LIBS)
tests_unit_space_fst_SOURCES = tests/unit/space-fst.c \
	tests/unit/treelab.c tests/unit/treelab.h
tests_unit_space_fst_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_space_fst_LDADD = $(TEST_LIBS)
tests_unit_space_nomem_SOURCES = tests/unit/space-nomem.c \
	tests/crash/shield.h
tests_unit_space_nomem_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_space_nomem_LDADD = $(TEST_LIBS)
tests_unit_space_nomem_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc \
	-Wl,--wrap=calloc
tests_unit_trans_commit_SOURCES = tests/unit/trans-commit.c
tests_unit_trans_commit_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_trans_commit_LDADD = $(TEST_LIBS)
endif
