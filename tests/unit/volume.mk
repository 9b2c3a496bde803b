# tests/unit/volume.mk
