libengine_la_SOURCES += \
	$(ENGINE)/base/cleanup.h \
	$(ENGINE)/base/containers.h \
	$(ENGINE)/base/csum.c \
	$(ENGINE)/base/csum.h \
	$(ENGINE)/base/err.c \
	$(ENGINE)/base/err.h \
	$(ENGINE)/base/gate.c \
	$(ENGINE)/base/gate.h \
	$(ENGINE)/base/lock.c \
	$(ENGINE)/base/lock.h \
	$(ENGINE)/base/log.c \
	$(ENGINE)/base/log.h \
	$(ENGINE)/base/math.h \
	$(ENGINE)/base/workers.c \
	$(ENGINE)/base/workers.h
