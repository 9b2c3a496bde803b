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

FUZZ_NBD_SOURCES = tests/fuzz/nbd.c tests/fuzz/fuzz.h \
	tests/lib/nbdsession.c tests/lib/nbdsession.h \
	server/nbd/buf.c server/nbd/buf.h server/nbd/handshake.c \
	server/nbd/handshake.h server/nbd/proto.h server/nbd/request.c \
	server/nbd/request.h
FUZZ_NBD_CPPFLAGS = -I$(srcdir)/server -I$(srcdir)/tests -D_GNU_SOURCE
check_PROGRAMS += tests/fuzz/replay-nbd tests/fuzz/nbd-seeds
tests_fuzz_replay_nbd_SOURCES = $(FUZZ_NBD_SOURCES) tests/fuzz/replay.c
tests_fuzz_replay_nbd_CPPFLAGS = $(FUZZ_NBD_CPPFLAGS)
tests_fuzz_nbd_seeds_SOURCES = tests/fuzz/nbd-seeds.c \
	tests/lib/nbdsession.c tests/lib/nbdsession.h
tests_fuzz_nbd_seeds_CPPFLAGS = $(FUZZ_NBD_CPPFLAGS)

if FUZZERS
check_PROGRAMS += tests/fuzz/fuzz-nbd
tests_fuzz_fuzz_nbd_SOURCES = $(FUZZ_NBD_SOURCES)
tests_fuzz_fuzz_nbd_CPPFLAGS = $(FUZZ_NBD_CPPFLAGS)
tests_fuzz_fuzz_nbd_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
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
	tests/fuzz/corpus-log tests/fuzz/corpus-nbd tests/fuzz/nbd-corpus.sh
