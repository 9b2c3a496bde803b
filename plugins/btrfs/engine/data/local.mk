libengine_la_SOURCES += \
	$(ENGINE)/data/data.h
