if HAVE_CMOCKA
SNAP_TESTS = \
	tests/unit/clone-basic \
	tests/unit/pool-image \
	tests/unit/pool-image-race \
	tests/unit/pool-image-space \
	tests/unit/regroup-basic \
	tests/unit/snap-basic \
	tests/unit/snap-cases \
	tests/unit/snap-many \
	tests/unit/snap-race \
	tests/unit/snap-volumes
check_PROGRAMS += $(SNAP_TESTS)
TESTS += $(SNAP_TESTS)

tests_unit_clone_basic_SOURCES = tests/unit/clone-basic.c
tests_unit_clone_basic_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_clone_basic_LDADD = $(TEST_LIBS)
tests_unit_pool_image_SOURCES = tests/unit/pool-image.c
tests_unit_pool_image_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_pool_image_LDADD = $(TEST_LIBS)
tests_unit_pool_image_race_SOURCES = tests/unit/pool-image-race.c
tests_unit_pool_image_race_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_pool_image_race_LDADD = $(TEST_LIBS)
tests_unit_pool_image_space_SOURCES = tests/unit/pool-image-space.c
tests_unit_pool_image_space_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_pool_image_space_LDADD = $(TEST_LIBS)
tests_unit_regroup_basic_SOURCES = tests/unit/regroup-basic.c
tests_unit_regroup_basic_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_regroup_basic_LDADD = $(TEST_LIBS)
tests_unit_snap_basic_SOURCES = tests/unit/snap-basic.c
tests_unit_snap_basic_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_snap_basic_LDADD = $(TEST_LIBS)
tests_unit_snap_cases_SOURCES = tests/unit/snap-cases.c
tests_unit_snap_cases_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_snap_cases_LDADD = $(TEST_LIBS)
tests_unit_snap_many_SOURCES = tests/unit/snap-many.c
tests_unit_snap_many_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_snap_many_LDADD = $(TEST_LIBS)
tests_unit_snap_race_SOURCES = tests/unit/snap-race.c
tests_unit_snap_race_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_snap_race_LDADD = $(TEST_LIBS)
tests_unit_snap_volumes_SOURCES = tests/unit/snap-volumes.c
tests_unit_snap_volumes_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_snap_volumes_LDADD = $(TEST_LIBS)
endif
EXTRA_DIST += tests/unit/pool_image_help.h tests/unit/snap_help.h
