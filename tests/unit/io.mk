if HAVE_CMOCKA
check_PROGRAMS += \
	tests/unit/io-device \
	tests/unit/io-lock \
	tests/unit/io-nbd \
	tests/unit/io-record
TESTS += \
	tests/unit/io-device \
	tests/unit/io-lock \
	tests/unit/io-nbd \
	tests/unit/io-record
tests_unit_io_device_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_io_device_SOURCES = tests/unit/io-device.c tests/unit/io_help.h
tests_unit_io_device_LDADD = $(TEST_LIBS)
tests_unit_io_lock_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_io_lock_SOURCES = tests/unit/io-lock.c tests/unit/io_help.h
tests_unit_io_lock_LDADD = $(TEST_LIBS)
tests_unit_io_nbd_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_io_nbd_SOURCES = tests/unit/io-nbd.c tests/unit/io_help.h
tests_unit_io_nbd_LDADD = $(TEST_LIBS)
tests_unit_io_record_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_io_record_SOURCES = tests/unit/io-record.c tests/unit/io_help.h
tests_unit_io_record_LDADD = $(TEST_LIBS)
endif
