libengine_la_SOURCES += \
	$(ENGINE)/inode/inode.h
