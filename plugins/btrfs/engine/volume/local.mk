libengine_la_SOURCES += \
	$(ENGINE)/volume/chunk_map.c \
	$(ENGINE)/volume/profile.c \
	$(ENGINE)/volume/profile.h \
	$(ENGINE)/volume/volume.c \
	$(ENGINE)/volume/volume.h \
	$(ENGINE)/volume/volume_io.c \
	$(ENGINE)/volume/volume_priv.h \
	$(ENGINE)/volume/volume_repair.c \
	$(ENGINE)/volume/volume_super.c
