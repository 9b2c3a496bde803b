# make bench: our figures beside those of peers.  Needs root; BENCH_FLAGS are
# the options of tests/bench/bench.py.
EXTRA_DIST += tests/bench/bench.py
bench: all
	/usr/bin/python3 $(srcdir)/tests/bench/bench.py --build . $(BENCH_FLAGS)
.PHONY: bench
