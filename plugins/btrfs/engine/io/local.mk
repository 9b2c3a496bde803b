libengine_la_SOURCES += \
	$(ENGINE)/io/device.h \
	$(ENGINE)/io/device_impl.h
