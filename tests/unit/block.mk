# tests/unit/block.mk
