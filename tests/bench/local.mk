# make bench: our figures beside those of peers.  Needs root; BENCH_FLAGS are
# options of tests/bench/bench.py.
bench_programs = \
	tests/bench/fsync-load \
	tests/bench/nbd-load \
	tests/bench/open-pool \
	tests/bench/refs \
	tests/bench/snapshots
EXTRA_PROGRAMS += $(bench_programs)
CLEANFILES += $(bench_programs)
tests_bench_fsync_load_SOURCES = tests/bench/fsync-load.c
tests_bench_fsync_load_CPPFLAGS = $(TEST_CPPFLAGS)
tests_bench_fsync_load_LDADD = libengine.la
tests_bench_nbd_load_SOURCES = tests/bench/nbd-load.c server/nbd/proto.h
tests_bench_nbd_load_CPPFLAGS = -I$(srcdir)/server -D_GNU_SOURCE
tests_bench_open_pool_SOURCES = tests/bench/open-pool.c
tests_bench_open_pool_CPPFLAGS = $(TEST_CPPFLAGS)
tests_bench_open_pool_LDADD = libengine.la
tests_bench_refs_SOURCES = tests/bench/refs.c
tests_bench_refs_CPPFLAGS = $(TEST_CPPFLAGS)
tests_bench_refs_LDADD = libengine.la
tests_bench_snapshots_SOURCES = tests/bench/snapshots.c
tests_bench_snapshots_CPPFLAGS = $(TEST_CPPFLAGS)
tests_bench_snapshots_LDADD = libengine.la

EXTRA_DIST += \
	tests/bench/bench.py \
	tests/bench/bootstorm.py \
	tests/bench/flush.py \
	tests/bench/fsync.py \
	tests/bench/hosts.py \
	tests/bench/nocow.py \
	tests/bench/open.py \
	tests/bench/rot.py \
	tests/bench/servers.py
bench: all $(bench_programs) tests/daemon/btrnbdtest.la
	/usr/bin/python3 $(srcdir)/tests/bench/bench.py --build . $(BENCH_FLAGS)
	/usr/bin/python3 $(srcdir)/tests/bench/hosts.py --build .
	/usr/bin/python3 $(srcdir)/tests/bench/flush.py --build .
	/usr/bin/python3 $(srcdir)/tests/bench/fsync.py --build .
	tests/bench/refs
	dir=$$(mktemp -d) && tests/bench/snapshots $$dir; rm -rf $$dir
	/usr/bin/python3 $(srcdir)/tests/bench/open.py --build .
	/usr/bin/python3 $(srcdir)/tests/bench/rot.py --build .
	/usr/bin/python3 $(srcdir)/tests/bench/nocow.py --build .
	/usr/bin/python3 $(srcdir)/tests/bench/bootstorm.py --build . --span 256
.PHONY: bench
