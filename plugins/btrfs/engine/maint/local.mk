libengine_la_SOURCES += \
	$(ENGINE)/maint/mkfs.c \
	$(ENGINE)/maint/mkfs_opts.c \
	$(ENGINE)/maint/mkfs_priv.h \
	$(ENGINE)/maint/mkfs_trees.c
