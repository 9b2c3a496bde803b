# tests/unit/inode.mk
