libengine_la_SOURCES += \
	$(ENGINE)/block/block.h
