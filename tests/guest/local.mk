# A guest kernel, and a virtual machine, as clients.
check_LTLIBRARIES += tests/guest/xstate.la
tests_guest_xstate_la_SOURCES = tests/guest/xstate.c
tests_guest_xstate_la_CPPFLAGS = -D_GNU_SOURCE
# Not sanitized: it is loaded into a program that is not.
tests_guest_xstate_la_CFLAGS = $(AM_CFLAGS) -fno-sanitize=all
tests_guest_xstate_la_LDFLAGS = \
	-module -avoid-version -shared -rpath /nowhere

GUEST_TESTS = \
	tests/guest/attach.sh \
	tests/guest/crash.sh \
	tests/guest/image.sh \
	tests/guest/reconnect.sh \
	tests/guest/tls.sh \
	tests/guest/vm.sh
TESTS += $(GUEST_TESTS)
EXTRA_DIST += $(GUEST_TESTS) \
	tests/guest/files.py \
	tests/guest/init.sh \
	tests/guest/lib.sh \
	tests/guest/vm-init.sh
