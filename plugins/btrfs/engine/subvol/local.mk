libengine_la_SOURCES += \
	$(ENGINE)/subvol/subvol.h
