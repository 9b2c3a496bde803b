if HAVE_CMOCKA
SERVER_TESTS = tests/unit/daemon-awake
check_PROGRAMS += $(SERVER_TESTS)
TESTS += $(SERVER_TESTS)

tests_unit_daemon_awake_SOURCES = tests/unit/daemon-awake.c \
	server/daemon/awake.c server/daemon/awake.h
tests_unit_daemon_awake_CPPFLAGS = $(TEST_CPPFLAGS) -I$(srcdir)/server
tests_unit_daemon_awake_LDADD = $(TEST_LIBS)
endif
