# Logs: replay of what Linux left behind.
check_PROGRAMS += tests/log/look tests/log/odd
tests_log_look_SOURCES = tests/log/look.c tests/log/list.c tests/log/list.h \
	tests/crash/shield.h \
	tests/lib/rawimg.c tests/lib/rawimg.h
tests_log_look_CPPFLAGS = $(TEST_CPPFLAGS)
tests_log_look_LDADD = libengine.la
tests_log_odd_SOURCES = tests/log/odd.c tests/log/list.c tests/log/list.h \
	tests/crash/shield.h tests/fault/alloc.c tests/fault/alloc.h \
	tests/lib/imagedev.c tests/lib/imagedev.h \
	tests/lib/rawimg.c tests/lib/rawimg.h \
	tests/lib/readall.c tests/lib/readall.h \
	tests/lib/sparse.c tests/lib/sparse.h
# The test's own allocations do not fail, as in tests/fault.
tests_log_odd_CPPFLAGS = $(tests_fault_fault_CPPFLAGS)
tests_log_odd_LDADD = libengine.la $(ZSTD_LIBS)
tests_log_odd_LDFLAGS = $(tests_fault_fault_LDFLAGS)
log_replay_tests = tests/log/replay.sh tests/log/odd.sh
dist_check_SCRIPTS += $(log_replay_tests)
TESTS += $(log_replay_tests)
EXTRA_DIST += tests/log/replay.py tests/log/replay-scenarios \
	tests/log/make-image.sh tests/log/log.img.zst tests/log/log.list
