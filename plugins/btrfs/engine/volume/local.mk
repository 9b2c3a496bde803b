libengine_la_SOURCES += \
	$(ENGINE)/volume/volume.h
