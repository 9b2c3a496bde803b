# tests/interop/local.mk
