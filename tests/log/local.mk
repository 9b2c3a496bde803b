# Logs: what fsync promised is there after a power cut.
check_PROGRAMS += tests/log/drive
tests_log_drive_SOURCES = tests/log/drive.c
tests_log_drive_CPPFLAGS = $(TEST_CPPFLAGS)
tests_log_drive_LDADD = libengine.la
log_tests = tests/log/fsync.sh
dist_check_SCRIPTS += $(log_tests)
TESTS += $(log_tests)
EXTRA_DIST += tests/log/fsync.py tests/log/linux.py tests/log/scenarios
