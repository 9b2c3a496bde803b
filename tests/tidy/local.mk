# tests/tidy/local.mk
