libengine_la_SOURCES += \
	$(ENGINE)/base/cleanup.h \
	$(ENGINE)/base/containers.h \
	$(ENGINE)/base/csum.h \
	$(ENGINE)/base/err.h \
	$(ENGINE)/base/lock.h \
	$(ENGINE)/base/log.h \
	$(ENGINE)/base/math.h \
	$(ENGINE)/base/workers.h
