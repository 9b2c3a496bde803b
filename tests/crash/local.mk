# Power cuts at every flush and at sampled places.
check_PROGRAMS += tests/crash/crash
tests_crash_crash_SOURCES = \
	tests/crash/crash.c \
	tests/crash/image.c \
	tests/crash/image.h \
	tests/crash/journal.c \
	tests/crash/journal.h \
	tests/crash/judge.c \
	tests/crash/load.c \
	tests/crash/load.h \
	tests/crash/load_more.c \
	tests/crash/load_priv.h \
	tests/crash/shield.h \
	tests/lib/early.h
tests_crash_crash_CPPFLAGS = $(TEST_CPPFLAGS)
tests_crash_crash_LDADD = libengine.la
dist_check_SCRIPTS += tests/crash/crash.sh tests/crash/logs.sh
TESTS += tests/crash/crash.sh tests/crash/logs.sh
