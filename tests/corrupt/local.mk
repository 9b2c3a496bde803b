# tests/corrupt/local.mk
