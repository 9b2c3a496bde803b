libengine_la_SOURCES += \
	$(ENGINE)/io/device.c \
	$(ENGINE)/io/device.h \
	$(ENGINE)/io/device_file.c \
	$(ENGINE)/io/device_impl.h \
	$(ENGINE)/io/device_lock.c \
	$(ENGINE)/io/device_mem.c \
	$(ENGINE)/io/device_nbd.c \
	$(ENGINE)/io/device_ring.c \
	$(ENGINE)/io/fault.c \
	$(ENGINE)/io/fault.h \
	$(ENGINE)/io/record.c \
	$(ENGINE)/io/overlay.c \
	$(ENGINE)/io/overlay.h \
	$(ENGINE)/io/record.h
