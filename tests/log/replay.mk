# Logs: replay of what Linux left behind.
check_PROGRAMS += tests/log/look
tests_log_look_SOURCES = tests/log/look.c tests/crash/shield.h \
	tests/lib/rawimg.c tests/lib/rawimg.h
tests_log_look_CPPFLAGS = $(TEST_CPPFLAGS)
tests_log_look_LDADD = libengine.la
log_replay_tests = tests/log/replay.sh
dist_check_SCRIPTS += $(log_replay_tests)
TESTS += $(log_replay_tests)
EXTRA_DIST += tests/log/replay.py tests/log/replay-scenarios \
	tests/log/make-image.sh tests/log/log.img.zst
