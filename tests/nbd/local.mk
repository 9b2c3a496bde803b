# tests/nbd/local.mk
