# The targets are built twice: with a driver that replays files, and, when
# configured with CC=clang --enable-fuzzers, with libFuzzer:
#   ../configure CC=clang CFLAGS=-fsanitize=fuzzer-no-link \
#     --enable-fuzzers --enable-sanitize=address,undefined
#   make check TESTS=tests/fuzz/fuzz.sh FUZZ_SECONDS=600
FUZZ_IMAGE_SOURCES = tests/fuzz/image.c tests/fuzz/fuzz.h $(RAWIMG) \
	tests/lib/imagedev.c tests/lib/imagedev.h \
	tests/lib/readall.c tests/lib/readall.h \
	tests/lib/sparse.c tests/lib/sparse.h
FUZZ_IMAGE_CPPFLAGS = $(TEST_CPPFLAGS) \
	-DFUZZ_BASE_DEFAULT='"$(abs_top_srcdir)/tests/corrupt/base.img.zst"'

check_PROGRAMS += tests/fuzz/replay-format tests/fuzz/replay-image \
	tests/fuzz/seeds
tests_fuzz_replay_format_SOURCES = tests/fuzz/format.c tests/fuzz/replay.c \
	tests/fuzz/fuzz.h
tests_fuzz_replay_format_CPPFLAGS = $(TEST_CPPFLAGS)
tests_fuzz_replay_format_LDADD = libengine.la
tests_fuzz_replay_image_SOURCES = $(FUZZ_IMAGE_SOURCES) tests/fuzz/replay.c
tests_fuzz_replay_image_CPPFLAGS = $(FUZZ_IMAGE_CPPFLAGS)
tests_fuzz_replay_image_LDADD = libengine.la $(ZSTD_LIBS)
tests_fuzz_seeds_SOURCES = tests/fuzz/seeds.c $(RAWIMG) \
	tests/lib/sparse.c tests/lib/sparse.h
tests_fuzz_seeds_CPPFLAGS = $(TEST_CPPFLAGS)
tests_fuzz_seeds_LDADD = libengine.la $(ZSTD_LIBS)

if FUZZERS
check_PROGRAMS += tests/fuzz/fuzz-format tests/fuzz/fuzz-image
tests_fuzz_fuzz_format_SOURCES = tests/fuzz/format.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_format_CPPFLAGS = $(TEST_CPPFLAGS)
tests_fuzz_fuzz_format_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_format_LDADD = libengine.la
tests_fuzz_fuzz_image_SOURCES = $(FUZZ_IMAGE_SOURCES)
tests_fuzz_fuzz_image_CPPFLAGS = $(FUZZ_IMAGE_CPPFLAGS)
tests_fuzz_fuzz_image_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_image_LDADD = libengine.la $(ZSTD_LIBS)
endif

dist_check_SCRIPTS += tests/fuzz/fuzz.sh
TESTS += tests/fuzz/fuzz.sh
EXTRA_DIST += tests/fuzz/corpus-format tests/fuzz/corpus-image \
	tests/fuzz/corpus-log
