CORRUPT_LIB = $(RAWIMG) \
	tests/lib/mutate.c tests/lib/mutate.h \
	tests/lib/sparse.c tests/lib/sparse.h

check_PROGRAMS += tests/corrupt/corrupt tests/corrupt/pack
tests_corrupt_corrupt_SOURCES = tests/corrupt/corrupt.c $(CORRUPT_LIB) \
	tests/lib/imagedev.c tests/lib/imagedev.h \
	tests/lib/readall.c tests/lib/readall.h
tests_corrupt_corrupt_CPPFLAGS = $(TEST_CPPFLAGS)
tests_corrupt_corrupt_LDADD = libengine.la $(ZSTD_LIBS)
tests_corrupt_pack_SOURCES = tests/corrupt/pack.c $(CORRUPT_LIB)
tests_corrupt_pack_CPPFLAGS = $(TEST_CPPFLAGS)
tests_corrupt_pack_LDADD = libengine.la $(ZSTD_LIBS)

dist_check_SCRIPTS += tests/corrupt/corrupt.sh
TESTS += tests/corrupt/corrupt.sh
EXTRA_DIST += tests/corrupt/make-base.sh tests/corrupt/base.img.zst \
	tests/corrupt/mutations
