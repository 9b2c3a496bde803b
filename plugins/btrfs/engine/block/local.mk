libengine_la_SOURCES += \
	$(ENGINE)/block/block.h \
	$(ENGINE)/block/block_priv.h \
	$(ENGINE)/block/cache.c \
	$(ENGINE)/block/read.c \
	$(ENGINE)/block/write.c
