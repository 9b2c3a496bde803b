if HAVE_CMOCKA
DATA_TESTS = \
	tests/unit/data-cache \
	tests/unit/data-decompress \
	tests/unit/data-model \
	tests/unit/data-threads
check_PROGRAMS += $(DATA_TESTS)
TESTS += $(DATA_TESTS)

tests_unit_data_cache_SOURCES = tests/unit/data-cache.c
tests_unit_data_cache_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_data_cache_LDADD = $(TEST_LIBS)
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
endif
