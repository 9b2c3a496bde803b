# tests/unit/data.mk
