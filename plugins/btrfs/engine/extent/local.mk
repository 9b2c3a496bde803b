libengine_la_SOURCES += \
	$(ENGINE)/extent/extent.h
