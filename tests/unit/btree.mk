# tests/unit/btree.mk
