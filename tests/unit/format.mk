RAWIMG = tests/lib/rawimg.c tests/lib/rawimg.h

check_PROGRAMS += tests/unit/format-walk
tests_unit_format_walk_SOURCES = tests/unit/format-walk.c $(RAWIMG)
tests_unit_format_walk_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_format_walk_LDADD = libengine.la

dist_check_SCRIPTS += tests/unit/format-images.sh
TESTS += tests/unit/format-images.sh

if HAVE_CMOCKA
FORMAT_TESTS = tests/unit/format-check tests/unit/format-super
check_PROGRAMS += $(FORMAT_TESTS)
TESTS += $(FORMAT_TESTS)
tests_unit_format_check_SOURCES = tests/unit/format-check.c
tests_unit_format_check_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_format_check_LDADD = $(TEST_LIBS)
tests_unit_format_super_SOURCES = tests/unit/format-super.c
tests_unit_format_super_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_format_super_LDADD = $(TEST_LIBS)
endif
