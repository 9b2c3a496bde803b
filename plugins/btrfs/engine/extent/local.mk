libengine_la_SOURCES += \
	$(ENGINE)/extent/cow.c \
	$(ENGINE)/extent/csum_items.c \
	$(ENGINE)/extent/csum_items.h \
	$(ENGINE)/extent/delayed.c \
	$(ENGINE)/extent/delayed.h \
	$(ENGINE)/extent/extent.c \
	$(ENGINE)/extent/extent.h \
	$(ENGINE)/extent/item.c \
	$(ENGINE)/extent/item.h \
	$(ENGINE)/extent/keyed.c \
	$(ENGINE)/extent/keyed.h \
	$(ENGINE)/extent/run.c
