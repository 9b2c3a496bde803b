libengine_la_SOURCES += \
	$(ENGINE)/format/check.h \
	$(ENGINE)/format/key.h \
	$(ENGINE)/format/names.h \
	$(ENGINE)/format/super.h \
	$(ENGINE)/format/tree_block.h
