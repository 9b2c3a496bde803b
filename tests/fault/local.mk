# The n-th operation or allocation fails.
check_PROGRAMS += tests/fault/fault
tests_fault_fault_SOURCES = \
	tests/crash/journal.c \
	tests/crash/journal.h \
	tests/crash/judge.c \
	tests/crash/load.c \
	tests/crash/load.h \
	tests/crash/load_more.c \
	tests/crash/load_priv.h \
	tests/crash/shield.h \
	tests/fault/alloc.c \
	tests/fault/alloc.h \
	tests/fault/fault.c
# The test's own allocations do not fail; alloc.c uses none of these names.
tests_fault_fault_CPPFLAGS = $(TEST_CPPFLAGS) \
	-Dmalloc=__real_malloc -Dcalloc=__real_calloc \
	-Dreallocarray=__real_reallocarray
tests_fault_fault_LDADD = libengine.la
tests_fault_fault_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc \
	-Wl,--wrap=reallocarray -Wl,--wrap=posix_memalign -Wl,--wrap=strdup
dist_check_SCRIPTS += tests/fault/fault.sh
TESTS += tests/fault/fault.sh
