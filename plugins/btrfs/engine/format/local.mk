libengine_la_SOURCES += \
	$(ENGINE)/format/check.h \
	$(ENGINE)/format/check_block.c \
	$(ENGINE)/format/check_chunk.c \
	$(ENGINE)/format/check_dir.c \
	$(ENGINE)/format/check_extent.c \
	$(ENGINE)/format/check_file_extent.c \
	$(ENGINE)/format/check_inode.c \
	$(ENGINE)/format/check_internal.h \
	$(ENGINE)/format/check_root.c \
	$(ENGINE)/format/check_space.c \
	$(ENGINE)/format/features.c \
	$(ENGINE)/format/key.c \
	$(ENGINE)/format/key.h \
	$(ENGINE)/format/names.c \
	$(ENGINE)/format/names.h \
	$(ENGINE)/format/ondisk_check.c \
	$(ENGINE)/format/super.c \
	$(ENGINE)/format/super.h \
	$(ENGINE)/format/tree_block.c \
	$(ENGINE)/format/tree_block.h
