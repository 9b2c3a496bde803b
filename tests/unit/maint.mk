check_PROGRAMS += tests/unit/maint-mkfs
TESTS += tests/unit/maint-mkfs
tests_unit_maint_mkfs_SOURCES = tests/unit/maint-mkfs.c
tests_unit_maint_mkfs_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_maint_mkfs_LDADD = $(TEST_LIBS)
