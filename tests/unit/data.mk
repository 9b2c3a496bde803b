if HAVE_CMOCKA
DATA_TESTS = \
	tests/unit/data-cache \
	tests/unit/data-cases \
	tests/unit/data-convoy \
	tests/unit/data-decompress \
	tests/unit/data-full \
	tests/unit/data-keep \
	tests/unit/data-map \
	tests/unit/data-model \
	tests/unit/data-scarce \
	tests/unit/data-scatter \
	tests/unit/data-threads
check_PROGRAMS += $(DATA_TESTS)
TESTS += $(DATA_TESTS)

tests_unit_data_cache_SOURCES = tests/unit/data-cache.c
tests_unit_data_cache_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_data_cache_LDADD = $(TEST_LIBS)
tests_unit_data_cases_SOURCES = tests/unit/data-cases.c
tests_unit_data_cases_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_data_cases_LDADD = $(TEST_LIBS)
tests_unit_data_convoy_SOURCES = tests/unit/data-convoy.c
tests_unit_data_convoy_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_data_convoy_LDADD = $(TEST_LIBS)
tests_unit_data_decompress_SOURCES = tests/unit/data-decompress.c
tests_unit_data_decompress_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_data_decompress_LDADD = $(TEST_LIBS) $(ZLIB_LIBS) $(ZSTD_LIBS) \
	$(LZO_LIBS)
tests_unit_data_model_SOURCES = tests/unit/data-model.c
tests_unit_data_model_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_data_model_LDADD = $(TEST_LIBS)
tests_unit_data_threads_SOURCES = tests/unit/data-threads.c
tests_unit_data_threads_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_data_threads_LDADD = $(TEST_LIBS)
tests_unit_data_full_SOURCES = tests/unit/data-full.c
tests_unit_data_full_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_data_full_LDADD = $(TEST_LIBS)
tests_unit_data_keep_SOURCES = tests/unit/data-keep.c tests/crash/shield.h
tests_unit_data_keep_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_data_keep_LDADD = $(TEST_LIBS)
tests_unit_data_scarce_SOURCES = tests/unit/data-scarce.c tests/crash/shield.h
tests_unit_data_scarce_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_data_scarce_LDADD = $(TEST_LIBS)
tests_unit_data_scatter_SOURCES = tests/unit/data-scatter.c
tests_unit_data_scatter_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_data_scatter_LDADD = $(TEST_LIBS)
tests_unit_data_map_SOURCES = tests/unit/data-map.c
tests_unit_data_map_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_data_map_LDADD = $(TEST_LIBS)
# A helper of shell tests.
check_PROGRAMS += tests/unit/data-poke
tests_unit_data_poke_SOURCES = tests/unit/data-poke.c
tests_unit_data_poke_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_data_poke_LDADD = libengine.la
TESTS += tests/unit/data-kernel.sh tests/unit/data-nocow.sh \
	tests/unit/data-repair.sh
dist_check_SCRIPTS += tests/unit/data-kernel.sh tests/unit/data-nocow.sh \
	tests/unit/data-repair.sh
endif
