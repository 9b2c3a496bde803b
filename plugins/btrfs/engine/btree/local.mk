libengine_la_SOURCES += \
	$(ENGINE)/btree/tree.h
