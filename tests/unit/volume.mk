if HAVE_CMOCKA
VOLUME_TESTS = \
	tests/unit/volume-map \
	tests/unit/volume-repair \
	tests/unit/volume-super
check_PROGRAMS += $(VOLUME_TESTS)
TESTS += $(VOLUME_TESTS)
tests_unit_volume_map_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_volume_map_SOURCES = tests/unit/volume-map.c \
	tests/unit/volume_help.h
tests_unit_volume_map_LDADD = $(TEST_LIBS)
tests_unit_volume_repair_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_volume_repair_SOURCES = tests/unit/volume-repair.c \
	tests/unit/volume_help.h
tests_unit_volume_repair_LDADD = $(TEST_LIBS)
tests_unit_volume_super_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_volume_super_SOURCES = tests/unit/volume-super.c \
	tests/unit/volume_help.h
tests_unit_volume_super_LDADD = $(TEST_LIBS)
endif
