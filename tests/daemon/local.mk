# Tests of btrnbdd, and the plugin they serve.
check_LTLIBRARIES += tests/daemon/btrnbdtest.la
tests_daemon_btrnbdtest_la_SOURCES = tests/daemon/test-plugin.c
tests_daemon_btrnbdtest_la_CPPFLAGS = -I$(srcdir)/include -D_GNU_SOURCE
tests_daemon_btrnbdtest_la_CFLAGS = $(AM_CFLAGS) $(NBDKIT_CFLAGS)
# -rpath makes libtool build a shared object of a check library.
tests_daemon_btrnbdtest_la_LDFLAGS = \
	-module -avoid-version -shared -rpath /nowhere

check_LTLIBRARIES += tests/daemon/btrnbdodd.la
tests_daemon_btrnbdodd_la_SOURCES = tests/daemon/odd-plugin.c
tests_daemon_btrnbdodd_la_CPPFLAGS = -D_GNU_SOURCE
tests_daemon_btrnbdodd_la_CFLAGS = $(AM_CFLAGS) $(NBDKIT_CFLAGS)
tests_daemon_btrnbdodd_la_LDFLAGS = $(tests_daemon_btrnbdtest_la_LDFLAGS)

check_PROGRAMS += tests/daemon/mutate
tests_daemon_mutate_SOURCES = tests/daemon/mutate.c \
	tests/lib/nbdsession.c tests/lib/nbdsession.h server/nbd/proto.h
tests_daemon_mutate_CPPFLAGS = -I$(srcdir)/server -I$(srcdir)/tests -D_GNU_SOURCE

DAEMON_TESTS = \
	tests/daemon/access.sh \
	tests/daemon/protocol.sh \
	tests/daemon/behaviour.sh \
	tests/daemon/control.sh \
	tests/daemon/config.sh \
	tests/daemon/conformance.sh \
	tests/daemon/dist.sh \
	tests/daemon/log.sh \
	tests/daemon/metrics.sh \
	tests/daemon/mutations.sh \
	tests/daemon/names.sh \
	tests/daemon/limits.sh \
	tests/daemon/plugin.sh \
	tests/daemon/reload.sh \
	tests/daemon/restart.sh \
	tests/daemon/service.sh \
	tests/daemon/storm.sh \
	tests/daemon/systemd.sh \
	tests/daemon/tls.sh
TESTS += $(DAEMON_TESTS)
EXTRA_DIST += $(DAEMON_TESTS) \
	tests/daemon/control_socket.py \
	tests/daemon/lib.sh \
	tests/daemon/handshake.py \
	tests/daemon/leave.py \
	tests/daemon/limits.py \
	tests/daemon/metrics.py \
	tests/daemon/options.py \
	tests/daemon/prometheus.py \
	tests/daemon/pki.sh \
	tests/daemon/raw.py \
	tests/daemon/replies.py \
	tests/daemon/service-clients.py \
	tests/daemon/service-inside.sh \
	tests/daemon/crowd.py \
	tests/daemon/differences \
	tests/daemon/drain.py \
	tests/daemon/storm.py \
	tests/daemon/systemd.py \
	tests/daemon/transmission.py
