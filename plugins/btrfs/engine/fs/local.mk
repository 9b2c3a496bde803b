libengine_la_SOURCES += \
	$(ENGINE)/fs/commit.h \
	$(ENGINE)/fs/core.h
