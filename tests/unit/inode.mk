if HAVE_CMOCKA
INODE_TESTS = \
	tests/unit/csum-items \
	tests/unit/inode-full \
	tests/unit/inode-items \
	tests/unit/inode-names \
	tests/unit/inode-subvol \
	tests/unit/inode-threads \
	tests/unit/inode-volumes
check_PROGRAMS += $(INODE_TESTS)
TESTS += $(INODE_TESTS)

tests_unit_csum_items_SOURCES = tests/unit/csum-items.c
tests_unit_csum_items_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_csum_items_LDADD = $(TEST_LIBS)
tests_unit_inode_full_SOURCES = tests/unit/inode-full.c
tests_unit_inode_full_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_inode_full_LDADD = $(TEST_LIBS)
tests_unit_inode_items_SOURCES = tests/unit/inode-items.c
tests_unit_inode_items_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_inode_items_LDADD = $(TEST_LIBS)
tests_unit_inode_names_SOURCES = tests/unit/inode-names.c
tests_unit_inode_names_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_inode_names_LDADD = $(TEST_LIBS)
tests_unit_inode_subvol_SOURCES = tests/unit/inode-subvol.c
tests_unit_inode_subvol_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_inode_subvol_LDADD = $(TEST_LIBS)
tests_unit_inode_threads_SOURCES = tests/unit/inode-threads.c
tests_unit_inode_threads_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_inode_threads_LDADD = $(TEST_LIBS)
tests_unit_inode_volumes_SOURCES = tests/unit/inode-volumes.c
tests_unit_inode_volumes_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_inode_volumes_LDADD = $(TEST_LIBS)
endif
EXTRA_DIST += tests/unit/inode_help.h
