libengine_la_SOURCES += \
	$(ENGINE)/trans/roots.c \
	$(ENGINE)/trans/roots.h \
	$(ENGINE)/trans/roots_commit.c \
	$(ENGINE)/trans/roots_snapshot.c \
	$(ENGINE)/trans/roots_priv.h \
	$(ENGINE)/trans/trans.c \
	$(ENGINE)/trans/trans.h
