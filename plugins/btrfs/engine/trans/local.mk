libengine_la_SOURCES += \
	$(ENGINE)/trans/roots.h \
	$(ENGINE)/trans/trans.h
