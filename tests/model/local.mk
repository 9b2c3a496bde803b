# tests/model/local.mk
