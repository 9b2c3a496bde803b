libengine_la_SOURCES += \
	$(ENGINE)/block/block.h \
	$(ENGINE)/block/block_priv.h \
	$(ENGINE)/block/cache.c \
	$(ENGINE)/block/pool.c \
	$(ENGINE)/block/pool.h \
	$(ENGINE)/block/read.c \
	$(ENGINE)/block/write.c
