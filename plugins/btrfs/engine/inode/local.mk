libengine_la_SOURCES += \
	$(ENGINE)/inode/changes.c \
	$(ENGINE)/inode/create.c \
	$(ENGINE)/inode/dir.c \
	$(ENGINE)/inode/icache.c \
	$(ENGINE)/inode/inode.h \
	$(ENGINE)/inode/items.c \
	$(ENGINE)/inode/items.h \
	$(ENGINE)/inode/link.c \
	$(ENGINE)/inode/lookup.c \
	$(ENGINE)/inode/orphan.c \
	$(ENGINE)/inode/pack.c \
	$(ENGINE)/inode/priv.h \
	$(ENGINE)/inode/readdir.c \
	$(ENGINE)/inode/refs.c \
	$(ENGINE)/inode/rename.c \
	$(ENGINE)/inode/sref.c \
	$(ENGINE)/inode/unlink.c \
	$(ENGINE)/inode/xattr.c
