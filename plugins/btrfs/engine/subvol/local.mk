libengine_la_SOURCES += \
	$(ENGINE)/subvol/create.c \
	$(ENGINE)/subvol/delete.c \
	$(ENGINE)/subvol/drop.c \
	$(ENGINE)/subvol/list.c \
	$(ENGINE)/subvol/priv.h \
	$(ENGINE)/subvol/replace.c \
	$(ENGINE)/subvol/snapshot.c \
	$(ENGINE)/subvol/state.c \
	$(ENGINE)/subvol/subvol.h \
	$(ENGINE)/subvol/subvols.c \
	$(ENGINE)/subvol/uuid.c
