# Tests speak TAP; automake's driver runs them.
TEST_EXTENSIONS = .sh .t
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
SH_LOG_DRIVER = $(LOG_DRIVER)
T_LOG_DRIVER = $(LOG_DRIVER)

# A test that hangs is a failure, not a wait.
TEST_TIMEOUT = 900
LOG_COMPILER = $(top_srcdir)/tests/lib/timed timeout -k 10 $(TEST_TIMEOUT)
SH_LOG_COMPILER = $(top_srcdir)/tests/lib/timed timeout -k 10 $(TEST_TIMEOUT) bash

AM_TESTS_ENVIRONMENT = \
	abs_top_srcdir='$(abs_top_srcdir)'; export abs_top_srcdir; \
	abs_top_builddir='$(abs_top_builddir)'; export abs_top_builddir; \
	CMOCKA_MESSAGE_OUTPUT=TAP; export CMOCKA_MESSAGE_OUTPUT; \
	MALLOC_PERTURB_=165; export MALLOC_PERTURB_;

# What every test program of the engine links.
TEST_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests
TEST_LIBS = libengine.la $(CMOCKA_LIBS)

include $(srcdir)/tests/lib/local.mk

# Unit tests: one program per room and subject, tests/unit/ROOM-WHAT.c; each
# list below belongs to one room.
include $(srcdir)/tests/unit/base.mk
include $(srcdir)/tests/unit/format.mk
include $(srcdir)/tests/unit/io.mk
include $(srcdir)/tests/unit/volume.mk
include $(srcdir)/tests/unit/block.mk
include $(srcdir)/tests/unit/btree.mk
include $(srcdir)/tests/unit/trans.mk
include $(srcdir)/tests/unit/inode.mk
include $(srcdir)/tests/unit/data.mk
include $(srcdir)/tests/unit/log.mk
include $(srcdir)/tests/unit/subvol.mk
include $(srcdir)/tests/unit/maint.mk
include $(srcdir)/tests/unit/fs.mk
include $(srcdir)/tests/unit/daemon.mk
include $(srcdir)/tests/engine/local.mk
include $(srcdir)/tests/interop/local.mk
include $(srcdir)/tests/nbd/local.mk
include $(srcdir)/tests/cli/local.mk
include $(srcdir)/tests/daemon/local.mk
include $(srcdir)/tests/guest/local.mk
include $(srcdir)/tests/crash/local.mk
include $(srcdir)/tests/log/local.mk
include $(srcdir)/tests/log/replay.mk
include $(srcdir)/tests/fault/local.mk
include $(srcdir)/tests/model/local.mk
include $(srcdir)/tests/corrupt/local.mk
include $(srcdir)/tests/fuzz/local.mk
include $(srcdir)/tests/tidy/local.mk
include $(srcdir)/tests/bench/local.mk
