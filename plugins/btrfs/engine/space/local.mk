libengine_la_SOURCES += \
	$(ENGINE)/space/space.h
