# tests/bench/local.mk
