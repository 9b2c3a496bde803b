# tests/unit/trans.mk
