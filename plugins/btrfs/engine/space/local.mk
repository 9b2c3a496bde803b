libengine_la_SOURCES += \
	$(ENGINE)/space/alloc.c \
	$(ENGINE)/space/bitmap.c \
	$(ENGINE)/space/bitmap.h \
	$(ENGINE)/space/chunk.c \
	$(ENGINE)/space/discard.c \
	$(ENGINE)/space/fst.c \
	$(ENGINE)/space/fst_build.c \
	$(ENGINE)/space/fst_tree.c \
	$(ENGINE)/space/group.c \
	$(ENGINE)/space/hold.c \
	$(ENGINE)/space/load.c \
	$(ENGINE)/space/reserve.c \
	$(ENGINE)/space/space.h \
	$(ENGINE)/space/space_priv.h
