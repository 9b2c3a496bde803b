# tests/crash/local.mk
