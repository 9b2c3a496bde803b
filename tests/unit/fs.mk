if HAVE_CMOCKA
FS_TESTS = \
	tests/unit/fs-chunks \
	tests/unit/fs-exports \
	tests/unit/fs-open \
	tests/unit/fs-replace
check_PROGRAMS += $(FS_TESTS)
TESTS += $(FS_TESTS)
tests_unit_fs_chunks_SOURCES = tests/unit/fs-chunks.c $(RAWIMG)
tests_unit_fs_chunks_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_fs_chunks_LDADD = $(TEST_LIBS)
tests_unit_fs_exports_SOURCES = tests/unit/fs-exports.c
tests_unit_fs_exports_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_fs_exports_LDADD = $(TEST_LIBS)
tests_unit_fs_open_SOURCES = tests/unit/fs-open.c $(RAWIMG)
tests_unit_fs_open_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_fs_open_LDADD = $(TEST_LIBS)
tests_unit_fs_replace_SOURCES = tests/unit/fs-replace.c
tests_unit_fs_replace_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_fs_replace_LDADD = $(TEST_LIBS)
endif
