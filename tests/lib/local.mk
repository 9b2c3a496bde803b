# What tests share.
EXTRA_DIST += tests/lib/control.py tests/lib/functions.sh tests/lib/kmsg.py tests/lib/timed

check_PROGRAMS += tests/lib/mkfs-pool
tests_lib_mkfs_pool_SOURCES = tests/lib/mkfs-pool.c
tests_lib_mkfs_pool_CPPFLAGS = $(TEST_CPPFLAGS)
tests_lib_mkfs_pool_LDADD = libengine.la

check_PROGRAMS += tests/lib/churn
tests_lib_churn_SOURCES = tests/lib/churn.c
tests_lib_churn_CPPFLAGS = $(TEST_CPPFLAGS)
tests_lib_churn_LDADD = libengine.la

check_PROGRAMS += tests/lib/edit
tests_lib_edit_SOURCES = tests/lib/edit.c
tests_lib_edit_CPPFLAGS = $(TEST_CPPFLAGS)
tests_lib_edit_LDADD = libengine.la
